"""Tables with named columns: a chat in each row, a message in each row, or a turn in each row."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any

from contradiction.chats import names
from contradiction.chats.chunks import Chats, Entry, check_id, make_entries
from contradiction.chats.formats import Cells, Row, Values, parsed
from contradiction.chats.messages import has_speakers, order, read_messages
from contradiction.chats.names import Speakers
from contradiction.chats.records import CHAT, Chat, read_record
from contradiction.conversation import ASSISTANT, USER, check_text
from contradiction.errors import InputError


@dataclass(frozen=True)
class Columns:
    """The columns of a table with a message or a turn in each row.

    Attributes:
        chat: says to which chat the row belongs.
        speaker: says who speaks; None in a table with a turn in each row.
        texts: what is said: one column, or in a table of turns that of the user and that of the bot.
        times: the columns with the time; empty if there are none.
        label: the column with the label of the reply, if there is one.
        unread: columns that may hold replies, which must be empty.
        of_json: whether rows are objects of JSON, whose further keys belong to the message, such as calls of tools.
    """

    chat: str
    speaker: str | None
    texts: tuple[str, ...]
    times: tuple[str, ...]
    label: str | None
    unread: tuple[str, ...] = ()
    of_json: bool = False

    @property
    def read(self) -> set[str]:
        """All columns that are read, or looked into."""
        return {self.chat, *self.texts, *self.times, *self.unread, *filter(None, (self.speaker, self.label))}

    def of(self, keys: Sequence[str]) -> "Columns":
        """The same columns where objects of JSON have these keys, of which the first object may have only some."""
        others = [key for key in keys if key not in (self.chat, self.speaker, *self.texts)]
        more = names.ANSWERS if self.speaker else (*names.MESSAGES, names.HISTORY, *names.QUESTIONS, *names.ANSWERS)
        unread = tuple(key for key in others if names.first([key], more) or names.could_answer(key))
        return replace(self, times=_time_columns(others), label=names.first(keys, [names.LABEL]), unread=unread)

    def said(self, row: Values) -> list[dict[str, Any]]:
        """The messages of a row."""
        if self.speaker is None:
            texts = ["" if row.get(name, "") is None else check_text(row.get(name), name) for name in self.texts]
            sides = zip((USER, ASSISTANT), texts, strict=True)
            return [{"role": role, "content": text} for role, text in sides if text.strip()]
        others = {self.chat, *self.times, self.label}
        keys = [name for name in row if name not in others] if self.of_json else [self.speaker, *self.texts]
        return [{name: row[name] for name in keys}]


def read_cells(cells: Iterator[Cells], chats: Chats, speakers: Speakers) -> Iterator[Entry]:
    """The entries of a table whose first row is the header; see :func:`read_table`."""
    _, header, _ = next(cells, ("", None, 0))
    if not isinstance(header, list):
        raise InputError(f"{chats.where}: no {chats.format.upper()} with a header; its first row must name the columns")
    header = [name.strip() for name in header]

    def rows(_: Sequence[str]) -> Iterator[Row]:
        return ((number, raw, _by_name(header, row), end) for number, (raw, row, end) in enumerate(cells, 1))

    yield from read_table(header, rows, chats, speakers)


def read_table(
    header: Sequence[str],
    rows: Callable[[Sequence[str]], Iterator[Row]],
    chats: Chats,
    speakers: Speakers,
    *,
    one_by_one: bool = False,
) -> Iterator[Entry]:
    """The entries of a table. ``rows`` gives its rows with the values of at least the columns that it is called with.

    With ``one_by_one``, each row must hold a whole chat.

    Raises:
        InputError: there is no chat in the columns, or two columns have one name.
    """
    where = chats.where
    columns = columns_of(header, where)
    read = [*columns.read] if columns else names.read_among(header)
    for name in read:
        if (times := [*map(names.plain, header)].count(names.plain(name))) > 1:
            raise InputError(f"{where}: {times} columns are called {name}; rename all but one")
    if columns and one_by_one:
        raise InputError(f"{where}: each row is a message or a turn; with --engine ray it must be a whole chat")
    if columns:
        return grouped(rows(read), columns, chats, speakers)
    if names.holds_chats(header):
        return chain.from_iterable(
            make_entries(number, end, partial(_record, values, speakers), raw)
            for number, raw, values, end in rows(read)
        )
    raise InputError(
        f"{where}: the columns are: {names.list_names(header)}; a chat must be {CHAT}; or, with one message in each "
        f"row, the columns must be {names.CHATS[0]}, {names.SPEAKERS[0]} and {names.TEXTS[0]}"
    )


def columns_of(header: Sequence[str], where: str) -> Columns | None:
    """The columns of a table with one message or one turn in each row; None if it is another table.

    Raises:
        InputError: each row is a message, and no column says to which chat it belongs.
    """
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
                f"{where}: each row is a message, by the columns: {names.list_names(header)}; a column "
                f"{names.CHATS[0]} must say which chat the row belongs to"
            )
        unread = (name for name in header if name != text and (name == answer or names.could_answer(name)))
        return Columns(chat, speaker, (text,), times, label, tuple(unread))
    if session and asked and answer:
        return Columns(session, None, (asked, answer), times, label)
    return None


def message_keys(value: object) -> Columns | None:
    """The keys of an object of JSON that is a message or a turn of a chat which it names; None for any other value."""
    if not isinstance(value, Mapping) or names.first(value, (*names.CHATS, "id")) is None:
        return None
    columns = columns_of([*map(str, value)], "")
    if columns and names.first(value, names.QUESTIONS) and names.first(value, names.ANSWERS):
        texts = [parsed(value[name]) for name in columns.texts]  # JSON or a transcript would be a whole chat
        texts = [text for text in texts if text is not None]
        is_turn = all(isinstance(text, str) and not has_speakers(text, several=True) for text in texts)
        if columns.speaker or not is_turn:
            return None
    return replace(columns, of_json=True) if columns else None


def _time_columns(header: Sequence[str]) -> tuple[str, ...]:
    day, clock = names.first(header, ("date", "日期")), names.first(header, ("time", "时间"))
    both = (day, clock) if day and clock else (names.first(header, names.TIMES),)
    return tuple(name for name in both if name)


def _by_name(header: list[str], cells: list[str] | InputError) -> Values | InputError:
    """Column -> cell; or why there are none, for instance because there are too many cells."""
    if isinstance(cells, list) and len(cells) != len(header):
        return InputError(f"{len(cells)} cells; the header names {len(header)} columns")
    return dict(zip(header, cells, strict=True)) if isinstance(cells, list) else cells


def _record(values: Values | InputError, speakers: Speakers, _: object) -> list[Chat]:
    if isinstance(values, InputError):
        raise values
    return read_record(values, speakers)


def grouped(rows: Iterator[Row], columns: Columns, chats: Chats, speakers: Speakers) -> Iterator[Entry]:
    """The chats of rows with a message or a turn each, in the order in which they begin.

    The rows of a chat need not follow one another, so all rows are read before the first chat is complete. The number
    of a chat is that of its first row. A row that cannot be read is an entry of its own.

    Raises:
        InputError: the chats are named by ``id``, and no two rows have the same one.
    """
    groups: dict[str | float, list[tuple[int, Values]]] = {}
    entries: list[tuple[int, Any, Any]] = []
    size = 0
    for number, source, row, end in rows:
        size = end
        try:
            if isinstance(row, InputError):
                raise row
            groups.setdefault(_chat_of(row, columns), []).append((number, row))
        except InputError as error:
            refusal = InputError(f"{error}; its chat is judged without this row")
            entries.append((number, partial(_record, refusal, speakers), source))
    if columns.chat.lower() == "id" and len(groups) > 1 and all(len(group) == 1 for group in groups.values()):
        raise InputError(
            f"{chats.where}: each row has an {columns.chat} of its own, so it names the message; a column "
            f"{names.CHATS[0]} must say which chat the row belongs to"
        )
    if columns.of_json:
        columns = columns.of([*dict.fromkeys(key for group in groups.values() for _, row in group for key in row)])
    reordered = 0
    for name, group in groups.items():
        read = partial(_chat, name, columns, speakers, chats.key)
        times = [" ".join(_text(row.get(name)) for name in columns.times) for _, row in group]
        roles = [speakers.role_of(row.get(columns.speaker)) if columns.speaker else None for _, row in group]
        places = order(times, roles)
        reordered += places is not None
        entries.append((group[0][0], read, [group[place] for place in places] if places else group))
    if reordered:
        chats.notes.append(
            f"{chats.where}: rows that were not in the order of {' and '.join(columns.times)} were sorted, oldest "
            f"first (chats: {reordered:,})"
        )
    entries.sort(key=lambda entry: entry[0])
    for done, (number, read, source) in enumerate(entries, 1):
        # All bytes are read by now. The chats share them evenly, so that a progress bar shows how many are judged.
        yield from make_entries(number, size * done // len(entries), read, source)


def _chat_of(row: Values, columns: Columns) -> str | float:
    """The name of the chat to which a row belongs."""
    name = check_id(row.get(columns.chat), columns.chat)
    if name is None or not str(name).strip():
        raise InputError(f"{columns.chat} is empty; it must say which chat the row belongs to")
    return name.strip() if isinstance(name, str) else name


def _chat(
    name: str | float, columns: Columns, speakers: Speakers, unit: str, rows: list[tuple[int, Values]]
) -> list[Chat]:
    """The chat of a group of rows, in their order; ``unit`` is what their numbers count."""
    messages: list[Any] = []
    speakers.check_one_bot(row.get(columns.speaker) for _, row in rows if columns.speaker)
    for number, row in rows:
        if full := next((column for column in columns.unread if _text(row.get(column)).strip()), None):
            read = " and ".join(columns.texts)
            raise InputError(f"{full} in {unit} {number} may hold what was said, but {read} is read; keep one of them")
        try:
            messages += read_messages(columns.said(row), speakers)
        except InputError as error:
            reason = str(error).partition(f"{columns.speaker} ")[2] or str(error)
            column = f"{columns.speaker} in " if columns.speaker else ""
            raise InputError(f"{column}{unit} {number}: {reason}") from None
    label = rows[-1][1].get(columns.label) if columns.label else None
    return [Chat(messages, name, label=label or None)]


def _text(value: Any) -> str:
    return "" if value is None else str(value)
