"""How far probabilities can be trusted, and what thresholds of them give: for the plots of ``experiments.analyze``."""

from typing import Any

import numpy as np

from contradiction.decision import precision_at
from contradiction.evaluation.figures import wilson
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


def threshold_curve(truth: np.ndarray, probabilities: np.ndarray) -> Records:
    """Recall, false alarms and precision on these rows at every distinct threshold, in descending order."""
    from sklearn.metrics import roc_curve

    false_alarms, recall, thresholds = (
        values[1:]  # the first point has no alarms
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
    }
    points = zip(*(values.tolist() for values in columns.values()), strict=True)
    return [dict(zip(columns, point, strict=True)) for point in points]


def operating_points(curve: Records, rows: int, prior: float, targets: tuple[float, ...] = TARGETS) -> Records:
    """The threshold with the highest recall for each target precision, where ``prior`` of the replies contradict.

    Returns:
        A record for each target: prior, wanted, reached (whether any threshold reaches it), threshold, precision, low,
        high, recall, false_alarm_rate, true_positives, false_positives, alarms_per_1000 replies. Where no threshold
        reaches the target, it is the point with the highest precision. The interval combines the worse and the better
        ends of the Wilson intervals of recall and false-alarm rate, so it is conservative. It ignores that the
        threshold was chosen on these rows.
    """
    recall, false_alarms = (np.array([point[key] for point in curve]) for key in ("recall", "false_alarm_rate"))
    precision = precision_at(prior, recall, false_alarms)
    positives, negatives = curve[-1]["true_positives"], rows - curve[-1]["true_positives"]
    records = []
    for target in targets:
        reaching = np.flatnonzero(precision >= target - 1e-9)  # 4 / 5 may be slightly below 0.8 in floating point
        candidates = reaching if reaching.size else np.flatnonzero(precision == precision.max())
        chosen = int(max(candidates, key=lambda index: (recall[index], -false_alarms[index])))
        point = curve[chosen]
        hits, alarms = wilson(point["true_positives"], positives), wilson(point["false_positives"], negatives)
        low, high = precision_at(prior, hits, alarms[::-1]).tolist()
        taken = ("threshold", "recall", "false_alarm_rate", "true_positives", "false_positives")
        records.append(
            {
                "prior": prior,
                "wanted": target,
                "reached": bool(reaching.size),
                **{key: point[key] for key in taken},
                "precision": float(precision[chosen]),
                "low": low,
                "high": high,
                "alarms_per_1000": 1000 * (prior * point["recall"] + (1 - prior) * point["false_alarm_rate"]),
            }
        )
    return records
