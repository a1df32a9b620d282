"""What a decision rule of four classes gives, by its plain formula."""

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
