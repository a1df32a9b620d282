"""Opens files and pipes of chats: JSON is read whole, and the other formats are read bit by bit."""

from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from io import BufferedIOBase
from itertools import accumulate, chain, count
from pathlib import Path
from typing import Any

from contradiction.chats.columns import DELIMITERS, chat_columns, further_keys, hint_at_format, usual_case
from contradiction.chats.csv_files import read_csv
from contradiction.chats.encodings import as_utf8, decode
from contradiction.chats.formats import (
    UNREADABLE,
    Chats,
    Entry,
    NamedChat,
    chat_from_json,
    chat_from_row,
    chats_of_json,
    make_entry,
    parse_json,
)
from contradiction.chats.harnesses import HARNESSES, read_harness
from contradiction.chats.pasted import JSON, begins_transcript, read_pasted, read_transcripts
from contradiction.errors import InputError, first_line

FORMATS = {
    ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "json", ".csv": "csv", ".tsv": "tsv", ".txt": "text",
    ".parquet": "parquet",
}  # fmt: skip
PIPE_BYTES = 1 << 18  # bytes read from a pipe at once: enough for full batches, few enough to answer soon
BRACKETS = ("{", "[", "[{")  # the first line of JSON that spreads over many lines


def open_file(path: str | Path, format: str | None = None, encoding: str | None = None) -> Chats:
    """The chats of a file.

    Args:
        path: the file. A named pipe is read as it comes.
        format: ``jsonl`` (one chat per line), ``json`` (one chat, a list of chats, or
            an object with such a list under ``data`` or ``conversations``), ``csv``, ``tsv`` or ``parquet``
            (the columns of one of ``contradiction.chats.columns.KEYS``, and perhaps ``id``; in ``csv`` and ``tsv``
            also one message in each row, see :mod:`contradiction.chats.csv_files`), ``text`` (see
            :func:`contradiction.chats.pasted.read_transcripts`); or ``deepeval`` or ``garak``, see
            :mod:`contradiction.chats.harnesses`. By default the file's name says which.
        encoding: the encoding of the text, such as ``gb18030``; by default UTF-8.

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
        stream: Any = path.open("rb")  # a buffered reader, which a pipe needs and mypy does not see
        return open_stream(stream, str(path), format, encoding)
    format = format or FORMATS.get(path.suffix.lower())
    if format is None:
        raise InputError(
            f"{path}: {path.suffix or 'a name without an ending'} is no known type of file; the known ones are "
            f"{', '.join(FORMATS)}, or --format names the format"
        )
    where = str(path)
    if format == "parquet":
        if encoding is not None:
            raise InputError(f"{where}: Parquet says itself how its text is encoded; leave the encoding out")
        return open_parquet(path)
    if format in HARNESSES or format == "json":
        with as_utf8(path.open("rb"), encoding, where) as file:
            content = file.read()
        entries = _json(content, where) if format == "json" else read_harness(content, where, format)
        return Chats(where, format, [entries], len(entries))
    return Chats(where, format, [_through(path, format, encoding)], _size(path, encoding), in_bytes=True)


def _through(path: Path, format: str, encoding: str | None) -> Iterator[Entry]:
    with as_utf8(path.open("rb"), encoding, str(path)) as file:
        yield from _lines(file, str(path)) if format == "jsonl" else _text_entries(file, str(path), format)


def _text_entries(file: Iterable[bytes], where: str, format: str) -> Iterator[Entry]:
    return read_transcripts(file, where) if format == "text" else read_csv(file, where, format)


def _size(path: Path, encoding: str | None) -> int:
    """The number of bytes in UTF-8, in which the places of the entries are counted."""
    if encoding is None:
        return path.stat().st_size
    with as_utf8(path.open("rb"), encoding, str(path)) as file:
        return sum(map(len, iter(partial(file.read1, PIPE_BYTES), b"")))


def open_stream(stream: BufferedIOBase, where: str, format: str | None = None, encoding: str | None = None) -> Chats:
    """The chats of standard input or of another pipe.

    JSON lines, the default, form groups as they arrive, so that each line can be answered at once. See
    :func:`open_file` for the formats and encodings.

    Raises:
        InputError: the format cannot be read from a pipe, or the encoding is unknown.
    """
    if format == "parquet":
        raise InputError(f"{where}: Parquet is read from its end, so it cannot come through a pipe; name the file")
    if format in HARNESSES:
        raise InputError(f"{where}: {format} is read from a file; name it")
    stream = as_utf8(stream, encoding, where)
    if format == "json":
        return Chats(where, format, [_json(stream.read(), where)])
    if format == "text" or format in DELIMITERS:
        return Chats(where, format, [_text_entries(stream, where, format)])
    numbers = count(1)
    return Chats(where, "jsonl", (_lines(lines, where, numbers) for lines in arriving_lines(stream)))


def check_begin(chats: Chats) -> Chats:
    """The chats of a file whose first one has been read, so that an unreadable file is found before a model is loaded.

    Raises:
        InputError: the file holds no chat, or cannot be read.
    """
    [group] = chats.arrivals
    entries = iter(group)
    first = next(entries, None)
    if first is None:
        raise InputError(f"{chats.where}: holds no chat")
    return replace(chats, arrivals=[chain([first], entries)])


def from_text(text: str) -> Chats:
    """A single chat from a text: JSON in the format of one line of a JSONL file, or lines of text.

    Raises:
        InputError: it is not a usable chat.
    """
    entry = make_entry(1, 1, _from_argument, text)
    if entry.error:
        raise InputError(f"--text: {entry.error}")
    return Chats("--text", "jsonl", [[entry]], 1)


def arriving_lines(stream: BufferedIOBase) -> Iterator[list[bytes]]:
    """Yields the complete lines that can be read without waiting, until the stream ends."""
    pending: list[bytes] = []
    while part := stream.read1(PIPE_BYTES):
        head, newline, tail = part.rpartition(b"\n")
        if newline:
            yield b"".join([*pending, head]).split(b"\n")
            pending = [tail]
        else:
            pending.append(part)
    if remainder := b"".join(pending):
        yield [remainder]


def _lines(lines: Iterable[bytes], where: str, numbers: Iterator[int] | None = None) -> Iterator[Entry]:
    end = 0
    for line, number in zip(lines, numbers or count(1), strict=False):
        end += len(line)
        if number == 1:
            _check_first_line(line, where)
        if line.removeprefix(BOM_UTF8).strip():
            yield make_entry(number, end, _from_line, line.strip())


def _check_first_line(line: bytes, where: str) -> None:
    """Raises one InputError, and not one for each line, if the first line shows that the file has another format."""
    text = decode(line, f"{where}:1").strip()
    if hint := hint_at_format(text):
        raise InputError(f"{where}: {hint}")
    if begins_transcript(text):
        raise InputError(f"{where}: its first line begins with a speaker, as of a transcript; --format text reads it")
    if text in BRACKETS:
        raise InputError(f"{where}: its first line is {text} alone, as of JSON over many lines; --format json reads it")


def _from_line(line: bytes | str) -> NamedChat:
    return chat_from_json(parse_json(line))


def _from_argument(text: str) -> NamedChat:
    return _from_line(text) if JSON.match(text.lstrip()) else (read_pasted(text), None)


def _json(content: bytes, where: str) -> list[Entry]:
    text = decode(content, where)
    try:
        value = parse_json(text)
    except InputError as error:
        raise InputError(f"{where}: {error}; a file with one chat per line has the format jsonl") from None
    return [make_entry(number, number, chat_from_json, chat) for number, chat in enumerate(chats_of_json(value), 1)]


ROWS_AT_ONCE = 1024  # rows of Parquet in memory


def open_parquet(path: Path, rows: range | None = None) -> Chats:
    """The chats of a Parquet file, or of consecutive ``rows`` of it, counted from 1.

    Raises:
        InputError: it is not a Parquet file, or there is no chat in the columns.
    """
    import pyarrow
    from pyarrow import parquet

    with path.open("rb") as file:
        try:
            opened = parquet.ParquetFile(file)
            names, footer = opened.schema_arrow.names, opened.metadata
        except (pyarrow.ArrowException, OSError, ValueError) as error:  # pyarrow raises any of them
            raise InputError(f"{path}: no Parquet file ({first_line(error)})") from None
    usual = usual_case(names)
    keys = chat_columns(usual, str(path))
    rows = range(1, footer.num_rows + 1) if rows is None else rows
    columns = {name: names[usual.index(name)] for name in (*keys, *further_keys(keys)) if name in usual}
    entries = _parquet_rows(path, keys, columns, rows)
    return Chats(str(path), "parquet", [entries], len(rows))


def unpacked_size(path: Path, limit: int) -> int:
    """How many bytes the chats of a Parquet file fill when they are read, counted until a limit is passed.

    Compression makes a file smaller, and so does the dictionary of a column: a text that stands in many cells is
    stored once. The dictionaries are kept while the texts are counted, so counting does not fill the memory.

    Raises:
        InputError: the file is damaged.
    """
    import pyarrow
    from pyarrow import parquet

    with path.open("rb") as file:
        try:
            footer = parquet.read_metadata(file)
            groups = [footer.row_group(group) for group in range(footer.num_row_groups)]
            size = sum(group.total_byte_size for group in groups)
            texts = set()
            for place in range(footer.num_columns):
                column = footer.schema.column(place)
                # An offset or a number has four bytes, or more in a column of a fixed width.
                width = max(4, column.length or 0)
                size = max(size, width * sum(group.column(place).num_values for group in groups))
                if column.physical_type == "BYTE_ARRAY":
                    texts.add(column.path)
            counted = 0
            opened = parquet.ParquetFile(file, read_dictionary=sorted(texts))
            for batch in opened.iter_batches(batch_size=ROWS_AT_ONCE) if size <= limit else ():
                counted += sum(map(_text_bytes, batch.columns))
                if counted > limit:
                    break
        except (pyarrow.ArrowException, OSError, ValueError) as error:
            raise InputError(f"{path}: damaged ({first_line(error)})") from None
    return max(size, counted)


def _text_bytes(array: Any) -> int:
    """The bytes of the texts in an Arrow array of any type."""
    from pyarrow import compute, types

    if types.is_dictionary(array.type):
        return compute.sum(compute.binary_length(array.dictionary).take(array.indices)).as_py() or 0
    if types.is_struct(array.type):
        return sum(map(_text_bytes, array.flatten()))
    if types.is_map(array.type):
        return _text_bytes(array.keys) + _text_bytes(array.items)
    if types.is_list(array.type) or types.is_large_list(array.type) or types.is_fixed_size_list(array.type):
        return _text_bytes(array.flatten())
    if types.is_string(array.type) or types.is_large_string(array.type) or types.is_binary(array.type):
        return compute.sum(compute.binary_length(array)).as_py() or 0
    return 0


def _parquet_rows(path: Path, keys: tuple[str, ...], columns: dict[str, str], rows: range) -> Iterator[Entry]:
    """The entries; ``columns`` are the ones that are read: usual name -> name in the file."""
    import pyarrow
    from pyarrow import parquet

    number = end = total = 0
    ends = [0]  # of the row groups
    with path.open("rb") as file:
        try:
            opened = parquet.ParquetFile(file)
            total, footer = opened.metadata.num_rows, opened.metadata
            ends += accumulate(footer.row_group(group).num_rows for group in range(footer.num_row_groups))
            groups = [
                group for group, stop in enumerate(ends[1:]) if ends[group] < rows.stop - 1 and stop >= rows.start
            ]
            number, end = (ends[groups[0]], ends[groups[-1] + 1]) if groups else (0, 0)
            for batch in opened.iter_batches(batch_size=ROWS_AT_ONCE, row_groups=groups, columns=[*columns.values()]):
                first, number = number + 1, number + batch.num_rows
                for row_number in range(max(first, rows.start), min(number + 1, rows.stop)):
                    row = {name: batch[own][row_number - first] for name, own in columns.items()}
                    yield make_entry(row_number, row_number, partial(_from_scalars, keys), row)
        except (pyarrow.ArrowException, OSError, ValueError) as error:
            raise InputError(f"{path}: damaged after row {number} ({first_line(error)})") from None
    if number != end or ends[-1] != total:  # pyarrow reads some damaged files without an error
        raise InputError(f"{path}: damaged; its footer says {total:,} rows, and {number:,} can be read")


def _from_scalars(keys: tuple[str, ...], row: dict[str, Any]) -> NamedChat:
    return chat_from_row(keys, {name: _to_python(name, scalar) for name, scalar in row.items()})


def _to_python(name: str, scalar: Any) -> Any:
    try:
        return scalar.as_py()
    except UnicodeDecodeError:
        raise InputError(f"{name}: text that is not in UTF-8") from None
    except UNREADABLE as error:
        raise InputError(f"{name}: a {scalar.type} that Python cannot hold ({error})") from None
