"""Published corpora: what describes one, the rows that are read from it, and all that this package reads, by name.

Each module here describes one corpus, or several of one format: it defines objects :class:`Corpus`.
"""

import os
import pkgutil
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from contradiction.conversation import ASSISTANT, USER, chat_to_text
from contradiction.errors import InputError, kind_of, listed
from contradiction.inputs.views import CONVERSATION
from contradiction.io.files import sha256_of

VARIABLE = "CDCONV_CORPORA"  # a folder with a folder for each corpus, by its name
SUMS = Path(__file__).with_name("SHA256SUMS")
PAIRS, CHATS = "pairs", "chats"
WHOLE = "whole chats"  # chats whose data set has one text of all messages, with the speaker before each


@dataclass(frozen=True)
class Row:
    """One judged text: a hypothesis after a premise, or a reply after the messages of a chat.

    Attributes:
        id: that of the authors, or the file and a number; the rows of CDConv have numbers.
        label: one of the labels of the config; None where it is not published.
        messages: the role and content of each message of a chat before the reply.
        evidence: the indices of the messages that the reply contradicts; None where they are not marked.
        source: the id of the premise, conversation or item that the row was made from; rows of one source belong
            together.
        extra: the values of further columns of the config.
    """

    id: Any
    label: str | None
    premise: str = ""
    hypothesis: str = ""
    messages: tuple[Mapping[str, str], ...] = ()
    reply: str = ""
    evidence: tuple[int, ...] | None = None
    source: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    def chat(self) -> list[Mapping[str, str]]:
        """The messages of the chat, and the reply as the last one."""
        return [*self.messages, {"role": ASSISTANT, "content": self.reply}]

    def whole(self) -> dict[str, str]:
        """The messages before the reply as one text, and the reply: the columns of the view ``chat``."""
        return {"chat": chat_to_text(self.messages), "reply": self.reply}

    def texts(self) -> dict[str, str]:
        """The texts of a pair or of a chat of two turns under every name by which a model reads them."""
        if self.hypothesis:
            return pair_texts(self.premise, self.hypothesis)
        spoken = [*(message["content"] for message in self.messages), self.reply]
        return {**dict(zip(CONVERSATION, spoken, strict=False)), **self.whole()}

    def turns_of(self, evidence: Iterable[int] | None) -> set[int] | None:
        """The numbers of the turns that messages belong to; a turn ends before the next message of the user."""
        if evidence is None:
            return None
        roles = [message["role"] for message in self.messages]
        begins = [index for index, role in enumerate(roles) if index and role == USER and roles[index - 1] == ASSISTANT]
        return {bisect_right(begins, index) for index in evidence}

    @property
    def context(self) -> tuple[str, ...]:
        """What the judged text follows; texts with the same one can be compared."""
        return (self.premise, *(str(message["content"]) for message in self.messages))


def pair_texts(premise: str, hypothesis: str, before_premise: str = "", before_hypothesis: str = "") -> dict[str, str]:
    """A pair under the names of CDConv, NLI and whole chats; u1 and u2 are what the user said before each text."""
    return {
        "premise": premise, "hypothesis": hypothesis, "b1": premise, "b2": hypothesis, "u1": before_premise,
        "u2": before_hypothesis, "chat": premise, "reply": hypothesis,
    }  # fmt: skip


class Note(str):
    """What a reader did to a file, such as leaving out a line; equal notes are counted."""


@dataclass(frozen=True)
class Config:
    """Files of one format.

    Attributes:
        name: the name of the config in the data repo.
        shape: ``PAIRS``, ``CHATS`` or ``WHOLE``; the rows of the last two are the same.
        labels: the names of the classes; the position is the class id.
        files: split -> patterns of file names below the corpus's folder; the first pattern that matches is read.
        read: a function that yields the rows of a file, and notes.
        extra: further columns and their types: ``string``, ``strings``, ``bool`` or a number type such as ``int32``.
        choose: a function that returns the files of a split in a folder, where the file names do not show the split.
    """

    name: str
    shape: str
    labels: tuple[str, ...]
    files: Mapping[str, Sequence[str]]
    read: Callable[[Path], Iterator[Row | Note]]
    extra: Mapping[str, str] = field(default_factory=dict)
    choose: Callable[[Path, str], list[Path]] | None = None


@dataclass(frozen=True)
class Corpus:
    """A published corpus.

    Attributes:
        name, title: the name on the command line, and in cards and tables.
        license: an identifier of the Hub, such as ``cc-by-nc-4.0``; ``unknown`` where the authors do not state one.
        homepage: where to get the full corpus: an address, or ``Hub: ID``.
        citation: authors, title and year of the paper.
        size: the rows of each split as published.
        configs: the formats of its files.
        description: a few sentences that a user must know.
        bundled: the folder in this package that holds the corpus; None where it must be fetched.
    """

    name: str
    title: str
    languages: tuple[str, ...]
    license: str
    homepage: str
    citation: str
    size: str
    configs: tuple[Config, ...]
    description: str = ""
    bundled: Path | None = None

    @property
    def checksums(self) -> Mapping[str, str]:
        """SHA-256 of the known files, by file name; ``SHA256SUMS`` in this folder has those of all corpora."""
        lines = (re.split("[ /]+", line, maxsplit=2) for line in SUMS.read_text(encoding="utf-8").splitlines())
        return {name: digest for digest, corpus, name in lines if corpus == self.name}

    def config(self, name: str | None = None) -> Config:
        """The config with a name, by default the first; raises InputError for an unknown name."""
        for config in self.configs:
            if name is None or config.name == name:
                return config
        raise InputError(
            f"{self.name} has no config {name!r}, only {listed((config.name for config in self.configs), name)}"
        )


@dataclass(frozen=True)
class Split:
    """The rows of one split, how often each note was made, and the files whose checksum is not the known one."""

    rows: list[Row]
    notes: Counter[str]
    changed: list[str]


def find_files(config: Config, split: str, source: Path) -> list[Path]:
    """The files of a split, in a folder or as a single file; empty where there are none.

    The end of the path of a single file must match the whole pattern: ``R3/train.jsonl`` does not match
    ``R1/train.jsonl``.
    """
    for pattern in config.files.get(split, ()):
        if source.is_file():
            matches = [source] if source.absolute().match(pattern) else []
        else:
            matches = sorted(source.glob(pattern))
        if matches:
            return config.choose(matches[0].parent, split) if config.choose else matches
    return []


def read_split(corpus: Corpus, source: str | Path | None, config: str | None, split: str) -> Split:
    """Reads one split of one config, by default the first, from a local copy: its folder or one of its files.

    Raises:
        InputError: there is no such config, split, folder or file, or a line is not valid.
    """
    chosen, place = corpus.config(config), source_of(corpus, source)
    if split not in chosen.files:
        raise InputError(f"{corpus.name} has no split {split!r} in {chosen.name}, only {listed(chosen.files, split)}")
    files = find_files(chosen, split, place)
    if not files:
        wanted = " or ".join(chosen.files[split])
        raise InputError(
            f"{place}: holds no {wanted}, the {split} split of {corpus.name}; the corpus: {corpus.homepage}"
        )
    notes: Counter[str] = Counter()
    rows = [row for file in files for row in without_notes(read_file(file, chosen, corpus.title), notes)]
    known = corpus.checksums
    changed = [file.name for file in files if file.name in known and sha256_of(file) != known[file.name]]
    return Split(rows, notes, changed)


def read_file(file: Path, config: Config, title: str) -> Iterator[Row | Note]:
    """The rows of one file, and notes; raises InputError where it is not in the format that the title names."""
    count = 0
    try:
        for row in config.read(file):
            if isinstance(row, Row):
                _check(row, config)
                count += 1
            yield row
    except InputError:
        raise
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"{file}: the data after row {count} is not in the format of {title} ({error!r})") from error


def without_notes(rows: Iterable[Row | Note], notes: Counter[str]) -> Iterator[Row]:
    """The rows among what a reader yields; the notes are counted."""
    for row in rows:
        if isinstance(row, Note):
            notes[row] += 1
        else:
            yield row


def _check(row: Row, config: Config) -> None:
    message_texts = [text for message in row.messages for text in (message["role"], message["content"])]
    for text in (row.id, row.premise, row.hypothesis, row.reply, *message_texts):
        if not isinstance(text, str):
            raise ValueError(f"{kind_of(text)} where text is expected")
        text.encode("utf-8")  # raises an error, which is a ValueError, for a lone surrogate
    if row.label is not None and row.label not in config.labels:
        raise ValueError(f"label {row.label!r}; allowed are {', '.join(config.labels)}")
    if not all(index in range(len(row.messages)) for index in row.evidence or ()):
        raise ValueError(f"evidence {list(row.evidence or ())} of {len(row.messages)} messages")


def source_of(corpus: Corpus, source: str | Path | None) -> Path:
    """The local copy of a corpus, by default that of :func:`local_copy`; raises InputError where there is none."""
    place = source or local_copy(corpus)
    if place is None or not Path(place).exists():
        if source and (here := local_copy(corpus)):
            raise InputError(f"{source}: no such file or folder; without it, {corpus.name} is read from {here}")
        raise InputError(
            f"{place or corpus.name}: no local copy; name one, or set ${VARIABLE} to a folder of corpora. The corpus "
            f"{corpus.name}: {corpus.homepage}"
        )
    return Path(place)


def local_splits(corpus: Corpus, source: str | Path | None) -> list[tuple[Config, str]]:
    """The configs and splits that a local copy has files of."""
    place = source_of(corpus, source)
    return [(config, split) for config in corpus.configs for split in config.files if find_files(config, split, place)]


def all_corpora() -> dict[str, Corpus]:
    """Every corpus by its name: each object :class:`Corpus` of a module of this folder."""
    modules = (import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__))
    corpora = [value for module in modules for value in vars(module).values() if isinstance(value, Corpus)]
    return {corpus.name: corpus for corpus in sorted(corpora, key=lambda corpus: corpus.name)}


def find(name: str) -> Corpus:
    """A corpus by its name; raises InputError for an unknown one."""
    known = all_corpora()
    if name not in known:
        raise InputError(f"corpus {name!r} is not known; the known corpora are {listed(known, name)}")
    return known[name]


def find_by_title(title: str) -> Corpus | None:
    """The corpus with a title, which is the name of its data repo; None if there is none."""
    return next((corpus for corpus in all_corpora().values() if corpus.title == title), None)


def local_copy(corpus: Corpus) -> Path | None:
    """The folder of a corpus in this package or in ``$CDCONV_CORPORA``; else None."""
    folder = os.environ.get(VARIABLE)
    if corpus.bundled or not folder:
        return corpus.bundled
    return place if (place := Path(folder) / corpus.name).exists() else None
