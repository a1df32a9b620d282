"""The formats of one chat: messages, a JSON object, or columns of a table; and one input of a file."""

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from contradiction.chats.columns import (
    ALPACA,
    DELIMITERS,
    HISTORY,
    ID,
    INPUT,
    MESSAGES,
    SHAREGPT,
    SWIFT,
    chat_keys,
    check_whole_chats,
    list_names,
    usual_case,
)
from contradiction.chats.speakers import SHAREGPT_ROLES
from contradiction.conversation import CALLS, Messages, alternating, check_text, read_turns
from contradiction.errors import InputError, kind_of, shown
from contradiction.inputs.views import CONVERSATION

CHAT = (
    '{"messages": [...]}, {"conversations": [...]}, {"request": {"messages": [...]}, "response": {"choices": [...]}}, '
    "an object with u1, b1, u2 and b2, with instruction and output, or with query and response, or a list of messages"
)

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
        raise InputError(f"not in UTF-8 (from byte {error.start} on); --encoding gb18030 reads that encoding") from None
    except json.JSONDecodeError as error:
        line = f"line {error.lineno}, " if "\n" in error.doc else ""  # of one line, the caller names the number
        raise InputError(f"not JSON ({error.msg}, {line}column {error.colno})") from None
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
    if (keys := chat_keys(value)) is None:
        value = dict(zip(usual_case([*map(str, value)]), value.values(), strict=True))
        keys = chat_keys(value)
    if keys is None and (logged := _logged_request(value)):
        value, keys = logged, MESSAGES
    if keys is None:
        raise InputError(f"an object with {list_names(value.keys(), 'key')}; a chat must be {CHAT}")
    messages, name = chat_from_row(keys, value)
    if keys == MESSAGES and isinstance(messages, list):
        # A logged request holds its answer under "choices". Some logs hold it under "messages" too.
        messages = [*messages, *(answer for answer in _answer(value.get("choices")) if not _repeats(messages, answer))]
    return messages, name


def chats_of_json(value: object) -> list[Any]:
    """The chats of a JSON file, not yet read: one chat, a list of chats, or an object with such a list.

    A list of messages is one chat. The object has the list under ``data``, or under ``conversations``, where ShareGPT
    has the messages of one chat.
    """
    if isinstance(value, Mapping):
        keys = chat_keys(value)
        listed = value.get(SHAREGPT[0] if keys == SHAREGPT else "data") if keys in (None, SHAREGPT) else None
        if isinstance(listed, list) and (keys is None or _begins_with_chat(listed)):
            value = listed
    return [value] if not isinstance(value, list) or (value and _is_message(value[0])) else value


def _begins_with_chat(values: list[Any]) -> bool:
    return bool(values) and isinstance(values[0], list | Mapping) and not _is_message(values[0])


def _is_message(value: object) -> bool:
    return isinstance(value, Mapping) and not {"role", "from"}.isdisjoint(value)


def _logged_request(value: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """A request and its response, which a log keeps apart, as one object; None if the value is anything else."""
    request, response = value.get("request"), value.get("response")
    if not isinstance(request, Mapping) or not isinstance(response, Mapping):
        return None
    if "messages" not in request or not isinstance(response.get("choices"), list):
        return None
    return {ID: value.get(ID), **request, "choices": response["choices"]}


def _turn_texts(keys: tuple[str, ...], row: Mapping[str, Any]) -> list[str]:
    """The texts of a row that has its last turn under two keys, and the earlier turns under ``history``."""
    check_whole_chats([*row])
    history = row.get(HISTORY) or []
    if isinstance(history, str):  # as in a cell of CSV
        with suppress(InputError):
            history = parse_json(history)
    if not isinstance(history, list):
        raise InputError(
            f"{HISTORY} is {kind_of(history)}; it must be a list of [what the user said, the reply], or its JSON"
        )
    texts: list[str] = []
    for number, turn in enumerate(history):
        if not isinstance(turn, list) or len(turn) != 2:
            raise InputError(f"{HISTORY}[{number}]: {shown(turn)}; it must be [what the user said, the reply]")
        texts += [check_text(text, f"{HISTORY}[{number}][{side}]") for side, text in enumerate(turn)]
    asked, answer = (check_text(row[name], name) for name in keys)
    if keys == ALPACA and (more := row.get(INPUT)):
        asked = "\n".join(filter(None, (asked, check_text(more, INPUT))))  # as LLaMA-Factory joins them
    return [*texts, asked, answer]


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


def chat_from_row(keys: tuple[str, ...], row: Mapping[str, Any]) -> NamedChat:
    """The chat of a row, from the columns that ``chat_keys`` or ``chat_columns`` found."""
    if keys == CONVERSATION:
        return alternating(row[name] for name in keys), row.get(ID)
    if keys in (ALPACA, SWIFT):
        return alternating(_turn_texts(keys, row)), row.get(ID)
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
    role = SHAREGPT_ROLES.get(speaker.lower()) if isinstance(speaker, str) else None
    if role is None:
        raise InputError(f"{where}: from {shown(speaker)}; allowed are {', '.join(SHAREGPT_ROLES)}")
    if "value" not in message:
        raise InputError(f'{where} has no \'value\'; it must be {{"from": "human" or "gpt", "value": text}}')
    return {"role": role, "content": message["value"]}


MAX_RAW = 2000  # characters of a rejected input that are kept
# The errors of pyarrow for a cell that has no Python value: a year after 9999, an unknown time zone, a field that
# occurs twice, text that is not in UTF-8.
UNREADABLE = (ValueError, OverflowError, LookupError)


@dataclass(frozen=True)
class Entry:
    """One input.

    Attributes:
        number: the number of its line or row, from 1; of its first one if a chat has several.
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
        return "line" if self.format in ("jsonl", "text") else "row"

    def place(self, number: int) -> str:
        """An entry in messages: ``FILE:3`` is a line of the file, and ``FILE: data row 2`` a row below the header."""
        if self.key == "line":
            return f"{self.where}:{number}"
        return f"{self.where}: {'data row' if self.format in DELIMITERS else 'row'} {number}"


def make_entry(number: int, end: int, read: Callable[[Any], NamedChat], source: Any) -> Entry:
    """Reads one input, for instance a line, by a function that returns its messages and id, or raises InputError."""
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
