"""The hierarchical method (paper, section 5.1): a classifier for each category, the first hit decides."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from contradiction.decision import NO_RULE, TINY, Rule
from contradiction.errors import InputError
from contradiction.inference.base import OnBatch
from contradiction.inputs.views import Row
from contradiction.labels import HISTORY, INTRA, LABELS, NON_CONTRADICTION, STAGES, is_contradiction
from contradiction.methods.base import Classifier, Prediction, joint_columns, joint_progress
from contradiction.methods.checkpoint import CheckpointClassifier
from contradiction.methods.loading import register


@register
class HierarchicalClassifier(Classifier):
    """Classifiers of one category each, in the order in which they decide.

    The probability of a contradiction is that of the stage with the highest probability. The categories share it in
    proportion to the probabilities of their stages. The paper decides otherwise, see :meth:`argmax`.

    Args:
        stages: classifiers, each of which separates one category from all other rows.
        name: the name of the model in messages.
        rule: the decision rule. Its biases are added to the log-odds of the stages, which their own rules calibrate.

    Raises:
        InputError: there is not exactly one stage for each category.
    """

    MARKER = "stages.json"
    PARTS = "stages"

    def __init__(self, stages: Sequence[CheckpointClassifier], name: str = "model", rule: Rule | None = None) -> None:
        self.stages = tuple(stages)
        self.chinese_only = any(stage.chinese_only for stage in self.stages)
        self.name, self.task, self.labels = name, "4-class", LABELS["4-class"]
        self.rule = (rule or NO_RULE).check_labels(self.labels, name)
        self.columns = joint_columns(self.stages)
        tasks = [stage.task for stage in self.stages]
        if sorted(tasks) != sorted(STAGES):
            raise InputError(f"{name}: its stages are {', '.join(tasks)}; there must be one for each category")

    @classmethod
    def load(cls, folder: str | Path, **options: Any) -> Self:
        """Loads the stages that ``stages.json`` names; see :meth:`Classifier.load`."""
        folder = Path(folder)
        stages = [CheckpointClassifier.load(part, **options) for part in cls.parts(folder)]
        return cls(stages, str(folder), Rule.load(folder / cls.MARKER))

    def predict(
        self, rows: Sequence[Row], *, batch_size: int = 32, on_batch: OnBatch | None = None
    ) -> list[Prediction]:
        """Predicts the probabilities of rows by all stages; see :meth:`Classifier.predict`."""
        report = joint_progress(on_batch, len(rows), len(rows) * len(self.stages))
        by_stage = [stage.predict(rows, batch_size=batch_size, on_batch=report) for stage in self.stages]
        predictions = []
        for row in zip(*by_stage, strict=True):
            probabilities = {
                stage.task: self._moved(stage.task, prediction.probabilities[stage.task], 1)
                for stage, prediction in zip(self.stages, row, strict=True)
            }
            truncation = next((prediction.truncation for prediction in row if prediction.truncation), None)
            predictions.append(Prediction(probabilities, truncation))
        return predictions

    def fit_rule(self, rows: Sequence[Row], labels: Sequence[str], *, on_batch: OnBatch | None = None) -> Rule:
        """Chooses biases, threshold and curve; see :meth:`Classifier.fit_rule`."""
        from scipy.special import expit, logit

        from contradiction.methods import calibration

        order = [stage.task for stage in self.stages]
        probabilities = [
            [self._moved(stage, prediction.probabilities[stage], -1) for stage in order]
            for prediction in self.predict(rows, on_batch=on_batch)
        ]
        references = calibration.class_ids(labels, (NON_CONTRADICTION, *order), self.name)
        log_odds = logit(np.clip(probabilities, TINY, 1 - TINY))
        biases, threshold = calibration.fit_kinds(log_odds, references, np.max)
        rule = Rule(biases=dict(zip(order, biases, strict=True)), threshold=threshold)
        highest = expit(log_odds + biases).max(axis=1)
        return calibration.with_curve(rule, highest, [is_contradiction(name) for name in labels], threshold)

    def has_token_for(self, text: str) -> bool:
        """Whether the tokenizer, which is the same for all stages, has a token for any part of a text."""
        return self.stages[0].has_token_for(text)

    def argmax(self, probabilities: Mapping[str, float]) -> str:
        """The category of the first stage that fires by its logits alone (paper, section 5.1)."""
        for stage in self.stages:
            probability = self._moved(stage.task, probabilities[stage.task], -1)
            both = {name: probability if name == stage.task else 1 - probability for name in stage.labels}
            if stage.argmax(both) == stage.task:
                return stage.task
        return NON_CONTRADICTION

    def _moved(self, stage: str, probability: float, sign: int) -> float:
        """The probability of a stage with the bias of the rule, or (``sign`` -1) without it again."""
        weighted = probability * math.exp(sign * self.rule.biases.get(stage, 0.0))
        return weighted / (1 - probability + weighted)

    def history_probability(self, probabilities: Mapping[str, float]) -> float:
        """The probability by the history stage."""
        return probabilities[HISTORY]

    def combine_windows(self, windows: Sequence[Mapping[str, float]]) -> Mapping[str, float]:
        """The nearest window for the stages of the reply and of the speaker; the maximum over windows for history."""
        return {**windows[-1], HISTORY: max(window[HISTORY] for window in windows)}

    def opening_probabilities(self, probabilities: Mapping[str, float]) -> Mapping[str, float] | None:
        """Only the stage of the reply counts."""
        return {stage: value if stage == INTRA else 0.0 for stage, value in probabilities.items()}

    def share_of(self, probabilities: Mapping[str, float], categories: Sequence[str]) -> float:
        """The highest probability among the stages of the categories, as a part of the highest of all."""
        highest = max(probabilities.values())
        return max(probabilities[name] for name in categories) / highest if highest else 0.0

    def scores(self, probabilities: Mapping[str, float]) -> dict[str, float]:
        """The probability of every label."""
        highest, total = max(probabilities.values()), sum(probabilities.values())
        return {
            name: 1 - highest if name == NON_CONTRADICTION else highest * probabilities[name] / total if total else 0.0
            for name in self.labels
        }
