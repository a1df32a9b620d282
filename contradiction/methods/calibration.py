"""Fits a decision rule to logits or probabilities, and to the labels of their rows."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit, log_softmax, logsumexp

from contradiction.decision import MIN_FOR_CURVE, Point, Rule
from contradiction.errors import InputError
from contradiction.labels import is_contradiction

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

MAX_POINTS = 200  # of the curve: enough to place a threshold to half a point of recall
RESAMPLES = 10  # of the rows, over which offsets are averaged
ROUNDS = 3  # over the offsets, at most
# The smallest first, because the first of equally good offsets is taken.
OFFSETS = sorted(np.arange(-4, 4.001, 0.1).round(1).tolist(), key=abs)


def class_ids(names: Sequence[str], labels: Sequence[str], model: str) -> np.ndarray:
    """The class ids of label names; raises InputError for names that are none of the labels of a model."""
    if other := set(names) - set(labels):
        raise InputError(f"{model} predicts {', '.join(labels)}; the data has {', '.join(sorted(other))}")
    return np.array([labels.index(name) for name in names])


def fit(logits: np.ndarray, references: np.ndarray, labels: Sequence[str]) -> Rule:
    """Fits temperature and biases to logits and, where the labels have several kinds of contradictions, a threshold.

    The logits have the shape (rows, classes), the references are class ids, and the labels are names by class id.
    """
    temperature, biases = fit_calibration(logits, references)
    threshold = 0.5
    kinds = [index for index, name in enumerate(labels) if is_contradiction(name)]
    if len(kinds) > 1:
        logs = log_softmax(logits / temperature + biases, axis=1)
        others = [index for index in range(len(labels)) if index not in kinds]
        odds = logs[:, kinds] - logsumexp(logs[:, others], axis=1, keepdims=True)
        kind = np.array([kinds.index(index) + 1 if index in kinds else 0 for index in range(len(labels))])
        weights, threshold = fit_kinds(odds, kind[references], np.logaddexp.reduce)  # faster than logsumexp
        biases[kinds] += weights
    return Rule(round(temperature, 4), dict(zip(labels, biases.round(4).tolist(), strict=True)), threshold)


def fit_kinds(
    log_odds: np.ndarray, references: np.ndarray, total: Callable[..., np.ndarray]
) -> tuple[np.ndarray, float]:
    """Fits biases of the kinds of contradictions, and the threshold that goes with them.

    The differences between the biases, and the threshold, are chosen for the sum of the macro-F1 of all labels and that
    of contradiction or not: by the most probable label alone, rare kinds would hardly be named. They are the mean of
    the best ones on each of some resamples of the rows (bagging, Breiman, 1996): those that are best on all rows fit
    the few rows of a rare class too closely. Biases and threshold are then moved together until the probability of a
    contradiction is calibrated, so no label changes.

    Args:
        log_odds: of each kind, shape (rows, kinds).
        references: 0 for no contradiction, else 1 plus the position of the kind, shape (rows,).
        total: a function with ``axis`` from log-odds of kinds to those of any contradiction.

    Returns:
        The biases, shape (kinds,), and the threshold.
    """

    def decide(offsets: np.ndarray) -> np.ndarray:
        moved = log_odds + offsets[:, np.newaxis, 1:]
        return np.where(total(moved, axis=-1) >= 0, moved.argmax(-1) + 1, 0)

    generator, rows = np.random.default_rng(0), len(references)
    resamples = [generator.integers(0, rows, rows) for _ in range(RESAMPLES)]
    best = [_best_offsets(decide, references, 1 + log_odds.shape[1], resample) for resample in resamples]
    offsets = np.mean(best, axis=0).round(2)[1:]
    odds, signs = total(log_odds + offsets, axis=1), np.where(references > 0, -1, 1)
    loss = minimize_scalar(lambda shift: np.logaddexp(0, signs * (odds + shift)).mean(), bounds=(-4, 4))
    return offsets + loss.x, round(float(expit(loss.x)), 4)


def fit_calibration(logits: np.ndarray, references: np.ndarray) -> tuple[float, np.ndarray]:
    """Fits a temperature and a bias for each class by maximum likelihood; the first class has bias 0.

    Bias-corrected temperature scaling (Alexandari et al., 2020, *Maximum likelihood with bias-corrected calibration is
    hard-to-beat at label shift adaptation*): with a temperature alone, a loss that weights rare classes leaves their
    probabilities too high. The logits have the shape (rows, classes), and the class ids the shape (rows,).
    """

    def loss(values: np.ndarray) -> float:
        logs = log_softmax(logits / np.exp(values[0]) + np.append(0, values[1:]), axis=1)
        # Without the penalty, the bias of a class without rows would lie at its bound.
        return -float(logs[np.arange(len(references)), references].mean()) + 1e-3 * float(values[1:] @ values[1:])

    bounds = [(-3.0, 3.0)] + [(-8.0, 8.0)] * (logits.shape[1] - 1)
    solution = minimize(loss, np.zeros(logits.shape[1]), method="L-BFGS-B", bounds=bounds).x
    return float(np.exp(solution[0])), np.append(0, solution[1:])


def _best_offsets(
    decide: Callable[[np.ndarray], np.ndarray], references: np.ndarray, classes: int, rows: np.ndarray
) -> np.ndarray:
    """The best offsets on some rows, by coordinate ascent; the first class has 0.

    ``decide`` is a function from offsets, shape (candidates, classes), to class ids, shape (candidates, rows).
    """
    offsets = np.zeros(classes)
    best = _both_macro_f1(decide(offsets[np.newaxis])[:, rows], references[rows], classes)[0]
    for _ in range(ROUNDS):
        before = best
        for index in range(1, classes):
            candidates = np.tile(offsets, (len(OFFSETS), 1))
            candidates[:, index] = OFFSETS
            scores = _both_macro_f1(decide(candidates)[:, rows], references[rows], classes)
            if scores.max() > best:
                best, offsets = scores.max(), candidates[scores.argmax()]
        if best == before:
            break
    return offsets


def with_curve(rule: Rule, probabilities: np.ndarray, truth: "ArrayLike", threshold: float | None = None) -> Rule:
    """Adds the threshold, by default the one of :func:`fit_threshold`, the prior and the curve.

    They follow from the probability that each row is a contradiction, and from whether it is, both of shape (rows,).
    """
    contradictions = np.asarray(truth, dtype=bool)
    if contradictions.all() or not contradictions.any():  # rows of one kind show nothing
        return rule
    if threshold is None:
        threshold = fit_threshold(probabilities, contradictions)
    prior = round(float(contradictions.mean()), 5)
    return replace(rule, threshold=threshold, prior=prior, curve=curve_of(probabilities, contradictions))


def fit_threshold(probabilities: np.ndarray, truth: np.ndarray) -> float:
    """The threshold with the best 2-class macro-F1, for probabilities and truth of shape (rows,)."""
    thresholds = np.array(sorted(np.linspace(0.01, 0.99, 99), key=lambda threshold: abs(threshold - 0.5)))
    scores = _macro_f1((probabilities >= thresholds[:, np.newaxis]).astype(int), truth.astype(int), 2)
    return float(round(thresholds[scores.argmax()], 2))


def curve_of(probabilities: np.ndarray, truth: np.ndarray) -> tuple[Point, ...]:
    """Recall and false alarms by threshold, from the highest threshold down, for arrays of shape (rows,).

    Points at which fewer than ``MIN_FOR_CURVE`` rows are called are left out, and half a false alarm is added to the
    observed ones, so that no precision is promised on a handful of rows. The curve is empty if there are fewer
    contradictions or fewer other rows.
    """
    from sklearn.metrics import roc_curve

    others, contradictions = (~truth).sum(), truth.sum()
    if min(others, contradictions) < MIN_FOR_CURVE:
        return ()
    false_alarms, recall, thresholds = roc_curve(truth, probabilities, drop_intermediate=True)
    enough = np.flatnonzero((false_alarms * others + recall * contradictions).round() >= MIN_FOR_CURVE)
    chosen = enough[np.unique(np.linspace(0, len(enough) - 1, MAX_POINTS).round().astype(int))]
    # Rounded down, so that the row that gave a threshold still reaches it.
    rounded = np.floor(thresholds * 1e6) / 1e6
    smoothed = (false_alarms * others + 0.5) / (others + 1)
    return tuple(
        Point(float(rounded[index]), round(float(recall[index]), 5), round(float(smoothed[index]), 5))
        for index in chosen
    )


def _both_macro_f1(predictions: np.ndarray, references: np.ndarray, classes: int) -> np.ndarray:
    """The macro-F1 of all classes plus that of the first class against the others."""
    merged = _macro_f1((predictions > 0).astype(int), (references > 0).astype(int), 2)
    return _macro_f1(predictions, references, classes) + merged


def _macro_f1(predictions: np.ndarray, references: np.ndarray, classes: int) -> np.ndarray:
    """Macro-F1 of each row of predictions, shape (candidates, rows); scikit-learn's is too slow for the searches."""
    candidates, cells = len(predictions), classes * classes
    keys = np.arange(candidates)[:, np.newaxis] * cells + references * classes + predictions
    table = np.bincount(keys.ravel(), minlength=candidates * cells).reshape(candidates, classes, classes)
    sums = table.sum(1) + table.sum(2)
    hits = np.diagonal(table, axis1=1, axis2=2)
    return np.divide(2 * hits, sums, out=np.zeros((candidates, classes)), where=sums > 0).mean(1)
