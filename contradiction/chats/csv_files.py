"""CSV and TSV whose first row names the columns: a chat in each row, or a message in each row."""

import csv
from collections import deque
from collections.abc import Iterable, Iterator
from functools import partial

from contradiction.chats.columns import (
    DELIMITERS,
    chat_columns,
    chat_keys,
    hint_at_format,
    message_columns,
    usual_case,
)
from contradiction.chats.formats import NOT_UTF8, Entry, NamedChat, chat_from_row, make_entry
from contradiction.chats.message_rows import Row, cells_by_name, group_messages
from contradiction.errors import InputError

# Characters: longer than any chat, and short enough that an open quote does not swallow a large file.
MAX_CELL = 1 << 24
# The errors of csv for an open quote: at the end of the file, of a long file, and where a later quote "closes" it.
UNCLOSED = ("unexpected end of data", "field larger than field limit", "expected after")
NOT_CLOSED = "a quote that is not closed; only this line is rejected"


def read_csv(file: Iterable[bytes], where: str, format: str) -> Iterator[Entry]:
    """The entries of CSV or TSV.

    Args:
        file: its lines.
        where: its name in error messages.
        format: ``csv`` or ``tsv``.

    Raises:
        InputError: there is no header, or no chat in the columns.
    """
    csv.field_size_limit(max(MAX_CELL, csv.field_size_limit()))  # of the process, so it is never lowered
    delimiter = DELIMITERS[format]
    rows = _csv_rows(file, where, delimiter)
    first_line, header, _ = next(rows, ("", None, 0))
    if not isinstance(header, list):
        raise InputError(f"{where}: no {format.upper()} with a header; its first row must name the columns")
    header = [name.strip() for name in header]
    if columns := message_columns(header, where):
        yield from group_messages(rows, header, columns, where)
        return
    header = usual_case(header)
    if chat_keys(header) is None and (hint := hint_at_format(first_line, read_with=delimiter)):
        raise InputError(f"{where}: {hint}")
    keys = chat_columns(header, where)
    for number, (raw, cells, end) in enumerate(rows, 1):
        yield make_entry(number, end, partial(_from_cells, header, keys, cells), raw)


def _csv_rows(file: Iterable[bytes], where: str, delimiter: str) -> Iterator[Row]:
    """The text of each row, its cells (or why there are none), and where it ends in bytes.

    A quote that is never closed would take the rest of the file into one row. Only the line that it stands in is then
    rejected, and the lines after it are read again, each only once: a quote that is open at the end of one of them is
    not closed either.
    """
    numbered = enumerate(file, 1)
    again: deque[tuple[int, bytes]] = deque()  # lines that are read again, before further ones of the file
    row_lines: list[tuple[int, bytes]] = []
    unclosed = end = 0  # in lines before this one, a quote that is open at the end is never closed

    def lines() -> Iterator[str]:
        while line := again.popleft() if again else next(numbered, None):
            row_lines.append(line)
            try:
                yield _decode(line[1], line[0])
            except UnicodeDecodeError:
                raise InputError(f"{where}:{line[0]}: {NOT_UTF8}") from None
            if row_lines and row_lines[-1][0] < unclosed:
                raise csv.Error(NOT_CLOSED)

    reader = csv.reader(lines(), delimiter=delimiter, strict=True)
    while True:
        row_lines.clear()
        try:
            cells: list[str] | InputError = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            cells, reason = InputError(f"not a row of cells ({error})"), str(error)
            if reason == NOT_CLOSED or (len(row_lines) > 1 and any(phrase in reason for phrase in UNCLOSED)):
                cells = InputError(NOT_CLOSED)
                unclosed = max(unclosed, row_lines[-1][0])
                again.extendleft(reversed(row_lines[1:]))
                del row_lines[1:]
                reader = csv.reader(lines(), delimiter=delimiter, strict=True)
        end += sum(len(line) for _, line in row_lines)
        if cells:
            yield "".join(_decode(line, number) for number, line in row_lines).rstrip("\r\n"), cells, end


def _decode(line: bytes, number: int) -> str:
    return line.decode("utf-8-sig" if number == 1 else "utf-8")


def _from_cells(header: list[str], keys: tuple[str, ...], cells: list[str] | InputError, _: object) -> NamedChat:
    return chat_from_row(keys, cells_by_name(header, cells))
