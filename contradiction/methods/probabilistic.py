"""What classifiers have in common that give each label a probability: how they combine, decide and are calibrated."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence

import numpy as np

from contradiction.inference.torch_backend import Scores
from contradiction.inputs.views import Row
from contradiction.labels import CONTRADICTIONS, HISTORY, INTRA, ROLE
from contradiction.methods.base import Classifier, OnBatch, Reading
from contradiction.methods.decision import Rule

TINY = 1e-12  # a probability of 0 has no logarithm


class LabelClassifier(Classifier):
    """A classifier that gives each of its labels a probability."""

    @property
    def judges_openings(self) -> bool:
        """Whether it has something to say of a reply with nothing before it but the user's words."""
        return "u2" in self.columns

    @abstractmethod
    def _score(self, rows: Sequence[Row], batch_size: int, on_batch: OnBatch | None) -> Scores:
        """The logits of rows, and what of each was not read; the arguments are those of :meth:`read`."""

    def read(self, rows: Sequence[Row], *, batch_size: int = 32, on_batch: OnBatch | None = None) -> list[Reading]:
        """Reads rows of utterances; see :meth:`Classifier.read`."""
        found = self._score(rows, batch_size, on_batch)
        return [
            Reading(dict(zip(self.labels, each, strict=True)), unread)
            for each, unread in zip(
                calibrated(self.rule, found.logits, self.labels).tolist(), found.unread, strict=True
            )
        ]

    def logits(self, rows: Sequence[Row], *, batch_size: int = 32, on_batch: OnBatch | None = None) -> np.ndarray:
        """The logits of rows, shape (rows, labels); the arguments are those of :meth:`read`."""
        return self._score(rows, batch_size, on_batch).logits

    def uncalibrated(self, probabilities: Mapping[str, float]) -> Mapping[str, float]:
        """The softmax of the logits as they came."""
        logs = np.log(np.maximum([probabilities[name] for name in self.labels], TINY)) - _biases(self.rule, self.labels)
        return dict(zip(self.labels, softmax(self.rule.temperature * logs).tolist(), strict=True))

    def history_probability(self, probabilities: Mapping[str, float]) -> float:
        """The probability of a contradiction of the history; of any, where the labels do not tell."""
        told = (HISTORY,) if HISTORY in probabilities else CONTRADICTIONS.get(self.task, ())
        return sum(probabilities[name] for name in told)

    def any_of(self, probabilities: Mapping[str, float], kinds: Sequence[str]) -> float:
        """The sum of theirs."""
        return min(sum(probabilities[name] for name in kinds), 1.0)

    def combine(self, windows: Sequence[Mapping[str, float]]) -> Mapping[str, float]:
        """The reading of a reply from its windows.

        With categories: history is the maximum over the windows, and the rest is shared as the nearest window shares
        what is not history in it. Without: the window that is surest of a contradiction; stages of the reply and of the
        speaker, the nearest.
        """
        nearest = windows[-1]
        if self.task in (INTRA, ROLE):
            return nearest
        surest = max(windows, key=self.history_probability)
        if HISTORY not in nearest or len(nearest) == 2:
            return surest
        rest = 1 - nearest[HISTORY]
        left = 1 - surest[HISTORY]
        return {
            name: surest[HISTORY] if name == HISTORY else each * left / rest if rest else 0.0
            for name, each in nearest.items()
        }

    def without_history(self, probabilities: Mapping[str, float]) -> Mapping[str, float] | None:
        """Without history only a contradiction within the reply can be, so only classifiers with that label say any."""
        if INTRA not in probabilities or not self.judges_openings:
            return None
        none = next(name for name in probabilities if name not in CONTRADICTIONS[self.task])
        total = probabilities[none] + probabilities[INTRA]
        return {name: each / total if name in (none, INTRA) and total else 0.0 for name, each in probabilities.items()}

    def scores(self, probabilities: Mapping[str, float]) -> dict[str, float]:
        """The probability of every label."""
        return dict(probabilities)

    def label(self, probabilities: Mapping[str, float], rule: Rule, allowed: Sequence[str] = ()) -> str:
        """The most probable label after the rule's offsets; of two labels, the contradiction from the rule's cut on."""
        names = [name for name in self.labels if not allowed or name in allowed]
        if len(self.labels) == 2 and len(names) == 2:
            contradiction = next(name for name in names if name in CONTRADICTIONS[self.task])
            other = next(name for name in names if name != contradiction)
            return contradiction if probabilities[contradiction] >= rule.cut else other
        return self.category(probabilities, rule, names)

    def category(self, probabilities: Mapping[str, float], rule: Rule, kinds: Sequence[str]) -> str:
        """The most probable of them after the rule's offsets."""
        logs = np.log(np.maximum([probabilities[name] for name in kinds], TINY))
        return kinds[int(np.argmax(logs + [rule.offsets.get(name, 0.0) for name in kinds]))]


def calibrated(rule: Rule, logits: np.ndarray, labels: Sequence[str]) -> np.ndarray:
    """Calibrated probabilities of logits; both have the shape (rows, classes)."""
    return np.maximum(softmax(logits / rule.temperature + _biases(rule, labels)), TINY)


def decided(rule: Rule, probabilities: np.ndarray, labels: Sequence[str]) -> np.ndarray:
    """The class ids that a rule gives to calibrated probabilities, shape (rows, classes): those of two by its cut."""
    if len(labels) == 2:
        return (probabilities[:, 1] >= rule.cut).astype(int)
    return np.argmax(np.log(probabilities) + [rule.offsets.get(name, 0.0) for name in labels], axis=1)


def softmax(logits: np.ndarray) -> np.ndarray:
    """Over the last axis; scipy's, which the demo page does without."""
    shares = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return shares / shares.sum(axis=-1, keepdims=True)


def _biases(rule: Rule, labels: Sequence[str]) -> np.ndarray:
    return np.array([rule.biases.get(name, 0.0) for name in labels])
