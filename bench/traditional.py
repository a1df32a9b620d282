"""What traditional characters cost: the validation split as it is, and as it would be written elsewhere.

    .venv/bin/python bench/traditional.py models/e5-small-cdconv-soup --data cdconv

OpenCC writes it: s2t changes the characters, s2hk takes the forms of Hong Kong, s2twp the forms and words of Taiwan.
Prints the share of rows of which a model reads something else than of the original, and macro-F1 in percent; each where
characters are simplified before they are read, as everywhere, and where they are not.
"""

import argparse
from unittest.mock import patch

import numpy as np
from opencc import OpenCC
from sklearn.metrics import f1_score

import cdconv
from contradiction import ContradictionDetector
from contradiction.data.splits import load_split
from contradiction.inputs.characters import simplified
from contradiction.io.tables import Table, percent
from contradiction.labels import LABELS

WRITTEN = ("s2t", "s2hk", "s2twp")


def main() -> None:
    """Parses the arguments, measures, prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("model", help="a model folder or Hub id, with the labels of 4-class")
    parser.add_argument("--data", default="cdconv")
    parser.add_argument("--precision", default="bf16")
    options = parser.parse_args()

    detector = ContradictionDetector.from_pretrained(options.model, precision=options.precision)
    split = load_split(options.data, "4-class", "validation")
    truth = np.array(split["label"])
    rows = [{name: row[name] for name in cdconv.UTTERANCES} for row in split]
    spellings = {"as it is": rows}
    for config in WRITTEN:
        convert = OpenCC(config).convert
        spellings[config] = [{name: convert(text) for name, text in row.items()} for row in rows]
    lines = []
    for name, written in spellings.items():
        for read in (simplified, str):
            with patch("contradiction.inputs.views.simplified", read):
                found = [LABELS["4-class"].index(each.label) for each in detector.classify(written)]
            pairs = [(row[column], other[column]) for row, other in zip(rows, written, strict=True) for column in row]
            differs = np.array([read(one) != read(other) for one, other in pairs]).reshape(len(rows), -1).any(1)
            called = np.array(found)
            lines.append(
                (
                    name,
                    "yes" if read is simplified else "no",
                    f"{percent(differs.mean())} %",
                    percent(f1_score(truth > 0, called > 0, average="macro")),
                    percent(f1_score(truth, called, average="macro")),
                )
            )
    header = ("written", "simplified before", "rows that differ", "macro-F1, 2-class", "macro-F1, 4-class")
    print(Table(f"{len(rows)} rows", header, lines, texts=2).markdown())


if __name__ == "__main__":
    main()
