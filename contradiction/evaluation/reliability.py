"""What the probability of a contradiction is worth: calibration, and the thresholds that reach a wanted precision."""

from typing import Any

import numpy as np

from contradiction.evaluation.evaluated_rows import Records
from contradiction.rates import IN_USE, precision_at, wilson

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
