"""The names of the keys, columns and speakers that are read.

In keys and columns, upper and lower case, spaces, ``-`` and ``_`` make no difference.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from contradiction.conversation import ASSISTANT, USER
from contradiction.errors import InputError, shown

# A whole chat: a list of messages, its JSON, or a transcript.
MESSAGES = (
    "messages", "conversations", "conversation", "dialogue", "dialog", "turns", "contents", "chat", "transcript",
    "消息", "对话", "会话", "聊天记录", "对话内容", "对话记录",
)  # fmt: skip
HISTORY = "history"  # the turns before a question
# What the user said last. The first that occurs is read, and the second name of a pair is joined to the first.
QUESTIONS = (
    "instruction", "prompt", "query", "question", "input", "inputs", "request", "问题", "提问", "用户问题", "问",
)  # fmt: skip
JOINED = (("instruction", "input"), ("prompt", "query"))  # as LLaMA-Factory joins them
# The reply, or several candidates for it.
ANSWERS = (
    "reply", "response", "completion", "answer", "output", "outputs", "actual_output", "chosen", "rejected",
    "rejected_response", "choices", "candidates", "replies", "responses", "completions", "answers", "回复", "回答",
    "答复", "答", "机器人回复", "客服回复", "回复内容", "回答内容",
)  # fmt: skip
SEVERAL = ("choices", "candidates", "replies", "responses", "completions", "answers")  # each of a list is a reply
REJECTED = ("rejected", "rejected_response")
# One message in each row, or in each object of a list.
SPEAKERS = ("role", "from", "speaker", "sender", "author", "角色", "说话人", "发送者", "发送方", "发送人")
TEXTS = ("content", "text", "message", "utterance", "value", "parts", "内容", "消息", "消息内容", "文本")
TIMES = (
    "timestamp", "time", "datetime", "date", "created_at", "create_time", "sent_at", "send_time", "时间", "发送时间",
    "创建时间", "日期", "turn", "turn_id", "turn_index", "index", "seq", "序号", "轮次",
)  # fmt: skip
CHATS = (
    "session_id", "conversation_id", "chat_id", "dialogue_id", "dialog_id", "thread_id", "session", "conversation",
    "chat", "dialogue", "dialog", "thread", "会话id", "对话id", "会话编号", "对话编号", "会话", "对话",
)  # fmt: skip
IDS = ("id", *CHATS, "uuid", "custom_id", "name")
LABEL, EVIDENCE, INSTRUCTIONS = "label", "evidence", "system"

_OTHER = ("request", "body", INSTRUCTIONS, LABEL, EVIDENCE)
# A name that says that it holds an answer, and one that says that another than the bot gave the answer.
_WORD = "repl(?:y|ies)|responses?|answers?|completions?|outputs?|generations?|predictions?|candidates?|chosen|rejected"
_ANSWER = re.compile(
    rf"(?:.*[_\s-])?(?:{_WORD})(?:[_\s-]?(?:\d+|[a-z]|text|content|message))?|generated[_\s-]?text|predict"
    r"|.*(?:回复|回答|答复|应答|答案|输出)(?:内容|文本)?\d*",
)
_REFERENCE = re.compile(
    r"(?:expected|reference|gold|golden|ideal|target|correct|true|参考|标准|期望|正确).*|target|ground[_\s-]?truth"
)


def plain(name: object) -> str:
    """The name by which a key or column is looked up: session_id, Session-ID and sessionId are one name."""
    return re.sub(r"[\s_-]", "", str(name)).lower()


def first(names: Iterable[str], known: Iterable[str]) -> str | None:
    """The name of the first of the known names that occurs, as it is written."""
    written = {plain(name): name for name in reversed([*names])}
    return next((written[name] for name in map(plain, known) if name in written), None)


_READ = {plain(name) for names in (MESSAGES, QUESTIONS, ANSWERS, IDS, _OTHER, (HISTORY,)) for name in names}
_ANSWERS = {plain(name) for name in ANSWERS}


def read_among(names: Collection[str]) -> list[str]:
    """The keys or columns that affect how a record is read."""
    whole = first(names, MESSAGES)
    return [
        name
        for name in names
        if plain(name) in _READ or could_answer(name) or is_reference(name) or (numbered(name) and not whole)
    ]


def could_answer(name: str) -> bool:
    """Whether a key that is not read could hold the bot's reply, such as ``model_answer``."""
    spelled = _spelled(name)
    return plain(name) not in _ANSWERS and _ANSWER.fullmatch(spelled) is not None and not is_reference(name)


def is_reference(name: str) -> bool:
    """Whether a key holds an answer that is not the bot's, such as ``expected_output``; or the name of a speaker."""
    return _REFERENCE.fullmatch(_spelled(name)) is not None or plain(name) in ("assistant", "助手")


def numbered(name: str) -> tuple[str, int] | None:
    """The speaker and the turn of a name such as ``u1``, ``bot_2`` or ``用户1``; None for another name."""
    match = re.fullmatch(r"([^\W\d_]+)_?(\d{1,3})", name.strip().lower())
    return (match[1], int(match[2])) if match else None


def _spelled(name: str) -> str:
    """In the style of Python: modelAnswer -> model_answer."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.strip()).lower()


def list_names(names: Iterable[object]) -> str:
    """Names of columns or keys, as an error message shows the first of them."""
    return ", ".join(" ".join(str(name)[:60].split()) for name in [*names][:12]) or "none"


def has_turns(names: Iterable[str]) -> bool:
    """Whether two of the names are those of a first turn, such as u1 and b1."""
    return sum((numbered(name) or ("", 0))[1] == 1 for name in names) > 1


def holds_chats(names: Sequence[str]) -> bool:
    """Whether a table with these columns can have a chat in each row."""
    asked = first(names, (*QUESTIONS, HISTORY)) and first(names, ANSWERS)
    return bool(first(names, MESSAGES) or asked or first(names, REJECTED) or has_turns(names))


def is_header(names: Sequence[str]) -> bool:
    """Whether these are the columns of a table of chats or messages."""
    return holds_chats(names) or all(first(names, known) for known in ((*CHATS, "id"), SPEAKERS, TEXTS))


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
        users, bots = ({_folded(name) for name in names} for names in (self.users, self.bots))
        if "" in users | bots:
            raise InputError("the name of a speaker is empty; --user-name and --bot-name take a name of the file")
        if both := users & bots:
            raise InputError(f"{shown(min(both))} is named as the user and as the bot; it can be only one of them")
        object.__setattr__(self, "_own", dict.fromkeys(users, USER) | dict.fromkeys(bots, ASSISTANT))

    def role_of(self, name: object, *, in_text: bool = False) -> str | None:
        """The role of a speaker; None if the name is unknown. ``in_text``: before a colon in a line of text."""
        if not isinstance(name, str):
            return None
        folded = _folded(name)
        return self._own.get(folded) or (None if in_text and folded in _NOT_IN_TEXT else _ROLES.get(folded))

    def check_one_bot(self, names: Iterable[object]) -> None:
        """Raises InputError if a bot and a person who took over speak in one chat, and no option says who is judged."""
        bots: dict[str, str] = {}
        for name in names:
            if isinstance(name, str):
                folded = _folded(without_number(name))
                if _ROLES.get(folded) == ASSISTANT and not {folded, _folded(name)} & self._own.keys():
                    bots[folded] = name
        people = [bots.pop(name) for name in sorted(_PEOPLE & bots.keys())]
        if people and bots:
            raise InputError(
                f"{people[0]} and {min(bots.values())} speak in one chat, so one of them may be a person; {REMEDY}"
            )


def without_number(name: str) -> str:
    """The name of a speaker without the number at its end, such as that of a turn."""
    return re.sub(r"[\s_-]?\d+$", "", name)


USUAL = Speakers()
KNOWN = "user or 用户, assistant or 机器人, system"  # in error messages
REMEDY = "--user-name or --bot-name says on which side another name is"


def _folded(name: str) -> str:
    return " ".join(name.split()).lower()
