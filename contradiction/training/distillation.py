"""Distillation: the student learns the teachers' probabilities for the training rows beside the labels."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
from accelerate.utils import tqdm
from scipy.special import softmax

from contradiction.errors import InputError
from contradiction.inputs.views import VIEWS
from contradiction.labels import GROUPED
from contradiction.methods.loading import load_classifier
from contradiction.methods.ngrams import linear_model
from contradiction.methods.softmax import SoftmaxClassifier
from contradiction.training import record

if TYPE_CHECKING:
    from datasets import Dataset

    from contradiction.training.recipe import Recipe


def check_teachers(recipe: "Recipe", data: str) -> None:
    """Makes sure that the teachers have not read what the student is kept from.

    Args:
        recipe: names the teachers.
        data: the fingerprint of the student's rows, as its request has it.

    Raises:
        InputError: a teacher was trained on other rows: on the official split, it has
            read rows that are for validation and test on the grouped one. What else a teacher was made from, and
            the backbone, are looked at by ``contradiction.training.leakage.check_sources``.
    """
    for name in recipe.distillation.teachers:
        read = record.of_model(name).get("request", {}).get("data", data)
        if read != data:
            raise InputError(f"teacher {name}: trained on other rows than the student's; train it on the same data")


def soft_labels(recipe: "Recipe", rows: "Dataset") -> np.ndarray:
    """The mean of the teachers' probabilities, shape (rows, labels), by the student's class ids.

    A mean of several is more often right than each, and one student can come near it at the cost of one (Hinton et al.,
    2015, *Distilling the knowledge in a neural network*, section 2). Each teacher reads its own view, at the
    precision of the recipe and without its decision rule. Models of n-grams have the weight
    ``ngram_teacher_weight`` in it; they are fitted here, without the rows that they are asked of.

    Raises:
        InputError: a teacher is not there, or has other labels than the student.
    """
    columns, weight = VIEWS[recipe.data.view], recipe.distillation.ngram_teacher_weight
    parts = []
    if recipe.distillation.teachers:
        parts.append((1 - weight) * _of_detectors(recipe, rows))
    if weight:
        parts.append(weight * cross_fitted_labels(recipe, rows, "ngrams", lambda: linear_model(columns)))
    return np.sum(parts, axis=0)


def _of_detectors(recipe: "Recipe", rows: "Dataset") -> np.ndarray:
    found = []
    for name in recipe.distillation.teachers:
        teacher = load_classifier(name, precision=recipe.precision)
        if not isinstance(teacher, SoftmaxClassifier):
            raise InputError(f"teacher {name}: hierarchical; a teacher gives each label a probability")
        if set(teacher.labels) != set(recipe.labels):
            raise InputError(
                f"teacher {name}: predicts {', '.join(teacher.labels)}; the student learns {', '.join(recipe.labels)}"
            )
        with tqdm(total=len(rows), desc=f"asking {Path(name).name}", unit="row", dynamic_ncols=True) as bar:
            logits = teacher.logits(list(rows), on_batch=bar.update)
        order = [teacher.labels.index(label) for label in recipe.labels]
        found.append(softmax(logits, axis=1)[:, order])
    return np.mean(found, axis=0)


FOLDS = 8


class Model(Protocol):
    """What is fitted to rows, as models of scikit-learn are."""

    classes_: np.ndarray

    def fit(self, rows: Sequence[Mapping[str, Any]], labels: Sequence[int], /) -> Self:
        """Fits it to rows and their class ids."""

    def predict_proba(self, rows: Sequence[Mapping[str, Any]], /) -> np.ndarray:
        """The probability of each of ``classes_``, shape (rows, classes)."""


def cross_fitted_labels(recipe: "Recipe", rows: "Dataset", name: str, make: Callable[[], Model]) -> np.ndarray:
    """The probabilities that models give which have not read a row, shape (rows, labels), by class id.

    Of rows that they were fitted to, such models know nearly every label by heart. So the labelled rows are
    parted into folds, as training is from validation (rows of one ``u1`` together where the split is grouped), and
    each row is judged by the model of the other folds; a row of the transfer set by that of the folds which hold
    neither the row of its context nor that of its second turn (cross-fitting, as in stacked generalization,
    Wolpert, 1992).

    Args:
        recipe: says how rows are split, and which labels there are.
        rows: labelled ones, and those that ``contradiction.training.augmentation`` made of them, whose label is None.
        name: of the models: the recipe's key for them.
        make: a model that is not fitted yet.

    Raises:
        InputError: there are too few rows for the folds.
    """
    every = list(rows)
    known = [row for row in every if row["label"] is not None]
    try:
        folds = _folds(known, grouped=recipe.data.config.endswith(GROUPED))
    except ValueError as error:
        raise InputError(f"{name}: the rows cannot be parted into {FOLDS} folds ({error})") from None
    by_id = dict(zip((row["id"] for row in known), folds, strict=True))
    # Where a turn stands in several rows the first is taken, as the transfer set does.
    by_turn = {_turn(row): fold for row, fold in zip(reversed(known), reversed(folds), strict=True)}
    left_out = [
        frozenset((by_id[row["id"]], by_turn[_turn(row)])) if row["label"] is None else frozenset((by_id[row["id"]],))
        for row in every
    ]
    said = np.zeros((len(every), len(recipe.labels)))
    parts = [frozenset(each) for size in (1, 2) for each in combinations(range(FOLDS), size)]
    for part in tqdm(parts, desc=f"asking {name}", unit="model", dynamic_ncols=True):
        asked = [number for number, each in enumerate(left_out) if each == part]
        if asked:
            read = [row for row, fold in zip(known, folds, strict=True) if fold not in part]
            labels = [row["label"] for row in read]
            if len(set(labels)) < 2:
                raise InputError(f"{name}: {len(read)} of the {len(known)} rows have one label alone; take more rows")
            model = make().fit(read, labels)
            said[np.ix_(np.array(asked), model.classes_)] = model.predict_proba([every[number] for number in asked])
    return said


def _folds(known: list[dict[str, Any]], grouped: bool) -> list[int]:
    from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

    labels, contexts = [row["label"] for row in known], [row["u1"] for row in known]
    kind = StratifiedGroupKFold if grouped else StratifiedKFold
    parted = kind(FOLDS, shuffle=True, random_state=0).split(contexts, labels, contexts if grouped else None)
    found = np.zeros(len(known), dtype=int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of a label with fewer rows than folds: some folds have none
        for fold, (_, members) in enumerate(parted):
            found[members] = fold
    return found.tolist()


def _turn(row: Mapping[str, Any]) -> tuple[str, str, int]:
    return row["u2"], row["b2"], row["bot"]
