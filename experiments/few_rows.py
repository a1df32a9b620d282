"""How many labelled rows does kernel ridge regression need? Fits it to parts of them, beside n-grams of the same rows.

    python -m experiments.few_rows --embedder intfloat/multilingual-e5-small

Shares are drawn as `python -m paper.reproduce learning-curve` draws them. The n-grams are the artefact baseline of all
four utterances, which has no decision rule. The rule of kernel ridge regression is chosen on the same share of
validation, so that a tenth means a tenth of all labels. The script prints test macro-F1 in percent on four classes and
merged to two, and the difference with its 95 % interval of the paired bootstrap.
"""

import argparse

import numpy as np

from contradiction.data.splits import load_split
from contradiction.inference.embedding import Embedder
from contradiction.inputs.views import CONVERSATION
from contradiction.io.tables import Table, percent, signed, signed_interval
from contradiction.labels import LABELS
from contradiction.methods import calibration
from contradiction.methods.kernel import KernelRegression
from contradiction.methods.ngrams import LinearModel
from contradiction.training.augmentation import fraction_of
from evaluate_metric.evaluate_metric import compare, score

NAMES = LABELS["4-class"]


def main() -> None:
    """Parses the arguments, fits, prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--embedder", required=True, help="folder or Hub id of an encoder that is not fine-tuned")
    parser.add_argument("--train-fractions", type=float, nargs="*", default=[0.1, 0.25, 0.5, 1.0])
    parser.add_argument("--config", default="4-class", choices=["4-class", "4-class-grouped"])
    parser.add_argument("--seed", type=int, default=23)
    parser.add_argument("--data", default="cdconv")
    options = parser.parse_args()

    train, validation, test = (
        load_split(options.data, options.config, name) for name in ("train", "validation", "test")
    )
    truth = list(test["label"])
    embed = Embedder(options.embedder)
    lines = []
    for share in options.train_fractions:
        rows, held_out = (list(fraction_of(part, share, options.seed)) for part in (train, validation))
        labels = [row["label"] for row in rows]
        ngrams = LinearModel(CONVERSATION, class_weight="balanced").fit(rows, labels).predict(list(test)).tolist()
        model = KernelRegression(CONVERSATION, embed).fit(rows, labels)
        logs = {name: np.log(model.predict_proba(part)) for name, part in (("rule", held_out), ("test", list(test)))}
        rule = calibration.fit(logs["rule"], np.array([row["label"] for row in held_out]), NAMES)
        predictions = rule.decide(rule.calibrate(logs["test"], NAMES), NAMES).tolist()
        scores = [score(truth, values, "4-class") for values in (ngrams, predictions)]
        gain = compare(truth, predictions, ngrams, "4-class")
        line = [f"{len(rows):,} + {len(held_out):,}"]
        for *both, difference in ((*scores, gain), (*(result["two_class"] for result in scores), gain["two_class"])):
            line += [percent(result["macro_f1"]) for result in both]
            bounds = signed_interval(difference["interval"]["macro_f1_difference"])
            line.append(f"{signed(difference['macro_f1_difference'])} ({bounds})")
        lines.append(line)
        print(" · ".join(line), flush=True)
    parts = ("n-grams", "kernel ridge regression", "difference")
    columns = (f"{labels}, {part}" for labels in ("4-class", "merged") for part in parts)
    print(Table("", ("training + validation rows", *columns), lines).markdown())


if __name__ == "__main__":
    main()
