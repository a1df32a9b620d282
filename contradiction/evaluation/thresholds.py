"""What the settings of an operator, chosen on validation, give on the test split: from kept probabilities alone."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from contradiction.errors import InputError
from contradiction.io.tables import Table, interval, percent
from contradiction.labels import CONTRADICTION, CONTRADICTIONS, LABELS, NLI, merge, task_of
from contradiction.methods.decision import Rule
from contradiction.rates import IN_USE, precision_at, wilson
from contradiction.settings import Settings

THRESHOLDS = ("0.5", "precision>=0.5", "precision>=0.8", "precision>=0.9")
TASKS = ("2-class", "4-class")
SPLIT = "test"
NOT_REACHED = "not reached on validation"


@dataclass(frozen=True)
class Outcome:
    """What one setting gives.

    Attributes:
        asked: the threshold as an operator sets it.
        prior: the share of contradictions among the replies; None for that of the data.
        share: the same as a number.
        threshold: what was asked for as a number, on the scale of the corrected probabilities; None where no threshold
            reached it on validation.
        found, contradictions: how many contradictions are called one, of how many.
        alarms, others: how many other replies are called one, of how many.
    """

    asked: str
    prior: float | None
    share: float
    threshold: float | None
    found: int
    contradictions: int
    alarms: int
    others: int

    @property
    def recall(self) -> float:
        """The share of contradictions that are called one."""
        return self.found / self.contradictions

    @property
    def false_alarms(self) -> float:
        """The share of other replies that are called one."""
        return self.alarms / self.others

    @property
    def precision(self) -> float:
        """The share of called replies that are contradictions, at the prior; not a number where none is called."""
        return float(precision_at(self.share, self.recall, self.false_alarms))

    @property
    def precision_interval(self) -> tuple[float, float]:
        """The precision at the worse and at the better ends of the 95 % intervals of both: wide on purpose."""
        recall, alarms = wilson(self.found, self.contradictions), wilson(self.alarms, self.others)
        low, high = precision_at(self.share, recall, alarms[::-1]).tolist()
        return low, high


def why_never(name: str, config: str, split: str, rule: Rule) -> str | None:
    """Why outcomes cannot be had of any evaluation of a detector on a config and split; None where they can."""
    if task_of(config) not in TASKS or config.startswith(NLI):
        return f"config {config!r} has no contradictions of CDConv; settings are measured on {', '.join(TASKS)}"
    if split != SPLIT:
        return f"split {split!r}; settings are chosen on validation and measured on {SPLIT}"
    if not rule.curve or rule.prior is None:
        return f"{name}: no precision was measured for it on validation; `cdconv calibrate` does"
    return None


def why_not(result: Mapping[str, Any], rule: Rule) -> str | None:
    """Why outcomes cannot be had of an evaluation; None where they can.

    Args:
        result: as ``contradiction.evaluation.results`` keeps it.
        rule: of the detector as it is now.
    """
    name = result["name"]
    if reason := why_never(name, result["config"], result["split"], rule):
        return reason
    if "probabilities" not in result or rule_of(result) != rule.without_curve():
        return f"{name} was evaluated with another decision rule than it has now; evaluate it again"
    truth = _are_contradictions(result)
    if truth.all() or not truth.any():
        return f"{name}: the rows it was evaluated on are all contradictions, or none is"
    return None


def outcomes(result: Mapping[str, Any], rule: Rule) -> list[Outcome]:
    """Each of ``THRESHOLDS`` at validation's prior, then at ``IN_USE``; see :func:`why_not`.

    A reply is called a contradiction as the façade does: where its probability, corrected for the prior, reaches the
    threshold.

    Raises:
        InputError: outcomes cannot be had.
    """
    if reason := why_not(result, rule):
        raise InputError(reason)
    task, truth = task_of(result["config"]), _are_contradictions(result)
    probabilities = [
        merge(task, dict(zip(LABELS[task], each, strict=True)))[CONTRADICTION] for each in result["probabilities"]
    ]
    found = []
    for prior, share in ((None, rule.prior or 0.0), (IN_USE, IN_USE)):
        for asked in THRESHOLDS:
            settings = Settings(threshold=asked, prior=prior)
            try:
                limit = settings.threshold_for(rule)
            except InputError:  # the rest of what it is raised for has been ruled out
                limit = None
            called = np.array([limit is not None and settings.at_prior(each, rule) >= limit for each in probabilities])
            found.append(
                Outcome(
                    asked=asked,
                    prior=prior,
                    share=share,
                    threshold=limit,
                    found=int((called & truth).sum()),
                    contradictions=int(truth.sum()),
                    alarms=int((called & ~truth).sum()),
                    others=int((~truth).sum()),
                )
            )
    return found


def table(result: Mapping[str, Any], rule: Rule) -> Table:
    """The outcomes, with 95 % intervals; see :func:`outcomes`."""
    header = ("threshold asked for", "prior", "threshold", "precision", "recall", "false alarms")
    title = f"Settings chosen on validation, on {result['config']}, {SPLIT} split, n = {len(result['references']):,}"
    return Table(title, header, [_cells(each) for each in outcomes(result, rule)])


def rule_of(result: Mapping[str, Any]) -> dict[str, Any]:
    """The rule that an evaluation was made with, without its curve; the plain one where none is kept."""
    return dict(result.get("rule", Rule().without_curve()))


def _cells(each: Outcome) -> tuple[str, ...]:
    prior = f"{percent(each.share)} %" + (", validation's" if each.prior is None else "")
    if each.threshold is None:
        return each.asked, prior, NOT_REACHED, "", "", ""
    called = each.found + each.alarms
    return (
        each.asked,
        prior,
        f"{each.threshold:.3f}",
        f"{percent(each.precision)} ({interval(each.precision_interval)})" if called else "nothing called",
        f"{percent(each.recall)} ({interval(wilson(each.found, each.contradictions))})",
        f"{percent(each.false_alarms)} ({interval(wilson(each.alarms, each.others))})",
    )


def _are_contradictions(result: Mapping[str, Any]) -> np.ndarray:
    task = task_of(result["config"])
    ids = [LABELS[task].index(name) for name in CONTRADICTIONS[task]]
    return np.isin(result["references"], ids)
