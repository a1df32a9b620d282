"""Tables with one message in each row: the rows are grouped into chats."""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from contradiction.chats.columns import ID, MessageColumns
from contradiction.chats.formats import Entry, NamedChat, make_entry
from contradiction.chats.speakers import CELL_ROLES, SPEAKERS
from contradiction.errors import InputError, shown

# A row of a file: its text, its cells or why there are none, and where it ends in bytes.
Row = tuple[str, list[str] | InputError, int]
Message = dict[str, Any]  # of a row: the number of the row, the role as it is written, and the text


def group_messages(rows: Iterable[Row], header: list[str], columns: MessageColumns, where: str) -> Iterator[Entry]:
    """The chats of the rows, in the order in which they begin.

    The rows of a chat need not follow one another, so all rows are read before the first chat is complete. The number
    of a chat is that of its first row. A row that cannot be read is an entry of its own.

    Args:
        rows: the rows after the header.
        header: the names of all columns.
        columns: the columns that are read.
        where: the name of the table in error messages.

    Raises:
        InputError: the chats are named by ``id``, and no two rows have the same one.
    """
    chats: dict[str, list[Message]] = {}
    unreadable: list[tuple[int, InputError, str]] = []
    size = 0
    for number, (raw, cells, end) in enumerate(rows, 1):
        size = end
        try:
            row = cells_by_name(header, cells)
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


def cells_by_name(header: list[str], cells: list[str] | InputError) -> dict[str, str]:
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
                f"row {message['row']}: {role_column} {shown(message['role'])}; it must be {SPEAKERS}, or system"
            )
        read.append({"role": role, "content": message["content"]})
    return read, name


def _refuse(error: InputError, _: object) -> NamedChat:
    raise error
