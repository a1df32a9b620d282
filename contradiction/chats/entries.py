"""One input of a file of chats: the chat, or why there is none."""

import json
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from contradiction.chats.formats import NamedChat
from contradiction.conversation import Messages, read_turns
from contradiction.errors import InputError, kind_of

MAX_RAW = 2000  # characters of a rejected input that are kept
# What pyarrow raises for a cell that Python has no value for: a year after 9999, an unknown time zone, a field that
# occurs twice, text that is not in UTF-8.
UNREADABLE = (ValueError, OverflowError, LookupError)


@dataclass(frozen=True)
class Entry:
    """One input.

    Attributes:
        number: the number of its line or row, from 1.
        end: how far the file is read with it, in the unit of ``Chats.total``.
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
        read: gives the messages and the id of the source, or raises InputError.
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
