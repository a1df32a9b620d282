"""What do traditional characters cost? Judges the validation split as it is, and as it would be written elsewhere.

    .venv/bin/python experiments/traditional_characters.py models/e5-small-balanced --data cdconv

OpenCC converts the rows: s2t changes the characters, s2hk takes the forms of Hong Kong, and s2twp the forms and words
of Taiwan. The script prints the share of rows whose text the model reads differs from that of the original, and
macro-F1 in percent: with characters simplified before they are read, as the library does, and without.
"""

import argparse
from unittest.mock import patch

import numpy as np
from opencc import OpenCC
from sklearn.metrics import f1_score

import cdconv
from contradiction import ContradictionDetector
from contradiction.data.splits import load_split
from contradiction.inputs.views import simplified
from contradiction.io.tables import Table, percent
from contradiction.labels import LABELS

CONVERSIONS = ("s2t", "s2hk", "s2twp")


def main() -> None:
    """Parses the arguments, judges, prints a table."""
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
    for name in CONVERSIONS:
        convert = OpenCC(name).convert
        spellings[name] = [{column: convert(text) for column, text in row.items()} for row in rows]
    lines = []
    for name, converted in spellings.items():
        for read in (simplified, str):
            with patch("contradiction.inputs.views.simplified", read):
                labels = [result.label for result in detector.classify(converted)]
            predictions = np.array([LABELS["4-class"].index(label) for label in labels])
            differs = [
                any(read(row[column]) != read(other[column]) for column in row)
                for row, other in zip(rows, converted, strict=True)
            ]
            lines.append(
                (
                    name,
                    "yes" if read is simplified else "no",
                    f"{percent(float(np.mean(differs)))} %",
                    percent(f1_score(truth > 0, predictions > 0, average="macro")),
                    percent(f1_score(truth, predictions, average="macro")),
                )
            )
    header = ("written as", "simplified first", "rows that differ", "macro-F1, 2-class", "macro-F1, 4-class")
    print(Table(f"{len(rows)} rows", header, lines, texts=2).markdown())


if __name__ == "__main__":
    main()
