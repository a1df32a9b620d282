"""Teachers that have not read the rows which they are asked of: quick models, fitted anew without these."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
from accelerate.utils import tqdm

from contradiction.errors import InputError
from contradiction.labels import GROUPED

if TYPE_CHECKING:
    from datasets import Dataset

    from contradiction.training.recipe import Recipe

FOLDS = 8


class Model(Protocol):
    """What is fitted to rows, as models of scikit-learn are."""

    classes_: np.ndarray

    def fit(self, rows: Sequence[Mapping[str, Any]], labels: Sequence[int], /) -> Self:
        """Fits it to rows and their class ids."""

    def predict_proba(self, rows: Sequence[Mapping[str, Any]], /) -> np.ndarray:
        """The probability of each of ``classes_``, shape (rows, classes)."""


def soft_labels(recipe: "Recipe", rows: "Dataset", name: str, make: Callable[[], Model]) -> np.ndarray:
    """The probabilities that models give which have not read a row, shape (rows, labels), by class id.

    Of rows that they were fitted to, such models know nearly every label by heart. So the labelled rows are
    parted into folds, as training is from validation (rows of one ``u1`` together where the split is grouped), and
    each row is judged by the model of the other folds; a row of the transfer set by that of the folds which hold
    neither the row of its context nor that of its second turn (cross-fitting, as in stacked generalization,
    Wolpert, 1992).

    Args:
        recipe: says how rows are split, and which labels there are.
        rows: labelled ones, and those that ``contradiction.training.transfer_set`` made of them, whose label is None.
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
