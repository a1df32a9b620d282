"""How far probabilities can be trusted, and what thresholds of them give: for the plots of ``experiments.analyze``."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from contradiction.evaluation.figures import Outcome, wilson
from evaluate_metric.evaluate_metric import calibration_bins

Records = list[dict[str, Any]]  # a table: a dict for each row; fractions are not rounded
TARGETS = (0.5, 0.8, 0.9)


def reliability(truth: np.ndarray, probabilities: np.ndarray) -> Records:
    """The bins of a reliability diagram: rows, mean probability, share of contradictions and its 95 % Wilson interval.

    ``truth`` says whether each row is a contradiction; like its probability, it has the shape (rows,).
    """
    records = []
    for n, mean, fraction in calibration_bins(truth, probabilities):
        low, high = wilson(round(fraction * n), n)
        records.append({"n": n, "mean_probability": mean, "share": fraction, "low": low, "high": high})
    return records


def threshold_curve(truth: np.ndarray, probabilities: np.ndarray) -> list[Outcome]:
    """The outcome of every distinct threshold on these rows, in descending order."""
    from sklearn.metrics import roc_curve

    false_alarms, recall, thresholds = (
        values[1:]  # the first point has no alarms
        for values in roc_curve(truth, probabilities, drop_intermediate=False)
    )
    contradictions, others = int(truth.sum()), int((~truth).sum())
    hits, alarms = np.rint(recall * contradictions).astype(int), np.rint(false_alarms * others).astype(int)
    return [
        Outcome(f"{threshold:g}", None, contradictions / len(truth), threshold, hit, contradictions, alarm, others)
        for threshold, hit, alarm in zip(thresholds.tolist(), hits.tolist(), alarms.tolist(), strict=True)
    ]


def operating_points(curve: Sequence[Outcome], prior: float) -> Records:
    """The threshold with the highest recall for each of ``TARGETS``, where ``prior`` of the replies contradict.

    Returns:
        A record for each target precision: prior, wanted, reached (whether any threshold reaches it), threshold,
        recall, false_alarm_rate, true_positives, false_positives, precision, low, high, alarms_per_1000 replies. Where
        no threshold reaches the target, it is the point with the highest precision. The interval, see
        ``Outcome.precision_interval``, ignores that the threshold was chosen on these rows.
    """
    points = [replace(point, prior=prior, fraction=prior) for point in curve]
    highest = max(point.precision for point in points)
    records = []
    for target in TARGETS:
        # 4 / 5 may be slightly below 0.8 in floating point.
        candidates = [point for point in points if point.precision >= min(target - 1e-9, highest)]
        chosen = max(candidates, key=lambda point: (point.recall, -point.false_alarms))
        low, high = chosen.precision_interval
        records.append(
            {
                "prior": prior,
                "wanted": target,
                "reached": highest >= target - 1e-9,
                "threshold": chosen.threshold,
                "recall": chosen.recall,
                "false_alarm_rate": chosen.false_alarms,
                "true_positives": chosen.hits,
                "false_positives": chosen.alarms,
                "precision": chosen.precision,
                "low": low,
                "high": high,
                "alarms_per_1000": 1000 * (prior * chosen.recall + (1 - prior) * chosen.false_alarms),
            }
        )
    return records
