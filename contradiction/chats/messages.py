"""One message in the shape of any tool: who speaks, what is said, and when."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from contradiction.chats import names
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


_AFTERNOON = re.compile(r"下午|晚上|傍晚|\bp\.?m\b", re.IGNORECASE)
_MORNING = re.compile(r"上午|凌晨|早上|\ba\.?m\b", re.IGNORECASE)
_CLOCK = re.compile(r"(?<!\d)(\d{1,2})[:：时](\d{2})(?:[:：分](\d{2}(?:\.\d+)?))?")
_DATE = re.compile(r"(\d{4})[-/.年](\d{1,2})[-/.月](\d{1,2})|(\d{1,2})[-/.](\d{1,2})[-/.](\d{4})|(\d{1,2})月(\d{1,2})")

Moment = tuple[float, ...]
CLOCK = 3  # numbers of a time of day without a date


def moment(value: object) -> Moment | None:
    """A time as numbers that can be compared with others of the same kind; None if it is no time.

    A number counts as it is. Of a date with the year last, the order of day and month is unknown, so it does not
    compare with another such date.
    """
    if isinstance(value, bool) or value is None:
        return None
    text = str(value).strip()
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return (float(text),)
    clock, date = _CLOCK.search(text), _DATE.search(text)
    if not clock and not date:
        return None
    hour, minute, second = (float(part or 0) for part in clock.groups()) if clock else (0.0, 0.0, 0.0)
    if _AFTERNOON.search(text) and hour < 12:
        hour += 12
    elif _MORNING.search(text) and hour == 12:
        hour = 0.0
    return (*(float(part) for part in (date.groups() if date else ()) if part), hour, minute, second)


def moments(values: Sequence[object]) -> list[Moment] | None:
    """The times of messages; None if one is missing, or if they cannot be compared with one another."""
    read = [moment(value) for value in values]
    times = [time for time in read if time is not None]
    if len(times) < len(values) or len({len(time) for time in times}) > 1:
        return None
    year_last = [time for time in times if len(time) == 6 and time[0] < 1000 <= time[2]]
    return None if len({time[:3] for time in year_last}) > 1 else times


def order(values: Sequence[object], roles: Sequence[str | None]) -> list[int] | None:
    """The places of messages from the oldest to the newest; None if they are in this order, or have no times."""
    times = moments(values)
    if not times or times == sorted(times):
        return None
    if not _is_reversed(times):
        # A clock without a date may have passed midnight.
        return None if len(times[0]) == CLOCK else _sorted(times)
    # Messages of one time may be the other way round too. In a chat the sides alternate, and the user begins.
    places = [[*reversed(range(len(times)))], _sorted(times)]

    def likelihood(order: list[int]) -> tuple[int, bool]:
        sides = [roles[place] for place in order]
        return sum(one != other for one, other in pairwise(sides)), sides[0] == USER

    return max(places, key=likelihood)


def newest_first(values: Sequence[object]) -> bool:
    """Whether the messages begin with the newest."""
    times = moments(values)
    return times is not None and times != sorted(times) and _is_reversed(times)


def _sorted(times: Sequence[Moment]) -> list[int]:
    return sorted(range(len(times)), key=times.__getitem__)


def _is_reversed(times: Sequence[Moment]) -> bool:
    """Whether no time is later than the one before it; two clocks without a date may lie around midnight."""
    return times == sorted(times, reverse=True) and (len(times[0]) != CLOCK or len(times) > 2)


def read_messages(values: Sequence[Any], speakers: Speakers = USUAL) -> list[Any]:
    """The messages of a list, at the same places.

    The shapes are those of OpenAI (chat completions and Responses), Anthropic, Gemini, ShareGPT, LangChain, ChatGPT's
    and Telegram's exports, and any objects with one of ``names.SPEAKERS`` and one of ``names.TEXTS``. A value without
    a speaker stays as it is; :func:`contradiction.conversation.read_message` skips or refuses it.

    Raises:
        InputError: a speaker is unknown, or the messages have times and the newest is the first.
    """
    messages = [_read(value, f"messages[{index}]", speakers) for index, value in enumerate(values)]
    times = [value for value in values if isinstance(value, Mapping)]
    speakers.check_one_bot(_speaker(_unwrapped(value), speakers)[1] for value in times)
    if times and (key := names.first(times[0], names.TIMES)) and newest_first([one.get(key) for one in times]):
        raise InputError(f"the messages begin with the newest, by {key}; they must begin with the oldest")
    return messages


def is_message(value: object) -> bool:
    """Whether an object names a speaker, as a message does, and holds no list of messages, as a chat does."""
    if not isinstance(value, Mapping) or any(isinstance(value.get(name), list | Mapping) for name in names.MESSAGES):
        return False
    return _speaker(_unwrapped(value), USUAL)[1] is not None


def _read(value: Any, where: str, speakers: Speakers) -> Any:
    if not isinstance(value, Mapping):
        return value
    value = _unwrapped(value)
    key, speaker = _speaker(value, speakers)
    if not isinstance(speaker, str):
        return value
    if (role := speakers.role_of(speaker)) is None:
        raise InputError(f"{where}: {key} {shown(speaker)} is no known speaker ({KNOWN}); {REMEDY}")
    rest = {name: value[name] for name in value if name != key}
    given = [name for name in rest if rest[name] is not None]
    if (text := "content" if "content" in given else names.first(given, names.TEXTS)) is not None:
        rest["content"] = _content(rest.pop(text), is_text=text == "text")
    return {**rest, "role": role}


def _unwrapped(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """A message of LangChain, which some dumps keep inside another object."""
    if isinstance(value.get("kwargs"), Mapping) and isinstance(value.get("id"), list) and value["id"]:
        return {"type": str(value["id"][-1]), **{k: v for k, v in value["kwargs"].items() if k != "type"}}
    if isinstance(value.get("data"), Mapping) and "type" in value:
        return {**value["data"], "type": value["type"]}
    return value


def _speaker(value: Mapping[str, Any], speakers: Speakers) -> tuple[str | None, Any]:
    """The key of the speaker and the speaker; ``type`` counts only if it names one, as in LangChain."""
    given = [name for name in value if value[name] is not None]
    key = names.first(given, names.SPEAKERS)
    if key is not None:
        speaker = value[key]
        return key, speaker.get("role") or speaker.get("name") if isinstance(speaker, Mapping) else speaker
    kind = value.get("type")
    return ("type", kind) if speakers.role_of(kind) in ("user", "assistant", "system") else (None, None)


def _content(content: Any, *, is_text: bool) -> Any:
    """The content as text or as a list of parts."""
    if isinstance(content, Mapping):  # of garak and of ChatGPT's export
        content = content.get("parts", content.get("text"))
    if is_text and isinstance(content, list):  # of Telegram: pieces of one text with their styles
        return "".join(str(part.get("text", "")) if isinstance(part, Mapping) else str(part) for part in content)
    return content
