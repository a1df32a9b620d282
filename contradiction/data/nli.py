"""A data repo of NLI corpora, to fine-tune a backbone before CDConv (paper, section 5.2), or to train on beside it.

A row has a premise, a hypothesis and one of three labels. The config ``nli`` keeps the labels; ``nli-2-class`` merges
entailment and neutral to non-contradiction, as the paper does. Pairs of DECODE have only two labels: a contradicting
pair is like any other, and all other pairs are only known not to contradict.
"""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contradiction.conversation import is_chinese
from contradiction.data import corpora
from contradiction.data.corpora import PAIRS, Corpus, Split, local_splits, read_file, read_split, without_notes
from contradiction.data.corpora.dialogues import DECODE
from contradiction.data.corpora.pairs import CMNLI, CNLI, LABEL, LANGUAGE, OTHER_LANGUAGE, pair_of
from contradiction.data.splits import has_label, load_rows, write_repo
from contradiction.errors import InputError
from contradiction.io.files import check_new, read_text
from contradiction.labels import CONTRADICTION, LABELS, NON_CONTRADICTION, merge_label, task_of

if TYPE_CHECKING:
    from datasets import Dataset

NAME = "Chinese NLI pairs"  # the name in the records of training; MIXED for mixed languages
MIXED = "Chinese and English NLI pairs"
SUFFIXES = (".json", ".jsonl", ".tsv", ".txt")
ALL = "all"  # every split of a corpus that is given by name
CARD = (
    "Built by `cdconv data nli` for training before or beside CDConv. The licences of the corpora it was built from "
    "apply. A label of -1 means that the pair is only known not to contradict.\n"
)
UNKNOWN = -1  # the class id of a row for which only the column `contradiction` is known

# Premise, hypothesis, and a label of ``nli``, or NON_CONTRADICTION where nothing else is known.
Pair = tuple[str, str, str]
MaybeLabelled = tuple[str, str, str | None]  # the same; the label is None where there is none


def read(corpus: str | Path, split: str = "train", notes: Counter[str] | None = None) -> list[Pair]:
    """Reads a corpus from a file or a data repo.

    Args:
        corpus: a file of OCNLI, CMNLI, XNLI, CNLI or pairs of DECODE; the name of a corpus of pairs that ``cdconv
            corpora`` finds here; or a data repo, by its Hub id or folder, as ``ID``, ``ID:CONFIG`` or
            ``ID:CONFIG:SPLIT``: for instance ``clue/clue:ocnli``, ``clue/clue:cmnli`` or ``facebook/xnli:zh``.
        split: of a data repo or a corpus by name, where the corpus does not name one.
        notes: counts how damaged lines were handled.

    Returns:
        Premise, hypothesis and label name of each row in Chinese, or of DECODE. Rows without a label are left out.

    Raises:
        InputError: there is no such file or repo, a row is not in one of these formats, only some rows have the column
            of the label, or none has a label; the message names the place.
    """
    pairs = _read(corpus, split, Counter() if notes is None else notes)
    labelled = [(premise, hypothesis, label) for premise, hypothesis, label in pairs if label is not None]
    if not labelled:
        raise InputError(f"{corpus}: no row has a label; the columns of labels are {' and '.join(LABEL)}")
    return labelled


def _read(corpus: str | Path, split: str, notes: Counter[str]) -> list[MaybeLabelled]:
    """The pairs of a corpus, also those whose label is not published; see :func:`read`."""
    path = Path(corpus)
    known = None if path.exists() else corpora.all_corpora().get(str(corpus))
    if known:
        parts = _splits_of(known, split)
        for part in parts:
            notes.update(part.notes)
        pairs = [(row.premise, row.hypothesis, row.label) for part in parts for row in part.rows]
    elif path.is_file():
        known = _format_of(path)
        [config] = [config for config in known.configs if config.shape == PAIRS]
        rows = without_notes(read_file(path, config, known.title), notes)
        pairs = [(row.premise, row.hypothesis, row.label) for row in rows]
    elif path.suffix in SUFFIXES and not path.exists():
        raise InputError(f"{corpus}: no such file; a corpus is a file, a data repo, or a name in `cdconv corpora`")
    else:
        pairs = [pair_of(row, where) for where, row in _repo_rows(str(corpus), split, notes)]
    if not pairs:
        raise InputError(f"{corpus}: no row is a pair in Chinese, or of DECODE")
    return pairs


def _format_of(path: Path) -> Corpus:
    """A corpus with the format of a file of pairs."""
    start = read_text(path)[:1000].lstrip("\r\n")
    if path.suffix == ".txt" and "\t" in start and not start.startswith(("{", "[")):
        return CNLI
    return DECODE if '"last"' in start or '"turns"' in start else CMNLI


def _splits_of(corpus: Corpus, split: str) -> list[Split]:
    """The splits of pairs of the local copy of a corpus; raises InputError if it has no such split."""
    splits = [(config.name, name) for config, name in local_splits(corpus, None) if config.shape == PAIRS]
    chosen = [(config, name) for config, name in splits if split in (name, ALL)]
    if not chosen:
        here = ", ".join(dict.fromkeys(name for _, name in splits)) or "none"
        raise InputError(f"{corpus.name}: the local copy has no {split} split of pairs; it has {here}")
    return [read_split(corpus, None, config, name) for config, name in chosen]


def _repo_rows(corpus: str, split: str, notes: Counter[str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each row in Chinese with its place; the label is its name."""
    from datasets import ClassLabel

    drive, name = os.path.splitdrive(corpus)  # the colon of a drive of Windows separates nothing
    name, _, rest = name.partition(":")
    config, _, named = rest.partition(":")
    rows = load_rows(drive + name, config or None, named or split)
    label = rows.features.get("label")
    for number, row in enumerate(rows, start=1):
        if row.get("language", LANGUAGE) != LANGUAGE:
            notes[OTHER_LANGUAGE] += 1
            continue
        if isinstance(label, ClassLabel):
            row["label"] = label.int2str(row["label"]) if has_label(row["label"]) else None
        yield f"{corpus}:row {number}", row


@dataclass(frozen=True)
class PairCounts:
    """How many pairs were written, and how many training pairs were left out and why.

    Attributes:
        dropped: those that occur twice, or in the validation split.
        excluded: those that occur in an excluded corpus.
        two_way: training pairs that are only known not to contradict.
        notes: how damaged lines were handled, and how often.
    """

    train: int
    validation: int
    dropped: int
    excluded: int
    two_way: int
    notes: Counter[str]


def build(
    train: Iterable[str | Path], validation: Iterable[str | Path], out: str | Path, exclude: Iterable[str | Path] = ()
) -> PairCounts:
    """Writes the data repo of NLI corpora.

    A training pair that also occurs in the validation split, or a second time in the training split, is left out. So is
    a pair of an excluded corpus; case, spaces and punctuation make no difference in that comparison.

    Columns: id, premise, hypothesis, label. Pairs that are only known not to contradict have the label -1 in the
    training split of ``nli``, and are left out of its validation split. Where there are such pairs, a column
    ``contradiction`` says whether each pair is a contradiction.

    Args:
        train: corpora of the training split, see :func:`read`.
        validation: corpora of the validation split.
        out: the folder; it must not exist yet.
        exclude: corpora to keep out of the training split, such as those that a model will be evaluated on. Pairs
            without a label are excluded, too, and every split of a corpus that is given by name.

    Raises:
        InputError: a corpus is not valid, a split is empty, or ``out`` exists.
    """
    from huggingface_hub import DatasetCardData

    out = Path(out)
    check_new(out)
    notes: Counter[str] = Counter()
    held_out = _unseen((pair for corpus in validation for pair in read(corpus, "validation", notes)), set())
    raw = [pair for corpus in train for pair in read(corpus, "train", notes)]
    unwanted = {plain(pair) for corpus in exclude for pair in _read(corpus, ALL, Counter())}
    allowed = [pair for pair in raw if plain(pair) not in unwanted] if unwanted else raw
    kept = _unseen(allowed, {pair[:2] for pair in held_out})
    if not kept or not held_out:
        raise InputError(
            f"the {'validation' if kept else 'training'} split has no rows: no pair is left of {len(raw):,} training "
            f"pairs without those of the validation split ({len(held_out):,}) and of excluded corpora"
        )
    three_way = [pair for pair in held_out if pair[2] != NON_CONTRADICTION]
    splits = {
        "nli": {"train": kept, "validation": three_way},
        "nli-2-class": {"train": kept, "validation": held_out},
    }
    two_way = any(label == NON_CONTRADICTION for _, _, label in [*kept, *held_out])
    configs = {
        config: {split: _rows_of(pairs, config, two_way) for split, pairs in parts.items() if pairs}
        for config, parts in splits.items()
    }
    languages = sorted({_language(pair) for pair in [*kept, *held_out]})
    name = NAME if languages == [LANGUAGE] else MIXED
    write_repo(out, configs, DatasetCardData(pretty_name=name, language=languages), f"# {name}\n\n{CARD}")
    return PairCounts(
        len(kept), len(held_out), dropped=len(allowed) - len(kept), excluded=len(raw) - len(allowed),
        two_way=sum(label == NON_CONTRADICTION for _, _, label in kept), notes=notes,
    )  # fmt: skip


def plain(pair: MaybeLabelled) -> tuple[str, str]:
    """Both texts without case, spaces and punctuation."""
    premise, hypothesis = ("".join(filter(str.isalnum, text.casefold())) for text in pair[:2])
    return premise, hypothesis


def _unseen(pairs: Iterable[Pair], seen: set[tuple[str, str]]) -> list[Pair]:
    fresh = []
    for pair in pairs:
        if pair[:2] not in seen:
            seen.add(pair[:2])
            fresh.append(pair)
    return fresh


def _rows_of(pairs: list[Pair], config: str, two_way: bool) -> "Dataset":
    from datasets import ClassLabel, Dataset, Features, Value

    names = LABELS[task_of(config)]
    premises, hypotheses, labels = map(list, zip(*pairs, strict=True))
    merged = labels if config == "nli" else list(map(merge_label, labels))
    text = Value("string")
    features = Features(id=Value("int32"), premise=text, hypothesis=text, label=ClassLabel(names=list(names)))
    columns: dict[str, list[Any]] = {
        "id": list(range(1, len(pairs) + 1)),
        "premise": premises,
        "hypothesis": hypotheses,
        "label": [names.index(label) if label in names else UNKNOWN for label in merged],
    }
    if two_way:  # only then, so that other rows keep the fingerprint of earlier versions
        features["contradiction"] = Value("bool")
        columns["contradiction"] = [label == CONTRADICTION for label in labels]
    return Dataset.from_dict(columns, features=features)


def _language(pair: Pair) -> str:
    """The language of a pair; a Chinese sentence may quote many Latin letters."""
    return "zh" if any(map(is_chinese, pair[:2])) else "en"
