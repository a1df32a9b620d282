"""The formats of one chat: messages, a JSON object, columns of a table, or pasted text; and one input of a file."""

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from contradiction.conversation import ASSISTANT, CALLS, TOOLS, USER, Messages, alternating, read_turns
from contradiction.errors import InputError, kind_of
from contradiction.inputs.views import CONVERSATION

ID = "id"
MESSAGES, SHAREGPT = ("messages",), ("conversations",)
KEYS = (MESSAGES, SHAREGPT, CONVERSATION)  # keys of an object, or names of columns; the first that is complete is read
CHAT = '{"messages": [...]}, {"conversations": [...]}, an object with u1, b1, u2 and b2, or a list of messages'
NOT_UTF8 = "not in UTF-8; save it as UTF-8, or convert it, for instance with iconv -f GB18030 -t UTF-8 (or -f UTF-16)"

# ShareGPT's names of the speakers -> roles.
SHAREGPT_ROLES = {
    "human": USER, "user": USER, "gpt": ASSISTANT, "assistant": ASSISTANT, "system": "system",
    "function_call": TOOLS[0], "observation": TOOLS[0], "tool": TOOLS[0],
}  # fmt: skip
MAX_NAMES = 12  # columns or keys that a message lists

NamedChat = tuple[Any, Any]  # messages that are not yet checked, and the id of the chat


def parse_json(text: bytes | str) -> Any:
    """Parses JSON; raises InputError if it is not valid, or if an object has one key twice."""
    try:
        return json.loads(
            text if isinstance(text, str) else text.decode("utf-8-sig"), object_pairs_hook=_object_of_pairs
        )
    except InputError:  # a ValueError
        raise
    except UnicodeDecodeError as error:
        raise InputError(f"not in UTF-8 (from byte {error.start} on)") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"not JSON ({error})") from None


def _object_of_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object without duplicate keys, of which Python would silently keep the last value."""
    values = dict(pairs)
    if len(values) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        duplicate = next(name for name, count in counts.items() if count > 1)
        raise InputError(f"ambiguous JSON: an object has the key {duplicate[:60]!r} twice")
    return values


def chat_from_json(value: object) -> NamedChat:
    """The chat that a JSON value holds.

    Raises:
        InputError: it holds no chat; the message names what it holds.
    """
    if isinstance(value, list):
        return _normalize(value), None
    if not isinstance(value, Mapping):
        raise InputError(f"{kind_of(value)}; a chat must be {CHAT}")
    if (keys := chat_keys(value.keys())) is None:
        raise InputError(f"an object with {_list_names(value.keys(), 'key')}; a chat must be {CHAT}")
    messages, name = chat_from_row(keys, value)
    if keys == MESSAGES and isinstance(messages, list):
        # A logged request holds its answer under "choices". Some logs hold it under "messages" too.
        messages = [*messages, *(answer for answer in _answer(value.get("choices")) if not _repeats(messages, answer))]
    return messages, name


def _repeats(messages: Sequence[Any], answer: object) -> bool:
    """Whether an answer is also the last message; the API adds other keys to an answer, such as ``refusal``."""
    last = messages[-1] if messages else None
    if not isinstance(last, Mapping) or not isinstance(answer, Mapping):
        return last == answer
    return all(last.get(key) == answer.get(key) for key in ("role", "content", *CALLS))


def _answer(choices: object) -> list[Any]:
    """The answer to a logged request, as a list of at most one message. Other data may hold other things here."""
    rows = choices if isinstance(choices, list) else []
    answers = [row["message"] for row in rows if isinstance(row, Mapping) and "message" in row]
    if len(answers) > 1:
        raise InputError(f"choices: {len(answers)} answers; a chat has one, so keep the one that was sent")
    return answers


def chat_keys(names: Collection[str]) -> tuple[str, ...] | None:
    """The names among these that hold a chat; None if there are none."""
    return next((keys for keys in KEYS if set(keys) <= set(names)), None)


def chat_columns(names: Sequence[str], where: str) -> tuple[str, ...]:
    """The columns of a table that hold a chat.

    Args:
        names: the names of all columns.
        where: the name of the table in error messages.

    Raises:
        InputError: there are none, or one that is read occurs twice.
    """
    keys = chat_keys(names)
    if keys is None:
        raise InputError(
            f"{where}: it has {_list_names(names, 'column')}; there must be {MESSAGES[0]}, {SHAREGPT[0]}, or "
            f"{', '.join(CONVERSATION)}"
        )
    for name in (*keys, ID):
        if (times := names.count(name)) > 1:
            raise InputError(f"{where}: {times} columns are called {name}; rename all but one")
    return keys


def chat_from_row(keys: tuple[str, ...], row: Mapping[str, Any]) -> NamedChat:
    """The chat of a row, from the columns that :func:`chat_keys` or :func:`chat_columns` found."""
    if keys == CONVERSATION:
        roles = (USER, ASSISTANT) * (len(keys) // 2)
        return [{"role": role, "content": row[name]} for role, name in zip(roles, keys, strict=True)], row.get(ID)
    messages = row[keys[0]]
    if isinstance(messages, str):  # as in a cell of CSV
        try:
            messages = parse_json(messages)
        except InputError as error:
            raise InputError(f"{keys[0]}: text that is {error}; it must be a list of messages") from None
    return _normalize(messages), row.get(ID)


def _normalize(messages: Any) -> Any:
    """A list of messages with ShareGPT's messages turned into ours; any other value unchanged."""
    if not isinstance(messages, list):
        return messages
    return [
        _from_sharegpt(message, f"messages[{index}]") if isinstance(message, Mapping) and "from" in message else message
        for index, message in enumerate(messages)
    ]


def _from_sharegpt(message: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    if "role" in message:
        return message
    speaker = message["from"]
    if not isinstance(speaker, str) or speaker not in SHAREGPT_ROLES:
        shown = repr(speaker[:60]) if isinstance(speaker, str) else kind_of(speaker)
        raise InputError(f"{where}: from {shown}; allowed are {', '.join(SHAREGPT_ROLES)}")
    if "value" not in message:
        raise InputError(f'{where} has no \'value\'; it must be {{"from": "human" or "gpt", "value": text}}')
    return {"role": SHAREGPT_ROLES[speaker], "content": message["value"]}


def _list_names(names: Collection[object], noun: str) -> str:
    shown = [" ".join(str(name)[:60].split()) for name in names]
    if not shown:
        return f"no {noun}s"
    more = f" and {len(shown) - MAX_NAMES} more" if len(shown) > MAX_NAMES else ""
    return f"the {noun}{'s' * (len(shown) > 1)} {', '.join(shown[:MAX_NAMES])}{more}"


DELIMITERS = {"csv": ",", "tsv": "\t"}
_HINTS = {
    ",": "its first line names columns ({names}); --format csv reads it",
    "\t": "its first line names columns ({names}) with tabs between; --format tsv reads it",
    ";": "semicolons separate its columns ({names}); save it with commas, and --format csv reads it",
}


def hint_at_format(first_line: str, read_with: str | None = None) -> str | None:
    """A hint if the first line of an input is the header of a table in another format; else None.

    Args:
        first_line: the line.
        read_with: the delimiter that it was read with already.
    """
    for delimiter, hint in _HINTS.items():
        names = [name.strip().strip('"') for name in first_line.split(delimiter)]
        if delimiter != read_with and chat_keys(names):
            return hint.format(names=", ".join(names[:MAX_NAMES]))
    return None


# The name before a colon -> the role. "u" and "b" count with a number only, and "a" only where there is "q" as well.
ROLES = {
    **dict.fromkeys(("用户", "顾客", "客户", "问", "user", "human", "customer", "u", "q"), USER),
    **dict.fromkeys(("机器人", "助手", "客服", "答", "ai", "assistant", "bot", "chatbot", "b", "a"), ASSISTANT),
}
SPEAKER = re.compile(r"[\s*]*(?P<name>[^\W\d_]{1,10})(?P<number>\d*)[\s*]*[:：][\s*]*")
JSON = re.compile(r"\[\s*[{\]]|\{\s*[\"}]")


def read_pasted(text: str) -> list[Any]:
    """The messages of a pasted chat.

    Without speakers the lines alternate, and the user begins. With ``用户：`` and ``机器人：``, or other names of
    ``ROLES``, a line without a speaker continues the message above it. JSON is an object, a list, or a message on
    each line.

    Raises:
        InputError: the text is empty, is JSON that holds no chat, names unknown speakers, or names a speaker in later
            lines but not in the first.
    """
    lines = [line.strip() for line in re.split(r"\r\n?|\n", text) if line.strip()]
    if not lines:
        raise InputError("the chat is empty; it must be lines of text, the user's first, or JSON")
    if JSON.match("\n".join(lines)):
        return _from_json(lines)
    matches = [SPEAKER.match(line) for line in lines]
    names = Counter(_name(match) for match in matches if match)
    roles = {name: role for name in names if (role := _role(name, names))}
    if not roles:
        unknown = [name for name, count in names.items() if count > 1]
        if len(unknown) > 1 and sum(names.values()) == len(lines):
            raise InputError(f"unknown speakers {', '.join(unknown[:4])}; write 用户： or 机器人： before each message")
        return alternating(lines)
    messages: list[dict[str, Any]] = []
    for line, match in zip(lines, matches, strict=True):
        if match and (role := roles.get(_name(match))):
            messages.append({"role": role, "content": line[match.end() :]})
        elif messages:
            messages[-1]["content"] += f"\n{line}"
        else:
            raise InputError(
                f"{line[:20]!r} does not say who speaks, but later lines do ({min(roles)}); say it in every line"
            )
    return messages


def _name(match: re.Match[str]) -> str:
    """The name of a speaker; names with a number end in 1."""
    return match["name"].lower() + ("1" if match["number"] else "")


def _role(name: str, names: Counter[str]) -> str | None:
    """The role of a speaker; None if the name is unknown, or a lone letter that may be part of the text."""
    is_ambiguous = name in ("u", "b") or (name in ("q", "a") and not {"q", "a"} <= names.keys())
    return None if is_ambiguous else ROLES.get(name.removesuffix("1"))


def _from_json(lines: list[str]) -> list[Any]:
    try:
        value = parse_json("\n".join(lines))
    except InputError:
        if len(lines) == 1 or not all(line[0] == "{" for line in lines):
            raise
        value = [parse_json(line) for line in lines]
    messages, _ = chat_from_json(value)
    if not isinstance(messages, list):
        raise InputError(f"messages is {kind_of(messages)}; it must be a list")
    return messages


MAX_RAW = 2000  # characters of a rejected input that are kept
# The errors of pyarrow for a cell that has no Python value: a year after 9999, an unknown time zone, a field that
# occurs twice, text that is not in UTF-8.
UNREADABLE = (ValueError, OverflowError, LookupError)


@dataclass(frozen=True)
class Entry:
    """One input.

    Attributes:
        number: the number of its line or row, from 1.
        end: how much of the file is read after this input, in the unit of ``Chats.total``.
        messages: the chat; None if the input is rejected.
        turns: the number of turns of the chat.
        id: the id that the input gives the chat; None if it gives none.
        error: why the input is rejected; None if it is not.
        raw: the beginning of the text of a rejected input; else empty.
    """

    number: int
    end: int
    messages: Messages | None = None
    turns: int = 0
    id: str | float | None = None
    error: str | None = None
    raw: str = ""

    @property
    def name(self) -> str:
        """The id of the chat, or its number if it has none; invalid Unicode is escaped."""
        return str(self.number if self.id is None else self.id).encode("utf-8", "backslashreplace").decode("utf-8")


@dataclass(frozen=True)
class Chats:
    """An input of chats.

    Attributes:
        where: its name in messages.
        format: a value of ``readers.FORMATS``.
        arrivals: groups of entries. The entries of a group can be read without waiting. A file is one group.
        total: its length in bytes or rows; None if it is unknown.
        in_bytes: whether ``total`` counts bytes.
    """

    where: str
    format: str
    arrivals: Iterable[Iterable[Entry]]
    total: int | None = None
    in_bytes: bool = False

    @property
    def key(self) -> str:
        """What the numbers of the entries count: ``line`` or ``row``."""
        return "line" if self.format == "jsonl" else "row"


def make_entry(number: int, end: int, read: Callable[[Any], NamedChat], source: Any) -> Entry:
    """Reads one input.

    Args:
        number: see :class:`Entry`.
        end: see :class:`Entry`.
        read: returns the messages and the id of the source, or raises InputError.
        source: the input, for instance a line.
    """
    try:
        messages, name = read(source)
        turns = len(read_turns(messages))
        return Entry(number, end, messages, turns, _check_id(name))
    except InputError as error:
        return Entry(number, end, error=str(error), raw=_raw(source))
    except RecursionError:
        return Entry(number, end, error="nested too deeply", raw=_raw(source))


def _check_id(name: Any) -> str | float | None:
    if name is None or name == "":
        return None
    if isinstance(name, bytes | list | dict | tuple):
        raise InputError(f"its id is {kind_of(name)}; it must be text or a number")
    if isinstance(name, str | int) or (isinstance(name, float) and math.isfinite(name)):
        return name
    return str(name)  # JSON has no type for it, for instance for a date


def _raw(source: Any) -> str:
    if isinstance(source, bytes):
        source = source.decode("utf-8", "replace").rstrip("\r\n")
    elif not isinstance(source, str):
        try:
            source = json.dumps(source, ensure_ascii=False, default=_to_json)
        except RecursionError:
            source = ""
    return source if len(source) <= MAX_RAW else f"{source[:MAX_RAW]}…"


def _to_json(value: Any) -> Any:
    """The value of a Parquet cell, as far as JSON can hold it."""
    if not hasattr(value, "as_py"):
        return str(value)
    try:
        return value.as_py()
    except UNREADABLE:
        return None
