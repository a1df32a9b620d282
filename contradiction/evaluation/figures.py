"""The figures of every evaluation, which the metric computes; the intervals of shares, and corrected p-values."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from contradiction.labels import CONTRADICTIONS, LABELS, task_of

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

RESAMPLES = 2000  # the resamples of a bootstrap interval
TASKS = ("2-class", "4-class")  # the tasks whose labels are those of contradictions in conversations


@dataclass(frozen=True)
class Figure:
    """A figure of the metric that saved results, tables of scores and model cards show.

    Attributes:
        key: its name in the result of the metric and in ``metrics.csv``.
        title: its name in tables.
        hub_type: its metric type in the front matter of a model card.
        merged: whether tables also show it for labels that are merged to two classes.
    """

    key: str
    title: str
    hub_type: str
    merged: bool = False


FIGURES = (Figure("macro_f1", "macro-F1", "f1", merged=True), Figure("accuracy", "accuracy", "accuracy"))


def measure(
    config: str, references: Sequence[int], predictions: Sequence[int], *, bootstrap: int | None = None
) -> dict[str, Any]:
    """The result of the metric for class ids, see ``evaluate_metric.evaluate_metric.score``.

    ``bootstrap`` is the number of resamples of the 95 % intervals, by default ``RESAMPLES``, and 0 for none.
    """
    from evaluate_metric.evaluate_metric import score

    return score(references, predictions, task_of(config), bootstrap=RESAMPLES if bootstrap is None else bootstrap)


def are_contradictions(task: str, classes: "ArrayLike") -> np.ndarray:
    """Whether each class id of a task is a contradiction of any kind, shape (rows,)."""
    return np.isin(classes, _contradictions(task))


def contradiction_probabilities(task: str, probabilities: "ArrayLike") -> np.ndarray:
    """P(contradiction), the sum over all kinds, shape (rows,), from that of each label, shape (rows, labels)."""
    return np.asarray(probabilities, dtype=float)[:, _contradictions(task)].sum(axis=1)


def _contradictions(task: str) -> list[int]:
    return [LABELS[task].index(label) for label in CONTRADICTIONS.get(task, ())]


def wilson(part: int, whole: int) -> tuple[float, float]:
    """The 95 % Wilson interval of the fraction ``part / whole``; 0 to 1 if ``whole`` is 0."""
    from scipy.stats import binomtest

    if not whole:
        return 0.0, 1.0
    bounds = binomtest(part, whole).proportion_ci(method="wilson")
    return float(bounds.low), float(bounds.high)


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values after Holm's correction for their number, in the same order.

    An adjusted value is at or below a level exactly where the procedure rejects at that level (Holm, 1979, *A simple
    sequentially rejective multiple test procedure*, Scandinavian Journal of Statistics 6).
    """
    adjusted = [1.0] * len(p_values)
    reached = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda index: p_values[index])):
        reached = max(reached, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = reached
    return adjusted
