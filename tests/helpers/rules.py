"""What a decision rule of four classes gives, by its plain formula, and references and predictions at random."""

import numpy as np
from scipy.special import softmax

from contradiction.labels import LABELS
from evaluate_metric.evaluate_metric import score

NAMES = LABELS["4-class"]


def added(values):
    return np.array([values.get(name, 0.0) for name in NAMES])


def decided(rule, logits):
    moved = logits / rule.temperature + added(rule.biases)
    called = 1 - softmax(moved, axis=1)[:, 0] >= rule.threshold
    return np.where(called, moved[:, 1:].argmax(1) + 1, 0)


def uncalibrated(classifier, scores):
    """The softmax of the logits alone, from calibrated probabilities."""
    logits = classifier.rule.temperature * (np.log([scores[name] for name in NAMES]) - added(classifier.rule.biases))
    return dict(zip(NAMES, softmax(logits).tolist(), strict=True))


def macro_f1(references, predictions):
    return score(references.tolist(), predictions.tolist(), "4-class")["macro_f1"]


def sample(rows: int, seed: int = 0) -> np.ndarray:
    """4-class references in about the proportions of the data set."""
    return np.random.default_rng(seed).choice(4, size=rows, p=[0.627, 0.045, 0.066, 0.262])


def noisy(references: np.ndarray, share_right: float, seed: int) -> np.ndarray:
    """Predictions that are right on about this share of rows and otherwise permuted references."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random(len(references)) < share_right, references, rng.permutation(references))
