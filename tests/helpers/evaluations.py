"""Rows and evaluations for tests, made by hand or at random."""

import numpy as np

from contradiction.evaluation.error_analysis import EvaluatedRows
from contradiction.labels import LABELS

FOUR = LABELS["4-class"]


def row(number, **changes):
    """A row as `Material` holds it."""
    return {
        "id": number,
        **{column: f"{column} {number}" for column in ("u1", "b1", "u2", "b2")},
        "trigger": "short",
        "bot": "eva",
        "batch": "1",
        "category": "non-contradiction",
        "persona": None,
        "seen_context": "unseen",
        "seen_u1": "unseen",
        **changes,
    }


def evaluated(references, predictions, probabilities=None, rows=None, config="4-class"):
    """An evaluation of label ids. By default the predicted label has probability 0.7 and the others share the rest."""
    names = LABELS[config]
    probabilities = probabilities or [
        [0.7 if index == chosen else 0.3 / (len(names) - 1) for index in range(len(names))] for chosen in predictions
    ]
    result = {"config": config, "references": references, "predictions": predictions, "probabilities": probabilities}
    return EvaluatedRows.of(
        result, rows or [row(index, category=FOUR[reference]) for index, reference in enumerate(references)]
    )


def sample(rows: int, seed: int = 0) -> np.ndarray:
    """4-class references in about the proportions of the data set."""
    return np.random.default_rng(seed).choice(4, size=rows, p=[0.627, 0.045, 0.066, 0.262])


def noisy(references: np.ndarray, share_right: float, seed: int) -> np.ndarray:
    """Predictions that are right on about this share of rows and otherwise permuted references."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random(len(references)) < share_right, references, rng.permutation(references))
