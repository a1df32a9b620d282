"""Crossed chats: a corpus in which neither the reply nor the chat alone says anything about the label.

A *crossed quadruple* is two chats and two replies. The chats differ in what was said earlier. Each reply is consistent
in one chat and contradicts the other, so every chat and every reply stands once with each label. A detector must
compare the two to do better than chance. Self-contradictions cannot be crossed; they stand as minimal pairs.

The batches lie in ``contradiction/data/crossed``, one file a batch, and are released under CC0.
"""

import csv
import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contradiction.conversation import ASSISTANT, USER
from contradiction.data.corpora.corpus import CHATS, Config, Corpus, Note, Row, read_text
from contradiction.data.splits import SPLITS
from contradiction.errors import InputError, kind_of
from contradiction.labels import HISTORY, INTRA, LABELS, NON_CONTRADICTION, ROLE

if TYPE_CHECKING:
    from datasets import DatasetDict

FOLDER = Path(__file__).resolve().parents[1] / "crossed"
BATCHES_FILE = "batches.csv"
CLASSES = ("label", "phenomenon")  # columns of classes, stored as numbers
STYLES = ("short", "long", "assistant", "asked", "pairs")
PHENOMENA = (
    "negation", "antonym", "number", "time", "place", "kin", "work", "habit", "possession", "ability", "experience",
    "knowledge", "order", "plan", "opinion", "name", "rule", "speaker",
)  # fmt: skip

Message = Mapping[str, str]
Chat = tuple[Message, ...]


@dataclass(frozen=True)
class JudgedReply:
    """A chat, a reply to it, and whether the reply contradicts it.

    Attributes:
        id: of the quadruple or pair, with a suffix for the combination.
        item: id of the quadruple or pair.
        messages: the chat before the reply; the last message is the user's.
        reply: the reply to judge.
        label: one of the four classes of ``4-class``.
        evidence: index of the message that the reply contradicts; None if it contradicts none.
        evidence_clause: the clashing clause of that message; None if it was not marked.
        reply_clause: the clashing clause of the reply; None if it was not marked.
    """

    id: str
    item: str
    messages: Chat
    reply: str
    label: str
    evidence: int | None = None
    evidence_clause: str | None = None
    reply_clause: str | None = None


@dataclass(frozen=True)
class Item(ABC):
    """What quadruples and pairs have in common.

    Attributes:
        id: the batch and a number.
        batch: who wrote it, and to which brief.
        label: of the contradicting replies.
        phenomenon: what a reader must understand, one of ``PHENOMENA``.
    """

    id: str
    batch: str
    label: str
    phenomenon: str

    @abstractmethod
    def judged(self) -> Iterator[JudgedReply]:
        """Every combination of chat and reply, the consistent reply of each chat first."""


@dataclass(frozen=True)
class Quadruple(Item):
    """Two chats and two replies, each reply consistent in one chat and contradicting the other.

    Attributes:
        a: the chat in which ``reply_a`` is consistent.
        b: the chat in which ``reply_b`` is consistent; as long as ``a``.
        reply_a: contradicts ``b``.
        reply_b: contradicts ``a``.
        evidence: index of the message in which the chats differ and which is contradicted.
        inference: whether the clash takes knowledge or arithmetic; None if the author did not say.
        clauses: the clashing clauses where they were marked: ``evidence_a``, ``evidence_b``, ``reply_a``, ``reply_b``.
    """

    a: Chat
    b: Chat
    reply_a: str
    reply_b: str
    evidence: int
    inference: bool | None = None
    clauses: Mapping[str, str] = field(default_factory=dict)

    def judged(self) -> Iterator[JudgedReply]:
        """The four combinations of chat and reply, the consistent one of each chat first."""
        chats, replies = {"a": self.a, "b": self.b}, {"a": self.reply_a, "b": self.reply_b}
        for chat in "ab":
            for reply in (chat, "b" if chat == "a" else "a"):
                name = f"{self.id}-{chat}{reply}"
                if chat == reply:
                    yield JudgedReply(name, self.id, chats[chat], replies[reply], NON_CONTRADICTION)
                else:
                    yield JudgedReply(
                        name, self.id, chats[chat], replies[reply], self.label, self.evidence,
                        self.clauses.get(f"evidence_{chat}"), self.clauses.get(f"reply_{reply}"),
                    )  # fmt: skip


@dataclass(frozen=True)
class Pair(Item):
    """A chat and two replies alike, of which one contradicts itself.

    Attributes:
        messages: the chat.
        good: the consistent reply.
        bad: the reply that contradicts itself.
        clauses: the two clauses of ``bad`` that clash.
    """

    messages: Chat
    good: str
    bad: str
    clauses: tuple[str, str]

    def judged(self) -> Iterator[JudgedReply]:
        """The consistent reply, then the contradicting one."""
        yield JudgedReply(f"{self.id}-good", self.id, self.messages, self.good, NON_CONTRADICTION)
        yield JudgedReply(f"{self.id}-bad", self.id, self.messages, self.bad, self.label, None, *self.clauses)


@dataclass(frozen=True)
class Batch:
    """One author's batch.

    Attributes:
        name: of its file, without ``.jsonl``.
        split: train, validation or test; a batch lies in one split as a whole.
        style: ``short`` (two turns, colloquial), ``long`` (three turns and more), ``assistant`` (long messages of an
            assistant or a service bot), ``asked`` (the user asks the same again in other words) or ``pairs``
            (self-contradictions).
        brief: what its author was asked for.
    """

    name: str
    split: str
    style: str
    brief: str


def batches(folder: str | Path = FOLDER) -> dict[str, Batch]:
    """The batches of a folder by name, in the order of ``batches.csv``.

    Raises:
        InputError: the list is missing or malformed, names a batch twice, or does not match the files in the folder.
    """
    path = Path(folder) / BATCHES_FILE
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            rows = [
                Batch(row["batch"], row["split"], row["style"], row["brief"])
                for row in csv.DictReader(stream, strict=True)
            ]
    except (OSError, ValueError, csv.Error, KeyError) as error:
        raise InputError(f"{path}: cannot be read ({error}); it lists batch, split, style and brief") from None
    for row in rows:
        if row.split not in SPLITS or row.style not in STYLES:
            raise InputError(
                f"{path}: batch {row.name!r} has split {row.split!r} and style {row.style!r}; splits are "
                f"{', '.join(SPLITS)}, styles {', '.join(STYLES)}"
            )
    names = [row.name for row in rows]
    present = {file.stem for file in Path(folder).glob("*.jsonl")}
    if wrong := sorted({name for name in names if names.count(name) > 1} | (set(names) ^ present)):
        raise InputError(f"{path}: must list each batch of the folder once; look at {', '.join(wrong)}")
    return {row.name: row for row in rows}


def read(split: str, folder: str | Path = FOLDER) -> list[Quadruple | Pair]:
    """The quadruples and pairs of one split, batch by batch.

    Raises:
        InputError: there is no such split, or a line is not valid; the message gives ``file:line``.
    """
    if split not in SPLITS:
        raise InputError(f"split {split!r} does not exist; the splits are {', '.join(SPLITS)}")
    return [item for file in batch_files(Path(folder), split) for item in read_batch(file)]


def read_all(folder: str | Path = FOLDER) -> dict[str, list[Quadruple | Pair]]:
    """The quadruples and pairs by split; see :func:`read`."""
    return {split: read(split, folder) for split in SPLITS}


def digest(split: str) -> str:
    """A digest of the published batches of one split: equal exactly for equal content."""
    content = hashlib.sha256()
    for file in batch_files(FOLDER, split):
        content.update(file.read_bytes())
    return content.hexdigest()[:16]


def read_batch(path: str | Path) -> list[Quadruple | Pair]:
    """The quadruples or pairs of one file.

    Raises:
        InputError: a line is not valid; the message gives ``file:line`` and what would be right.
    """
    path = Path(path)
    items: list[Quadruple | Pair] = []
    # Only a line feed ends a line: texts may hold other separators, such as U+2028.
    lines = read_text(path).removesuffix("\n")
    for number, line in enumerate(lines.split("\n") if lines else (), start=1):
        where = f"{path}:{number}"
        try:
            item = _item(json.loads(line))
        except KeyError as error:
            raise InputError(f"{where}: the key {error} is missing") from None
        except (TypeError, ValueError) as error:
            raise InputError(f"{where}: {error}") from None
        items.append(item)
    return items


def _item(values: Mapping[str, Any]) -> Quadruple | Pair:
    common = {key: _text(values, key) for key in ("id", "batch", "label", "phenomenon")}
    if values["phenomenon"] not in PHENOMENA:
        raise ValueError(f"phenomenon {values['phenomenon']!r}; allowed are {', '.join(PHENOMENA)}")
    if values["label"] == INTRA:
        first, second = values["clauses"]
        if not all(clause in values["bad"] for clause in (first, second)):
            raise ValueError("both clauses must be parts of 'bad'")
        return Pair(**common, messages=_chat(values["messages"]), good=_text(values, "good"),
                    bad=_text(values, "bad"), clauses=(first, second))  # fmt: skip
    if values["label"] not in (HISTORY, ROLE):
        raise ValueError(f"label {values['label']!r}; allowed are {HISTORY}, {ROLE} and {INTRA}")
    clauses = values.get("clauses", {})
    if not isinstance(clauses, Mapping):
        raise ValueError(f"clauses must be a JSON object, not {kind_of(clauses)}")
    item = Quadruple(
        **common, a=_chat(values["a"]), b=_chat(values["b"]), reply_a=_text(values, "reply_a"),
        reply_b=_text(values, "reply_b"), evidence=values["evidence"], inference=values.get("inference"),
        clauses=clauses,
    )  # fmt: skip
    _check(item)
    return item


def _chat(messages: Sequence[Message]) -> Chat:
    roles = [message["role"] for message in messages]
    if len(roles) % 2 == 0 or roles != [(USER, ASSISTANT)[index % 2] for index in range(len(roles))]:
        raise ValueError("a chat alternates user and assistant, and begins and ends with the user")
    return tuple({"role": message["role"], "content": _text(message, "content")} for message in messages)


def _text(values: Mapping[str, Any], key: str) -> str:
    value = values[key]
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{key} is {value!r}; it must be text, and not empty")
    return value


def _check(item: Quadruple) -> None:
    if len(item.a) != len(item.b):
        raise ValueError("both chats must have the same number of messages")
    if item.reply_a == item.reply_b:
        raise ValueError("both replies are the same")
    if not 0 <= item.evidence < len(item.a) or item.a[item.evidence] == item.b[item.evidence]:
        raise ValueError(f"evidence {item.evidence} must be the index of a message in which the chats differ")
    if item.label == HISTORY and item.a[item.evidence]["role"] != ASSISTANT:
        raise ValueError(f"evidence {item.evidence} of a {HISTORY} contradiction must be a message of the assistant")


def build(items: Mapping[str, Sequence[Quadruple | Pair]]) -> "DatasetDict":
    """The quadruples and pairs of each split as a data set of judged replies.

    Columns: id, item (of the quadruple or pair), messages (list of role and content), reply, label (the classes of
    4-class), evidence (index of the contradicted message, or null), evidence_clause and reply_clause (text or null),
    phenomenon, inference (or null), batch.
    """
    import pyarrow as pa
    from datasets import ClassLabel, Dataset, DatasetDict, Features, List, Value

    text = Value("string")
    features = Features(
        id=text, item=text, messages=List({"role": text, "content": text}), reply=text,
        label=ClassLabel(names=list(LABELS["4-class"])), evidence=Value("int8"), evidence_clause=text,
        reply_clause=text, phenomenon=ClassLabel(names=list(PHENOMENA)), inference=Value("bool"), batch=text,
    )  # fmt: skip
    numbers = {name: {value: number for number, value in enumerate(features[name].names)} for name in CLASSES}
    tables = {}
    for split, of_split in items.items():
        # Arrow encodes the rows in a third of the time that `Dataset.from_list` takes.
        rows = [row for item in of_split for row in _rows(item, numbers)]
        tables[split] = Dataset(pa.Table.from_pylist(rows, schema=features.arrow_schema))
    return DatasetDict(tables)


def _rows(item: Quadruple | Pair, numbers: Mapping[str, Mapping[str, int]]) -> Iterator[dict[str, Any]]:
    phenomenon = numbers["phenomenon"][item.phenomenon]
    for judged in item.judged():
        yield {
            "id": judged.id,
            "item": judged.item,
            "messages": judged.messages,
            "reply": judged.reply,
            "label": numbers["label"][judged.label],
            "evidence": judged.evidence,
            "evidence_clause": judged.evidence_clause,
            "reply_clause": judged.reply_clause,
            "phenomenon": phenomenon,
            "inference": getattr(item, "inference", None),
            "batch": item.batch,
        }


def read_rows(path: Path) -> Iterator[Row | Note]:
    """The judged replies of one batch in the schema of all corpora."""
    for item in read_batch(path):
        for judged in item.judged():
            extra = {
                "phenomenon": item.phenomenon, "inference": getattr(item, "inference", None), "batch": item.batch,
                "evidence_clause": judged.evidence_clause, "reply_clause": judged.reply_clause,
            }  # fmt: skip
            evidence = () if judged.evidence is None else (judged.evidence,)
            yield Row(
                judged.id, judged.label, messages=judged.messages, reply=judged.reply, evidence=evidence,
                source=judged.item, extra=extra,
            )  # fmt: skip


def batch_files(folder: Path, split: str) -> list[Path]:
    """The files of the batches of a split."""
    return [folder / f"{batch.name}.jsonl" for batch in batches(folder).values() if batch.split == split]


CORPUS = Corpus(
    name="crossed",
    title="Crossed chats",
    languages=("zh",),
    licence="cc0-1.0",
    home="part of this package, and the config `crossed` of the data repo of CDConv",
    origin="Written for this project by a large language model",
    size="train 87,190, validation 2,650, test 2,332",
    configs=(
        Config(
            "crossed",
            CHATS,
            LABELS["4-class"],
            files=dict.fromkeys(SPLITS, (BATCHES_FILE,)),
            read=read_rows,
            extra={
                "phenomenon": "string",
                "inference": "bool",
                "batch": "string",
                "evidence_clause": "string",
                "reply_clause": "string",
            },  # fmt: skip
            choose=batch_files,
        ),
    ),
    about="Two chats and two replies make an item. Each reply is consistent in one chat and contradicts the other.",
    bundled=FOLDER,
)
