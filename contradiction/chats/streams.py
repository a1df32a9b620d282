"""Chats judged as they come, in their order, and what is said of each as an object of JSON."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import compress
from typing import Any

from contradiction.chats.readers import Chats, Entry
from contradiction.detector import ContradictionDetector
from contradiction.labels import is_contradiction
from contradiction.verdict import Verdict, is_unchecked

# Windows that are judged before anything is said: enough that batches hold inputs of like length, few enough that a
# slow model is heard, and a killed run loses little.
PART = 1024
DIGITS = 6  # of a probability, after the point

Record = dict[str, Any]


@dataclass(frozen=True)
class Answered:
    """A part of the input and what is said of it.

    Attributes:
        entries: the part, in the order of the input.
        verdicts: of the usable ones among them.
        records: an object for each of these: its number as ``line`` or ``row``, its ``id`` where it has one, then the
            fields of the verdict, probabilities rounded; or ``verdicts``, one for each reply.
        rejected: an object for each of the others: number, ``error``, and ``input``, the beginning of its text.
    """

    entries: list[Entry]
    verdicts: list[list[Verdict]]
    records: list[Record]
    rejected: list[Record]


@dataclass
class Tally:
    """How many chats were judged, and how.

    Attributes:
        chats: those that are usable.
        verdicts: said of them, those without a label too.
        judged: of the verdicts, those with a label.
        contradictions: of these, those that call one.
        checked: of the verdicts, those on which all was read.
        unchecked: of the others, those without a label, or with a guess on what was read; the rest are on opening
            replies, see ``contradiction.verdict.is_unchecked``.
        rejected: inputs that are no usable chat.
    """

    chats: int = 0
    verdicts: int = 0
    judged: int = 0
    contradictions: int = 0
    checked: int = 0
    unchecked: int = 0
    rejected: int = 0

    def add(self, records: Iterable[Mapping[str, Any]], rejected: int = 0) -> None:
        """Counts what :func:`judge` says, or said in an earlier run."""
        self.rejected += rejected
        for record in records:
            self.chats += 1
            verdicts = record.get("verdicts", [record])
            self.verdicts += len(verdicts)
            for verdict in verdicts:
                self.judged += verdict["label"] is not None
                self.contradictions += verdict["label"] is not None and is_contradiction(verdict["label"])
                self.checked += verdict["checked"]
                self.unchecked += is_unchecked(verdict["checked"], verdict["reason"], len(verdicts))

    def __str__(self) -> str:
        openings = self.verdicts - self.checked - self.unchecked
        return (
            f"{_count(self.chats, 'chat')}, {_count(self.verdicts, 'verdict')}: {self.checked:,} checked, "
            f"{f'{openings:,} on opening replies, ' if openings else ''}{self.unchecked:,} unchecked "
            f"({self.verdicts - self.judged - openings:,} of them without a label); "
            f"{_count(self.contradictions, 'contradiction')}; {self.rejected:,} rejected"
        )


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def parts(chats: Chats, scan: bool = False) -> Iterator[list[Entry]]:
    """The input in parts that are judged at once.

    Where it is a file, they hang on nothing but its content: so that one of them can be judged anew to the same digit.
    """
    for entries in chats.arrivals:
        part: list[Entry] = []
        held = 0
        for entry in entries:
            part.append(entry)
            held += cost(entry, scan)
            if held >= PART:
                yield part
                part, held = [], 0
        if part:
            yield part


def cost(entry: Entry, scan: bool) -> int:
    """About how many windows a chat is read in."""
    return max(1, entry.turns * (entry.turns - 1) // 2 if scan else entry.turns - 1)


def judge(
    detector: ContradictionDetector,
    part: list[Entry],
    key: str,
    *,
    scan: bool = False,
    batch_size: int = 32,
    on_batch: Callable[[int], Any] | None = None,
) -> Answered:
    """Judges the last reply of each chat of a part.

    Args:
        detector: what judges.
        part: of an input.
        key: ``line`` or ``row``, what the numbers of the input count.
        scan: judges every reply instead.
        batch_size: windows a forward pass.
        on_batch: called with the number of windows done, after each forward pass.

    Raises:
        InputError: this model does not judge replies.
    """
    good = [entry for entry in part if entry.messages is not None]
    chats = [entry.messages for entry in good if entry.messages is not None]
    if scan:
        verdicts = detector.scan_batch(chats, batch_size=batch_size, on_batch=on_batch)
    else:
        verdicts = [[each] for each in detector.batch(chats, batch_size=batch_size, on_batch=on_batch)]
    return Answered(
        part,
        verdicts,
        [_record(entry, each, key, scan) for entry, each in zip(good, verdicts, strict=True)],
        [{key: entry.number, "error": entry.error, "input": entry.raw} for entry in part if entry.error],
    )


def only(answered: Answered, tests: Sequence[Callable[[Verdict, int], bool | None]]) -> Answered:
    """What is left of a part where of its verdicts only those count of which a test is true.

    A test is told a verdict, and of how many of its chat it is one. Records without any of them are left out; what was
    rejected stays.
    """
    wanted = [[any(test(each, len(verdicts)) for test in tests) for each in verdicts] for verdicts in answered.verdicts]
    records = [
        record | {"verdicts": [*compress(record["verdicts"], keep)]} if "verdicts" in record else record
        for record, keep in zip(answered.records, wanted, strict=True)
        if any(keep)
    ]
    verdicts = [[*compress(found, keep)] for found, keep in zip(answered.verdicts, wanted, strict=True)]
    return replace(answered, verdicts=verdicts, records=records)


def _record(entry: Entry, verdicts: list[Verdict], key: str, scan: bool) -> Record:
    named = {key: entry.number} if entry.id is None else {key: entry.number, "id": entry.id}
    said = [_rounded(each) for each in verdicts]
    return {**named, "verdicts": said} if scan else {**named, **said[0]}


def _rounded(verdict: Verdict) -> Record:
    """The fields of a verdict, decided on exact probabilities and written with rounded ones.

    The digits after these hang on which inputs were read together; the last one that stays may still do so by one.
    """
    record = asdict(verdict)
    for name in ("score", "probability"):
        record[name] = record[name] and round(record[name], DIGITS)
    record["scores"] = {label: round(each, DIGITS) for label, each in verdict.scores.items()}
    for clash in record["further"]:
        clash["score"] = round(clash["score"], DIGITS)
    return record


def to_line(record: Mapping[str, Any]) -> bytes:
    """One line of JSON in UTF-8, Chinese as it is; what is no valid Unicode, escaped."""
    try:
        return json.dumps(record, ensure_ascii=False).encode("utf-8") + b"\n"
    except UnicodeEncodeError:
        return json.dumps(record).encode("ascii") + b"\n"
