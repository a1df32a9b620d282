"""Premise, hypothesis and label, as the public NLI corpora write them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from contradiction.conversation import check_text
from contradiction.data.corpora.corpus import Note, Row
from contradiction.errors import InputError, shown
from contradiction.io.files import sha256_of
from contradiction.io.lines import read_objects, read_tsv
from contradiction.labels import LABELS

# The names that the corpora use: for the columns of the two texts, for the column of the label, and for the labels.
TEXTS = (
    ("sentence1", "sentence2"), ("text_a", "text_b"), ("premise", "hypothesis"), ("premise", "hypo"),
    ("context", "hypothesis"),
)  # fmt: skip
LABEL = ("label", "gold_label")
NAMES = {name: name for name in LABELS["nli"]} | {
    "contradictory": "contradiction", "蕴含": "entailment", "中立": "neutral", "矛盾": "contradiction",
    "e": "entailment", "n": "neutral", "c": "contradiction",
}  # fmt: skip
# The SHA-256 of files of a smaller edition of CMNLI in which 蕴含 (entailment) and 中立 (neutral) are exchanged. XNLI's
# development split holds 1,659 of these pairs, and by its labels all of them are exchanged.
EXCHANGED = {
    "dev.json": "2bb43623a4427205c2a7e48b8c3955ec3985e4a2708a034f83f23b13463b96e6",
    "test.json": "d9f9d74d923da36850fc11c43db95d6d85695408c869b777f80c085eb26a31bd",
}
EXCHANGE = {"蕴含": "中立", "中立": "蕴含"}
LABELS_EXCHANGED = "rows whose labels 蕴含 and 中立 are exchanged in this known file, put right"
NO_CONSENSUS = "-"  # the annotators did not agree; the authors of CDConv counted these as non-contradiction
LANGUAGE = "zh"
WITHOUT_CONSENSUS = "rows without a label that the annotators agreed on, left out"
OTHER_LANGUAGE = f"rows in a language other than {LANGUAGE}, left out"


def read_table(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each row of a ``.tsv`` with a header, of JSON lines or of a JSON list, with its place.

    The labels of a known file that has them exchanged are corrected.
    """
    exchanged = is_exchanged(path)
    for where, row in read_tsv(path) if path.suffix == ".tsv" else read_objects(path):
        if exchanged and row.get("label") in EXCHANGE:
            row = {**row, "label": EXCHANGE[row["label"]]}
        yield where, row


def is_exchanged(path: Path) -> bool:
    """Whether a file is a known one in which the labels entailment and neutral are exchanged."""
    return sha256_of(path) in EXCHANGED.values()


def pair_of(row: Mapping[str, Any], where: str, *, needs_label: bool = True) -> tuple[str, str, str | None]:
    """Premise, hypothesis and label name of a row; the label is None where the annotators did not agree.

    Unless it needs a label, a row without a label column has the label None, too.

    Raises:
        InputError: the row is in none of the formats; the message begins with ``where``.
    """
    columns = next((names for names in TEXTS if all(name in row for name in names)), None)
    if columns is None:
        known = " or ".join(" and ".join(names) for names in TEXTS)
        raise InputError(f"{where}: has {', '.join(map(str, row))}; the texts must be in {known}")
    for name in columns:
        if not isinstance(row[name], str):
            value = "null" if row[name] is None else shown(row[name])
            raise InputError(f"{where}: {name} is {value}; it must be a text")
        check_text(row[name], f"{where}: {name}")
    named = next((name for name in LABEL if name in row), None)
    label = row[named] if named else None
    if label == NO_CONSENSUS or (label is None and (named or not needs_label)):
        return row[columns[0]], row[columns[1]], None
    if not isinstance(label, str) or label not in NAMES:
        raise InputError(f"{where}: label {label!r}; allowed are {', '.join(NAMES)} and {NO_CONSENSUS}")
    return row[columns[0]], row[columns[1]], NAMES[label]


def pair_reader(source: str | None = None, extra: Sequence[str] = ()) -> Callable[[Path], Iterator[Row | Note]]:
    """A reader of files whose rows :func:`pair_of` understands.

    Args:
        source: the column with the id of what a row was made from.
        extra: further columns to keep; one that a row lacks is null.

    Returns:
        A function from a file to rows. Rows without consensus and rows in other languages are left out, and the labels
        of a known file that has them exchanged are corrected, each with a note. Rows without a label column, as in
        test sets, have the label None.
    """

    def read(path: Path) -> Iterator[Row | Note]:
        exchanged = is_exchanged(path)
        for number, (where, row) in enumerate(read_table(path), start=1):
            if exchanged and row.get("label") in EXCHANGE:
                yield Note(LABELS_EXCHANGED)
            if row.get("language", LANGUAGE) != LANGUAGE:
                yield Note(OTHER_LANGUAGE)
                continue
            premise, hypothesis, label = pair_of(row, where, needs_label=False)
            if label is None and any(name in row for name in LABEL):
                yield Note(WITHOUT_CONSENSUS)
                continue
            kept = {name: row.get(name) for name in extra}
            origin = str(row[source]) if source and row.get(source) is not None else None
            yield Row(f"{path.stem}-{number}", label, premise=premise, hypothesis=hypothesis, source=origin, extra=kept)

    return read
