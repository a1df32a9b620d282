"""The labels of a review in a file of lines that grows: several people label at the same time, a kill loses nothing."""

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from typing import Any

from contradiction.conversation import ASSISTANT, Messages, check_text, read_turns, spoken_messages
from contradiction.errors import InputError, check_known, kind_of, shown
from contradiction.io.line_files import LineFile
from contradiction.io.tables import Table, with_interval
from contradiction.labels import CONTRADICTION, HISTORY, LABELS, NON_CONTRADICTION

UNCLEAR = "unclear"  # nobody can tell; such chats are not exported
CHOICES = (*LABELS["4-class"], UNCLEAR)
ANNOTATORS = 2  # the first two people label every chat; whoever joins later labels those on which they differ
LONGEST_NAME = 40
NO_REPLY = "the chat holds no message by the assistant"

# The kind of a line -> its keys, with the types of their values.
_KEYS: Mapping[str, Mapping[str, Any]] = {
    "chat": {"name": str, "messages": list, "truth": str | None, "unread": bool},
    "person": {"name": str},
    "label": {"chat": int, "person": int, "label": str, "evidence": int | None, "time": int | float},
}
BEGINNING = b'{"kind": "'  # of every line
WRONG = "not a line of labels that `cdconv review` wrote"


class StoreError(InputError):
    """The file of labels cannot be written. The same call may succeed later."""


@dataclass(frozen=True)
class Item:
    """A chat whose last reply is labelled.

    Attributes:
        id: its number among the chats of the file of labels, from 1.
        name: the id that its file gives it, or its place there.
        messages: ``role`` and ``content`` as text, up to the reply; also instructions, for instance a persona.
        truth: the known label of a spot check; None of any other chat.
        unread: whether the chat holds content that is not text, which people do not see.
    """

    id: int
    name: str
    messages: Sequence[Mapping[str, str]]
    truth: str | None = None
    unread: bool = False


class LabelStore:
    """A file of chats, people and labels, a JSON object a line. One process may write it at a time.

    Each label is on the disk when the call returns.

    Args:
        path: the file; the first chat creates it.
        annotators: 2, or 1 if one person labels alone; then this person's label is final.

    Raises:
        InputError: the file holds something else.
        StoreError: the file cannot be written; every method that writes may raise it.
    """

    def __init__(self, path: str | Path, annotators: int = ANNOTATORS) -> None:
        self.path, self.annotators = Path(path), annotators
        self._file = LineFile(self.path, self._check, WRONG, durable=True)
        self._items: list[Item] = []
        self._people: list[str] = []
        self._labels: dict[int, dict[int, tuple[str, int | None]]] = defaultdict(dict)  # chat -> person -> label
        self._lock = RLock()  # the page answers several people at the same time
        if self.path.exists():
            for line, _ in self._file.read():
                self._take(line)
            # What a killed process left of the first line is removed later; a file of something else must not be.
            with self.path.open("rb") as file:
                head = file.read(len(BEGINNING))
            if head != BEGINNING[: len(head)]:
                raise InputError(f"{self.path}: {WRONG}; name another file")

    def _check(self, line: Mapping[str, Any]) -> None:
        """Raises an error for a line that no review has written after those that are taken; people may edit the file.

        That is an InputError with what is wrong, if the line has the right keys.
        """
        for key, kind in _KEYS[line["kind"]].items():
            if not isinstance(line[key], kind):
                raise InputError(f"{key} is {kind_of(line[key])}; {WRONG}")
        if line["kind"] == "label":
            self._check_label(line["person"], line["chat"], line["label"], line["evidence"])
        elif line["kind"] == "chat":
            if not read_turns(line["messages"]):
                raise InputError(NO_REPLY)
            if other := next((one for one in line["messages"] if not isinstance(one.get("content"), str)), None):
                raise InputError(f"the content of {shown(other)} is not text; {WRONG}")
            if line["truth"] is not None:
                check_known(line["truth"], LABELS["4-class"], "truth")

    def _take(self, line: Mapping[str, Any]) -> None:
        """Adds what a line says to what is known."""
        if line["kind"] == "chat":
            number = len(self._items) + 1
            self._items.append(Item(number, line["name"], line["messages"], line["truth"], line["unread"]))
        elif line["kind"] == "person":
            self._people.append(line["name"])
        else:
            self._labels[line["chat"]][line["person"]] = line["label"], line["evidence"]

    def _write(self, *lines: Mapping[str, Any]) -> None:
        """Writes lines, each of which begins with its kind, and takes them."""
        try:
            self._file.add(lines)
        except OSError as error:
            raise StoreError(f"{self.path}: the labels cannot be written ({error})") from None
        for line in lines:
            self._take(line)

    def add(self, chats: Iterable[tuple[str, Messages]], spot_checks: Iterable[tuple[str, Messages, str]] = ()) -> int:
        """Adds chats that the file does not hold yet, spot checks spread evenly among them; returns how many.

        It also removes what a killed process left of a line.
        """
        with self._lock:
            known = {_content(item) for item in self._items}
            groups = []
            for group in ([(name, messages, None) for name, messages in chats], spot_checks):
                new: dict[tuple[Any, ...], Any] = {}
                for item in (_new(*chat) for chat in group):
                    new.setdefault(_content(item), item)
                groups.append([item for content, item in new.items() if content not in known])
            plain, checks = groups
            gap = max(len(plain), 1) / max(len(checks), 1)
            positioned = [*enumerate(plain), *(((number + 0.5) * gap, item) for number, item in enumerate(checks))]
            for _ in self._file.keep():
                pass
            # In this order, so that the number of a chat does not tell a spot check.
            items = [item for _, item in sorted(positioned, key=lambda place: place[0])]
            self._write(*({"kind": "chat", **{key: getattr(item, key) for key in _KEYS["chat"]}} for item in items))
            return len(items)

    def join(self, name: str) -> int:
        """The number of a person: 1 and 2 are the annotators, later ones decide where those differ.

        Raises:
            InputError: the name is empty, too long, or not valid Unicode; or another person labels alone.
        """
        name = " ".join(check_text(name, "name").split())
        if not name or len(name) > LONGEST_NAME:
            raise InputError(f"name {shown(name)}; it must have 1 to {LONGEST_NAME} characters")
        with self._lock:
            if name not in self._people:
                if self.annotators == 1 and self._people:
                    first = self._people[0]
                    raise InputError(f"{first} labels alone, because this review was started with --annotators 1")
                self._write({"kind": "person", "name": name})
            return self._people.index(name) + 1

    def next(self, person: int, after: int | None = None) -> Item | None:
        """The next chat for a person, after another one if there is one; None if all are labelled."""
        with self._lock:
            waiting = self._waiting(person)
        return next((item for item in waiting if item.id > (after or 0)), waiting[0] if waiting else None)

    def item(self, number: int) -> Item:
        """A chat by its number; raises InputError for an unknown one."""
        if not 0 < number <= len(self._items):
            raise InputError(f"chat {number} does not exist")
        return self._items[number - 1]

    def put(self, person: int, number: int, label: str, evidence: int | None = None) -> None:
        """Writes the label of a person, in the place of an earlier one by the same person.

        Raises:
            InputError: the label, the evidence, the person or the chat is unknown.
        """
        with self._lock:
            self._check_label(person, number, label, evidence)
            given = {"chat": number, "person": person, "label": label, "evidence": evidence, "time": time.time()}
            self._write({"kind": "label", **given})

    def _check_label(self, person: int, number: int, label: str, evidence: int | None) -> None:
        check_known(label, CHOICES, "label")
        messages = self.item(number).messages
        if evidence is not None:
            replies = earlier_replies(messages)
            if label != HISTORY or evidence not in replies:
                raise InputError(f"evidence {evidence} of {label}; it goes with {HISTORY} and is one of {replies}")
        if not 0 < person <= len(self._people):
            raise InputError(f"person {person}: has not joined this review")

    def progress(self, person: int) -> tuple[int, int]:
        """How many chats a person has labelled, and of how many; for the third, of those in dispute."""
        with self._lock:
            done = sum(person in labels for labels in self._labels.values())
            return done, done + len(self._waiting(person)) if person > ANNOTATORS else len(self._items)

    def _waiting(self, person: int) -> list[Item]:
        """The chats that a person is to label; for the third, those on which the annotators differ."""
        if person <= ANNOTATORS:
            return [item for item in self._items if person not in self._labels[item.id]]
        both = [(item, self._labels[item.id]) for item in self._items if self._labels[item.id].keys() == {1, 2}]
        # Not spot checks, whose label is known.
        return [item for item, labels in both if item.truth is None and labels[1][0] != labels[2][0]]

    def report(self) -> Table:
        """How far the review is, how far people agree, and how often each is right about spot checks.

        Chats that people see only in part are left out of the agreement.
        """
        from contradiction.evaluation.figures import wilson

        reviewed = self.reviewed()
        chats = [(item, labels, decided) for item, labels, decided in reviewed if item.truth is None]
        both = [(item, labels, decided) for item, labels, decided in chats if {1, 2} <= labels.keys()]
        pairs = [(labels[1][0], labels[2][0]) for item, labels, _ in both if not item.unread]
        final = [decided for _, _, decided in chats if decided is not None]
        rows = [("chats", f"{len(chats):,}")]
        if in_part := sum(item.unread for item, _, _ in chats):
            rows.append(("shown only in part, and left out of the agreement", f"{in_part:,}"))
        if self.annotators > 1:
            rows.append(("labelled by both annotators", f"{len(pairs):,}"))
            rows.append(("waiting for a third", f"{sum(decided is None for _, _, decided in both):,}"))
        unclear = f"of them {final.count(UNCLEAR):,} unclear, which are not exported"
        rows.append(("with a final label", f"{len(final):,}, {unclear}"))
        if self.annotators == 1:
            rows.append(("agreement, Cohen's kappa", "not available, because one person labels alone"))
        elif pairs:
            same = sum(first == second for first, second in pairs)
            rows.append(("agreement, %", with_interval(same / len(pairs), wilson(same, len(pairs)))))
            merged = [(_merged(first), _merged(second)) for first, second in pairs]
            rows.append(("Cohen's kappa", f"{_kappa(pairs)}; contradiction or not: {_kappa(merged)}"))
        for person, name in enumerate(self._people, start=1):
            given = [(item.truth, labels[person][0]) for item, labels, _ in reviewed if person in labels]
            checks = [truth == label for truth, label in given if truth is not None]
            of_checks = f"; spot checks right: {sum(checks)} of {len(checks)}" if checks else ""
            rows.append((f"labels by {name}", f"{len(given):,}{of_checks}"))
        return Table("Review", ("", ""), rows, texts=2)

    def export(self) -> list[dict[str, Any]]:
        """Each chat with a final label as a JSON object: id, messages, label, evidence where known, and annotators."""
        exported = []
        for item, labels, label in self.reviewed():
            if item.truth is not None or label in (None, UNCLEAR):
                continue
            people = sorted(labels.items())
            # Whoever came last has decided where others differ.
            evidence = [place for _, (own, place) in people if own == label and place is not None][-1:]
            exported.append(
                {
                    "id": item.name,
                    "messages": item.messages,
                    "label": label,
                    **({"evidence": evidence[0]} if evidence else {}),
                    "annotators": {self._people[person - 1]: own for person, (own, _) in people},
                }
            )
        return exported

    def reviewed(self) -> list[tuple[Item, dict[int, tuple[str, int | None]], str | None]]:
        """Each chat with the label and evidence of each person, and its final label."""
        rows = []
        for item in self._items:
            own = self._labels[item.id]
            rows.append((item, own, decide([label for _, (label, _) in sorted(own.items())], self.annotators)))
        return rows


def _merged(label: str) -> str:
    return label if label in (NON_CONTRADICTION, UNCLEAR) else CONTRADICTION


def _kappa(pairs: Sequence[tuple[str, str]]) -> str:
    """Cohen's kappa of two annotators, as text; it is undefined if both give one label alone."""
    from sklearn.metrics import cohen_kappa_score

    first, second = zip(*pairs, strict=True)
    return f"{cohen_kappa_score(first, second):.2f}" if len({*first, *second}) > 1 else "undefined"


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
    """A chat without its number; raises InputError if a message is not usable, or there is no reply."""
    if not (turns := read_turns(messages)):
        raise InputError(NO_REPLY)
    read = spoken_messages(messages[: turns[-1].reply_messages[-1] + 1], instructions=True)
    return Item(0, name, read, truth, any(turn.unread for turn in turns))


def _content(item: Item) -> tuple[Any, ...]:
    """What makes two chats one: the messages, and whether the label is known."""
    return (item.truth is not None, *((message["role"], message["content"]) for message in item.messages))


def earlier_replies(messages: Sequence[Mapping[str, str]]) -> list[int]:
    """The indices of the messages by the assistant before the judged reply."""
    judged = read_turns(messages)[-1].reply_messages
    return [index for index, message in enumerate(messages) if message["role"] == ASSISTANT and index not in judged]
