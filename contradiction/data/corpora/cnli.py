"""CNLI: Chinese NLI of the shared task at CCL 2018, tab-separated, with some damaged lines."""

import re
from collections.abc import Iterator
from pathlib import Path

from contradiction.data.corpora.corpus import PAIRS, Config, Corpus, Note, Row
from contradiction.io.lines import read_lines
from contradiction.labels import LABELS

_LABEL = "|".join(LABELS["nli"])
# A record ends with its label: at the end of the line, or where the id of the next record follows.
_RECORD = re.compile(rf"(^[^\t]+|[A-Z]{{2}}\d+)\t(.*?)\t({_LABEL})\s*(?=[A-Z]{{2}}\d+\t|$)")
JOINED = "lines that held several records, split"
DAMAGED = "lines left out, because a record is not id, premise, hypothesis and label"
REPEATED = "pairs left out, because they are in the file already"


def read(path: Path) -> Iterator[Row | Note]:
    """The pairs of a file, each once, with notes on lines that were split or left out."""
    seen: set[tuple[str, str]] = set()
    for _, line in read_lines(path):
        records = split_line(line.lstrip("\ufeff"))
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


def split_line(line: str) -> list[tuple[str, str, str, str]]:
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


CORPUS = Corpus(
    name="cnli",
    title="CNLI",
    languages=("zh",),
    license="unknown",
    homepage="https://github.com/blcunlp/CNLI",
    citation="Shared task on Chinese natural language inference, CCL 2018",
    size="train 90,000, dev 10,000, test 10,000",
    configs=(
        Config(
            "nli",
            PAIRS,
            LABELS["nli"],
            files={
                "train": ("train.txt", "cnli_train*.txt"),
                "validation": ("dev.txt", "cnli_dev_1.0.txt"),
                "test": ("test.txt", "cnli_test_labeled.txt"),
            },
            read=read,
        ),
    ),
    checksums={
        "train.txt": "301ba7e908763bce025cbc41281648eaf3da31ad67d7eaab61583253d12fec7b",
        "dev.txt": "ce41e783e7efd05497fe10e21bfe34081ab75dc8910a0472b5d11db3d14cf313",
        "test.txt": "eefab3f583cb083b5fa10fa825f1eeda578874e5e018e926e411a51993ada977",
    },
    description="Machine translations of SNLI and MNLI, partly corrected by hand. The files hold lines with two "
    "records, with a truncated label, and with a tab inside a text. Lines of two whole records are split, the "
    "others left out.",
)
