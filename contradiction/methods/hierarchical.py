"""The hierarchical method (paper, section 5.1): a classifier for each category; the first that fires decides."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

import numpy as np

from contradiction.errors import InputError
from contradiction.inputs.views import CONVERSATION, Row
from contradiction.labels import HISTORY, INTRA, LABELS, NON_CONTRADICTION, STAGES
from contradiction.methods.base import Classifier, OnBatch, Reading, joint_progress
from contradiction.methods.checkpoint import CheckpointClassifier, named_in
from contradiction.methods.decision import Rule

FILE = "stages.json"


class HierarchicalClassifier(Classifier):
    """Classifiers of one category each, in the order in which they decide.

    The first stage that gives its category more than one half names it; a later one is then not heard. The probability
    of a contradiction is that of the surest stage, so that it exceeds one half exactly where a stage fires, and is
    shared among the categories in proportion to their stages. The category decided on may so not be the most probable.

    Args:
        stages: classifiers, each of which tells one category from all other rows.
        name: how messages name it.
        rule: its decision rule; of the stages' own rules only the calibration counts.
    """

    PARTS = "stages"  # the key of the list in its file

    def __init__(self, stages: Sequence[CheckpointClassifier], name: str = "model", rule: Rule | None = None) -> None:
        self.stages = tuple(stages)
        self.name, self.task, self.labels, self.rule = name, "4-class", LABELS["4-class"], rule or Rule()
        read = {column for stage in self.stages for column in stage.columns}
        self.columns = tuple(column for column in CONVERSATION if column in read)
        tasks = [stage.task for stage in self.stages]
        if sorted(tasks) != sorted(STAGES):
            raise InputError(f"{name}: its stages are {', '.join(tasks)}; there must be one for each category")

    @classmethod
    def load(cls, folder: str | Path, *, device: str | None = None, precision: str = "fp32") -> Self:
        """Loads the stages that a folder's ``stages.json`` names.

        Raises:
            InputError: the file names no usable stages.
        """
        folder = Path(folder)
        places = named_in(folder / FILE, cls.PARTS)
        stages = [CheckpointClassifier.load(place, device=device, precision=precision) for place in places]
        return cls(stages, str(folder), Rule.load(folder))

    def read(self, rows: Sequence[Row], *, batch_size: int = 32, on_batch: OnBatch | None = None) -> list[Reading]:
        """Reads rows by all stages; see :meth:`Classifier.read`."""
        told = joint_progress(on_batch, len(rows), len(rows) * len(self.stages))
        heard = [stage.read(rows, batch_size=batch_size, on_batch=told) for stage in self.stages]
        return [
            Reading(
                {stage.task: each.probabilities[stage.task] for stage, each in zip(self.stages, row, strict=True)},
                next((each.unread for each in row if each.unread), None),
            )
            for row in zip(*heard, strict=True)
        ]

    def knows(self, text: str) -> bool:
        """Whether the stages' tokenizer, which is the same for all, has a token for any part of a text."""
        return self.stages[0].knows(text)

    def uncalibrated(self, probabilities: Mapping[str, float]) -> Mapping[str, float]:
        """What each stage gave its category."""
        return {
            stage.task: stage.uncalibrated(_both(stage, probabilities[stage.task]))[stage.task] for stage in self.stages
        }

    def history_probability(self, probabilities: Mapping[str, float]) -> float:
        """What the history stage says."""
        return probabilities[HISTORY]

    def any_of(self, probabilities: Mapping[str, float], kinds: Sequence[str]) -> float:
        """That of the surest of their stages."""
        return max((probabilities[name] for name in kinds), default=0.0)

    def combine(self, windows: Sequence[Mapping[str, float]]) -> Mapping[str, float]:
        """The stages of the reply and of the speaker from the nearest window, history from the surest one."""
        return {**windows[-1], HISTORY: max(each[HISTORY] for each in windows)}

    def without_history(self, probabilities: Mapping[str, float]) -> Mapping[str, float] | None:
        """Only the stage of the reply is heard."""
        return {stage: each if stage == INTRA else 0.0 for stage, each in probabilities.items()}

    def scores(self, probabilities: Mapping[str, float]) -> dict[str, float]:
        """The probability of every label."""
        surest, total = max(probabilities.values()), sum(probabilities.values())
        return {
            name: 1 - surest if name == NON_CONTRADICTION else surest * probabilities[name] / total if total else 0.0
            for name in self.labels
        }

    def label(self, probabilities: Mapping[str, float], rule: Rule, allowed: Sequence[str] = ()) -> str:
        """The category of the first stage that fires, after the rule's offsets."""
        odds = self._odds(probabilities, rule)
        fired = (stage for stage in odds if odds[stage] >= 0 and (not allowed or stage in allowed))
        return next(fired, NON_CONTRADICTION)

    def category(self, probabilities: Mapping[str, float], rule: Rule, kinds: Sequence[str]) -> str:
        """That of their first stage that fires, after the rule's offsets; of none that does, of the surest."""
        odds = self._odds(probabilities, rule)
        fired = (stage for stage in odds if odds[stage] >= 0 and stage in kinds)
        return next(fired, max(kinds, key=odds.__getitem__))

    def _odds(self, probabilities: Mapping[str, float], rule: Rule) -> dict[str, float]:
        """The log-odds of the stages after the rule's offsets, in the order in which they decide."""
        chances = np.clip([probabilities[stage.task] for stage in self.stages], 1e-12, 1 - 1e-12)
        logs = np.log(chances / (1 - chances)).tolist()
        return {
            stage.task: each + rule.offsets.get(stage.task, 0.0) for stage, each in zip(self.stages, logs, strict=True)
        }


def _both(stage: CheckpointClassifier, probability: float) -> dict[str, float]:
    return {name: probability if name == stage.task else 1 - probability for name in stage.labels}
