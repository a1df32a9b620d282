"""The labels of a review in a SQLite file: several people write at the same time, and a kill loses nothing."""

import hashlib
import json
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contradiction.conversation import ASSISTANT, Messages, check_text, read_turns, spoken_messages
from contradiction.errors import InputError, shown
from contradiction.io.tables import Table, with_interval
from contradiction.labels import CONTRADICTION, HISTORY, LABELS, NON_CONTRADICTION

UNCLEAR = "unclear"  # nobody can tell; such chats are not exported
CHOICES = (*LABELS["4-class"], UNCLEAR)
ANNOTATORS = 2  # the first two people label every chat; whoever joins later labels those on which they differ
LONGEST_NAME = 40

_TABLES = {
    "items": "(id INTEGER PRIMARY KEY, digest TEXT UNIQUE, position REAL, name TEXT, messages TEXT, truth TEXT, "
    "unread INTEGER)",
    "people": "(place INTEGER PRIMARY KEY, name TEXT UNIQUE)",
    "labels": "(item INTEGER REFERENCES items, person INTEGER REFERENCES people, label TEXT, evidence INTEGER, "
    "time REAL, PRIMARY KEY (item, person)) WITHOUT ROWID",
}


class StoreError(InputError):
    """The file of labels cannot be read or written. The same call may succeed later."""


@dataclass(frozen=True)
class Item:
    """A chat whose last reply is labelled.

    Attributes:
        id: its number in the file of labels.
        name: the id that its file gives it, or its place there.
        messages: ``role`` and ``content`` as text, up to the reply.
        truth: the known label of a spot check; None of any other chat.
        unread: whether the chat holds content that is not text, which people do not see.
    """

    id: int
    name: str
    messages: Sequence[Mapping[str, str]]
    truth: str | None = None
    unread: bool = False


@dataclass(frozen=True)
class Report:
    """How far a review is, and how far people agree.

    Attributes:
        chats: the number of chats to label, without spot checks.
        in_part: those that people see only in part; the counts of agreement are without them.
        both: those that both annotators have labelled.
        same: those on which they agree.
        waiting: those on which they differ and that nobody else has labelled yet.
        final: those with a final label, including ``unclear``.
        unclear: those whose final label is ``unclear``.
        kappa: Cohen's kappa of the two annotators; None where it is undefined.
        kappa_merged: the same for *contradiction or not*; *unclear* is neither.
        people: the name of each person, and how many chats they have labelled.
        spot_checks: the name of each person -> how many spot checks are right, and of how many.
    """

    chats: int
    in_part: int
    both: int
    same: int
    waiting: int
    final: int
    unclear: int
    kappa: float | None
    kappa_merged: float | None
    people: Mapping[str, int]
    spot_checks: Mapping[str, tuple[int, int]]

    @property
    def agreement(self) -> tuple[float, float, float] | None:
        """The share of chats on which both agree, and its 95 % interval; None before there is one."""
        from contradiction.evaluation.figures import wilson

        return (self.same / self.both, *wilson(self.same, self.both)) if self.both else None

    def table(self, annotators: int) -> Table:
        """The report for a terminal."""

        def number(value: float | None) -> str:
            return "undefined" if value is None else f"{value:.2f}"

        body = [("chats", f"{self.chats:,}")]
        if self.in_part:
            body.append(("shown only in part, and left out of the agreement", f"{self.in_part:,}"))
        if annotators > 1:
            body.append(("labelled by both annotators", f"{self.both:,}"))
            body.append(("waiting for a third", f"{self.waiting:,}"))
        final = f"{self.final:,}, of them {self.unclear:,} unclear, which are not exported"
        body.append(("with a final label", final))
        if annotators == 1:
            body.append(("agreement, Cohen's kappa", "not available, because one person labels alone"))
        elif agreement := self.agreement:
            share, *bounds = agreement
            body.append(("agreement, %", with_interval(share, bounds)))
            merged = f"contradiction or not: {number(self.kappa_merged)}"
            body.append(("Cohen's kappa", f"{number(self.kappa)}; {merged}"))
        for name, count in self.people.items():
            right, checks = self.spot_checks[name]
            of_checks = f"; spot checks right: {right} of {checks}" if checks else ""
            body.append((f"labels by {name}", f"{count:,}{of_checks}"))
        return Table("Review", ("", ""), body, texts=2)


class LabelStore:
    """A SQLite file of chats and labels.

    Each call opens the file by itself and has written to the disk when it returns.

    Args:
        path: the file; it is created if it does not exist.
        annotators: 2, or 1 if one person labels alone; then this person's label is final.

    Raises:
        StoreError: the file is not an SQLite file, or cannot be read or written; any method may raise it.
        InputError: the file holds the tables of another program.
    """

    def __init__(self, path: str | Path, annotators: int = ANNOTATORS) -> None:
        self.path, self.annotators = Path(path), annotators
        with self._open() as file:
            file.execute("BEGIN IMMEDIATE")
            names = file.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
            tables = {name for (name,) in names}
            if tables and tables != _TABLES.keys():
                raise InputError(f"{self.path}: an SQLite file of another program; name a new file")
            for name, columns in _TABLES.items():
                file.execute(f"CREATE TABLE IF NOT EXISTS {name} {columns}")
            file.commit()
            file.execute("PRAGMA journal_mode=WAL")  # the file keeps this mode

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """A connection whose changes are written together when the block ends."""
        try:
            with closing(sqlite3.connect(self.path, timeout=30)) as file, file:
                file.execute("PRAGMA synchronous=FULL")
                yield file
        except sqlite3.Error as error:
            raise StoreError(f"{self.path}: no file of labels that can be written ({error})") from None

    def add(self, chats: Iterable[tuple[str, Messages]], spot_checks: Iterable[tuple[str, Messages, str]] = ()) -> int:
        """Adds chats that the file does not hold yet, spot checks spread evenly among them; returns how many."""
        labelled = [(name, messages, None) for name, messages in chats], list(spot_checks)
        groups = [[_new(*chat) for chat in group] for group in labelled]
        with self._open() as file:
            file.execute("BEGIN IMMEDIATE")
            known = {digest for (digest,) in file.execute("SELECT digest FROM items")}
            plain, checks = ([item for item in group if _digest(item) not in known] for group in groups)
            start = (file.execute("SELECT max(position) FROM items").fetchone()[0] or 0.0) + 1
            positioned = [(start + number, item) for number, item in enumerate(plain)]
            gap = max(len(plain), 1) / max(len(checks), 1)
            positioned += [(start + (number + 0.5) * gap, item) for number, item in enumerate(checks)]
            positioned.sort(key=lambda item: item[0])  # so that the number of a chat does not tell a spot check
            before = file.total_changes
            file.executemany(
                "INSERT OR IGNORE INTO items VALUES (NULL, ?, ?, ?, ?, ?, ?)",
                [
                    (_digest(one), place, one.name, json.dumps(one.messages, ensure_ascii=False), one.truth, one.unread)
                    for place, one in positioned
                ],
            )
            return file.total_changes - before

    def join(self, name: str) -> int:
        """The number of a person: 1 and 2 are the annotators, later ones decide where those differ.

        Raises:
            InputError: the name is empty, too long, or not valid Unicode; or another person labels alone.
        """
        name = " ".join(check_text(name, "name").split())
        if not name or len(name) > LONGEST_NAME:
            raise InputError(f"name {shown(name)}; it must have 1 to {LONGEST_NAME} characters")
        with self._open() as file:
            file.execute("BEGIN IMMEDIATE")
            row = file.execute("SELECT place FROM people WHERE name = ?", (name,)).fetchone()
            count = file.execute("SELECT count(*) FROM people").fetchone()[0]
            place = int(row[0]) if row else int(count) + 1
            if self.annotators == 1 and place > 1:
                (first,) = file.execute("SELECT name FROM people WHERE place = 1").fetchone()
                raise InputError(f"{first} labels alone, because this review was started with --annotators 1")
            if not row:
                file.execute("INSERT INTO people (place, name) VALUES (?, ?)", (place, name))
            return place

    def next(self, person: int, after: int | None = None) -> Item | None:
        """The next chat for a person, after another one if there is one; None if all are labelled."""
        with self._open() as file:
            start = -1.0
            if after is not None:
                row = file.execute("SELECT position FROM items WHERE id = ?", (after,)).fetchone()
                start = row[0] if row else start
            for position in dict.fromkeys((start, -1.0)):
                chat = file.execute(_NEXT if person <= ANNOTATORS else _NEXT_DISPUTED, (person, position)).fetchone()
                if chat:
                    return _item(chat)
        return None

    def item(self, number: int) -> Item:
        """A chat by its number; raises InputError for an unknown one."""
        with self._open() as file:
            row = file.execute("SELECT id, name, messages, truth, unread FROM items WHERE id = ?", (number,)).fetchone()
        if not row:
            raise InputError(f"chat {number} does not exist")
        return _item(row)

    def put(self, person: int, number: int, label: str, evidence: int | None = None) -> None:
        """Writes the label of a person, in the place of an earlier one by the same person.

        Raises:
            InputError: the label, the evidence, the person or the chat is unknown.
        """
        if label not in CHOICES:
            raise InputError(f"label {shown(label)}; allowed are {', '.join(CHOICES)}")
        replies = earlier_replies(self.item(number).messages)
        if evidence is not None and (label != HISTORY or evidence not in replies):
            raise InputError(f"evidence {evidence} of {label}; it goes with {HISTORY} and is one of {replies}")
        with self._open() as file:
            if not file.execute("SELECT 1 FROM people WHERE place = ?", (person,)).fetchone():
                raise InputError(f"person {person}: has not joined this review")
            file.execute(
                "INSERT OR REPLACE INTO labels VALUES (?, ?, ?, ?, ?)", (number, person, label, evidence, time.time())
            )

    def progress(self, person: int) -> tuple[int, int]:
        """How many chats a person has labelled, and of how many; for the third, of those in dispute."""
        with self._open() as file:
            done = file.execute("SELECT count(*) FROM labels WHERE person = ?", (person,)).fetchone()[0]
            if person > ANNOTATORS:
                return done, done + file.execute(f"SELECT count(*) {_DISPUTED}").fetchone()[0]
            return done, file.execute("SELECT count(*) FROM items").fetchone()[0]

    def report(self) -> Report:
        """How far the review is, and how far people agree."""
        from sklearn.metrics import cohen_kappa_score

        reviewed = list(self._reviewed())
        names = self._people()  # after the labels, so that it holds everybody who gave one
        spot_checks = {name: (0, 0) for name in names.values()}
        for item, labels, _ in reviewed:
            for person, (label, _) in labels.items() if item.truth is not None else ():
                right, count = spot_checks[names[person]]
                spot_checks[names[person]] = (right + (label == item.truth), count + 1)
        chats = [(item, labels, decided) for item, labels, decided in reviewed if item.truth is None]
        both = [(item, labels, decided) for item, labels, decided in chats if {1, 2} <= labels.keys()]
        pairs = [(labels[1][0], labels[2][0]) for item, labels, _ in both if not item.unread]

        def kappa(merge: bool) -> float | None:
            merged = {label: label if label in (NON_CONTRADICTION, UNCLEAR) else CONTRADICTION for label in CHOICES}
            columns = [[merged[label] if merge else label for label in column] for column in zip(*pairs, strict=True)]
            if not columns or len({*columns[0], *columns[1]}) < 2:
                return None
            return float(cohen_kappa_score(*columns))

        return Report(
            chats=len(chats),
            in_part=sum(item.unread for item, _, _ in chats),
            both=len(pairs),
            same=sum(first == second for first, second in pairs),
            waiting=sum(decided is None for _, _, decided in both),
            final=sum(decided is not None for _, _, decided in chats),
            unclear=sum(decided == UNCLEAR for _, _, decided in chats),
            kappa=kappa(False),
            kappa_merged=kappa(True),
            people={name: sum(person in labels for _, labels, _ in reviewed) for person, name in names.items()},
            spot_checks=spot_checks,
        )

    def export(self) -> Iterator[dict[str, Any]]:
        """Each chat with a final label as a JSON object: id, messages, label, evidence where known, and annotators."""
        reviewed = list(self._reviewed())
        names = self._people()  # after the labels, as in `report`
        for item, labels, label in reviewed:
            if item.truth is not None or label in (None, UNCLEAR):
                continue
            # Whoever came last has decided where others differ.
            evidence = next(
                (
                    message
                    for _, (own, message) in sorted(labels.items(), reverse=True)
                    if own == label and message is not None
                ),
                None,
            )
            yield {
                "id": item.name,
                "messages": item.messages,
                "label": label,
                **({} if evidence is None else {"evidence": evidence}),
                "annotators": {names[person]: own for person, (own, _) in sorted(labels.items())},
            }

    def _people(self) -> dict[int, str]:
        with self._open() as file:
            return dict(file.execute("SELECT place, name FROM people ORDER BY place"))

    def _reviewed(self) -> Iterator[tuple[Item, dict[int, tuple[str, int | None]], str | None]]:
        """Each chat with the label and evidence of each person, and its final label."""
        with self._open() as file:
            items = file.execute("SELECT id, name, messages, truth, unread FROM items ORDER BY position").fetchall()
            labels: dict[int, dict[int, tuple[str, int | None]]] = {}
            for number, person, label, evidence in file.execute("SELECT item, person, label, evidence FROM labels"):
                labels.setdefault(number, {})[person] = (label, evidence)
        for row in items:
            own = labels.get(row[0], {})
            yield _item(row), own, decide([label for _, (label, _) in sorted(own.items())], self.annotators)


_NEXT = """
SELECT id, name, messages, truth, unread FROM items
WHERE id NOT IN (SELECT item FROM labels WHERE person = ?1) AND position > ?2 ORDER BY position LIMIT 1
"""
# Chats on which the two annotators differ, and which nobody else has labelled; not spot checks, whose label is known.
_DISPUTED = """
FROM items
JOIN labels AS one ON one.item = id AND one.person = 1 JOIN labels AS two ON two.item = id AND two.person = 2
WHERE one.label != two.label AND truth IS NULL
AND NOT EXISTS (SELECT 1 FROM labels WHERE item = id AND person > 2)
"""
_NEXT_DISPUTED = f"""
SELECT id, name, messages, truth, unread {_DISPUTED} AND ?1 > 2 AND position > ?2 ORDER BY position LIMIT 1
"""


def decide(labels: Sequence[str], annotators: int = ANNOTATORS) -> str | None:
    """The final label from those of the people in their order; None if one is still needed.

    Both annotators agree, or a third decides: where all three differ, by the third label. The label of a single
    annotator is final.
    """
    if len(labels) < annotators:
        return None
    if annotators == 1 or labels[0] == labels[1]:
        return labels[0]
    return labels[-1] if len(labels) > ANNOTATORS else None


def _new(name: str, messages: Messages, truth: str | None) -> Item:
    read, unread = text_messages(messages)
    return Item(0, name, read, truth, unread)


def _digest(item: Item) -> str:
    content = json.dumps([item.messages, item.truth is not None], ensure_ascii=False)
    return hashlib.sha256(content.encode()).hexdigest()


def text_messages(messages: Messages) -> tuple[list[dict[str, str]], bool]:
    """The messages by both sides as text, up to the last reply, and whether some of their content is not text.

    Raises:
        InputError: a message is not usable, or there is no reply.
    """
    if not (turns := read_turns(messages)):
        raise InputError("the chat holds no message by the assistant")
    read = spoken_messages(messages[: turns[-1].reply_messages[-1] + 1])
    return read, any(turn.unread for turn in turns)


def earlier_replies(messages: Sequence[Mapping[str, str]]) -> list[int]:
    """The indices of the messages by the assistant before the judged reply."""
    judged = read_turns(messages)[-1].reply_messages
    return [index for index, message in enumerate(messages) if message["role"] == ASSISTANT and index not in judged]


def _item(row: Sequence[Any]) -> Item:
    return Item(row[0], row[1], json.loads(row[2]), row[3], bool(row[4]))
