"""Opens files and pipes of chats: JSON lines, CSV, TSV and Parquet are read bit by bit, JSON is read whole."""

from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from io import BufferedIOBase
from itertools import count
from pathlib import Path
from typing import Any

from contradiction.chats.entries import Chats, Entry, make_entry
from contradiction.chats.formats import DELIMITERS, NOT_UTF8, NamedChat, chat_from_json, hint_at_format, parse_json
from contradiction.chats.tables import open_parquet, read_csv
from contradiction.errors import InputError

FORMATS = {
    ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "json", ".csv": "csv", ".tsv": "tsv", ".parquet": "parquet",
}  # fmt: skip
PIPE_BYTES = 1 << 18  # bytes read from a pipe at once: enough for full batches, few enough to answer soon
BRACKETS = ("{", "[", "[{")  # the first line of JSON that spreads over many lines


def open_file(path: str | Path, format: str | None = None) -> Chats:
    """The chats of a file.

    Args:
        path: the file. A named pipe is read as it comes.
        format: ``jsonl`` (a chat a line), ``json`` (one chat, or a list of chats), ``csv``, ``tsv`` or ``parquet`` (a
            column ``messages`` or ``conversations``, or u1, b1, u2 and b2, and perhaps ``id``). By default the file's
            name says which.

    Raises:
        InputError: there is no such file, or it has another format. In CSV and JSON lines some errors show only while
            the entries are read.
    """
    path = Path(path)
    if not path.exists():
        raise InputError(f"{path}: no such file")
    if path.is_dir():
        raise InputError(f"{path}: is a folder; name a file of chats in it")
    if not path.is_file():
        stream: Any = path.open("rb")  # a buffered reader, which a pipe needs and mypy does not see
        return open_stream(stream, str(path), format)
    format = format or FORMATS.get(path.suffix.lower())
    if format is None:
        raise InputError(f"{path}: its name tells no format ({', '.join(FORMATS)}); --format names it")
    if format == "parquet":
        return open_parquet(path)
    size, where = path.stat().st_size, str(path)
    if format == "json":
        entries = _json(path.read_bytes(), where)
        return Chats(where, format, [entries], len(entries))
    read = partial(_lines, where=where) if format == "jsonl" else partial(read_csv, where=where, format=format)
    return Chats(where, format, [_through(path, read)], size, in_bytes=True)


def open_stream(stream: BufferedIOBase, where: str, format: str | None = None) -> Chats:
    """The chats of standard input or of another pipe.

    JSON lines come in groups as they arrive, so that each can be answered at once.

    Args:
        stream: buffered bytes.
        where: its name in messages.
        format: see :func:`open_file`; by default ``jsonl``.

    Raises:
        InputError: the format cannot be read from a pipe.
    """
    if format == "parquet":
        raise InputError(f"{where}: Parquet is read from its end, so it cannot come through a pipe; name the file")
    if format == "json":
        return Chats(where, format, [_json(b"".join(iter(partial(stream.read1, PIPE_BYTES), b"")), where)])
    if format in DELIMITERS:
        return Chats(where, format, [read_csv(stream, where, format)])
    numbers = count(1)
    return Chats(where, "jsonl", (_lines(lines, where, numbers) for lines in arriving_lines(stream)))


def from_text(text: str) -> Chats:
    """The one chat of a text: JSON in the format of a line of a file.

    Raises:
        InputError: it is no usable chat.
    """
    entry = make_entry(1, 1, _from_line, text)
    if entry.error:
        raise InputError(f"--text: {entry.error}")
    return Chats("--text", "jsonl", [[entry]], 1)


def arriving_lines(stream: BufferedIOBase) -> Iterator[list[bytes]]:
    """The whole lines that can be read without waiting, again and again until the end."""
    rest: list[bytes] = []
    while part := stream.read1(PIPE_BYTES):
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
            _check_first_line(line, where)
        if line.removeprefix(BOM_UTF8).strip():
            yield make_entry(number, end, _from_line, line.strip())


def _check_first_line(line: bytes, where: str) -> None:
    """Raises InputError if the first line shows that the whole file has another format, instead of once a line."""
    try:
        text = line.decode("utf-8-sig").strip()
    except UnicodeDecodeError:
        raise InputError(f"{where}:1: {NOT_UTF8}") from None
    if hint := hint_at_format(text):
        raise InputError(f"{where}: {hint}")
    if text in BRACKETS:
        raise InputError(f"{where}: its first line is {text} alone, as of JSON over many lines; --format json reads it")


def _from_line(line: bytes | str) -> NamedChat:
    return chat_from_json(parse_json(line))


def _json(content: bytes, where: str) -> list[Entry]:
    try:
        value = parse_json(content.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise InputError(f"{where}: {NOT_UTF8}") from None
    except InputError as error:
        raise InputError(f"{where}: {error}; for a file with a chat a line, the format is jsonl") from None
    first = value[0] if isinstance(value, list) and value else None
    is_one = not isinstance(value, list) or (isinstance(first, Mapping) and not {"role", "from"}.isdisjoint(first))
    return [
        make_entry(number, number, chat_from_json, chat) for number, chat in enumerate([value] if is_one else value, 1)
    ]
