"""Who speaks: the names that files give the two sides of a chat, and those that a caller adds."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from contradiction.conversation import ASSISTANT, USER
from contradiction.errors import InputError, shown

SYSTEM, TOOL = "system", "tool"
# Role -> its names, in lower case. The class names are LangChain's.
_NAMES = {
    USER: (
        "user", "human", "customer", "client", "visitor", "u", "q", "humanmessage", "humanmessagechunk", "用户", "用戶",
        "使用者", "顾客", "顧客", "客户", "客戶", "访客", "訪客", "买家", "買家", "问", "問",
    ),
    ASSISTANT: (
        "assistant", "ai", "bot", "chatbot", "agent", "gpt", "chatgpt", "model", "b", "a", "aimessage",
        "aimessagechunk", "机器人", "機器人", "聊天机器人", "聊天機器人", "助手", "助理", "ai助手", "智能助手", "客服",
        "智能客服", "智慧客服", "坐席", "座席", "卖家", "賣家", "商家", "答",
    ),
    SYSTEM: ("system", "developer", "systemmessage", "系统", "系統"),
    TOOL: ("tool", "function", "function_call", "observation", "tool_response", "toolmessage", "functionmessage"),
}  # fmt: skip
_ROLES = {name: role for role, names in _NAMES.items() for name in names}
# A person who takes over from a bot has one of these names.
_PEOPLE = {"客服", "坐席", "座席", "agent", "卖家", "賣家", "商家"}
# In a text such a word before a colon is usually no speaker.
_NOT_IN_TEXT = {"developer", "model", *_NAMES[TOOL]}


@dataclass(frozen=True)
class Speakers:
    """The names of speakers. The usual ones are always known.

    Attributes:
        users: further names of the user.
        bots: further names of the bot whose replies are judged.

    Raises:
        InputError: a name is empty, or is given to both sides.
    """

    users: tuple[str, ...] = ()
    bots: tuple[str, ...] = ()
    _own: Mapping[str, str] = field(init=False, repr=False, compare=False)  # name -> role

    def __post_init__(self) -> None:
        users, bots = ({_plain(name) for name in names} for names in (self.users, self.bots))
        if "" in users | bots:
            raise InputError("the name of a speaker is empty; --user-name and --bot-name take a name of the file")
        if both := users & bots:
            raise InputError(f"{shown(min(both))} is named as the user and as the bot; it can be only one of them")
        object.__setattr__(self, "_own", dict.fromkeys(users, USER) | dict.fromkeys(bots, ASSISTANT))

    def role_of(self, name: object, *, in_text: bool = False) -> str | None:
        """The role of a speaker; None if the name is unknown. ``in_text``: before a colon in a line of text."""
        if not isinstance(name, str):
            return None
        plain = _plain(name)
        return self._own.get(plain) or (None if in_text and plain in _NOT_IN_TEXT else _ROLES.get(plain))

    def check_one_bot(self, names: Iterable[object]) -> None:
        """Raises InputError if a bot and a person who took over speak in one chat, and no option says who is judged."""
        others = (name for name in names if isinstance(name, str) and _plain(name) not in self._own)
        bots = {_plain(without_number(name)): name for name in others}
        bots = {
            plain: name for plain, name in bots.items() if _ROLES.get(plain) == ASSISTANT and plain not in self._own
        }
        people = sorted(_PEOPLE & bots.keys())
        if people and len(bots) > len(people):
            machine = next(name for plain, name in bots.items() if plain not in _PEOPLE)
            raise InputError(
                f"{bots[people[0]]} and {machine} speak in one chat, so one of them may be a person; {REMEDY}"
            )


def without_number(name: str) -> str:
    """The name of a speaker without the number at its end, such as that of a turn."""
    return re.sub(r"[\s_-]?\d+$", "", name)


USUAL = Speakers()
KNOWN = "user or 用户, assistant or 机器人, system"  # in error messages
REMEDY = "--user-name or --bot-name says on which side another name is"


def _plain(name: str) -> str:
    return " ".join(name.split()).lower()
