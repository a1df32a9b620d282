"""The figures of every evaluation. To add one, add an entry to :data:`FIGURES`.

Evaluations, saved results, tables of scores and model cards show every entry. The ranking of the results, the
comparisons and the plots use only macro-F1.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from contradiction.labels import CONTRADICTIONS, LABELS, task_of

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

RESAMPLES = 2000  # the resamples of a bootstrap interval
TASKS = ("2-class", "4-class")  # the tasks whose labels are those of contradictions in conversations


@dataclass(frozen=True)
class ScoredRows:
    """The rows of an evaluation as the input of a figure.

    Attributes:
        task: for instance ``4-class``.
        references: class ids, shape (rows,).
        predictions: class ids, shape (rows,).
        probabilities: shape (rows, labels); None without probabilities.
    """

    task: str
    references: np.ndarray
    predictions: np.ndarray
    probabilities: np.ndarray | None = None

    def is_contradiction(self) -> np.ndarray:
        """Whether each reference is a contradiction of any kind, shape (rows,)."""
        return are_contradictions(self.task, self.references)

    def contradiction_probability(self) -> np.ndarray | None:
        """P(contradiction), the sum over all kinds, shape (rows,); None without probabilities."""
        return None if self.probabilities is None else contradiction_probabilities(self.task, self.probabilities)


def are_contradictions(task: str, classes: "ArrayLike") -> np.ndarray:
    """Whether each class id of a task is a contradiction of any kind, shape (rows,)."""
    return np.isin(classes, _contradictions(task))


def contradiction_probabilities(task: str, probabilities: "ArrayLike") -> np.ndarray:
    """P(contradiction), the sum over all kinds, shape (rows,), from that of each label, shape (rows, labels)."""
    return np.asarray(probabilities, dtype=float)[:, _contradictions(task)].sum(axis=1)


def _contradictions(task: str) -> list[int]:
    return [LABELS[task].index(label) for label in CONTRADICTIONS.get(task, ())]


@dataclass(frozen=True)
class Figure:
    """One figure of an evaluation.

    Attributes:
        key: its name in ``metrics`` and in ``metrics.csv``.
        title: its name in tables.
        hub_type: its metric type in the front matter of a model card.
        compute: computes the value from the rows, as a fraction, or None where it is undefined. None for figures that
            the metric itself returns with their intervals.
        merged: whether tables also show it for labels that are merged to two classes.
    """

    key: str
    title: str
    hub_type: str
    compute: Callable[[ScoredRows], float | None] | None = None
    merged: bool = False


FIGURES: list[Figure] = [
    Figure("macro_f1", "macro-F1", "f1", merged=True),
    Figure("accuracy", "accuracy", "accuracy"),
]


def measure(
    config: str,
    references: Sequence[int],
    predictions: Sequence[int],
    probabilities: Sequence[Sequence[float]] | None = None,
    *,
    bootstrap: int | None = None,
) -> dict[str, Any]:
    """The figures of predictions: those of the metric, and those that :data:`FIGURES` adds.

    References and predictions are class ids; a row has a probability for each label. ``bootstrap`` is the number of
    resamples of the 95 % intervals, by default ``RESAMPLES``, and 0 for none.

    Returns:
        The result of ``evaluate_metric.evaluate_metric.score`` with a key for each further figure. Its intervals are
        percentile bootstrap intervals over the rows, like those of the metric.
    """
    from evaluate_metric.evaluate_metric import score

    bootstrap = RESAMPLES if bootstrap is None else bootstrap
    task = task_of(config)
    metrics = score(references, predictions, task, bootstrap=bootstrap)
    rows = ScoredRows(
        task,
        np.asarray(references),
        np.asarray(predictions),
        None if probabilities is None else np.asarray(probabilities),
    )
    for figure in FIGURES:
        if figure.compute is None or (value := figure.compute(rows)) is None:
            continue
        metrics[figure.key] = float(value)
        if bootstrap:
            metrics["interval"][figure.key] = _interval(figure.compute, rows, bootstrap)
    return metrics


def _interval(compute: Callable[[ScoredRows], float | None], rows: ScoredRows, bootstrap: int) -> list[float]:
    """The 95 % percentile interval of a figure over resampled rows."""
    generator = np.random.default_rng(0)
    values = []
    for _ in range(bootstrap):
        drawn = generator.integers(len(rows.references), size=len(rows.references))
        probabilities = None if rows.probabilities is None else rows.probabilities[drawn]
        values.append(compute(ScoredRows(rows.task, rows.references[drawn], rows.predictions[drawn], probabilities)))
    return np.nanquantile(np.array(values, dtype=float), [0.025, 0.975]).tolist()


def ratio_interval(parts: "ArrayLike", wholes: "ArrayLike", seed: int) -> tuple[float, float]:
    """The 95 % bootstrap interval of the sum of ``parts`` by the sum of ``wholes``.

    Entries of both, shape (clusters,), are drawn together, because the rows of a cluster are not independent.
    """
    parts, wholes = np.asarray(parts, dtype=float), np.asarray(wholes, dtype=float)
    drawn = np.random.default_rng(seed).integers(len(parts), size=(RESAMPLES, len(parts)))
    totals = wholes[drawn].sum(axis=1)
    shares = parts[drawn].sum(axis=1)[totals > 0] / totals[totals > 0]
    low, high = np.quantile(shares, [0.025, 0.975]).tolist()
    return low, high


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
