"""The figures of every evaluation, which the metric computes, and the settings of an operator, measured.

A setting is a threshold that was chosen on validation; its precision, recall and false alarms are those on other rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from contradiction.data.labelled import WHOLE
from contradiction.decision import IN_USE, Rule, precision_at
from contradiction.errors import InputError
from contradiction.io.tables import Table, percent, with_interval
from contradiction.labels import CONTRADICTIONS, LABELS, has_two_texts, task_of
from contradiction.settings import Settings

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

RESAMPLES = 2000  # the resamples of a bootstrap interval
TASKS = ("2-class", "4-class")  # the tasks whose labels are those of contradictions in conversations
THRESHOLDS = ("0.5", "precision>=0.5", "precision>=0.8", "precision>=0.9")
SPLIT = "test"


class Figure(NamedTuple):
    """A figure of saved results, tables and model cards: its keys in the metric and on the Hub, and its title.

    Tables also show a merged one for labels that are merged to two classes.
    """

    key: str
    title: str
    hub_type: str
    merged: bool = False


FIGURES = (Figure("macro_f1", "macro-F1", "f1", merged=True), Figure("accuracy", "accuracy", "accuracy"))


def measure(
    config: str, references: Sequence[int], predictions: Sequence[int], *, bootstrap: int | None = None
) -> dict[str, Any]:
    """The result of the metric for class ids, see ``evaluate_metric.evaluate_metric.score``.

    ``bootstrap`` is the number of resamples of the 95 % intervals, by default ``RESAMPLES``, and 0 for none.
    """
    from evaluate_metric.evaluate_metric import score

    return score(references, predictions, task_of(config), bootstrap=RESAMPLES if bootstrap is None else bootstrap)


def are_contradictions(task: str, classes: "ArrayLike") -> np.ndarray:
    """Whether each class id of a task is a contradiction of any kind, shape (rows,)."""
    return np.isin(classes, _contradictions(task))


def contradiction_probabilities(task: str, probabilities: "ArrayLike") -> np.ndarray:
    """P(contradiction), the sum over all kinds, shape (rows,), from that of each label, shape (rows, labels)."""
    return np.asarray(probabilities, dtype=float)[:, _contradictions(task)].sum(axis=1)


def _contradictions(task: str) -> list[int]:
    return [LABELS[task].index(label) for label in CONTRADICTIONS.get(task, ())]


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


@dataclass(frozen=True)
class Outcome:
    """The result of one setting on the test split, or on labelled chats.

    Attributes:
        setting: the threshold as an operator sets it.
        prior: the fraction of contradictions among the replies; None for that of the data, which is in ``fraction``.
        threshold: the setting on the scale of the corrected probabilities; None where no threshold reaches the
            precision on validation.
        hits, contradictions: how many contradictions are called one, and how many there are.
        alarms, others: the same of the other replies.
    """

    setting: str
    prior: float | None
    fraction: float
    threshold: float | None
    hits: int
    contradictions: int
    alarms: int
    others: int

    @property
    def recall(self) -> float:
        """The fraction of contradictions that are called one."""
        return self.hits / self.contradictions

    @property
    def false_alarms(self) -> float:
        """The fraction of other replies that are called a contradiction."""
        return self.alarms / self.others

    @property
    def precision(self) -> float:
        """The fraction of contradictions among the called replies, at the prior; NaN where none is called."""
        return float(precision_at(self.fraction, self.recall, self.false_alarms))

    @property
    def precision_interval(self) -> tuple[float, float]:
        """The precision at the worse and at the better ends of both 95 % intervals; conservative."""
        recall, alarms = wilson(self.hits, self.contradictions), wilson(self.alarms, self.others)
        low, high = precision_at(self.fraction, recall, alarms[::-1]).tolist()
        return low, high


def has_outcomes(result: Mapping[str, Any], rule: Rule) -> bool:
    """Whether an evaluation measures settings: it is of test rows of both kinds, by a rule with a curve."""
    task = task_of(result["config"])
    if task not in TASKS or has_two_texts(result["config"]) or result["split"] not in (SPLIT, WHOLE):
        return False
    if not rule.curve or rule.prior is None or rule_of(result) != rule.without_curve():
        return False
    truth = are_contradictions(task, result["references"])
    return "probabilities" in result and bool(truth.any() and not truth.all())


def outcomes(result: Mapping[str, Any], rule: Rule) -> list[Outcome]:
    """Each of ``THRESHOLDS`` at validation's prior, then at ``IN_USE``, of an evaluation that :func:`has_outcomes`.

    A reply is called a contradiction where its probability, corrected for the prior, reaches the threshold, as in
    :class:`contradiction.ContradictionDetector`.
    """
    return [
        outcome(result, rule, Settings(threshold=threshold, prior=prior))
        for prior in (None, IN_USE)
        for threshold in THRESHOLDS
    ]


def outcome(result: Mapping[str, Any], rule: Rule, settings: Settings) -> Outcome:
    """The result of one setting; see :func:`outcomes`. The rule must have a prior."""
    task = task_of(result["config"])
    truth = are_contradictions(task, result["references"])
    probabilities = contradiction_probabilities(task, result["probabilities"]).tolist()
    try:
        threshold = settings.threshold_for(rule)
    except InputError:  # no threshold reaches the precision
        threshold = None
    called = np.array(
        [threshold is not None and settings.at_prior(value, rule) >= threshold for value in probabilities]
    )
    fraction = settings.prior if settings.prior is not None else rule.prior or 0.0
    return Outcome(
        str(settings.threshold), settings.prior, fraction, threshold, hits=int((called & truth).sum()),
        contradictions=int(truth.sum()), alarms=int((called & ~truth).sum()), others=int((~truth).sum()),
    )  # fmt: skip


def settings_table(result: Mapping[str, Any], rule: Rule) -> Table:
    """The outcomes, with 95 % intervals; see :func:`outcomes`."""
    header = ("setting", "prior", "threshold", "precision", "recall", "false alarms")
    place = f"{result['split']} labelled chats" if result.get("as_chats") else f"{SPLIT} split"
    title = f"Settings chosen on validation, on {result['config']}, {place}, n = {len(result['references']):,}"
    return Table(title, header, [_cells(outcome) for outcome in outcomes(result, rule)])


def rule_of(result: Mapping[str, Any]) -> dict[str, Any]:
    """The rule of an evaluation, without its curve; the default rule where the evaluation has none."""
    return dict(result.get("rule", Rule().without_curve()))


def _cells(outcome: Outcome) -> tuple[str, ...]:
    prior = f"{percent(outcome.fraction)} %" + (", validation's" if outcome.prior is None else "")
    if outcome.threshold is None:
        return outcome.setting, prior, "not reached on validation", "", "", ""
    called = outcome.hits + outcome.alarms
    return (
        outcome.setting,
        prior,
        f"{outcome.threshold:.3f}",
        with_interval(outcome.precision, outcome.precision_interval) if called else "nothing called",
        with_interval(outcome.recall, wilson(outcome.hits, outcome.contradictions)),
        with_interval(outcome.false_alarms, wilson(outcome.alarms, outcome.others)),
    )
