"""CSV and TSV whose first row names the columns: a chat in each row, or a message in each row."""

import csv
from collections import deque
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from contradiction.chats.columns import (
    DELIMITERS,
    ID,
    MessageColumns,
    chat_columns,
    chat_keys,
    hint_at_format,
    message_columns,
    usual_case,
)
from contradiction.chats.encodings import decode
from contradiction.chats.formats import Entry, NamedChat, chat_from_row, make_entry
from contradiction.chats.speakers import CELL_ROLES, SPEAKERS
from contradiction.errors import InputError, shown

# A row of a file: its text, its cells or why there are none, and where it ends in bytes.
Row = tuple[str, list[str] | InputError, int]
Message = dict[str, Any]  # of a row: the number of the row, the role as it is written, and the text

# Characters: longer than any chat, and short enough that an open quote does not swallow a large file.
MAX_CELL = 1 << 24
# The errors of csv for an open quote: at the end of the file, of a long file, and where a later quote "closes" it.
UNCLOSED = ("unexpected end of data", "field larger than field limit", "expected after")
NOT_CLOSED = "a quote that is not closed; only this line is rejected"


def read_csv(file: Iterable[bytes], where: str, format: str) -> Iterator[Entry]:
    """The entries of the lines of CSV or TSV.

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
        yield from _group_messages(rows, header, columns, where)
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

    def text_of(number: int, line: bytes) -> str:
        return decode(line, f"{where}:{number}", number == 1)

    def lines() -> Iterator[str]:
        while line := again.popleft() if again else next(numbered, None):
            row_lines.append(line)
            yield text_of(*line)
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
            yield "".join(text_of(*line) for line in row_lines).rstrip("\r\n"), cells, end


def _from_cells(header: list[str], keys: tuple[str, ...], cells: list[str] | InputError, _: object) -> NamedChat:
    return chat_from_row(keys, _cells_by_name(header, cells))


def _group_messages(rows: Iterable[Row], header: list[str], columns: MessageColumns, where: str) -> Iterator[Entry]:
    """The chats of the rows, in the order in which they begin.

    The rows of a chat need not follow one another, so all rows are read before the first chat is complete. The number
    of a chat is that of its first row. A row that cannot be read is an entry of its own.

    Raises:
        InputError: the chats are named by ``id``, and no two rows have the same one.
    """
    chats: dict[str, list[Message]] = {}
    unreadable: list[tuple[int, InputError, str]] = []
    size = 0
    for number, (raw, cells, end) in enumerate(rows, 1):
        size = end
        try:
            row = _cells_by_name(header, cells)
            if not (name := row[columns.chat].strip()):
                raise InputError(f"{columns.chat} is empty; it must say which chat the row belongs to")
        except InputError as error:
            unreadable.append((number, InputError(f"{error}; its chat is judged without this row"), raw))
            continue
        message = {"row": number, "role": row[columns.role], "content": row[columns.content]}
        chats.setdefault(name, []).append(message)
    if columns.chat.lower() == ID and len(chats) > 1 and all(len(messages) == 1 for messages in chats.values()):
        raise InputError(
            f"{where}: each row has an {columns.chat} of its own, so it names the message; a column session_id must "
            "say which chat the row belongs to"
        )
    named = [(messages[0]["row"], partial(_chat, name, columns.role), messages) for name, messages in chats.items()]
    refused = [(number, partial(_refuse, error), raw) for number, error, raw in unreadable]
    entries: list[tuple[int, Any, Any]] = sorted([*named, *refused], key=lambda entry: entry[0])
    for done, (number, read, source) in enumerate(entries, 1):
        # All bytes are read by now. The chats share them evenly, so that a progress bar shows how many are judged.
        yield make_entry(number, size * done // len(entries), read, source)


def _cells_by_name(header: list[str], cells: list[str] | InputError) -> dict[str, str]:
    """Name of the column -> cell; raises InputError if there are too many cells, too few, or none."""
    if isinstance(cells, InputError):
        raise cells
    if len(cells) != len(header):
        raise InputError(f"{len(cells)} cells; the header names {len(header)} columns")
    return dict(zip(header, cells, strict=True))


def _chat(name: str, role_column: str, messages: list[Message]) -> NamedChat:
    read = []
    for message in messages:
        role = CELL_ROLES.get(message["role"].strip().lower())
        if role is None:
            raise InputError(
                f"{role_column} {shown(message['role'])} in data row {message['row']}; it must be {SPEAKERS}, or system"
            )
        read.append({"role": role, "content": message["content"]})
    return read, name


def _refuse(error: InputError, _: object) -> NamedChat:
    raise error
