"""Tables whose first row names the columns: a chat in each row, a message in each row, or a turn in each row."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from contradiction.chats import names
from contradiction.chats.entries import Chats, Entry, make_entries
from contradiction.chats.messages import read_messages
from contradiction.chats.records import CHAT, Chat, read_record
from contradiction.chats.speakers import USUAL, Speakers
from contradiction.chats.times import order
from contradiction.conversation import ASSISTANT, USER
from contradiction.errors import InputError

# A row of a file: its text, its cells or why there are none, and where it ends.
Row = tuple[str, list[str] | InputError, int]


@dataclass(frozen=True)
class _Columns:
    """The columns of a table with a message or a turn in each row.

    Attributes:
        chat: says to which chat the row belongs.
        speaker: says who speaks; None in a table with a turn in each row.
        texts: pairs of who speaks, which is the column ``speaker`` or a role, and the column of the text.
        times: the columns with the time; empty if there are none.
        label: the column with the label of the reply, if there is one.
        unread: columns that may hold replies, which must be empty.
    """

    chat: str
    speaker: str | None
    texts: tuple[tuple[str, str], ...]
    times: tuple[str, ...]
    label: str | None
    unread: tuple[str, ...] = ()

    @property
    def read(self) -> set[str]:
        """All columns that are read."""
        texts = (text for _, text in self.texts)
        return {self.chat, *texts, *self.times, *filter(None, (self.speaker, self.label))}


def read_table(rows: Iterator[Row], chats: Chats, speakers: Speakers = USUAL) -> Iterator[Entry]:
    """The entries of the rows of a table, of which the first is the header.

    Raises:
        InputError: there is no header, no chat in the columns, or two columns have one name.
    """
    where = chats.where
    _, header, _ = next(rows, ("", None, 0))
    if not isinstance(header, list):
        raise InputError(f"{where}: no {chats.format.upper()} with a header; its first row must name the columns")
    header = [name.strip() for name in header]
    columns = _columns(header, where)
    for name in columns.read if columns else names.read_among(header):
        if (times := [*map(names.plain, header)].count(names.plain(name))) > 1:
            raise InputError(f"{where}: {times} columns are called {name}; rename all but one")
    if columns:
        yield from _grouped(rows, header, columns, chats, speakers)
    elif names.holds_chats(header):
        for number, (raw, cells, end) in enumerate(rows, 1):
            yield from make_entries(number, end, partial(_from_cells, header, cells, speakers), raw)
    else:
        raise InputError(
            f"{where}: it has {names.list_names(header, 'column')}; a chat must be {CHAT}; or, with one message in "
            f"each row, the columns must be {names.CHATS[0]}, {names.SPEAKERS[0]} and {names.TEXTS[0]}"
        )


def _columns(header: Sequence[str], where: str) -> _Columns | None:
    """The columns of a table with one message or one turn in each row; None if it is another table."""
    speaker, text = names.first(header, names.SPEAKERS), names.first(header, names.TEXTS)
    asked, answer = names.first(header, names.QUESTIONS), names.first(header, names.ANSWERS)
    session = names.first(header, names.CHATS)
    chat = session or names.first(header, ["id"])
    whole = names.first([name for name in header if name not in (chat, text)], (*names.MESSAGES, names.HISTORY))
    if whole or names.has_turns(header):
        return None
    times = _time_columns([name for name in header if name not in (chat, text, asked, answer)])
    label = names.first(header, [names.LABEL])
    if speaker and text:
        if chat is None and asked and answer:
            return None
        if chat is None:
            raise InputError(
                f"{where}: it has {names.list_names(header, 'column')}, so each row is a message; a column "
                f"{names.CHATS[0]} must say which chat the row belongs to"
            )
        unread = (name for name in header if name != text and (name == answer or names.could_answer(name)))
        return _Columns(chat, speaker, ((speaker, text),), times, label, tuple(unread))
    if session and asked and answer:
        return _Columns(session, None, ((USER, asked), (ASSISTANT, answer)), times, label)
    return None


def _time_columns(header: Sequence[str]) -> tuple[str, ...]:
    day, clock = names.first(header, ("date", "日期")), names.first(header, ("time", "时间"))
    both = (day, clock) if day and clock else (names.first(header, names.TIMES),)
    return tuple(name for name in both if name)


def _from_cells(header: list[str], cells: list[str] | InputError, speakers: Speakers, _: object) -> list[Chat]:
    return read_record(_cells_by_name(header, cells), speakers)


def _grouped(
    rows: Iterable[Row], header: list[str], columns: _Columns, chats: Chats, speakers: Speakers
) -> Iterator[Entry]:
    """The chats of the rows, in the order in which they begin.

    The rows of a chat need not follow one another, so all rows are read before the first chat is complete. The number
    of a chat is that of its first row. A row that cannot be read is an entry of its own.

    Raises:
        InputError: the chats are named by ``id``, and no two rows have the same one.
    """
    groups: dict[str, list[tuple[int, dict[str, str]]]] = {}
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
        groups.setdefault(name, []).append((number, row))
    if columns.chat.lower() == "id" and len(groups) > 1 and all(len(group) == 1 for group in groups.values()):
        raise InputError(
            f"{chats.where}: each row has an {columns.chat} of its own, so it names the message; a column "
            f"{names.CHATS[0]} must say which chat the row belongs to"
        )
    entries: list[tuple[int, Any, Any]] = [(number, partial(_refuse, error), raw) for number, error, raw in unreadable]
    reordered = 0
    for name, group in groups.items():
        sources = [(row["row"], row) for row in _messages(group, columns)]
        places = order([row["time"] for _, row in sources], [speakers.role_of(row["role"]) for _, row in sources])
        reordered += places is not None
        ordered = [sources[place][1] for place in places] if places else [row for _, row in sources]
        entries.append((group[0][0], partial(_chat, name, columns.speaker, speakers), ordered))
    if reordered:
        chats.notes.append(
            f"{chats.where}: rows that were not in the order of {' and '.join(columns.times)} were sorted, oldest "
            f"first (chats: {reordered:,})"
        )
    entries.sort(key=lambda entry: entry[0])
    for done, (number, read, source) in enumerate(entries, 1):
        # All bytes are read by now. The chats share them evenly, so that a progress bar shows how many are judged.
        yield from make_entries(number, size * done // len(entries), read, source)


def _messages(group: Sequence[tuple[int, dict[str, str]]], columns: _Columns) -> Iterator[dict[str, Any]]:
    """The messages of a chat: the number of the row, who speaks, the text, and the time."""
    for number, row in group:
        time = " ".join(row[name] for name in columns.times)
        for speaker, text in columns.texts:
            role = row[speaker].strip() if columns.speaker else speaker
            if columns.speaker or row[text].strip():
                label = row[columns.label] or None if columns.label else None
                unread = next((name for name in columns.unread if row[name].strip()), None)
                yield {
                    "row": number,
                    "role": role,
                    "content": row[text],
                    "time": time,
                    "label": label,
                    "unread": unread,
                }


def _cells_by_name(header: list[str], cells: list[str] | InputError) -> dict[str, str]:
    """Name of the column -> cell; raises InputError if there are too many cells, too few, or none."""
    if isinstance(cells, InputError):
        raise cells
    if len(cells) != len(header):
        raise InputError(f"{len(cells)} cells; the header names {len(header)} columns")
    return dict(zip(header, cells, strict=True))


def _chat(name: str, speaker: str | None, speakers: Speakers, rows: list[dict[str, Any]]) -> list[Chat]:
    messages = []
    speakers.check_one_bot(row["role"] for row in rows)
    for row in rows:
        if row["unread"]:
            raise InputError(f"{row['unread']} in data row {row['row']} may hold a reply, and is not read; remove it")
        try:
            messages += read_messages([{"role": row["role"], "content": row["content"]}], speakers)
        except InputError as error:
            reason = str(error).partition("role ")[2]
            raise InputError(f"{speaker} in data row {row['row']}: {reason}") from None
    return [Chat(messages, name, label=rows[-1]["label"] if rows else None)]


def _refuse(error: InputError, _: object) -> list[Chat]:
    raise error
