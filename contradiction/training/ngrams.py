"""A teacher without an encoder: what n-grams of the utterances say of rows, by models that have not read them."""

import warnings
from collections.abc import Mapping
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from accelerate.utils import tqdm

from contradiction.errors import InputError
from contradiction.labels import GROUPED
from contradiction.ngrams import linear_model
from contradiction.views import VIEWS

if TYPE_CHECKING:
    from datasets import Dataset

    from contradiction.recipes import Recipe

FOLDS = 8


def soft_labels(recipe: "Recipe", rows: "Dataset") -> np.ndarray:
    """The probabilities that n-grams of the recipe's view give, shape (rows, labels), by class id.

    Of rows that it was fitted to, a linear model of n-grams knows nearly every label by heart. So the labelled rows are
    parted into folds, as training is from validation (rows of one ``u1`` together where the split is grouped), and
    each row is judged by the model of the other folds; a row of the transfer set by that of the folds which hold
    neither the row of its context nor that of its second turn (cross-fitting, as in stacked generalization,
    Wolpert, 1992).

    Args:
        recipe: says what is read, and how rows are split.
        rows: labelled ones, and those that ``contradiction.training.transfer`` made of them, whose label is None.

    Raises:
        InputError: there are too few rows for the folds.
    """
    every = list(rows)
    known = [row for row in every if row["label"] is not None]
    folds = _folds(known, grouped=recipe.config.endswith(GROUPED))
    by_id = dict(zip((row["id"] for row in known), folds, strict=True))
    # Where a turn stands in several rows the first is taken, as the transfer set does.
    by_turn = {_turn(row): fold for row, fold in zip(reversed(known), reversed(folds), strict=True)}
    left_out = [
        frozenset((by_id[row["id"]], by_turn[_turn(row)])) if row["label"] is None else frozenset((by_id[row["id"]],))
        for row in every
    ]
    said = np.zeros((len(every), len(recipe.labels)))
    parts = [frozenset(each) for size in (1, 2) for each in combinations(range(FOLDS), size)]
    for part in tqdm(parts, desc="asking n-grams", unit="model", dynamic_ncols=True):
        asked = [number for number, each in enumerate(left_out) if each == part]
        if asked:
            read = [row for row, fold in zip(known, folds, strict=True) if fold not in part]
            labels = [row["label"] for row in read]
            if len(set(labels)) < 2:
                raise InputError(f"ngrams: {len(read)} of the {len(known)} rows have one label alone; take more rows")
            model = linear_model(VIEWS[recipe.view]).fit(read, labels)
            said[np.ix_(asked, model.classes_)] = model.predict_proba([every[number] for number in asked])
    return said


def _folds(known: list[dict[str, Any]], grouped: bool) -> list[int]:
    from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

    labels, contexts = [row["label"] for row in known], [row["u1"] for row in known]
    kind = StratifiedGroupKFold if grouped else StratifiedKFold
    parted = kind(FOLDS, shuffle=True, random_state=0).split(contexts, labels, contexts if grouped else None)
    found = np.zeros(len(known), dtype=int)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of a label with fewer rows than folds: some folds have none
            for fold, (_, members) in enumerate(parted):
                found[members] = fold
    except ValueError as error:
        raise InputError(f"ngrams: the rows cannot be parted into {FOLDS} folds ({error})") from None
    return found.tolist()


def _turn(row: Mapping[str, Any]) -> tuple[str, str, int]:
    return row["u2"], row["b2"], row["bot"]
