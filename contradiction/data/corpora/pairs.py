"""NLI corpora, premise, hypothesis and label: OCNLI, CMNLI, XNLI, CNLI, ANLI, and probes of Chinese NLI."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from contradiction.conversation import check_text
from contradiction.data.corpora import PAIRS, Config, Corpus, Note, Row
from contradiction.errors import InputError
from contradiction.io.files import read_lines, read_objects, read_tsv, sha256_of
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
# The known files of CMNLI are of a smaller edition, in which 蕴含 (entailment) and 中立 (neutral) are exchanged. XNLI's
# development split holds 1,659 of these pairs, and by its labels all of them are exchanged.
EXCHANGE = {"蕴含": "中立", "中立": "蕴含"}
LABELS_EXCHANGED = "rows whose labels 蕴含 and 中立 are exchanged in this known file, put right"
NO_CONSENSUS = "-"  # the annotators did not agree; the authors of CDConv counted these as non-contradiction
LANGUAGE = "zh"
WITHOUT_CONSENSUS = "rows without a label that the annotators agreed on, left out"
OTHER_LANGUAGE = f"rows in a language other than {LANGUAGE}, left out"
_LABEL = "|".join(LABELS["nli"])
# A record of CNLI ends with its label: at the end of the line, or where the id of the next record follows.
_RECORD = re.compile(rf"(^[^\t]+|[A-Z]{{2}}\d+)\t(.*?)\t({_LABEL})\s*(?=[A-Z]{{2}}\d+\t|$)")
JOINED = "lines that held several records, split"
DAMAGED = "lines left out, because a record is not id, premise, hypothesis and label"
REPEATED = "pairs left out, because they are in the file already"
# The columns for the category of a probe.
CATEGORY = ("category", "phenomenon")
# The authors' files of probes whose name is not that of the probe and `_final`.
PROBES = {"chinese-hans-full": "hans", "diagnostics-new-with-categories": "diagnostics", "new_logic_test": "logic"}


def pair_of(row: Mapping[str, Any], where: str) -> tuple[str, str, str | None]:
    """Premise, hypothesis and label name of a row; None without a column of labels, and without consensus.

    Raises:
        InputError: the row is in none of the formats; the message begins with ``where``.
    """
    columns = next((names for names in TEXTS if all(name in row for name in names)), None)
    if columns is None:
        known = " or ".join(" and ".join(names) for names in TEXTS)
        raise InputError(f"{where}: has {', '.join(map(str, row))}; the texts must be in {known}")
    premise, hypothesis = (check_text(row[name], f"{where}: {name}") for name in columns)
    label = next((row[name] for name in LABEL if name in row), None)
    if label in (None, NO_CONSENSUS):
        return premise, hypothesis, None
    if not isinstance(label, str) or label not in NAMES:
        raise InputError(f"{where}: label {label!r}; allowed are {', '.join(NAMES)} and {NO_CONSENSUS}")
    return premise, hypothesis, NAMES[label]


def pair_reader(source: str | None = None, extra: Sequence[str] = ()) -> Callable[[Path], Iterator[Row | Note]]:
    """A reader of files whose rows :func:`pair_of` understands: ``.tsv`` with a header, JSON lines, or a JSON list.

    Args:
        source: the column with the id of what a row was made from.
        extra: further columns to keep; one that a row lacks is null.

    Returns:
        A function from a file to rows. Rows without consensus and rows in other languages are left out, and the labels
        of a known file that has them exchanged are corrected, each with a note. The rows of a file without a label
        column, as of a test set, have the label None; it is an error if only some rows of a file have one.
    """

    def read(path: Path) -> Iterator[Row | Note]:
        exchanged = sha256_of(path) in CMNLI.checksums.values()
        has_column: bool | None = None  # that of the label, in the rows before
        rows = read_tsv(path) if path.suffix == ".tsv" else read_objects(path)
        for number, (where, row) in enumerate(rows, start=1):
            if exchanged and row.get("label") in EXCHANGE:
                row = {**row, "label": EXCHANGE[row["label"]]}
                yield Note(LABELS_EXCHANGED)
            if row.get("language", LANGUAGE) != LANGUAGE:
                yield Note(OTHER_LANGUAGE)
                continue
            premise, hypothesis, label = pair_of(row, where)
            before, has_column = has_column, any(name in row for name in LABEL)
            if before not in (None, has_column):
                keys = ", ".join(map(str, row))
                raise InputError(f"{where}: has {keys}; all rows of a file, or none, have {' or '.join(LABEL)}")
            if label is None and has_column:
                yield Note(WITHOUT_CONSENSUS)
                continue
            kept = {name: row.get(name) for name in extra}
            origin = str(row[source]) if source and row.get(source) is not None else None
            yield Row(f"{path.stem}-{number}", label, premise=premise, hypothesis=hypothesis, source=origin, extra=kept)

    return read


def read_cnli(path: Path) -> Iterator[Row | Note]:
    """The pairs of a file of CNLI (tab-separated), each once, with notes on lines that were split or left out."""
    seen: set[tuple[str, str]] = set()
    for _, line in read_lines(path):
        records = _split_line(line.lstrip("\ufeff"))
        if not records:
            yield Note(DAMAGED)
        if len(records) > 1:
            yield Note(JOINED)
        for name, premise, hypothesis, label in records:
            if (premise, hypothesis) in seen:
                yield Note(REPEATED)
                continue
            seen.add((premise, hypothesis))
            yield Row(name, label, premise=premise, hypothesis=hypothesis)


def _split_line(line: str) -> list[tuple[str, str, str, str]]:
    """The records of a line: id, premise, hypothesis, label. Empty where any part of the line is something else."""
    records = []
    end = 0
    for match in _RECORD.finditer(line):
        texts = match[2].split("\t")
        if match.start() != end or len(texts) != 2 or not all(text.strip() for text in texts):
            return []
        records.append((match[1], texts[0].strip(), texts[1].strip(), match[3]))
        end = match.end()
    return [] if line[end:].strip() else records


def read_probe(path: Path) -> Iterator[Row]:
    """The pairs of a probe with the category that each tests; the file is of the authors, or of a flat copy."""
    probe = PROBES.get(path.stem, path.stem.removesuffix("_final"))
    for number, (where, row) in enumerate(read_objects(path), start=1):
        premise, hypothesis, label = pair_of(row, where)
        category = next((row[name] for name in CATEGORY if name in row), probe)
        extra = {"probe": probe, "category": category}
        yield Row(f"{probe}-{number}", label, premise=premise, hypothesis=hypothesis, extra=extra)


def _corpus(
    name: str,
    title: str,
    files: Mapping[str, Sequence[str]],
    read: Callable[[Path], Iterator[Row | Note]] | None = None,
    extra: Sequence[str] = (),
    **more: Any,
) -> Corpus:
    """A Chinese corpus with one config of pairs, whose further columns are text; ``more`` as in :class:`Corpus`."""
    config = Config("nli", PAIRS, LABELS["nli"], files, read or pair_reader(), extra=dict.fromkeys(extra, "string"))
    return Corpus(name, title, ("zh",), configs=(config,), **more)


OCNLI = _corpus(
    "ocnli", "OCNLI", {"train": ("train.50k.json",), "validation": ("dev.json",), "test": ("test.json",)},
    pair_reader(source="prem_id", extra=("level", "genre")), ("level", "genre"),
    license="cc-by-nc-2.0",
    homepage="https://github.com/CLUEbenchmark/OCNLI (Hub: clue/clue, config ocnli)",
    citation="Hu et al., OCNLI: Original Chinese Natural Language Inference, Findings of EMNLP 2020",
    size="train 50,486, dev 3,000, test 3,000 unlabelled",
    description="The level of a development row says whether its hypothesis was the first (easy), second (medium) or "
    "third (hard) that the annotator wrote. Nearly all premises of the development set also stand in the training set.",
)  # fmt: skip

CMNLI = _corpus(
    "cmnli", "CMNLI", {"train": ("train.json",), "validation": ("dev.json",), "test": ("test.json",)},
    license="unknown",
    homepage="https://github.com/CLUEbenchmark/CLUE (Hub: clue/clue, config cmnli)",
    citation="Xu et al., CLUE: A Chinese Language Understanding Evaluation Benchmark, COLING 2020",
    size="train 391,783, dev 12,241, test 13,880 unlabelled",
    description="The Chinese part of XNLI and a translation of MNLI. The texts are translated, the training texts by "
    "machine. The known files are the halves of a smaller edition in which dev (6,117 pairs) and test (6,118 pairs) "
    "have labels. That edition has the words for entailment and neutral exchanged; they are put right.",
)  # fmt: skip

XNLI = _corpus(
    "xnli", "XNLI, Chinese",
    {
        "train": ("train.tsv", "multinli.train.zh.tsv"),
        "validation": ("dev.tsv", "xnli.dev.tsv"),
        "test": ("test.tsv", "xnli.test.tsv"),
    },
    license="cc-by-nc-4.0",
    homepage="https://github.com/facebookresearch/XNLI (Hub: facebook/xnli, config zh)",
    citation="Conneau et al., XNLI: Evaluating Cross-lingual Sentence Representations, EMNLP 2018",
    size="train 392,702, dev 2,490, test 5,010",
    description="Development and test pairs are translated by professionals, training pairs by machine. The release "
    "holds all fifteen languages in one file; only its Chinese rows are read.",
)  # fmt: skip

CNLI = _corpus(
    "cnli", "CNLI",
    {
        "train": ("train.txt", "cnli_train*.txt"),
        "validation": ("dev.txt", "cnli_dev_1.0.txt"),
        "test": ("test.txt", "cnli_test_labeled.txt"),
    },
    read_cnli,
    license="unknown",
    homepage="https://github.com/blcunlp/CNLI",
    citation="Shared task on Chinese natural language inference, CCL 2018",
    size="train 90,000, dev 10,000, test 10,000",
    description="Machine translations of SNLI and MNLI, partly corrected by hand. The files hold lines with two "
    "records, with a truncated label, and with a tab inside a text. Lines of two whole records are split, the "
    "others left out.",
)  # fmt: skip

ANLI = Corpus(
    "anli", "ANLI", ("en",),
    license="cc-by-nc-4.0",
    homepage="https://github.com/facebookresearch/anli (Hub: facebook/anli)",
    citation="Nie et al., Adversarial NLI: A New Benchmark for Natural Language Understanding, ACL 2020",
    size="train 162,865, dev 3,200, test 3,200",
    configs=tuple(
        Config(
            round_.lower(), PAIRS, LABELS["nli"],
            {
                split: (f"{round_}.{name}.jsonl", f"{round_}/{name}.jsonl")
                for split, name in (("train", "train"), ("validation", "dev"), ("test", "test"))
            },
            pair_reader(source="uid", extra=("genre", "model_label")),
            extra={"genre": "string", "model_label": "string"},
        )
        for round_ in ("R1", "R2", "R3")
    ),
)  # fmt: skip

PROBING = _corpus(
    "probing", "Probes of Chinese NLI", {"test": ("**/*.json",)}, read_probe, ("probe", "category"),
    license="unknown",
    homepage="https://github.com/huhailinguist/ChineseNLIProbing",
    citation="Hu et al., Investigating Transfer Learning in Multilingual Pre-trained Language Models through Chinese "
    "Natural Language Inference, Findings of ACL 2021",
    size="test 43,364",
    description="Heuristics after HANS, stress tests (antonyms, synonyms, distraction, numbers, spelling), semantic "
    "fragments (logic) and a diagnostic set by linguistic phenomenon. These pairs are for evaluation only.",
)  # fmt: skip
