"""Distillation: the student learns the teachers' probabilities for the training rows beside the labels."""

import warnings
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from accelerate.utils import tqdm
from scipy.special import softmax

from contradiction.data.splits import ONE_BOT, has_label
from contradiction.errors import InputError
from contradiction.inputs.views import VIEWS
from contradiction.labels import GROUPED
from contradiction.methods.loading import load_classifier
from contradiction.methods.ngrams import LinearModel
from contradiction.training import record

if TYPE_CHECKING:
    from datasets import Dataset

    from contradiction.training.recipe import Recipe


def check_teachers(recipe: "Recipe", data: str) -> None:
    """Checks that the teachers were trained on the same rows as the student.

    A teacher that was trained on the official split has read rows of the grouped validation and test splits.
    ``contradiction.training.leakage.check_sources`` checks the backbone, and the models that a teacher was made from.

    Raises:
        InputError: a teacher was trained on other rows.
    """
    for name in recipe.distillation.teachers:
        fingerprint = record.of_model(name).get("request", {}).get("data", data)
        if fingerprint != data:
            raise InputError(f"teacher {name}: trained on other rows than the student's; train it on the same data")


def soft_labels(recipe: "Recipe", rows: "Dataset") -> np.ndarray:
    """The mean of the teachers' probabilities, shape (rows, labels), by the student's class ids.

    The mean of several models is more accurate than each of them, and a student can come close to it at the cost of one
    model (Hinton et al., 2015, *Distilling the knowledge in a neural network*, section 2). Each teacher reads its own
    view, at the precision of the recipe and without its decision rule. N-gram models have the weight
    ``ngram_teacher_weight`` in the mean; they are cross-fitted, see :func:`ngram_probabilities`.

    Raises:
        InputError: a teacher cannot be loaded, or has other labels than the student.
    """
    weight = recipe.distillation.ngram_teacher_weight
    parts = []
    if recipe.distillation.teachers:
        parts.append((1 - weight) * _detector_probabilities(recipe, rows))
    if weight:
        parts.append(weight * ngram_probabilities(recipe, rows))
    return np.sum(parts, axis=0)


def _detector_probabilities(recipe: "Recipe", rows: "Dataset") -> np.ndarray:
    probabilities = []
    for name in recipe.distillation.teachers:
        teacher = load_classifier(name, precision=recipe.precision)
        if not teacher.LOGITS:
            raise InputError(f"teacher {name}: hierarchical; a teacher gives each label a probability")
        if set(teacher.labels) != set(recipe.labels):
            raise InputError(
                f"teacher {name}: predicts {', '.join(teacher.labels)}; the student learns {', '.join(recipe.labels)}"
            )
        with tqdm(total=len(rows), desc=f"teacher {Path(name).name}", unit="row", dynamic_ncols=True) as bar:
            logits = teacher.score(rows.to_list(), on_batch=bar.update).logits
        order = [teacher.labels.index(label) for label in recipe.labels]
        probabilities.append(softmax(logits, axis=1)[:, order])
    return np.mean(probabilities, axis=0)


FOLDS = 8


def ngram_probabilities(recipe: "Recipe", rows: "Dataset") -> np.ndarray:
    """Probabilities from n-gram models that were not fitted to the row, shape (rows, labels), by class id.

    An n-gram model memorises the labels of the rows that it was fitted to. So the labelled rows are split into folds
    (rows of one ``u1`` stay together where the config is grouped), and the model for a row is fitted to the other
    folds. For a row of the transfer set, the model leaves out the folds of its context and of its second turn. This is
    the cross-fitting of stacked generalization (Wolpert, 1992).

    Args:
        recipe: names the view, and the config, which sets the labels and whether folds are grouped.
        rows: labelled rows, and rows without a label (None or below 0): those of the data, and those that
            :func:`contradiction.training.augmentation.transfer_rows` made.

    Raises:
        InputError: there are too few rows for the folds.
    """
    all_rows = rows.to_list()
    labelled = [row for row in all_rows if has_label(row["label"])]
    try:
        folds = _folds(labelled, grouped=recipe.data.config.endswith(GROUPED))
    except ValueError as error:
        raise InputError(f"ngram_teacher_weight: the rows cannot be split into {FOLDS} folds ({error})") from None
    by_id = dict(zip((row["id"] for row in labelled), folds, strict=True))
    # A turn of several rows belongs to the first of them, as in the transfer set.
    by_turn = {_turn(row): fold for row, fold in zip(reversed(labelled), reversed(folds), strict=True)}

    def folds_that_hold(row: Mapping[str, Any]) -> frozenset[int]:
        # An unlabelled row of the data is in no fold. Any models will do for it, for instance those without fold 0.
        held = {by_id.get(row["id"])} | (set() if has_label(row["label"]) else {by_turn.get(_turn(row))})
        return frozenset(fold for fold in held if fold is not None) or frozenset((0,))

    left_out = [folds_that_hold(row) for row in all_rows]
    probabilities = np.zeros((len(all_rows), len(recipe.labels)))
    parts = [frozenset(part) for size in (1, 2) for part in combinations(range(FOLDS), size)]
    for part in tqdm(parts, desc="teacher n-grams", unit="model", dynamic_ncols=True):
        targets = [number for number, folds_of_row in enumerate(left_out) if folds_of_row == part]
        if targets:
            others = [row for row, fold in zip(labelled, folds, strict=True) if fold not in part]
            labels = [row["label"] for row in others]
            if len(set(labels)) < 2:
                raise InputError(
                    f"ngram_teacher_weight: {len(others)} of the {len(labelled)} rows have only one label; take more "
                    "rows"
                )
            model = LinearModel(VIEWS[recipe.data.view]).fit(others, labels)
            predicted = model.predict_proba([all_rows[number] for number in targets])
            probabilities[np.ix_(np.array(targets), model.classes_)] = predicted
    return probabilities


def _folds(rows: list[dict[str, Any]], grouped: bool) -> list[int]:
    from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

    labels, contexts = [row["label"] for row in rows], [row["u1"] for row in rows]
    kind = StratifiedGroupKFold if grouped else StratifiedKFold
    splits = kind(FOLDS, shuffle=True, random_state=0).split(contexts, labels, contexts if grouped else None)
    folds = np.zeros(len(rows), dtype=int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a label has fewer rows than there are folds
        for fold, (_, members) in enumerate(splits):
            folds[members] = fold
    return folds.tolist()


def _turn(row: Mapping[str, Any]) -> tuple[str, str, int]:
    return row["u2"], row["b2"], row.get("bot", ONE_BOT)
