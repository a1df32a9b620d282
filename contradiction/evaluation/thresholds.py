"""Thresholds of the probability of a contradiction: calibration, precision and recall, and an operator's settings."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from contradiction.errors import InputError
from contradiction.evaluation.evaluated_rows import Records
from contradiction.io.tables import Table, interval, percent
from contradiction.labels import CONTRADICTION, CONTRADICTIONS, LABELS, NLI, merge, task_of
from contradiction.methods.decision import Rule
from contradiction.rates import IN_USE, precision_at, wilson
from contradiction.settings import Settings

BINS = 10
TARGETS = (0.5, 0.8, 0.9)
FEW = 10  # with fewer false alarms, a precision at another share of contradictions rests on chance


def reliability(truth: np.ndarray, probabilities: np.ndarray, bins: int = BINS) -> Records:
    """The reliability diagram over bins of equal mass, cut at the quantiles of the probabilities.

    Equal probabilities share a bin, so there may be fewer bins than asked for.

    Args:
        truth: whether each row is a contradiction, shape (rows,).
        probabilities: P(contradiction), shape (rows,).
        bins: at most so many.

    Returns:
        A record for each bin: n, mean_probability, share (of contradictions), low, high (95 % Wilson interval of the
        share).
    """
    from sklearn.calibration import calibration_curve

    shares, means = calibration_curve(truth, probabilities, n_bins=bins, strategy="quantile")
    # The rows in each bin, which scikit-learn does not return; these are its own edges.
    edges = np.percentile(probabilities, np.linspace(0, 1, bins + 1) * 100)[1:-1]
    rows = np.unique(np.searchsorted(edges, probabilities), return_counts=True)[1]
    records = []
    for n, share, mean in zip(rows.tolist(), shares.tolist(), means.tolist(), strict=True):
        low, high = wilson(round(share * n), n)
        records.append({"n": n, "mean_probability": mean, "share": share, "low": low, "high": high})
    return records


def calibration_error(bins: Records) -> float:
    """Expected calibration error: the mean gap between probability and share, weighted by the rows of each bin."""
    rows = sum(record["n"] for record in bins)
    return sum(record["n"] * abs(record["mean_probability"] - record["share"]) for record in bins) / rows


def threshold_curve(truth: np.ndarray, probabilities: np.ndarray, in_use: float = IN_USE) -> Records:
    """Recall, false alarms and precision at every threshold that changes anything, from the highest down.

    Returns:
        A record for each threshold: threshold, recall, false_alarm_rate, true_positives, false_positives, precision (as
        the rows are), precision_in_use (at the share ``in_use`` of contradictions).
    """
    from sklearn.metrics import roc_curve

    false_alarms, recall, thresholds = (
        values[1:]  # the first point has no alarm at all
        for values in roc_curve(truth, probabilities, drop_intermediate=False)
    )
    positives = int(truth.sum())
    columns = {
        "threshold": thresholds,
        "recall": recall,
        "false_alarm_rate": false_alarms,
        "true_positives": np.rint(recall * positives).astype(int),
        "false_positives": np.rint(false_alarms * (len(truth) - positives)).astype(int),
        "precision": precision_at(positives / len(truth), recall, false_alarms),
        "precision_in_use": precision_at(in_use, recall, false_alarms),
    }
    points = zip(*(values.tolist() for values in columns.values()), strict=True)
    return [dict(zip(columns, point, strict=True)) for point in points]


def operating_points(curve: Records, rows: int, prior: float, targets: tuple[float, ...] = TARGETS) -> Records:
    """The threshold with the most recall that reaches each wanted precision at a share of contradictions.

    Args:
        curve: what :func:`threshold_curve` returns.
        rows: how many rows the split has.
        prior: the assumed share of contradictions.
        targets: the precisions wanted.

    Returns:
        A record for each target: prior, wanted, reached (whether any threshold reaches it), threshold, precision, low,
        high, recall, false_alarm_rate, true_positives, false_positives, alarms_per_1000 replies. Where no threshold
        reaches it, the point of the highest precision. The interval takes the Wilson intervals of recall and
        false-alarm rate at their worse and at their better ends. It is wide on purpose, and does not include that the
        threshold was chosen on these rows.
    """
    recall, false_alarms = (np.array([point[key] for point in curve]) for key in ("recall", "false_alarm_rate"))
    precision = precision_at(prior, recall, false_alarms)
    positives, negatives = curve[-1]["true_positives"], rows - curve[-1]["true_positives"]
    records = []
    for wanted in targets:
        reaching = np.flatnonzero(precision >= wanted - 1e-9)  # 4 / 5 may come out a last digit below 0.8
        candidates = reaching if reaching.size else np.flatnonzero(precision == precision.max())
        chosen = int(max(candidates, key=lambda index: (recall[index], -false_alarms[index])))
        point = curve[chosen]
        hits, alarms = wilson(point["true_positives"], positives), wilson(point["false_positives"], negatives)
        low, high = precision_at(prior, hits, alarms[::-1]).tolist()
        record: dict[str, Any] = {"prior": prior, "wanted": wanted, "reached": bool(reaching.size)}
        record |= {key: point[key] for key in ("threshold", "recall", "false_alarm_rate")}
        record |= {key: point[key] for key in ("true_positives", "false_positives")}
        record |= {"precision": float(precision[chosen]), "low": low, "high": high}
        record["alarms_per_1000"] = 1000 * (prior * point["recall"] + (1 - prior) * point["false_alarm_rate"])
        records.append(record)
    return records


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
