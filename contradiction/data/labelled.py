"""Chats that an owner has labelled: a plain file of them, and a data repo that training and evaluation read.

The file has any format that ``cdconv detect`` reads; see :func:`contradiction.chats.readers.open_file`. Each chat has a
``label`` of its last reply, and perhaps ``evidence``, the index of the message that the reply contradicts.
"""

import hashlib
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from contradiction.chats.chunks import Entry
from contradiction.chats.formats import parse_json
from contradiction.chats.names import USUAL, Speakers
from contradiction.chats.readers import open_file
from contradiction.conversation import INSTRUCTIONS, Messages, Turn, is_blank, is_chinese, read_message, read_turns
from contradiction.data import statistics
from contradiction.data.splits import CHINESE, SPLITS, UNDETERMINED, fingerprint, name_of, write_repo
from contradiction.errors import InputError, check_known, listed, shown
from contradiction.inputs.views import CONVERSATION, Row, windows
from contradiction.io.files import locked, sha256_of
from contradiction.io.tables import Table
from contradiction.labels import CONTRADICTION, HISTORY, LABELS, NON_CONTRADICTION, is_contradiction, merge_label

if TYPE_CHECKING:
    from datasets import Dataset

NAME = "Labelled chats"
WINDOWS = 4  # the most rows of a long chat without a contradiction
WHOLE = "all"  # in place of a split, for all chats of a file
FOLDS = 5  # equal parts of the data: one for test, one for validation, three for training
NO_EVIDENCE = (
    "chats labelled {label} with several earlier replies and no evidence, left out: the contradicted one is unknown"
)
OF_INSTRUCTIONS = (
    "chats labelled {label} with instructions and no evidence, left out: the reply may contradict the instructions, "
    "such as a persona, which detectors do not read; to keep one, name the message that it contradicts as its evidence"
)


@dataclass(frozen=True)
class LabelledChat:
    """A chat whose last reply somebody has labelled.

    Attributes:
        messages: the messages; the last one is the judged reply.
        turns: the turns; the reply of the last one is judged.
        label: one of the labels of ``4-class`` or ``2-class``.
        id: by default the place of the line.
        evidence: the index of the message that the reply contradicts; None where it is unknown.
        told: whether the bot also got instructions, such as a persona.
        instructions: those that its file has beside the messages.
    """

    messages: Messages
    turns: Sequence[Turn]
    label: str
    id: str
    evidence: int | None = None
    told: bool = False
    instructions: str = ""

    @property
    def of_instructions(self) -> bool:
        """Whether the reply may contradict the instructions, and not the chat; no detector can learn from it."""
        return self.told and self.evidence is None and self.label in (HISTORY, CONTRADICTION)

    @property
    def context(self) -> str:
        """A digest of what the chat begins with; chats with the same one belong to the same split.

        It covers the first turn without the judged reply, so chats that differ only in their last reply have the same.
        """
        first, *later = self.turns
        text = f"{first.user}\n{first.reply}" if later else first.user
        return hashlib.sha256(text.encode()).hexdigest()

    def rows(self) -> list[tuple[Row, str]]:
        """The chat as rows of two turns with their labels; empty where the row with the contradiction is unknown."""
        if self.of_instructions:
            return []
        all_windows = windows(self.turns, len(self.turns) - 1)
        if self.label == NON_CONTRADICTION:
            return [(window.row, self.label) for window in all_windows[-WINDOWS:]]
        if self.label not in (HISTORY, CONTRADICTION) or len(all_windows) == 1:
            return [(all_windows[-1].row, self.label)]  # the reply contradicts itself, or the nearest turn
        if self.evidence is None:
            return []
        return [
            (window.row, self.label)
            for window in all_windows
            if window.turn is not None and self.evidence in self.turns[window.turn].reply_messages
        ]


def read(path: str | Path, speakers: Speakers = USUAL) -> list[LabelledChat]:
    """The labelled chats of a file.

    Raises:
        InputError: a line is not valid, or there is none; the message gives ``file:line``.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path}: no such file of labelled chats")
    opened = open_file(path, speakers=speakers)
    chats = [_chat(opened.place(entry.number), entry) for entry in opened]
    if not chats:
        raise InputError(f'{path}: is empty; a line is {{"messages": [...], "label": ...}}')
    return chats


def name_of_file(path: str | Path) -> str:
    """The name of the data repo of a file of labelled chats; it holds a digest of the file."""
    return f"{NAME} {sha256_of(path)[:12]}"


def task_of(chats: Sequence[LabelledChat]) -> str:
    """The task whose labels the chats have: ``4-class``, or ``2-class`` if any label is only *contradiction*."""
    return "4-class" if all(chat.label in LABELS["4-class"] for chat in chats) else "2-class"


def of_split(chats: Sequence[LabelledChat], path: str | Path, split: str) -> list[LabelledChat]:
    """The chats of a split of a file, as :func:`build` splits it; ``WHOLE`` has all of them.

    Raises:
        InputError: there is no such split, or the file has too few chats for splits.
    """
    if split == WHOLE:
        return list(chats)
    if split not in SPLITS:
        raise InputError(f"split {split!r}; the splits of labelled chats are {listed(SPLITS, split)}")
    split_of = _splits_of(_groups(_rows(chats)[0], path))
    # A chat without rows has the split of the chats that begin like it.
    return [chat for chat in chats if split_of.get(chat.context, _split_of(chat.context)) == split]


def _chat(where: str, entry: Entry) -> LabelledChat:
    if entry.error:
        raise InputError(f"{where}: {entry.error}")
    label, messages = entry.label, entry.messages
    known = dict.fromkeys(name for task in ("4-class", "2-class") for name in LABELS[task])
    if label is None:
        raise InputError(f"{where}: has no label; a key or column 'label' gives one of {', '.join(known)}")
    label = check_known(label, known, f"{where}: label")
    turns = read_turns(messages)
    if not turns or turns[-1].reply_messages[-1] != len(messages) - 1:
        raise InputError(f"{where}: the last message must be the labelled reply of the assistant")
    evidence = _index(entry.evidence)
    replies = [index for turn in turns[:-1] for index in turn.reply_messages]
    if (
        evidence is not None
        and label in (HISTORY, CONTRADICTION)
        and (type(evidence) is not int or evidence not in replies)
    ):
        raise InputError(
            f"{where}: evidence {shown(evidence)}; it must be the index of an earlier message of the assistant "
            f"({', '.join(map(str, replies)) or 'there is none'})"
        )
    read = (read_message(message, where) for message in messages)
    told = [entry.instructions, *(message.text for message in read if message.role in INSTRUCTIONS)]
    name = where if entry.id is None else entry.name
    return LabelledChat(messages, turns, label, name, evidence, not all(map(is_blank, told)), entry.instructions)


def _index(evidence: Any) -> Any:
    """The first index of a list, as verdicts have one; a cell of a table holds its text."""
    if isinstance(evidence, str):
        with suppress(InputError):
            evidence = parse_json(evidence)
    return (evidence[0] if evidence else None) if isinstance(evidence, list) else evidence


class LabelledRepo(NamedTuple):
    """A data repo of labelled chats, the rows of each label in each split, and why some chats gave no rows."""

    folder: Path
    sizes: Table
    left_out: Counter[str]


def build(path: str | Path, out: str | Path | None = None, speakers: Speakers = USUAL) -> LabelledRepo:
    """Writes a data repo of labelled chats: rows of two turns, split by chat, about 60/20/20.

    The repo is written again only if the file or the rows that are made from it have changed. By default it is beside
    the file: ``labels.jsonl`` becomes ``labels.data``.

    Raises:
        InputError: the file is not valid or has too few chats, or ``out`` is another folder.
    """
    from huggingface_hub import DatasetCardData

    path = Path(path)
    chats = read(path, speakers)
    out = Path(out or path.with_suffix(".data"))
    name = name_of_file(path)
    language = _language(chats)
    rows, left_out = _rows(chats)
    split_of = _splits_of(_groups(rows, path))
    splits = {split: [row for row in rows if split_of[row.context] == split] for split in SPLITS}
    task = task_of(chats)
    sets = {
        config: {split: to_dataset(config, chosen) for split, chosen in splits.items()}
        for config in dict.fromkeys((task, "2-class"))
    }
    sizes = statistics.sizes({task: sets[task]}, NAME)
    # Other names of speakers, and another version, may make other rows of the same file.
    rows_digest = fingerprint(*(part for parts in sets.values() for part in parts.values()))
    facts = (name, rows_digest)
    if not _is_current(out, *facts):
        with locked(out, wait=True):
            if out.exists() and not ((out / "README.md").is_file() and name_of(out).startswith(NAME)):
                raise InputError(f"{out}: not a data repo of labelled chats, and would be replaced; move it away")
            if not _is_current(out, *facts):  # another process of the same run may have written it
                data = DatasetCardData(
                    language=language, pretty_name=name, task_categories=["text-classification"],
                    tags=["contradiction-detection"],
                )  # fmt: skip
                origin = f"Made from `{path.name}`. The digest of the rows is `{rows_digest}`."
                write_repo(out, sets, data, f"# {name}\n\n{origin}\n\n{sizes.markdown()}\n")
    return LabelledRepo(out, sizes, left_out)


def _language(chats: Sequence[LabelledChat]) -> str:
    """The code of the language of nine replies in ten: Chinese, or undetermined."""
    chinese = [is_chinese(turn.reply) for chat in chats for turn in chat.turns]
    return CHINESE if sum(chinese) >= 0.9 * len(chinese) else UNDETERMINED


def _is_current(out: Path, *parts: str) -> bool:
    """Whether the card of a data repo has these parts."""
    try:
        card = (out / "README.md").read_text(encoding="utf-8", errors="replace")
    except OSError:  # there is none, or another process replaces the folder
        return False
    return all(part in card for part in parts)


class ChatRow(NamedTuple):
    """A row of two turns, its label, and the context and the id of its chat."""

    context: str
    chat: str
    row: Row
    label: str


def _rows(chats: Sequence[LabelledChat]) -> tuple[list[ChatRow], Counter[str]]:
    """The rows of all chats, and why some chats gave none."""
    rows: list[ChatRow] = []
    left_out: Counter[str] = Counter()
    for chat in chats:
        chat_rows = chat.rows()
        if not chat_rows:
            left_out[(OF_INSTRUCTIONS if chat.of_instructions else NO_EVIDENCE).format(label=chat.label)] += 1
        rows += [ChatRow(chat.context, chat.id, row, label) for row, label in chat_rows]
    return rows, left_out


def _groups(rows: Sequence[ChatRow], path: str | Path) -> list[set[str]]:
    """The contexts of contradictions, of other chats, and of each frequent label; raises InputError if too few."""
    kinds: dict[bool, set[str]] = {True: set(), False: set()}
    labels: dict[str, set[str]] = {}
    for row in rows:
        kinds[is_contradiction(row.label)].add(row.context)
        labels.setdefault(row.label, set()).add(row.context)
    # Rows that begin alike stay together, so each part needs another beginning.
    if min(map(len, kinds.values())) < FOLDS:
        raise InputError(
            f"{path}: of the usable chats that begin differently, {len(kinds[True])} have a contradiction and "
            f"{len(kinds[False])} have none; the splits need at least {FOLDS} of each, so label more chats"
        )
    return [*kinds.values(), *(group for group in labels.values() if len(group) >= FOLDS)]


def _splits_of(groups: Sequence[set[str]]) -> dict[str, str]:
    """The split of each context: that of its digest, so that it stays when chats are added to the file.

    A small file may leave a split without a context of a group. Then one moves there from the split with the most. The
    most important group is the first.
    """
    split_of = {context: _split_of(context) for group in groups for context in group}

    def members(group: set[str], split: str) -> set[str]:
        return {context for context in group if split_of[context] == split}

    for number, group in enumerate(groups):
        for split in SPLITS:
            if members(group, split):
                continue
            source = max(SPLITS, key=lambda name: len(members(group, name)))
            # The last context of a more important group stays.
            last = [left for earlier in groups[:number] if len(left := members(earlier, source)) == 1]
            if movable := members(group, source).difference(*last):
                split_of[min(movable)] = split
    return split_of


def _split_of(context: str) -> str:
    return {0: "test", 1: "validation"}.get(int(context, 16) % FOLDS, "train")


def to_dataset(config: str, rows: Sequence[ChatRow]) -> "Dataset":
    """Rows with the columns of CDConv that training reads, and the id of their chat."""
    from datasets import ClassLabel, Dataset, Features, Value

    text = Value("string")
    features = Features(
        id=Value("int32"), **dict.fromkeys(CONVERSATION, text), label=ClassLabel(names=list(LABELS[config])), chat=text
    )
    values = [
        {
            "id": number,
            **one.row,
            "label": one.label if config == "4-class" else merge_label(one.label),
            "chat": one.chat,
        }
        for number, one in enumerate(rows, start=1)
    ]
    return Dataset.from_list(values, features=features)
