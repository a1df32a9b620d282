"""Chooses a detector's decision rule on the validation split."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax, logit

from contradiction.errors import InputError
from contradiction.labels import CONTRADICTIONS, LABELS, NON_CONTRADICTION, STAGES, is_contradiction
from contradiction.methods.base import OnBatch
from contradiction.methods.decision import Point, Rule
from contradiction.methods.hierarchical import HierarchicalClassifier
from contradiction.methods.loading import load_classifier
from contradiction.methods.probabilistic import calibrated

if TYPE_CHECKING:
    from datasets import Dataset

POINTS = 200  # of the kept curve at most: enough to place a threshold to half a point of recall
CALLED = 20  # rows that a point of the curve rests on at least
RESAMPLES = 10  # over which offsets are averaged
# Nearest to none first, so that of equally good ones the smallest is taken.
OFFSETS = sorted(np.arange(-4, 4.001, 0.1).round(1).tolist(), key=abs)


def calibrate(folder: str | Path, rows: "Dataset", *, view: str | None = None, on_batch: OnBatch | None = None) -> Rule:
    """Chooses the decision rule of a model folder, and writes it there.

    Args:
        folder: a detector of one checkpoint, an ensemble, a stage of a hierarchical detector, or a hierarchical one.
        rows: the validation split of a config with the detector's labels.
        view: the utterances it reads, where its configuration does not say.
        on_batch: called with the number of conversations done, after each forward pass.

    Raises:
        InputError: the detector predicts other labels than the rows have, or reads what they do not hold.
    """
    names = [rows.features["label"].int2str(label) for label in rows["label"]]
    one = load_classifier(folder, view=view)
    if absent := [column for column in one.columns if column not in rows.column_names]:
        raise InputError(f"{folder} reads {', '.join(one.columns)}; the data has no {', '.join(absent)}")
    if isinstance(one, HierarchicalClassifier):
        readings = one.read(list(rows), on_batch=on_batch)
        order = [stage.task for stage in one.stages]
        probabilities = np.array([[each.probabilities[stage] for stage in order] for each in readings])
        references = _ids(names, (NON_CONTRADICTION, *order), folder)
        rule, contradiction = fit_stages(probabilities, references, order), probabilities.max(axis=1)
    else:
        if one.task in STAGES:
            if not {*names} <= {*LABELS["4-class"]}:  # rows of another config say nothing of a category
                _ids(names, one.labels, folder)
            other = next(name for name in one.labels if name != one.task)
            names = [name if name == one.task else other for name in names]
        logits = one.logits(list(rows), on_batch=on_batch)
        rule = fit(logits, _ids(names, one.labels, folder), one.labels)
        kinds = [name in CONTRADICTIONS.get(one.task, ()) for name in one.labels]
        contradiction = calibrated(rule, logits, one.labels)[:, kinds].sum(axis=1)
    rule = with_curve(rule, contradiction, np.array([is_contradiction(name) for name in names]))
    rule.save(folder)
    return rule


def _ids(names: Sequence[str], labels: Sequence[str], folder: str | Path) -> np.ndarray:
    if other := set(names) - set(labels):
        raise InputError(f"{folder} predicts {', '.join(labels)}; the data has {', '.join(sorted(other))}")
    return np.array([labels.index(name) for name in names])


def fit(logits: np.ndarray, references: np.ndarray, labels: Sequence[str]) -> Rule:
    """Temperature, biases and, for more than two labels, offsets of one checkpoint.

    Args:
        logits: shape (rows, classes).
        references: class ids, shape (rows,).
        labels: names by class id.
    """
    temperature, biases = fit_calibration(logits, references)
    rule = Rule(temperature=round(temperature, 4), biases=dict(zip(labels, biases.round(4).tolist(), strict=True)))
    if len(labels) == 2:
        return rule
    logs = np.log(calibrated(rule, logits, labels))
    offsets = fit_offsets(lambda offsets: np.argmax(logs + offsets, axis=1), references, len(labels))
    return replace(rule, offsets=dict(zip(labels, offsets, strict=True)))


def fit_stages(probabilities: np.ndarray, references: np.ndarray, stages: Sequence[str] = tuple(STAGES)) -> Rule:
    """Offsets of a hierarchical detector.

    Args:
        probabilities: that each stage gives its category, shape (rows, stages), in the order in which they decide.
        references: 0 for none, else 1 and the number of the stage, shape (rows,).
        stages: their names.
    """
    odds = logit(np.clip(probabilities, 1e-12, 1 - 1e-12))

    def decide(offsets: np.ndarray) -> np.ndarray:
        fired = odds + offsets[1:] >= 0
        return np.where(fired.any(axis=1), fired.argmax(axis=1) + 1, 0)

    offsets = fit_offsets(decide, references, 1 + probabilities.shape[1])
    return Rule(offsets=dict(zip((NON_CONTRADICTION, *stages), offsets, strict=True)))


def fit_calibration(logits: np.ndarray, references: np.ndarray) -> tuple[float, np.ndarray]:
    """The temperature and the bias of each class with the least negative log-likelihood; the first class has bias 0.

    Bias-corrected temperature scaling (Alexandari et al., 2020, *Maximum likelihood with bias-corrected calibration is
    hard-to-beat at label shift adaptation*): a temperature alone leaves the probabilities of a loss against rare
    classes too high, and a correction for another prior is only as good as they are.

    Args:
        logits: shape (rows, classes).
        references: class ids, shape (rows,).
    """

    def loss(values: np.ndarray) -> float:
        logs = log_softmax(logits / np.exp(values[0]) + np.append(0, values[1:]), axis=1)
        # The second term keeps the bias of a class without rows finite.
        return -float(logs[np.arange(len(references)), references].mean()) + 1e-3 * float(values[1:] @ values[1:])

    bounds = [(-3.0, 3.0)] + [(-8.0, 8.0)] * (logits.shape[1] - 1)
    found = minimize(loss, np.zeros(logits.shape[1]), method="L-BFGS-B", bounds=bounds).x
    return float(np.exp(found[0])), np.append(0, found[1:])


def fit_offsets(decide: Callable[[np.ndarray], np.ndarray], references: np.ndarray, classes: int) -> list[float]:
    """Offsets with which a decision has a good macro-F1; the first class has 0.

    They are the mean over resamples of the rows of what is best on each (bagging, Breiman, 1996): the offsets that are
    best on all rows follow the few rows of a rare class, and on other rows are worse than none.

    Args:
        decide: offsets, shape (classes,), to predicted class ids, shape (rows,).
        references: class ids, shape (rows,).
        classes: how many.
    """
    generator = np.random.default_rng(0)
    resamples = [generator.integers(0, len(references), len(references)) for _ in range(RESAMPLES)]
    found = np.mean([_best_offsets(decide, references, classes, rows) for rows in resamples], axis=0)
    return found.round(2).tolist()


def _best_offsets(
    decide: Callable[[np.ndarray], np.ndarray], references: np.ndarray, classes: int, rows: np.ndarray, rounds: int = 3
) -> np.ndarray:
    """The offsets with the best macro-F1 on some rows, by coordinate ascent."""
    offsets = np.zeros(classes)
    best = _macro_f1(decide(offsets)[rows], references[rows], classes)
    for _ in range(rounds):
        before = best
        for index in range(1, classes):
            tries = [np.where(np.arange(classes) == index, each, offsets) for each in OFFSETS]
            found = [_macro_f1(decide(each)[rows], references[rows], classes) for each in tries]
            if max(found) > best:
                best, offsets = max(found), tries[int(np.argmax(found))]
        if best == before:
            break
    return offsets


def with_curve(rule: Rule, probabilities: np.ndarray, truth: np.ndarray) -> Rule:
    """The rule with what follows from the probabilities of a contradiction: the cut, the prior, the curve.

    Args:
        rule: what is known so far.
        probabilities: of a contradiction, shape (rows,).
        truth: whether each row is one, shape (rows,).
    """
    if truth.all() or not truth.any():  # rows of one kind show nothing
        return rule
    prior = round(float(truth.mean()), 5)
    return replace(rule, cut=fit_cut(probabilities, truth), prior=prior, curve=curve_of(probabilities, truth))


def fit_cut(probabilities: np.ndarray, truth: np.ndarray) -> float:
    """The probability from which calling a contradiction gives the best 2-class macro-F1; see :func:`with_curve`."""
    grid = np.array(sorted(np.linspace(0.01, 0.99, 99), key=lambda each: abs(each - 0.5)))
    found = [_macro_f1((probabilities >= each).astype(int), truth.astype(int), 2) for each in grid]
    return float(round(grid[int(np.argmax(found))], 2))


def curve_of(probabilities: np.ndarray, truth: np.ndarray) -> tuple[Point, ...]:
    """Recall and false alarms by threshold, from the highest threshold down; see :func:`with_curve`.

    Points at which fewer than ``CALLED`` rows are called are left out, and half a false alarm is added to those seen,
    so that a precision is never promised on a handful of rows.
    """
    from sklearn.metrics import roc_curve

    false_alarms, recall, thresholds = roc_curve(truth, probabilities, drop_intermediate=True)
    others, contradictions = (~truth).sum(), truth.sum()
    enough = np.flatnonzero((false_alarms * others + recall * contradictions).round() >= CALLED)
    if not len(enough):
        return ()
    chosen = enough[np.unique(np.linspace(0, len(enough) - 1, POINTS).round().astype(int))]
    # Rounded down, so that the row that gave a threshold still reaches it.
    floor = np.floor(thresholds * 1e6) / 1e6
    seen = (false_alarms * others + 0.5) / (others + 1)
    return tuple(
        Point(float(floor[each]), round(float(recall[each]), 5), round(float(seen[each]), 5)) for each in chosen
    )


def _macro_f1(predictions: np.ndarray, references: np.ndarray, classes: int) -> float:
    """Macro-F1 without the metric's tables: the searches call it thousands of times."""
    table = np.bincount(references * classes + predictions, minlength=classes * classes).reshape(classes, classes)
    sums = table.sum(0) + table.sum(1)
    return float(np.divide(2 * np.diag(table), sums, out=np.zeros(classes), where=sums > 0).mean())
