"""What a detector decides with: rows of utterances in, probabilities and a label out."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from contradiction.inputs.views import Row
from contradiction.labels import CONTRADICTION, CONTRADICTIONS, NON_CONTRADICTION, merge
from contradiction.methods.decision import Rule

OnBatch = Callable[[int], Any]


@dataclass(frozen=True)
class Reading:
    """What a classifier makes of one row.

    Attributes:
        probabilities: by label, or of a hierarchical classifier by stage.
        unread: what was not read, in words; None where all was.
    """

    probabilities: Mapping[str, float]
    unread: str | None


@dataclass(frozen=True)
class Judgement:
    """What a classifier decides on one row of utterances.

    Attributes:
        label: the label decided on by the classifier's rule.
        plain: the label without the rule, the most probable one.
        scores: the probability of every label, by name.
        unread: what was not read, in words; None where all was.
        merged: the label among the two of ``2-class``, by the rule; None for labels that cannot be merged.
        plain_merged: likewise without the rule.
    """

    label: str
    plain: str
    scores: Mapping[str, float]
    unread: str | None = None
    merged: str | None = None
    plain_merged: str | None = None


class Classifier(ABC):
    """One checkpoint, or several that decide together.

    Attributes:
        name: how messages name it.
        task: a key of ``contradiction.labels.LABELS``, or the category of a single stage.
        labels: the names of its labels.
        columns: the utterances that it reads.
        rule: its decision rule.
    """

    name: str
    task: str
    labels: tuple[str, ...]
    columns: tuple[str, ...]
    rule: Rule

    @abstractmethod
    def read(self, rows: Sequence[Row], *, batch_size: int = 32, on_batch: OnBatch | None = None) -> list[Reading]:
        """Reads rows of utterances, named as in the data set.

        Args:
            rows: dicts that hold at least ``columns``.
            batch_size: rows a forward pass.
            on_batch: called with the number of rows done, after each forward pass.
        """

    @abstractmethod
    def knows(self, text: str) -> bool:
        """Whether the model has a token of its own for any part of a text; else it reads nothing but "unknown"."""

    @abstractmethod
    def uncalibrated(self, probabilities: Mapping[str, float]) -> Mapping[str, float]:
        """The probabilities as the model gave them, before its rule calibrated them."""

    @abstractmethod
    def history_probability(self, probabilities: Mapping[str, float]) -> float:
        """The probability that the earlier turn of a window is contradicted."""

    @abstractmethod
    def any_of(self, probabilities: Mapping[str, float], kinds: Sequence[str]) -> float:
        """The probability of a contradiction of one of some kinds."""

    @abstractmethod
    def combine(self, windows: Sequence[Mapping[str, float]]) -> Mapping[str, float]:
        """One reading of a reply from its windows, the nearest last; of one window, that window's."""

    @abstractmethod
    def without_history(self, probabilities: Mapping[str, float]) -> Mapping[str, float] | None:
        """The reading of a reply with nothing before it but the user's words; None where it cannot be judged so."""

    @abstractmethod
    def scores(self, probabilities: Mapping[str, float]) -> dict[str, float]:
        """The probability of every label."""

    @abstractmethod
    def label(self, probabilities: Mapping[str, float], rule: Rule, allowed: Sequence[str] = ()) -> str:
        """The label decided on by a rule, among those allowed, or all."""

    @abstractmethod
    def category(self, probabilities: Mapping[str, float], rule: Rule, kinds: Sequence[str]) -> str:
        """The one among some kinds of contradiction that a rule names, where it is known that there is one."""

    def merged(self, probabilities: Mapping[str, float], rule: Rule) -> str | None:
        """The label among the two of ``2-class`` by a rule; None for labels that cannot be merged."""
        if self.task not in CONTRADICTIONS:
            return None
        contradiction = merge(self.task, self.scores(probabilities))[CONTRADICTION]
        return CONTRADICTION if contradiction >= rule.cut else NON_CONTRADICTION

    def judge(self, rows: Sequence[Row], *, batch_size: int = 32, on_batch: OnBatch | None = None) -> list[Judgement]:
        """Decides on rows of utterances by the classifier's own rule; the arguments are those of :meth:`read`."""
        return [
            Judgement(
                label=self.label(each.probabilities, self.rule),
                plain=self.label(self.uncalibrated(each.probabilities), Rule()),
                scores=self.scores(each.probabilities),
                unread=each.unread,
                merged=self.merged(each.probabilities, self.rule),
                plain_merged=self.merged(self.uncalibrated(each.probabilities), Rule()),
            )
            for each in self.read(rows, batch_size=batch_size, on_batch=on_batch)
        ]


def joint_progress(on_batch: OnBatch | None, rows: int, reads: int) -> OnBatch | None:
    """A callback for several classifiers that read the same rows one after the other: together they tell each row once.

    Args:
        on_batch: is told numbers of rows.
        rows: all that it is to be told of.
        reads: rows that the classifiers read, all together.
    """
    if on_batch is None:
        return None
    done = 0

    def tell(count: int) -> None:
        nonlocal done
        before, done = done, done + count
        on_batch(rows * done // reads - rows * before // reads)

    return tell
