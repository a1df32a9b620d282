"""The corpora that were written for this project: crossed chats and contrast pairs.

A *crossed quadruple* is two chats and two replies. The chats differ in what was said earlier. Each reply is consistent
in one chat and contradicts the other, so every chat and every reply occurs once with each label, and neither alone says
anything about it. A detector must compare the two to do better than chance. Self-contradictions cannot be crossed; they
are minimal pairs. Each batch is one file in a folder of ``FOLDERS``: ``crossed`` has short and middle-sized messages,
``crossed-long`` has replies of at least 60 characters, as language models write them, and ``crossed-en`` is in English.

A *contrast pair* is two replies to one chat, of which one is a contradiction (Gardner et al., 2020, *Evaluating
models' local decision boundaries via contrast sets*). No chat is in CDConv. In half of the pairs the contradiction is
the longer reply, and in half it shares more characters with the bot's first reply, so these cues do not help.
"""

import csv
import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from contradiction.conversation import alternating
from contradiction.data.corpora import CHATS, Config, Corpus, Row
from contradiction.data.splits import SPLITS
from contradiction.errors import InputError
from contradiction.io.files import read_objects
from contradiction.labels import CROSSED, CROSSED_EN, CROSSED_LONG, INTRA, LABELS, NON_CONTRADICTION

DATA = Path(__file__).resolve().parents[1]
FOLDERS: Mapping[str, Path] = {
    CROSSED: DATA / "crossed",
    CROSSED_LONG: DATA / "crossed_long",
    CROSSED_EN: DATA / "crossed_en",
}
FOLDER = FOLDERS[CROSSED]
BATCHES_FILE = "batches.csv"
CLAUSES = ("evidence_clause", "reply_clause")
PHENOMENA = (
    "negation", "antonym", "number", "time", "place", "kin", "work", "habit", "possession", "ability", "experience",
    "knowledge", "order", "plan", "opinion", "name", "rule", "speaker",
)  # fmt: skip

Chat = Sequence[Mapping[str, str]]


@dataclass(frozen=True)
class Quadruple:
    """Two chats and two replies, each reply consistent in one chat and contradicting the other.

    Attributes:
        id: the batch and a number.
        batch: the name of its batch, see :class:`Batch`.
        label: the label of the contradicting replies.
        phenomenon: what a reader must understand, one of ``PHENOMENA``.
        a, b: the chats in which ``reply_a`` and ``reply_b`` are consistent; they are equally long.
        reply_a, reply_b: contradict ``b`` and ``a``.
        evidence: index of the message in which the chats differ and which is contradicted.
        inference: whether a reader needs knowledge or arithmetic; None if the author did not say.
        clauses: the clauses that contradict each other, if the author marked them: ``evidence_a``, ``evidence_b``,
            ``reply_a``, ``reply_b``.
    """

    id: str
    batch: str
    label: str
    phenomenon: str
    a: Chat
    b: Chat
    reply_a: str
    reply_b: str
    evidence: int
    inference: bool | None = None
    clauses: Mapping[str, str] = field(default_factory=dict)

    def judged(self) -> Iterator[Row]:
        """The four combinations of chat and reply, the consistent one of each chat first."""
        chats, replies = {"a": self.a, "b": self.b}, {"a": self.reply_a, "b": self.reply_b}
        for own, other in ("ab", "ba"):
            yield _row(self, own * 2, chats[own], replies[own])
            clauses = self.clauses.get(f"evidence_{own}"), self.clauses.get(f"reply_{other}")
            yield _row(self, own + other, chats[own], replies[other], self.label, (self.evidence,), clauses)


@dataclass(frozen=True)
class Pair:
    """A chat and two similar replies, of which ``bad`` contradicts itself: its two ``clauses`` do not agree."""

    id: str
    batch: str
    label: str
    phenomenon: str
    messages: Chat
    good: str
    bad: str
    clauses: Sequence[str]

    def judged(self) -> Iterator[Row]:
        """The consistent reply, then the contradicting one."""
        yield _row(self, "good", self.messages, self.good)
        yield _row(self, "bad", self.messages, self.bad, self.label, clauses=self.clauses)


Item: TypeAlias = Quadruple | Pair


def _row(
    item: Item, suffix: str, messages: Chat, reply: str, label: str = NON_CONTRADICTION,
    evidence: tuple[int, ...] = (), clauses: Sequence[str | None] = (None, None),
) -> Row:  # fmt: skip
    """A reply to a chat."""
    extra = {
        "phenomenon": item.phenomenon,
        "inference": item.inference if isinstance(item, Quadruple) else None,
        "batch": item.batch,
        **dict(zip(CLAUSES, clauses, strict=True)),
    }
    return Row(f"{item.id}-{suffix}", label, "", "", tuple(messages), reply, evidence, source=item.id, extra=extra)


@dataclass(frozen=True)
class Batch:
    """One author's batch: the name of its file, its split, its style (see ``crossed/README.md``), and its brief."""

    name: str
    split: str
    style: str
    brief: str


def batches(folder: str | Path = FOLDER) -> dict[str, Batch]:
    """The batches of a folder by name, in the order of ``batches.csv``.

    Raises:
        InputError: the list cannot be read, or does not name each file of the folder once, with a split.
    """
    path = Path(folder) / BATCHES_FILE
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            rows = [Batch(row.pop("batch"), **row) for row in csv.DictReader(stream)]
    except (OSError, ValueError, csv.Error, KeyError, TypeError) as error:
        raise InputError(f"{path}: cannot be read ({error!r}); it lists batch, split, style and brief") from None
    listed = Counter(f"{row.name}" if row.split in SPLITS else f"{row.name} ({row.split})" for row in rows)
    files = Counter(file.stem for file in path.parent.glob("*.jsonl"))
    if wrong := sorted({*(listed - files), *(files - listed)}):
        raise InputError(
            f"{path}: must list each .jsonl file of the folder once, with one of the splits {', '.join(SPLITS)}; look "
            f"at {', '.join(wrong)}"
        )
    return {row.name: row for row in rows}


def read(split: str, folder: str | Path = FOLDER) -> list[Item]:
    """The quadruples and pairs of one split, batch by batch.

    Raises:
        InputError: a line is not valid; the message gives ``file:line``.
    """
    return [item for file in batch_files(Path(folder), split) for item in read_batch(file)]


def read_all(folder: str | Path = FOLDER) -> dict[str, list[Item]]:
    """The quadruples and pairs by split; see :func:`read`."""
    return {split: read(split, folder) for split in SPLITS}


def digest(split: str, config: str = CROSSED) -> str:
    """A digest of the published batches of one split: equal exactly for equal content."""
    content = hashlib.sha256()
    for file in batch_files(FOLDERS[config], split):
        content.update(file.read_bytes())
    return content.hexdigest()[:16]


def read_batch(path: str | Path) -> list[Item]:
    """The quadruples or pairs of one file; raises InputError for a line with other keys than those of their classes."""
    items: list[Item] = []
    for where, values in read_objects(Path(path), "label"):
        try:
            items.append((Pair if values["label"] == INTRA else Quadruple)(**values))
        except TypeError as error:
            raise InputError(f"{where}: {error}") from None
    return items


def read_rows(path: Path) -> Iterator[Row]:
    """The judged replies of one batch."""
    for item in read_batch(path):
        yield from item.judged()


def read_alone(path: Path) -> Iterator[Row]:
    """Each reply of the quadruples of one batch as the first message of a chat, in which it contradicts nothing."""
    for item in _quadruples(path):
        for letter, reply in (("a", item.reply_a), ("b", item.reply_b)):
            yield _row(item, f"alone-{letter}", (), reply)


def read_unrelated(path: Path) -> Iterator[Row]:
    """The same replies after the chat of the next quadruple with a chat of the same length, on something else."""
    by_length: dict[int, list[Quadruple]] = {}
    for item in _quadruples(path):
        by_length.setdefault(len(item.a), []).append(item)
    for items in by_length.values():
        for item, other in zip(items, [*items[1:], items[0]], strict=True):
            if other is not item:
                for letter, reply in (("a", item.reply_a), ("b", item.reply_b)):
                    yield _row(item, f"unrelated-{letter}", other.a, reply)


def _quadruples(path: Path) -> list[Quadruple]:
    return [item for item in read_batch(path) if isinstance(item, Quadruple)]


def batch_files(folder: Path, split: str) -> list[Path]:
    """The files of the batches of a split."""
    return [folder / f"{batch.name}.jsonl" for batch in batches(folder).values() if batch.split == split]


def training_files(names: Sequence[str] = ()) -> list[Path]:
    """The files of some training batches, of any of the corpora; by default all of ``crossed``.

    Raises:
        InputError: there is no training batch of that name.
    """
    if not names:
        return batch_files(FOLDER, "train")
    files = {file.stem: file for folder in FOLDERS.values() for file in batch_files(folder, "train")}
    if unknown := sorted({*names} - {*files}):
        raise InputError(f"{unknown[0]!r} is not a batch of the training split")
    return [file for name, file in files.items() if name in names]


EXTRA = {"phenomenon": "string", "inference": "bool", "batch": "string", **dict.fromkeys(CLAUSES, "string")}


def _crossed(name: str, title: str, size: str, language: str = "zh", more: str = "") -> Corpus:
    def config(name: str, read: Callable[[Path], Iterator[Row]], splits: Sequence[str]) -> Config:
        files = dict.fromkeys(splits, (BATCHES_FILE,))
        return Config(name, CHATS, LABELS["4-class"], files, read, extra=EXTRA, choose=batch_files)

    return Corpus(
        name, title, (language,), "cc0-1.0",
        "part of this package, and configs of the same names in the data repo of CDConv", WRITTEN, size,
        (
            config(name, read_rows, SPLITS), config("alone", read_alone, SPLITS[1:]),
            config("unrelated", read_unrelated, SPLITS[1:]),
        ),
        description="Two chats and two replies make an item. Each reply is consistent in one chat and contradicts the "
        "other. In the configs alone and unrelated, the same replies contradict nothing, so all contradictions that "
        f"are called there are false alarms.{more}",
        bundled=FOLDERS[name],
    )  # fmt: skip


WRITTEN = "Written for this project by a large language model"
CORPUS = _crossed(CROSSED, "Crossed chats", "train 87,190, validation 2,650, test 2,332")
LONG = _crossed(
    CROSSED_LONG, "Crossed chats with long replies", "train 8,592, validation 496, test 728",
    more=" Replies and messages of the assistant have at least 60 characters.",
)  # fmt: skip
ENGLISH = _crossed(CROSSED_EN, "Crossed chats in English", "train 800, validation 400, test 800", "en")


def read_contrast(path: Path) -> Iterator[Row]:
    """Both replies of each contrast pair; ``source`` numbers the pair."""
    for number, (_, pair) in enumerate(read_objects(path), start=1):
        for reply, label in (("contradicts", pair["label"]), ("fits", NON_CONTRADICTION)):
            yield Row(
                f"{number}-{reply}", label, messages=tuple(alternating(pair["turns"])), reply=pair[reply],
                source=str(number), extra={"phenomenon": pair["phenomenon"]},
            )  # fmt: skip


CONTRAST = Corpus(
    "contrast", "Contrast pairs", ("zh",), "cc0-1.0", "part of this package", WRITTEN, "test 168",
    (
        Config(
            "contrast", CHATS, LABELS["4-class"], {"test": ("contrast.jsonl",)}, read_contrast,
            extra={"phenomenon": "string"},
        ),
    ),
    description="Two replies to one chat, of which one is a contradiction; grouped by what has to be understood.",
    bundled=DATA,
)  # fmt: skip
