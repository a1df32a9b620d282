"""Grouped 5-fold cross-validation of the baselines over all rows of CDConv.

    .venv/bin/python experiments/cross_validation.py --embedder intfloat/multilingual-e5-small

All rows with the same first utterance are in one fold, so no context is in both training and test. The folds are
stratified by label. For each fold, the next fold is the validation part, on which the decision rule is chosen, and the
other three are the training part. The scores are those of the predictions of all folds together. Intervals come from a
bootstrap over the rows, and over the contexts for the pairs.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from datasets import concatenate_datasets
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedGroupKFold

from contradiction.data.splits import SPLITS, load_split
from contradiction.evaluation.contrast import in_order, pairs_of
from contradiction.inference.embedding import Embedder
from contradiction.inputs.views import CONVERSATION, VIEWS
from contradiction.io.tables import Table, interval, percent
from contradiction.labels import LABELS
from contradiction.methods import calibration
from contradiction.methods.kernel import KernelRegression
from contradiction.methods.ngrams import LinearModel
from evaluate_metric.evaluate_metric import score

NAMES = LABELS["4-class"]
FOLDS = 5
SEED = 13
RESAMPLES = 2000


def main() -> None:
    """Parses the arguments, fits every baseline on every fold, prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--embedder", help="folder or Hub id of an encoder that is not fine-tuned, for kernel ridge")
    parser.add_argument("--data", default="cdconv")
    options = parser.parse_args()

    rows = concatenate_datasets([load_split(options.data, "4-class", split) for split in SPLITS])
    records, labels = list(rows), np.array(rows["label"])
    folds = list(StratifiedGroupKFold(FOLDS, shuffle=True, random_state=SEED).split(records, labels, rows["u1"]))
    pairs = pairs_of(rows)
    lines = []
    for name, make in baselines(options.embedder):
        argmax, decided, probabilities = out_of_fold(make, records, labels, [held_out for _, held_out in folds])
        contradiction = 1 - probabilities[:, 0]
        share, bounds = in_order(contradiction, pairs)
        cells = [name]
        for predictions in (argmax, decided):
            result = score(labels.tolist(), predictions.tolist(), "4-class", bootstrap=RESAMPLES)
            for part in (result, result["two_class"]):
                cells.append(f"{percent(part['macro_f1'])} ({interval(part['interval']['macro_f1'])})")
        cells += [percent(roc_auc_score(labels > 0, contradiction)), f"{percent(share)} ({interval(bounds)})"]
        lines.append(cells)
        print(" · ".join(cells), flush=True)
    header = ("", "4-class, argmax", "2-class, argmax", "4-class, rule", "2-class, rule", "AUC", "pairs in order")
    print(Table("", header, lines).markdown())


def baselines(embedder: str | None) -> Iterator[tuple[str, Callable[[], Any]]]:
    """The name of each baseline, and a function that makes a new one."""
    for view, name in (("reply-only", "reply only"), ("context-only", "context only"), ("flatten", "all")):
        yield f"n-grams, {name}", lambda columns=VIEWS[view]: LinearModel(columns, class_weight="balanced")
    yield "kernel ridge, n-grams", lambda: KernelRegression(CONVERSATION)
    if embedder:
        embed = Embedder(embedder)
        yield f"kernel ridge, {embed.short_name}", lambda: KernelRegression(CONVERSATION, embed)


def out_of_fold(
    make: Callable[[], Any], records: Sequence[dict[str, Any]], labels: np.ndarray, folds: Sequence[np.ndarray]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Predicts each fold by a model that was fitted on others.

    Args:
        make: creates a new model.
        records: the rows.
        labels: class ids, shape (rows,).
        folds: the row numbers of each fold.

    Returns:
        Class ids by argmax and by the rule, shape (rows,), and calibrated probabilities, shape (rows, classes).
    """
    argmax, decided = np.zeros_like(labels), np.zeros_like(labels)
    probabilities = np.zeros((len(labels), len(NAMES)))
    for number, held_out in enumerate(folds):
        validation = folds[(number + 1) % len(folds)]
        training = np.setdiff1d(np.arange(len(labels)), np.concatenate([held_out, validation]))
        model = make().fit([records[row] for row in training], labels[training].tolist())
        of_validation, own = (
            np.log(model.predict_proba([records[row] for row in part])) for part in (validation, held_out)
        )
        rule = calibration.fit(of_validation, labels[validation], NAMES)
        argmax[held_out] = own.argmax(axis=1)
        probabilities[held_out] = rule.calibrate(own, NAMES)
        decided[held_out] = rule.decide(probabilities[held_out], NAMES)
    return argmax, decided, probabilities


if __name__ == "__main__":
    main()
