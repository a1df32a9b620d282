"""What the kernel machine needs of labelled rows: fitted to shares of them, beside n-grams of the same rows.

    .venv/bin/python bench/few_rows.py --embedder intfloat/multilingual-e5-small

Shares are drawn as `cdconv reproduce learning-curve` draws them. The n-grams are the artefact baseline of all four
utterances, which has none. The machine's decision rule is chosen on the same share of validation, so that a tenth means
a tenth of all labels. Prints test macro-F1 in percent, on
four classes and merged to two, and what the machine is ahead by, with the 95 % interval of the paired bootstrap.
"""

import argparse

import numpy as np

from contradiction.data.splits import load_split
from contradiction.inference.embedding import Embedder
from contradiction.inputs.views import CONVERSATION
from contradiction.io.tables import Table, percent, signed, signed_interval
from contradiction.labels import LABELS
from contradiction.methods import calibration
from contradiction.methods.kernel_regression import KernelRegression
from contradiction.methods.ngrams import linear_model
from contradiction.training.rows import share_of
from evaluate_metric.evaluate_metric import compare, score

NAMES = LABELS["4-class"]


def main() -> None:
    """Parses the arguments, fits, prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--embedder", required=True, help="folder or Hub id of an encoder that is not fine-tuned")
    parser.add_argument("--shares", type=float, nargs="*", default=[0.1, 0.25, 0.5, 1.0])
    parser.add_argument("--config", default="4-class", choices=["4-class", "4-class-grouped"])
    parser.add_argument("--seed", type=int, default=23)
    parser.add_argument("--data", default="cdconv")
    options = parser.parse_args()

    train, *others = (load_split(options.data, options.config, split) for split in ("train", "validation", "test"))
    validation, test = others[0], [*others[1]]
    truth = np.array([row["label"] for row in test])
    embed = Embedder(options.embedder)
    lines = []
    for share in options.shares:
        rows = [*share_of(train, share, options.seed)]
        labels = [row["label"] for row in rows]
        machine = KernelRegression(CONVERSATION, embed).fit(rows, labels)
        held = [*share_of(validation, share, options.seed)]
        logs = [np.log(machine.predict_proba(each)) for each in (held, test)]
        rule = calibration.fit(logs[0], np.array([row["label"] for row in held]), NAMES)
        said = rule.decide(rule.calibrate(logs[1], NAMES), NAMES)
        words = linear_model(CONVERSATION, class_weight="balanced").fit(rows, labels).predict(test)
        both = [score(truth.tolist(), each.tolist(), "4-class") for each in (words, said)]
        ahead = compare(truth.tolist(), said.tolist(), words.tolist(), "4-class")
        line = [f"{len(rows):,} + {len(held):,}"]
        for one, other, more in ((*both, ahead), (*(each["two_class"] for each in both), ahead["two_class"])):
            line += [percent(each["macro_f1"]) for each in (one, other)]
            bounds = signed_interval(more["interval"]["macro_f1_difference"])
            line.append(f"{signed(more['macro_f1_difference'])} ({bounds})")
        lines.append(line)
        print(" · ".join(line), flush=True)
    parts = ("n-grams", "kernel machine", "ahead by")
    header = (
        "training + validation rows",
        *(f"{labels}, {part}" for labels in ("4-class", "merged") for part in parts),
    )
    print(Table("", header, lines).markdown())


if __name__ == "__main__":
    main()
