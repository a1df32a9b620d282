"""The base of methods with a logit for each label: how they predict, decide, combine windows, and choose a rule."""

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence

from contradiction.decision import NO_RULE, TINY, Rule
from contradiction.errors import InputError
from contradiction.inference.base import OnBatch, Scores
from contradiction.inputs.views import Row
from contradiction.labels import CONTRADICTIONS, HISTORY, INTRA, LABELS, ROLE, STAGES, is_contradiction, task_of_labels
from contradiction.methods.base import Classifier, Prediction


class SoftmaxClassifier(Classifier):
    """A classifier whose probabilities are the softmax of a logit for each label.

    A subclass implements :meth:`load` and :meth:`score`.

    Args:
        labels: the names of the labels in the order of the logits; those of a task or stage, in any order.
        columns: the utterances that are read.
        name: the name of the model in messages.
        rule: the decision rule.

    Raises:
        InputError: the labels are not those of a task, or the rule is about others.
    """

    ENSEMBLE_MEMBER = True

    def __init__(
        self, labels: Sequence[str], columns: Sequence[str], name: str = "model", rule: Rule | None = None
    ) -> None:
        task = task_of_labels(labels)
        if task is None:
            known = "; ".join(", ".join(names) for names in LABELS.values())
            raise InputError(f"{name}: its labels are {', '.join(labels)}; allowed are {known}")
        self.name, self.task, self.labels, self.columns = name, task, tuple(labels), tuple(columns)
        self.rule = (rule or NO_RULE).check_labels(labels, name)

    @property
    def judges_openings(self) -> bool:
        """Whether the model can judge a reply without an earlier reply."""
        return "u2" in self.columns

    @abstractmethod
    def score(self, rows: Sequence[Row], *, batch_size: int = 32, on_batch: OnBatch | None = None) -> Scores:
        """The logits of rows, and what was truncated; see :meth:`Classifier.predict` for the arguments."""

    def predict(
        self, rows: Sequence[Row], *, batch_size: int = 32, on_batch: OnBatch | None = None
    ) -> list[Prediction]:
        """Predicts the probabilities of rows; see :meth:`Classifier.predict`."""
        scores = self.score(rows, batch_size=batch_size, on_batch=on_batch)
        probabilities = self.rule.calibrate(scores.logits, self.labels).tolist()
        return [
            Prediction(dict(zip(self.labels, values, strict=True)), truncation)
            for values, truncation in zip(probabilities, scores.truncations, strict=True)
        ]

    def fit_rule(self, rows: Sequence[Row], labels: Sequence[str], *, on_batch: OnBatch | None = None) -> Rule:
        """Chooses temperature, biases, threshold and curve; see :meth:`Classifier.fit_rule`."""
        from contradiction.methods import calibration

        if self.task in STAGES and set(labels) <= set(LABELS["4-class"]):
            other = next(name for name in self.labels if name != self.task)
            labels = [name if name == self.task else other for name in labels]
        references = calibration.class_ids(labels, self.labels, self.name)
        logits = self.score(rows, on_batch=on_batch).logits
        rule = calibration.fit(logits, references, self.labels)
        contradictions = [name in self.contradictions for name in self.labels]
        probabilities = rule.calibrate(logits, self.labels)[:, contradictions].sum(axis=1)
        truth = [is_contradiction(name) for name in labels]
        threshold = rule.threshold if sum(contradictions) > 1 else None
        return calibration.with_curve(rule, probabilities, truth, threshold)

    def argmax(self, probabilities: Mapping[str, float]) -> str:
        """The label with the highest logit."""
        biases = self.rule.biases
        logits = {name: math.log(max(probabilities[name], TINY)) - biases.get(name, 0.0) for name in self.labels}
        return max(logits, key=logits.__getitem__)

    def history_probability(self, probabilities: Mapping[str, float]) -> float:
        """The probability of the label history; without such a label, the probability of any contradiction."""
        names = (HISTORY,) if HISTORY in probabilities else CONTRADICTIONS.get(self.task, ())
        return sum(probabilities[name] for name in names)

    def combine_windows(self, windows: Sequence[Mapping[str, float]]) -> Mapping[str, float]:
        """The probabilities of a reply from those of its windows, the nearest last.

        With categories, history is the maximum over the windows. The other labels share the rest in the proportions of
        the nearest window. Without categories, the window with the highest probability of a contradiction counts. Of a
        stage that judges the reply or the speaker, the nearest window counts.
        """
        nearest = windows[-1]
        if self.task in (INTRA, ROLE):
            return nearest
        highest = max(windows, key=self.history_probability)
        if HISTORY not in nearest or len(nearest) == 2:
            return highest
        rest = 1 - nearest[HISTORY]
        new_rest = 1 - highest[HISTORY]
        return {
            name: highest[HISTORY] if name == HISTORY else value * new_rest / rest if rest else 0.0
            for name, value in nearest.items()
        }

    def opening_probabilities(self, probabilities: Mapping[str, float]) -> Mapping[str, float] | None:
        """Only intra-sentence or none, because a reply without an earlier reply can contradict nothing but itself."""
        if INTRA not in probabilities or not self.judges_openings:
            return None
        no_contradiction = next(name for name in probabilities if name not in CONTRADICTIONS[self.task])
        total = probabilities[no_contradiction] + probabilities[INTRA]
        return {
            name: value / total if name in (no_contradiction, INTRA) and total else 0.0
            for name, value in probabilities.items()
        }

    def scores(self, probabilities: Mapping[str, float]) -> dict[str, float]:
        """The probability of every label."""
        return dict(probabilities)
