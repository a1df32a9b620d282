"""Chats as files hold them: JSON lines, CSV, TSV and Parquet, read bit by bit, and JSON, read whole."""

import csv
import json
import math
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from io import BufferedIOBase
from itertools import count
from pathlib import Path
from typing import Any

from contradiction.chats.formats import (
    DELIMITERS,
    ID,
    NOT_UTF8,
    Named,
    columns,
    from_row,
    from_value,
    held,
    other_form,
    parse,
)
from contradiction.conversation import Messages, read_turns
from contradiction.errors import InputError, kind_of

FORMATS = {
    ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "json", ".csv": "csv", ".tsv": "tsv", ".parquet": "parquet",
}  # fmt: skip

AT_ONCE = 1 << 18  # bytes of a pipe: enough for batches of like length, few enough to answer soon
ROWS = 1024  # rows of Parquet that are held at once
CELL = 1 << 24  # characters: more than any chat, and few enough that a quote left open does not swallow a large file
BRACKETS = ("{", "[", "[{")  # a first line of JSON that is set out for people to read
SHOWN = 2000  # characters of an input that is not usable
# What pyarrow raises of a cell that Python has no value for: a year after 9999, a time zone that nobody knows, a field
# that is there twice, text that is not in UTF-8.
UNREADABLE = (ValueError, OverflowError, LookupError)


@dataclass(frozen=True)
class Entry:
    """One input.

    Attributes:
        number: of its line or row, from 1.
        end: how far the input is read with it, in the unit of ``Chats.total``.
        messages: the chat; None where it is not usable.
        turns: how many it has.
        id: what the input calls it; None where it has no name.
        error: why it is not usable, in words; else None.
        raw: the beginning of its text where it is not usable; else empty.
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
        where: how messages name it.
        form: a value of ``FORMATS``.
        arrivals: its entries, each group as it can be had without waiting: of a file all are one group, read as it is
            gone through.
        total: how long it is, in bytes or in rows; None where that is not known.
        in_bytes: whether ``total`` is in bytes.
    """

    where: str
    form: str
    arrivals: Iterable[Iterable[Entry]]
    total: int | None = None
    in_bytes: bool = False

    @property
    def key(self) -> str:
        """What its numbers count: ``line`` or ``row``."""
        return "line" if self.form == "jsonl" else "row"


def open_file(path: str | Path, form: str | None = None) -> Chats:
    """The chats of a file.

    Args:
        path: of the file; a named pipe is read as it comes.
        form: ``jsonl`` (a chat a line), ``json`` (a list of chats, or one), ``csv``, ``tsv`` or ``parquet`` (a column
            ``messages`` or ``conversations``, or u1, b1, u2 and b2; a column ``id`` is carried along); by default what
            its name says.

    Raises:
        InputError: there is no such file, or it is none of this form; for all but Parquet some of it is said only when
            it is gone through.
    """
    path = Path(path)
    if not path.exists():
        raise InputError(f"{path}: no such file")
    if path.is_dir():
        raise InputError(f"{path}: is a folder; name a file of chats in it")
    if not path.is_file():
        stream: Any = path.open("rb")  # a buffered reader, which a pipe needs, and mypy does not see
        return open_stream(stream, str(path), form)
    form = form or FORMATS.get(path.suffix.lower())
    if form is None:
        raise InputError(f"{path}: its name tells no format ({', '.join(FORMATS)}); --format names it")
    if form == "parquet":
        return _parquet(path)
    size, where = path.stat().st_size, str(path)
    if form == "json":
        entries = _json(path.read_bytes(), where)
        return Chats(where, form, [entries], len(entries))
    read = partial(_lines, where=where) if form == "jsonl" else partial(_csv, where=where, form=form)
    return Chats(where, form, [_through(path, read)], size, in_bytes=True)


def open_stream(stream: BufferedIOBase, where: str, form: str | None = None) -> Chats:
    """The chats of standard input or of another pipe.

    JSON lines come in groups as they arrive, so that each can be answered at once.

    Args:
        stream: buffered bytes.
        where: how messages name it.
        form: see :func:`open_file`; by default ``jsonl``.

    Raises:
        InputError: it cannot be read from a pipe.
    """
    if form == "parquet":
        raise InputError(f"{where}: Parquet is read from its end, so it cannot come through a pipe; name the file")
    if form == "json":
        return Chats(where, form, [_json(b"".join(iter(partial(stream.read1, AT_ONCE), b"")), where)])
    if form in DELIMITERS:
        return Chats(where, form, [_csv(stream, where, form)])
    numbers = count(1)
    return Chats(where, "jsonl", (_lines(lines, where, numbers) for lines in arrived(stream)))


def from_text(text: str) -> Chats:
    """The one chat of a literal: JSON as a line of a file would hold it.

    Raises:
        InputError: it is no usable chat.
    """
    entry = _entry(1, 1, _from_line, text)
    if entry.error:
        raise InputError(f"--text: {entry.error}")
    return Chats("--text", "jsonl", [[entry]], 1)


def arrived(stream: BufferedIOBase) -> Iterator[list[bytes]]:
    """The whole lines that can be read without waiting, again and again until the end."""
    rest: list[bytes] = []
    while part := stream.read1(AT_ONCE):
        head, newline, tail = part.rpartition(b"\n")
        if newline:
            yield b"".join([*rest, head]).split(b"\n")
            rest = [tail]
        else:
            rest.append(part)
    if last := b"".join(rest):
        yield [last]


def _through(path: Path, read: Callable[[Any], Iterator[Entry]]) -> Iterator[Entry]:
    with path.open("rb") as file:
        yield from read(file)


def _lines(lines: Iterable[bytes], where: str, numbers: Iterator[int] | None = None) -> Iterator[Entry]:
    end = 0
    for line, number in zip(lines, numbers or count(1), strict=False):
        end += len(line)
        if number == 1:
            _demand_lines(line, where)
        if line.removeprefix(BOM_UTF8).strip():
            yield _entry(number, end, _from_line, line.strip())


def _demand_lines(first: bytes, where: str) -> None:
    """Says once, and not line by line, what the first line shows of a whole file."""
    try:
        text = first.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{where}:1: {NOT_UTF8}") from None
    if other := other_form(text.strip()):
        raise InputError(f"{where}: {other}")
    if text.strip() in BRACKETS:
        raise InputError(
            f"{where}: its first line is {text.strip()} alone, as of JSON over many lines; --format json reads it"
        )


def _json(content: bytes, where: str) -> list[Entry]:
    try:
        value = parse(content.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise InputError(f"{where}: {NOT_UTF8}") from None
    except InputError as error:
        raise InputError(f"{where}: {error}; of a file with a chat a line, the format is jsonl") from None
    first = value[0] if isinstance(value, list) and value else None
    one = not isinstance(value, list) or (isinstance(first, Mapping) and not {"role", "from"}.isdisjoint(first))
    return [_entry(number, number, from_value, chat) for number, chat in enumerate([value] if one else value, 1)]


def _csv(file: Iterable[bytes], where: str, form: str) -> Iterator[Entry]:
    csv.field_size_limit(CELL)
    delimiter = DELIMITERS[form]
    rows = _csv_rows(file, where, delimiter)
    first, header, _ = next(rows, ("", None, 0))
    if not isinstance(header, list):
        raise InputError(f"{where}: no {form.upper()} with a header; its first row must name the columns")
    header = [name.strip() for name in header]
    if held(header) is None and (other := other_form(first, but=delimiter)):
        raise InputError(f"{where}: {other}")
    keys = columns(header, where)
    for number, (raw, cells, end) in enumerate(rows, 1):
        yield _entry(number, end, partial(_from_cells, header, keys, cells), raw)


def _csv_rows(file: Iterable[bytes], where: str, delimiter: str) -> Iterator[tuple[str, list[str] | InputError, int]]:
    """The text of each row, its cells (or why there are none), and where it ends in bytes."""
    seen: list[str] = []
    end = 0

    def lines() -> Iterator[str]:
        nonlocal end
        for number, line in enumerate(file, 1):
            end += len(line)
            try:
                seen.append(line.decode("utf-8-sig" if number == 1 else "utf-8"))
            except UnicodeDecodeError:
                raise InputError(f"{where}:{number}: {NOT_UTF8}") from None
            yield seen[-1]

    reader = csv.reader(lines(), delimiter=delimiter, strict=True)
    while True:
        seen.clear()
        try:
            cells: list[str] | InputError = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            cells = InputError(f"not a row of cells ({error})")
        if cells:
            yield "".join(seen).rstrip("\r\n"), cells, end


def _from_cells(header: list[str], keys: tuple[str, ...], cells: list[str] | InputError, _: object) -> Named:
    if isinstance(cells, InputError):
        raise cells
    if len(cells) != len(header):
        raise InputError(f"{len(cells)} cells; the header names {len(header)} columns")
    return from_row(keys, dict(zip(header, cells, strict=True)))


def _parquet(path: Path) -> Chats:
    import pyarrow
    from pyarrow import parquet

    with path.open("rb") as file:
        try:
            opened = parquet.ParquetFile(file)
        except (pyarrow.ArrowException, OSError) as error:  # pyarrow raises either
            raise InputError(f"{path}: no Parquet file ({error})") from None
        names, rows = opened.schema_arrow.names, opened.metadata.num_rows
    keys = columns(names, str(path))
    return Chats(str(path), "parquet", [_parquet_rows(path, keys, [*keys, *({ID} & set(names))])], rows)


def _parquet_rows(path: Path, keys: tuple[str, ...], read: list[str]) -> Iterator[Entry]:
    import pyarrow
    from pyarrow import parquet

    number = 0
    with path.open("rb") as file:
        try:
            for batch in parquet.ParquetFile(file).iter_batches(batch_size=ROWS, columns=read):
                for index in range(batch.num_rows):
                    number += 1
                    row = {name: batch[name][index] for name in read}
                    yield _entry(number, number, partial(_from_scalars, keys), row)
        except (pyarrow.ArrowException, OSError) as error:
            raise InputError(f"{path}: damaged after row {number} ({error})") from None


def _from_scalars(keys: tuple[str, ...], row: dict[str, Any]) -> Named:
    return from_row(keys, {name: _value(name, scalar) for name, scalar in row.items()})


def _value(name: str, scalar: Any) -> Any:
    try:
        return scalar.as_py()
    except UnicodeDecodeError:
        raise InputError(f"{name}: text that is not in UTF-8") from None
    except UNREADABLE as error:
        raise InputError(f"{name}: a {scalar.type} that Python cannot hold ({error})") from None


def _from_line(line: bytes | str) -> Named:
    return from_value(parse(line))


def _entry(number: int, end: int, read: Callable[[Any], Named], source: Any) -> Entry:
    try:
        messages, name = read(source)
        turns = len(read_turns(messages))
        return Entry(number, end, messages, turns, _id(name))
    except InputError as error:
        return Entry(number, end, error=str(error), raw=_shown(source))
    except RecursionError:
        return Entry(number, end, error="nested too deeply", raw=_shown(source))


def _id(name: Any) -> str | float | None:
    if name is None or name == "":
        return None
    if isinstance(name, bytes | list | dict | tuple):
        raise InputError(f"its id is {kind_of(name)}; it must be text or a number")
    if isinstance(name, str | int) or (isinstance(name, float) and math.isfinite(name)):
        return name
    return str(name)  # what JSON has no word for, such as a date


def _shown(source: Any) -> str:
    if isinstance(source, bytes):
        source = source.decode("utf-8", "replace").rstrip("\r\n")
    elif not isinstance(source, str):
        try:
            source = json.dumps(source, ensure_ascii=False, default=_plain)
        except RecursionError:
            source = ""
    return source if len(source) <= SHOWN else f"{source[:SHOWN]}…"


def _plain(value: Any) -> Any:
    """What JSON can hold of a Parquet cell."""
    if not hasattr(value, "as_py"):
        return str(value)
    try:
        return value.as_py()
    except UNREADABLE:
        return None
