"""The chats of an input, and their verdicts: chunk by chunk, in the order of the input, and as JSON objects."""

import json
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import Any

from contradiction.chats import names
from contradiction.chats.records import Chat
from contradiction.conversation import Messages, read_chats
from contradiction.detector import ContradictionDetector
from contradiction.errors import InputError, kind_of
from contradiction.inference.base import OnBatch
from contradiction.inputs.views import MAX_TURNS
from contradiction.labels import is_contradiction
from contradiction.verdict import Verdict, is_unchecked

MAX_RAW = 2000  # characters of a rejected input that are kept
# Windows in a chunk: enough for batches of inputs of similar length, few enough that a slow model shows results and a
# killed run loses little.
CHUNK_WINDOWS = 1024


@dataclass(frozen=True)
class Entry:
    """One input.

    Attributes:
        number: the number of its line or row, from 1; of its first one if a chat has several.
        end: how much of the file is read after this input, in the unit of ``Chats.total``.
        messages: the chat; empty if the input is rejected.
        turns: the number of turns of the chat.
        id: the id that the input gives the chat; None if it gives none.
        error: why the input is rejected; None if it is not.
        raw: the beginning of the text of a rejected input; else empty.
        label: the label that the input gives to the last reply, unchecked.
        evidence: the index of the contradicted message, unchecked.
        instructions: those for the bot that the input has beside the messages.
    """

    number: int
    end: int
    messages: Messages = ()
    turns: int = 0
    id: str | float | None = None
    error: str | None = None
    raw: str = ""
    label: Any = None
    evidence: Any = None
    instructions: str = ""

    @property
    def name(self) -> str:
        """The id of the chat, or its number if it has none; invalid Unicode is escaped."""
        return str(self.number if self.id is None else self.id).encode("utf-8", "backslashreplace").decode("utf-8")


@dataclass(frozen=True)
class Chats:
    """An input of chats.

    Attributes:
        where: its name in messages.
        format: a value of ``readers.FORMATS``.
        arrivals: groups of entries. The entries of a group can be read without waiting. A file is one group.
        total: its length in bytes or rows; None if it is unknown.
        in_bytes: whether ``total`` counts bytes.
        notes: what a user should know about how the input was read; complete when all entries are read.
    """

    where: str
    format: str
    arrivals: Iterable[Iterable[Entry]]
    total: int | None = None
    in_bytes: bool = False
    notes: list[str] = field(default_factory=list)

    @property
    def key(self) -> str:
        """What the numbers of the entries count: ``line`` or ``row``."""
        return "line" if self.format in ("jsonl", "text") else "row"

    def __iter__(self) -> Iterator[Entry]:
        return (entry for group in self.arrivals for entry in group)

    def place(self, number: int) -> str:
        """An entry in messages: ``FILE:3`` is a line of the file, and ``FILE: row 2`` the second row below a header."""
        return f"{self.where}:{number}" if self.key == "line" else f"{self.where}: row {number}"


def make_entries(number: int, end: int, read: Callable[[Any], list[Chat]], source: Any) -> Iterator[Entry]:
    """Reads one input, for instance a line, by a function that returns its chats, or raises InputError."""
    try:
        chats = read(source)
        for chat, turns in zip(chats, read_chats(chat.messages for chat in chats), strict=True):
            name = check_id(chat.id, "its id")
            if chat.answer:
                name = f"{number if name is None else name}/{chat.answer}"
            yield Entry(
                number, end, chat.messages, len(turns), name,
                label=chat.label, evidence=chat.evidence, instructions=chat.instructions,
            )  # fmt: skip
    except InputError as error:
        yield Entry(number, end, error=str(error), raw=_raw(source))
    except RecursionError:
        yield Entry(number, end, error="nested too deeply", raw=_raw(source))


def check_id(name: Any, what: str) -> str | float | None:
    """An id, or None where there is none; raises InputError, which begins with ``what`` it is, for any other value."""
    if name is None or name == "" or name != name:  # NaN is what pandas writes where there is none
        return None
    if isinstance(name, bytes | list | dict | tuple):
        raise InputError(f"{what} is {kind_of(name)}; it must be text or a number")
    if isinstance(name, str | int) or (isinstance(name, float) and math.isfinite(name)):
        return name
    return str(name)  # JSON has no type for it, for instance for a date


def _raw(source: Any) -> str:
    """The beginning of a rejected input as text."""
    if isinstance(source, bytes):
        source = source.decode("utf-8", "replace").rstrip("\r\n")
    elif not isinstance(source, str):
        try:
            source = json.dumps(source, ensure_ascii=False, default=str)
        except RecursionError:
            source = ""
    return source if len(source) <= MAX_RAW else f"{source[:MAX_RAW]}…"


Record = dict[str, Any]
# Called with the entries of a chunk before it is judged; returns the ``on_batch`` for it.
OnChunk = Callable[[list[Entry]], OnBatch | None]


@dataclass(frozen=True)
class JudgedChunk:
    """A chunk of the input and its verdicts.

    Attributes:
        entries: the entries of the chunk, in the order of the input.
        verdicts: the verdicts on each usable entry.
        records: a JSON object for each usable entry: its number as ``line`` or ``row``, its ``id`` if it has one, then
            the fields of the verdict with rounded probabilities; or ``verdicts``, one for each reply.
        rejected: a JSON object for each other entry: its number, ``error``, and ``input``, the beginning of its text.
    """

    entries: list[Entry]
    verdicts: list[list[Verdict]]
    records: list[Record]
    rejected: list[Record]


@dataclass
class Tally:
    """Counts of chats and verdicts.

    Attributes:
        chats: usable chats.
        verdicts: verdicts on them, including those without a label.
        judged: verdicts with a label.
        contradictions: verdicts that call a contradiction.
        in_part: those of them on replies of which not all text was read.
        checked: verdicts on which all text was read.
        unchecked: the other verdicts, except those on opening replies; see ``contradiction.verdict.is_unchecked``.
        rejected: inputs that hold no usable chat.
        silent: scanned chats without a reply.
    """

    chats: int = 0
    verdicts: int = 0
    judged: int = 0
    contradictions: int = 0
    in_part: int = 0
    checked: int = 0
    unchecked: int = 0
    rejected: int = 0
    silent: int = 0

    def add(self, records: Iterable[Mapping[str, Any]], rejected: int = 0) -> None:
        """Counts records of :func:`judge_chunk`, also of an earlier run."""
        self.rejected += rejected
        for record in records:
            self.chats += 1
            verdicts = record.get("verdicts", [record])
            self.verdicts += len(verdicts)
            self.silent += not verdicts
            for verdict in verdicts:
                self.judged += verdict["label"] is not None
                called = verdict["label"] is not None and is_contradiction(verdict["label"])
                self.contradictions += called
                self.in_part += called and not verdict["checked"]
                self.checked += verdict["checked"]
                self.unchecked += is_unchecked(verdict["checked"], verdict["reason"], len(verdicts))

    def __str__(self) -> str:
        openings = self.verdicts - self.checked - self.unchecked
        silent = f"{_count(self.silent, 'chat')} without a reply; " if self.silent else ""
        # What the user asked for comes first, then on how much of the input it rests.
        return (
            f"{_count(self.chats, 'chat')}, {_count(self.verdicts, 'verdict')}: "
            f"{_count(self.contradictions, 'contradiction')}"
            f"{f' ({self.in_part:,} of them read in part)' if self.in_part else ''}; {self.checked:,} checked, "
            f"{f'{openings:,} on opening replies, ' if openings else ''}{self.unchecked:,} unchecked "
            f"({self.verdicts - self.judged - openings:,} without a label); "
            f"{silent}{_count(self.rejected, 'input')} rejected"
        )


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def split_chunks(chats: Chats, scan: bool = False) -> Iterator[list[Entry]]:
    """The entries in chunks that are judged together.

    The chunks of a file depend on its content alone. So a chunk that is judged again gives the same digits.
    """
    for entries in chats.arrivals:
        chunk: list[Entry] = []
        windows = 0
        for entry in entries:
            if windows >= CHUNK_WINDOWS and entry.number != chunk[-1].number:  # answers of one input stay together
                yield chunk
                chunk, windows = [], 0
            chunk.append(entry)
            windows += count_windows(entry, scan)
        if chunk:
            yield chunk


def note_single_replies(chunks: Iterable[list[Entry]], chats: Chats) -> Iterator[list[Entry]]:
    """The same chunks. After the last one, the chats have a note if several inputs hold one reply each, and none more.

    A transcript gets no note: an empty line between its chats separates them on purpose.
    """
    inputs, most = 0, 0
    for entries in chunks:
        inputs += len({entry.number for entry in entries if entry.turns})
        most = max(most, *(entry.turns for entry in entries))
        yield entries
    if inputs > 1 and most == 1 and chats.format != "text":
        chats.notes.append(
            f"{chats.where}: no chat has more than one reply, so there is no earlier reply to contradict; rows of a "
            f"question and a reply are one chat if they have the same {names.CHATS[0]}"
        )


def count_windows(entry: Entry, scan: bool) -> int:
    """About how many windows a chat is read in: one for each earlier turn of a reply, up to ``MAX_TURNS`` of them."""
    if not scan:
        return max(1, min(entry.turns - 1, MAX_TURNS))
    near = min(entry.turns, MAX_TURNS)  # the first replies have fewer earlier turns than the limit
    return max(1, near * (near - 1) // 2 + (entry.turns - near) * MAX_TURNS)


def judge_chunk(
    detector: ContradictionDetector,
    entries: list[Entry],
    key: str,
    *,
    scan: bool = False,
    batch_size: int = 32,
    on_batch: OnBatch | None = None,
) -> JudgedChunk:
    """Judges the last reply of each chat of a chunk, or every reply with ``scan``.

    ``key`` is ``line`` or ``row``, what the numbers of the input count. A forward pass has ``batch_size`` windows, and
    ``on_batch`` is called with their number after it.

    Raises:
        InputError: the model does not judge replies.
    """
    usable = [entry for entry in entries if not entry.error]
    chats = [entry.messages for entry in usable]
    if scan:
        verdicts = detector.scan_batch(chats, batch_size=batch_size, on_batch=on_batch)
    else:
        verdicts = [[verdict] for verdict in detector.batch(chats, batch_size=batch_size, on_batch=on_batch)]
    return JudgedChunk(
        entries,
        verdicts,
        [_record(entry, chat_verdicts, key, scan) for entry, chat_verdicts in zip(usable, verdicts, strict=True)],
        [{key: entry.number, "error": entry.error, "input": entry.raw} for entry in entries if entry.error],
    )


def filter_verdicts(chunk: JudgedChunk, kinds: Collection[str]) -> JudgedChunk:
    """The chunk with only the verdicts of some kinds: ``contradiction`` and ``unchecked``. Rejected inputs stay."""

    def is_wanted(verdict: Verdict, replies: int) -> bool:
        unchecked = is_unchecked(verdict.checked, verdict.reason, replies)
        return bool(verdict.contradiction and "contradiction" in kinds) or (unchecked and "unchecked" in kinds)

    wanted = [[is_wanted(verdict, len(own)) for verdict in own] for own in chunk.verdicts]
    records = [
        record | {"verdicts": [*compress(record["verdicts"], keep)]} if "verdicts" in record else record
        for record, keep in zip(chunk.records, wanted, strict=True)
        if any(keep)
    ]
    verdicts = [[*compress(own, keep)] for own, keep in zip(chunk.verdicts, wanted, strict=True)]
    return replace(chunk, verdicts=verdicts, records=records)


def _record(entry: Entry, verdicts: list[Verdict], key: str, scan: bool) -> Record:
    named = {key: entry.number} if entry.id is None else {key: entry.number, "id": entry.id}
    rounded = [verdict.to_record() for verdict in verdicts]
    return {**named, "verdicts": rounded} if scan else {**named, **rounded[0]}
