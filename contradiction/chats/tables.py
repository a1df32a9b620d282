"""Chats in tables: CSV and TSV with the ``csv`` module, Parquet with pyarrow, both read row by row.

A bad row is rejected with its number, and the rest is read. The CSV readers of pandas and pyarrow stop at a bad row or
lose its number.
"""

import csv
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from contradiction.chats.entries import UNREADABLE, Chats, Entry, make_entry
from contradiction.chats.formats import (
    DELIMITERS,
    ID,
    NOT_UTF8,
    NamedChat,
    chat_columns,
    chat_from_row,
    chat_keys,
    hint_at_format,
)
from contradiction.errors import InputError, first_line

MAX_CELL = (
    1 << 24
)  # characters: longer than any chat, and short enough that an open quote does not swallow a large file
# What csv says of an open quote: at the end of the file, of a long file, and where a quote of a later line "closes" it.
UNCLOSED = ("unexpected end of data", "field larger than field limit", "expected after")
ROWS_AT_ONCE = 1024  # rows of Parquet in memory


def read_csv(file: Iterable[bytes], where: str, format: str) -> Iterator[Entry]:
    """The entries of CSV or TSV, whose first row names the columns.

    Args:
        file: its lines.
        where: its name in error messages.
        format: ``csv`` or ``tsv``.

    Raises:
        InputError: there is no header, or no chat in the columns.
    """
    csv.field_size_limit(MAX_CELL)
    delimiter = DELIMITERS[format]
    rows = _csv_rows(file, where, delimiter)
    first_line, header, _ = next(rows, ("", None, 0))
    if not isinstance(header, list):
        raise InputError(f"{where}: no {format.upper()} with a header; its first row must name the columns")
    header = [name.strip() for name in header]
    if chat_keys(header) is None and (hint := hint_at_format(first_line, read_with=delimiter)):
        raise InputError(f"{where}: {hint}")
    keys = chat_columns(header, where)
    for number, (raw, cells, end) in enumerate(rows, 1):
        yield make_entry(number, end, partial(_from_cells, header, keys, cells), raw)


def _csv_rows(file: Iterable[bytes], where: str, delimiter: str) -> Iterator[tuple[str, list[str] | InputError, int]]:
    """The text of each row, its cells (or why there are none), and where it ends in bytes.

    A quote that is never closed would take the rest of the file into one row. Only the line that it stands in is then
    rejected, and the lines after it are read again.
    """
    unread: Iterator[tuple[int, bytes]] = enumerate(file, 1)
    row_lines: list[tuple[int, bytes]] = []
    end = 0

    def lines(source: Iterable[tuple[int, bytes]]) -> Iterator[str]:
        for number, line in source:
            row_lines.append((number, line))
            try:
                yield _decode(line, number)
            except UnicodeDecodeError:
                raise InputError(f"{where}:{number}: {NOT_UTF8}") from None

    reader = csv.reader(lines(unread), delimiter=delimiter, strict=True)
    while True:
        row_lines.clear()
        try:
            cells: list[str] | InputError = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            cells = InputError(f"not a row of cells ({error})")
            if len(row_lines) > 1 and any(message in str(error) for message in UNCLOSED):
                cells = InputError("a quote that is not closed; only this line is rejected")
                unread = chain(row_lines[1:], unread)
                del row_lines[1:]
                reader = csv.reader(lines(unread), delimiter=delimiter, strict=True)
        end += sum(len(line) for _, line in row_lines)
        if cells:
            yield "".join(_decode(line, number) for number, line in row_lines).rstrip("\r\n"), cells, end


def _decode(line: bytes, number: int) -> str:
    return line.decode("utf-8-sig" if number == 1 else "utf-8")


def _from_cells(header: list[str], keys: tuple[str, ...], cells: list[str] | InputError, _: object) -> NamedChat:
    if isinstance(cells, InputError):
        raise cells
    if len(cells) != len(header):
        raise InputError(f"{len(cells)} cells; the header names {len(header)} columns")
    return chat_from_row(keys, dict(zip(header, cells, strict=True)))


def open_parquet(path: Path) -> Chats:
    """The chats of a Parquet file.

    Raises:
        InputError: it is no Parquet file, or there is no chat in the columns.
    """
    import pyarrow
    from pyarrow import parquet

    with path.open("rb") as file:
        try:
            opened = parquet.ParquetFile(file)
            names, rows = opened.schema_arrow.names, opened.metadata.num_rows
        except (pyarrow.ArrowException, OSError, ValueError) as error:  # pyarrow raises any of them
            raise InputError(f"{path}: no Parquet file ({first_line(error)})") from None
    keys = chat_columns(names, str(path))
    return Chats(str(path), "parquet", [_parquet_rows(path, keys, [*keys, *({ID} & set(names))], rows)], rows)


def _parquet_rows(path: Path, keys: tuple[str, ...], columns: list[str], rows: int) -> Iterator[Entry]:
    import pyarrow
    from pyarrow import parquet

    number = 0
    with path.open("rb") as file:
        try:
            for batch in parquet.ParquetFile(file).iter_batches(batch_size=ROWS_AT_ONCE, columns=columns):
                for index in range(batch.num_rows):
                    number += 1
                    row = {name: batch[name][index] for name in columns}
                    yield make_entry(number, number, partial(_from_scalars, keys), row)
        except (pyarrow.ArrowException, OSError, ValueError) as error:
            raise InputError(f"{path}: damaged after row {number} ({first_line(error)})") from None
    if number != rows:  # pyarrow reads some damaged files without an error
        raise InputError(f"{path}: damaged; its footer says {rows:,} rows, and {number:,} can be read")


def _from_scalars(keys: tuple[str, ...], row: dict[str, Any]) -> NamedChat:
    return chat_from_row(keys, {name: _to_python(name, scalar) for name, scalar in row.items()})


def _to_python(name: str, scalar: Any) -> Any:
    try:
        return scalar.as_py()
    except UnicodeDecodeError:
        raise InputError(f"{name}: text that is not in UTF-8") from None
    except UNREADABLE as error:
        raise InputError(f"{name}: a {scalar.type} that Python cannot hold ({error})") from None
