"""Opens files, pipes and pasted texts of chats. Each format ends in :func:`contradiction.chats.records.read_record`."""

from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import Any

from contradiction.chats import formats
from contradiction.chats.chunks import Chats, Entry, make_entries
from contradiction.chats.formats import JSON, Row, decode, parse_json
from contradiction.chats.messages import has_speakers, read_lines, read_transcript, split_chats
from contradiction.chats.names import USUAL, Speakers
from contradiction.chats.records import Chat, chats_of_json, read_chat, read_record
from contradiction.chats.tables import Columns, grouped, message_keys, read_cells, read_table
from contradiction.errors import InputError, kind_of

FORMATS = {
    ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "json", ".csv": "csv", ".tsv": "tsv", ".xlsx": "xlsx",
    ".txt": "text", ".parquet": "parquet",
}  # fmt: skip
BINARY = ("parquet", "xlsx")
BRACKETS = ("{", "[", "[{")  # the first line of JSON that spreads over many lines


def open_file(
    path: str | Path, format: str | None = None, encoding: str | None = None, speakers: Speakers = USUAL
) -> Chats:
    """The chats of a file.

    Args:
        path: the file. A named pipe is read as it comes. A text may be packed with gzip, as ``NAME.jsonl.gz``.
        format: ``jsonl`` (one record per line), ``json`` (see :func:`contradiction.chats.records.chats_of_json`),
            ``csv``, ``tsv`` or ``xlsx`` (see :mod:`contradiction.chats.tables`), ``parquet``, or ``text`` (see
            :mod:`contradiction.chats.messages`). By default the file's name says which.
        encoding: the encoding of the text, such as ``gb18030``; by default UTF-8.
        speakers: the names of the two sides.

    Raises:
        InputError: there is no such file, or it has another format. In CSV and JSON lines some errors show only while
            the entries are read.
    """
    path = Path(path)
    if not path.exists():
        raise InputError(f"{path}: no such file")
    if path.is_dir():
        raise InputError(f"{path}: is a folder; name a file of chats in it, or --engine ray for all its Parquet")
    if not path.is_file():
        return open_stream(path.open("rb"), str(path), format, encoding, speakers)
    chats = Chats(str(path), format or format_of(path), [])
    if chats.format in BINARY:
        if encoding is not None:
            raise InputError(f"{path}: {chats.format} says itself how its text is encoded; leave the encoding out")
        if chats.format == "parquet":
            return open_parquet(path, speakers=speakers)
        return replace(chats, arrivals=[read_cells(formats.excel_rows(path, chats.notes), chats, speakers)])
    formats.check_encoding(encoding)
    if chats.format == "json":
        entries = [*_json(b"".join(formats.file_blocks(path, encoding)), chats, speakers)]
        return replace(chats, arrivals=[entries], total=len(entries))
    packed = encoding is not None or path.suffix.lower() == ".gz"
    size = sum(map(len, formats.file_blocks(path, encoding))) if packed else path.stat().st_size
    chats = replace(chats, total=size, in_bytes=True)
    groups = formats.arriving_lines(formats.file_blocks(path, encoding))
    return replace(chats, arrivals=_of_lines(groups, chats, speakers))


def open_parquet(path: Path, rows: range | None = None, speakers: Speakers = USUAL) -> Chats:
    """The chats of a Parquet file, or of consecutive ``rows`` of it, counted from 1, with a chat in each.

    Raises:
        InputError: it is not a Parquet file, or there is no chat in the columns.
    """
    header, classes, count = formats.parquet_columns(path)
    chats = Chats(str(path), "parquet", [], count if rows is None else len(rows))
    read = partial(formats.parquet_rows, path, rows=rows or range(1, count + 1), classes=classes)
    return replace(chats, arrivals=[read_table(header, read, chats, speakers, one_by_one=rows is not None)])


def format_of(path: Path) -> str:
    """The format that the name of a file says; raises InputError if it says none."""
    name = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    if (format := FORMATS.get(name.suffix.lower())) is None or (format in BINARY and name != path):
        raise InputError(
            f"{path}: {path.suffix or 'a name without an ending'} is no known type of file; the known ones are "
            f"{', '.join(FORMATS)}, texts also with .gz; or --format names the format"
        )
    return format


def open_stream(
    stream: Any, where: str, format: str | None = None, encoding: str | None = None, speakers: Speakers = USUAL
) -> Chats:
    """The chats of standard input or of another pipe, a buffered reader.

    JSON lines, the default, form groups as they arrive, so that each line can be answered at once. See
    :func:`open_file` for the formats and encodings.

    Raises:
        InputError: the format cannot be read from a pipe, or the encoding is unknown.
    """
    if format in BINARY:
        raise InputError(f"{where}: {format} is read from a file and cannot come through a pipe; name the file")
    formats.check_encoding(encoding)
    chats = Chats(where, format or "jsonl", [])
    parts = formats.stream_blocks(stream, where, encoding)
    if format == "json":
        return replace(chats, arrivals=[_json(b"".join(parts), chats, speakers)])
    return replace(chats, arrivals=_of_lines(formats.arriving_lines(parts), chats, speakers))


def _of_lines(groups: Iterator[list[bytes]], chats: Chats, speakers: Speakers) -> Iterator[Iterator[Entry]]:
    """The entries of lines: those of a file as one group, those of a pipe of JSON lines in groups as they come."""
    if chats.format == "text":
        yield _transcripts(chain.from_iterable(groups), chats.where, speakers)
        return
    if chats.format in formats.DELIMITERS:
        cells = formats.csv_rows(chain.from_iterable(groups), chats.where, chats.format)
        yield read_cells(cells, chats, speakers)
        return
    begin = next(groups, [])
    while not any(map(bytes.strip, begin)) and (more := next(groups, None)):
        begin += more
    groups = chain([begin], groups)
    if keys := _message_keys(begin):
        yield _messages(chain.from_iterable(groups), keys, chats, speakers)
    elif chats.in_bytes:  # a file
        yield _lines(chain.from_iterable(groups), chats, speakers, count(1))
    else:
        numbers = count(1)
        yield from (_lines(lines, chats, speakers, numbers) for lines in groups)


def check_begin(chats: Chats) -> Chats:
    """The chats of a file whose first one has been read, so that an unreadable file is found before a model is loaded.

    Raises:
        InputError: the file holds no chat, or cannot be read.
    """
    entries = iter(chats)
    first = next(entries, None)
    if first is None:
        raise InputError(f"{chats.where}: holds no chat")
    return replace(chats, arrivals=[chain([first], entries)])


def from_text(text: str, speakers: Speakers) -> Chats:
    """A single chat from a text: a record as JSON, or lines of text.

    Raises:
        InputError: it is not a usable chat.
    """
    [entry] = make_entries(1, 1, lambda text: [read_pasted(text, speakers)], text)
    if entry.error:
        raise InputError(f"--text: {entry.error}")
    return Chats("--text", "jsonl", [[entry]], 1)


def _message_keys(lines: Iterable[bytes]) -> Columns | None:
    """The keys of JSON lines with a message in each, by the first line; None for lines with a chat in each."""
    try:
        return message_keys(parse_json(next(filter(bytes.strip, lines), b"")))
    except InputError:  # reported when the line is read
        return None


def _messages(lines: Iterable[bytes], keys: Columns, chats: Chats, speakers: Speakers) -> Iterator[Entry]:
    """The chats of JSON lines with a message in each."""

    def rows() -> Iterator[Row]:
        end = 0
        for number, line in enumerate(lines, 1):
            end += len(line)
            if line.strip():
                try:
                    value = parse_json(line)
                    if not isinstance(value, Mapping):
                        raise InputError(f"{kind_of(value)}; it must be an object with a message")
                    yield number, line, value, end
                except InputError as error:
                    yield number, line, error, end

    return grouped(rows(), keys, chats, speakers)


def _lines(lines: Iterable[bytes], chats: Chats, speakers: Speakers, numbers: Iterator[int]) -> Iterator[Entry]:
    """The chats of JSON lines with a chat in each."""
    end = 0
    for line, number in zip(lines, numbers, strict=False):
        end += len(line)
        if number == 1:
            _check_first_line(line, chats.where)
        if line.removeprefix(BOM_UTF8).strip():
            yield from make_entries(number, end, lambda line: read_record(parse_json(line), speakers), line.strip())


def _check_first_line(line: bytes, where: str) -> None:
    """Raises one InputError, and not one for each line, if the first line shows that the file has another format."""
    text = decode(line, f"{where}:1").strip()
    found = {"csv": formats.is_table(text), "text": has_speakers(text), "json": text in BRACKETS}
    if format := next((format for format, is_found in found.items() if is_found), None):
        raise InputError(f"{where}: its first line is no chat as JSON; --format {format} reads the file")


def _json(content: bytes, chats: Chats, speakers: Speakers) -> Iterator[Entry]:
    where = chats.where
    text = decode(content, where)
    try:
        value = parse_json(text)
    except InputError as error:
        raise InputError(f"{where}: {error}; --format jsonl reads a file with a chat in each line") from None
    # An id of its own names a message of one chat.
    keys = message_keys(value[0]) if isinstance(value, list) and value else None
    if keys and keys.chat.lower() != "id" and all(isinstance(one, Mapping) and keys.chat in one for one in value):
        rows = ((number, one, one, number) for number, one in enumerate(value, 1))
        yield from grouped(rows, keys, chats, speakers)
        return
    for number, record in enumerate(chats_of_json(value), 1):
        yield from make_entries(number, number, partial(read_record, speakers=speakers), record)


def _transcripts(file: Iterable[bytes], where: str, speakers: Speakers) -> Iterator[Entry]:
    """The chats of a transcript; raises InputError if it is not in UTF-8, or is JSON."""

    def lines() -> Iterator[tuple[int, str, int]]:
        end = 0
        for number, line in enumerate(file, 1):
            end += len(line)
            text = decode(line, f"{where}:{number}", number == 1)
            if number == 1 and JSON.match(text.lstrip()):
                raise InputError(f"{where}: its first line is JSON; --format jsonl reads one chat in each line")
            yield number, text, end

    for number, block, end in split_chats(lines(), speakers):
        yield from make_entries(number, end, lambda text: [Chat(read_transcript(text, speakers))], block)


def read_pasted(text: str, speakers: Speakers = USUAL) -> Chat:
    """A pasted chat.

    Without speakers the lines alternate, and the user begins. With ``用户：`` and ``机器人：``, or other known names, a
    line without a speaker continues the message above it. JSON is an object, a list, or a message on each line.

    Raises:
        InputError: the text is empty, is JSON that holds no chat, names unknown speakers, or names a speaker in later
            lines but not in the first.
    """
    if not JSON.match(text.lstrip()):
        return Chat(read_lines(text, speakers))
    try:
        value = parse_json(text.strip())
    except InputError:
        # Only a line feed ends a line of JSON; other separators are text.
        lines = [line.strip() for line in text.split("\n") if line.strip()]
        if len(lines) == 1 or not all(line[0] == "{" for line in lines):
            raise
        value = [parse_json(line) for line in lines]
    return read_chat(value, speakers)
