"""What other ways to write the same messages cost a detector, with the normalization of the library and without.

    python -m experiments.text_forms models/e5-small-long-replies

Every sixth row of the validation split is written with traditional characters, spaces, Markdown and the like. Shown are
the rows whose decision between contradiction and none changes, and macro-F1 by rule, in percent.
"""

import argparse
import re
from collections.abc import Callable
from unittest.mock import patch

import numpy as np
from opencc import OpenCC
from sklearn.metrics import f1_score

from contradiction import ContradictionDetector, cdconv
from contradiction.data.splits import load_split
from contradiction.inputs.views import normalize
from contradiction.io.tables import Table, percent
from contradiction.labels import LABELS, is_contradiction

EVERY = 6
FORMS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    **{f"traditional, {name}": OpenCC(name).convert for name in ("s2t", "s2hk", "s2twp")},
    "a line break after each message": "{}\n".format,
    "a line break after punctuation": lambda text: re.sub(r"(?<=[，。！？])(?=.)", "\n", text),
    "spaces around Latin words and numbers": lambda text: re.sub(
        r"(?<=[一-鿿])(?=[0-9A-Za-z])|(?<=[0-9A-Za-z])(?=[一-鿿])", " ", text
    ),
    "bold text": "**{}**".format,
    "a list item": "- {}".format,
    "an emoji at the end": "{}😊".format,
    "half-width punctuation": lambda text: text.translate(str.maketrans("，！？：；", ",!?:;")),
    "a full stop at the end": lambda text: text if text[-1] in "。！？…~～" else f"{text}。",
}


def main() -> None:
    """Parses the arguments, judges, prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("model", help="a model folder or Hub id, with the labels of 4-class")
    parser.add_argument("--data", default="cdconv")
    parser.add_argument("--precision", default="bf16")
    options = parser.parse_args()

    detector = ContradictionDetector.from_pretrained(options.model, precision=options.precision)
    split = load_split(options.data, "4-class", "validation")
    split = split.select(range(0, len(split), EVERY))
    truth = np.array(split["label"])
    rows = [{name: row[name] for name in cdconv.UTTERANCES} for row in split]

    def decisions(form: Callable[[str], str], read: Callable[[str], str]) -> tuple[np.ndarray, np.ndarray]:
        with patch("contradiction.inputs.views.normalize", read):
            results = detector.classify([{name: form(text) for name, text in row.items()} for row in rows])
        binary = np.array([is_contradiction(result.label) for result in results])
        return np.array([LABELS["4-class"].index(result.label) for result in results]), binary

    usual = decisions(str, normalize)[1]
    lines = []
    for name, form in FORMS.items():
        columns: list[list[str]] = [[], [], []]
        for read in (normalize, str):
            predictions, binary = decisions(form, read)
            columns[0].append(percent(float(np.mean(binary != usual))))
            columns[1].append(percent(f1_score(truth, predictions, average="macro")))
            columns[2].append(percent(f1_score(truth > 0, predictions > 0, average="macro")))
        lines.append((name, *(cell for column in columns for cell in column)))
    pairs = [f"{figure}, {how}" for figure in ("changed", "4-class", "2-class") for how in ("normalized", "as written")]
    print(f"{len(rows)} rows")
    print(Table("", ("written with", *pairs), lines).markdown())


if __name__ == "__main__":
    main()
