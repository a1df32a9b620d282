"""One input of a file, and the inputs of a file."""

import json
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from contradiction.chats.records import Chat
from contradiction.conversation import Messages, read_turns
from contradiction.errors import InputError, kind_of

MAX_RAW = 2000  # characters of a rejected input that are kept
TABLES = ("csv", "tsv", "xlsx")
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
        label: the label that the input gives to the last reply, unchecked.
        evidence: the index of the contradicted message, unchecked.
    """

    number: int
    end: int
    messages: Messages | None = None
    turns: int = 0
    id: str | float | None = None
    error: str | None = None
    raw: str = ""
    label: Any = None
    evidence: Any = None

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
        notes: what a user should know about how the input was read; complete when all entries are read.
    """

    where: str
    format: str
    arrivals: Iterable[Iterable[Entry]]
    total: int | None = None
    in_bytes: bool = False
    notes: list[str] = field(default_factory=list)

    @property
    def key(self) -> str:
        """What the numbers of the entries count: ``line`` or ``row``."""
        return "line" if self.format in ("jsonl", "text") else "row"

    @property
    def unit(self) -> str:
        """The same in messages: a row below a header is a ``data row``."""
        return "data row" if self.format in TABLES else self.key

    def __iter__(self) -> Iterator[Entry]:
        return (entry for group in self.arrivals for entry in group)

    def place(self, number: int) -> str:
        """An entry in messages: ``FILE:3`` is a line of the file, and ``FILE: data row 2`` a row below the header."""
        if self.key == "line":
            return f"{self.where}:{number}"
        return f"{self.where}: {self.unit} {number}"


def make_entries(number: int, end: int, read: Callable[[Any], list[Chat]], source: Any) -> Iterator[Entry]:
    """Reads one input, for instance a line, by a function that returns its chats, or raises InputError."""
    try:
        for chat in read(source):
            turns, name = len(read_turns(chat.messages)), _check_id(chat.id)
            if chat.answer:
                name = f"{number if name is None else name}/{chat.answer}"
            yield Entry(number, end, chat.messages, turns, name, label=chat.label, evidence=chat.evidence)
    except InputError as error:
        yield Entry(number, end, error=str(error), raw=_raw(source))
    except RecursionError:
        yield Entry(number, end, error="nested too deeply", raw=_raw(source))


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
