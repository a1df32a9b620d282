"""Grouped 5-fold cross-validation over all rows of CDConv, of the baselines and of a fine-tuned encoder.

    python -m experiments.cross_validation --embedder intfloat/multilingual-e5-small
    python -m experiments.cross_validation --recipe e5-small-sentence-pair --backbone MODEL

All rows with the same first utterance are in one fold, so no context is in both training and test. The folds are
stratified by label. For each fold, the next fold is the validation part, on which the decision rule is chosen, and the
other three are the training part. The scores are those of the predictions of all folds together. Intervals come from a
bootstrap over the rows, and over the contexts for the pairs.

With --recipe, only the encoder is scored. A recipe is trained once for each fold, from a backbone that was not trained
on CDConv. A run that was stopped continues: start the command again.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from datasets import Dataset, concatenate_datasets
from huggingface_hub import DatasetCardData
from sklearn.model_selection import StratifiedGroupKFold

from contradiction import train
from contradiction.data.splits import SPLITS, load_split, write_repo
from contradiction.errors import InputError
from contradiction.inference.embedding import Embedder
from contradiction.inputs.views import CONVERSATION, VIEWS
from contradiction.io.tables import Table, percent, with_interval
from contradiction.labels import LABELS
from contradiction.methods import calibration
from contradiction.methods.kernel import KernelRegression
from contradiction.methods.loading import load_classifier
from contradiction.methods.ngrams import LinearModel
from contradiction.methods.softmax import SoftmaxClassifier
from contradiction.training.accelerators import fast_precision
from contradiction.training.recipe_files import load_recipe
from evaluate_metric.evaluate_metric import score, score_replies

NAMES = LABELS["4-class"]
FOLDS = 5
SEED = 13
RESAMPLES = 2000


class Fold(NamedTuple):
    """A fold: its number and the row numbers of its parts."""

    number: int
    training: np.ndarray
    validation: np.ndarray
    test: np.ndarray


# From a fold to the logits of its validation part and of its test part, each of shape (rows, classes).
Scorer = Callable[[Fold], tuple[np.ndarray, np.ndarray]]


def main() -> None:
    """Parses the arguments, scores every fold with every model, prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--embedder", help="folder or Hub id of an encoder that is not fine-tuned, for kernel ridge")
    parser.add_argument("--recipe", help="train this recipe on each fold instead of the baselines")
    parser.add_argument("--backbone", help="what the recipe starts from, not trained on CDConv")
    parser.add_argument("--data", default="cdconv")
    parser.add_argument("--out", type=Path, default=Path("runs/cross-validation"), help="the folder of the runs")
    options = parser.parse_args()

    rows = concatenate_datasets([load_split(options.data, "4-class", split) for split in SPLITS])
    labels = np.array(rows["label"])
    scorers = [encoder(rows, options)] if options.recipe else baselines(rows, labels, options.embedder)
    contexts = list(zip(*(rows[column] for column in CONVERSATION[:-1]), strict=True))
    lines = []
    for name, scorer in scorers:
        argmax, decided, probabilities = out_of_fold(scorer, labels, folds(rows, labels))
        contradiction = 1 - probabilities[:, 0]
        ranked = score_replies(
            labels.tolist(), decided.tolist(), probabilities=contradiction, contexts=contexts, bootstrap=RESAMPLES
        )
        cells = [name]
        for predictions in (argmax, decided):
            result = score(labels.tolist(), predictions.tolist(), "4-class", bootstrap=RESAMPLES)
            for part in (result, result["two_class"]):
                cells.append(with_interval(part["macro_f1"], part["interval"]["macro_f1"]))
        cells += [percent(ranked["auc"]), with_interval(ranked["in_order"], ranked["interval"]["in_order"])]
        lines.append(cells)
        print(" · ".join(cells), flush=True)
    header = ("", "4-class, argmax", "2-class, argmax", "4-class, rule", "2-class, rule", "AUC", "pairs in order")
    print(Table("", header, lines).markdown())


def folds(rows: Dataset, labels: np.ndarray) -> list[Fold]:
    """The folds; the validation part of each is the test part of the next."""
    split = StratifiedGroupKFold(FOLDS, shuffle=True, random_state=SEED).split(labels, labels, rows["u1"])
    parts = [test for _, test in split]
    result = []
    for number, test in enumerate(parts):
        validation = parts[(number + 1) % FOLDS]
        training = np.setdiff1d(np.arange(len(labels)), np.concatenate([test, validation]))
        result.append(Fold(number, training, validation, test))
    return result


def baselines(rows: Dataset, labels: np.ndarray, embedder: str | None) -> Iterator[tuple[str, Scorer]]:
    """The name of each baseline and its scorer."""
    records = list(rows)

    def fitted(make: Callable[[], Any]) -> Scorer:
        def scorer(fold: Fold) -> tuple[np.ndarray, np.ndarray]:
            model = make().fit([records[row] for row in fold.training], labels[fold.training].tolist())
            validation, test = (
                np.log(model.predict_proba([records[row] for row in part])) for part in (fold.validation, fold.test)
            )
            return validation, test

        return scorer

    for view, name in (("reply-only", "reply only"), ("context-only", "context only"), ("flatten", "all")):
        yield f"n-grams, {name}", fitted(partial(LinearModel, VIEWS[view], class_weight="balanced"))
    yield "kernel ridge, n-grams", fitted(lambda: KernelRegression(CONVERSATION))
    if embedder:
        embed = Embedder(embedder)
        yield f"kernel ridge, {embed.short_name}", fitted(lambda: KernelRegression(CONVERSATION, embed))


def encoder(rows: Dataset, options: argparse.Namespace) -> tuple[str, Scorer]:
    """The name of a recipe and its scorer, which trains it on a fold if this was not done before."""
    recipe = fast_precision(load_recipe(options.recipe))
    if options.backbone:
        recipe = recipe.with_changes(backbone=options.backbone)

    def scorer(fold: Fold) -> tuple[np.ndarray, np.ndarray]:
        data = options.out / f"data-{fold.number}"
        splits = {"train": fold.training, "validation": fold.validation, "test": fold.test}
        parts = {split: rows.select(part) for split, part in splits.items()}
        if not data.is_dir():
            title = f"CDConv, fold {fold.number + 1} of {FOLDS}"
            write_repo(data, {"4-class": parts}, DatasetCardData(pretty_name=title), f"# {title}\n")
        folder = options.out / f"{recipe.name}-{fold.number}"
        model = load_classifier(train(recipe, data=data, out=folder, resume=True, save_steps=500))
        assert isinstance(model, SoftmaxClassifier)
        order = [model.labels.index(name) for name in NAMES]
        validation, test = (model.score(list(parts[split])).logits[:, order] for split in ("validation", "test"))
        return validation, test

    return recipe.name, scorer


def out_of_fold(scorer: Scorer, labels: np.ndarray, parts: Sequence[Fold]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Predicts each fold by a model that was trained on others.

    Returns:
        Class ids by argmax and by the rule, shape (rows,), and calibrated probabilities, shape (rows, classes).
    """
    argmax, decided = np.zeros_like(labels), np.zeros_like(labels)
    probabilities = np.zeros((len(labels), len(NAMES)))
    for fold in parts:
        validation, test = scorer(fold)
        rule = calibration.fit(validation, labels[fold.validation], NAMES)
        argmax[fold.test] = test.argmax(axis=1)
        probabilities[fold.test] = rule.calibrate(test, NAMES)
        decided[fold.test] = rule.decide(probabilities[fold.test], NAMES)
    return argmax, decided, probabilities


if __name__ == "__main__":
    try:
        main()
    except InputError as error:
        sys.exit(f"cross_validation: {error}")
