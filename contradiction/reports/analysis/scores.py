"""What the probability of a contradiction is worth: calibration, and the thresholds that reach a wanted precision."""

from typing import Any

import numpy as np

from contradiction.rates import IN_USE, precision_at, wilson
from contradiction.reports.analysis.slices import Records

BINS = 10
TARGETS = (0.5, 0.8, 0.9)
FEW = 10  # false alarms below which a precision at another share of contradictions rests on chance


def reliability(truth: np.ndarray, probabilities: np.ndarray, bins: int = BINS) -> Records:
    """The reliability diagram over bins of equal mass, cut at the quantiles of the probabilities.

    Equal probabilities share a bin, so that fewer bins may come out than asked for.

    Args:
        truth: whether each row is a contradiction, shape (rows,).
        probabilities: P(contradiction), shape (rows,).
        bins: at most so many.

    Returns:
        A record a bin: n, mean_probability, share (of contradictions), low, high (95 % Wilson interval of the share).
    """
    edges = np.quantile(probabilities, np.linspace(0, 1, bins + 1))[1:-1]
    index = np.searchsorted(edges, probabilities)
    records = []
    for each in sorted(set(index.tolist())):
        inside = index == each
        n, contradictions = int(inside.sum()), int(truth[inside].sum())
        low, high = wilson(contradictions, n)
        records.append(
            {
                "n": n,
                "mean_probability": float(probabilities[inside].mean()),
                "share": contradictions / n,
                "low": low,
                "high": high,
            }
        )
    return records


def calibration_error(bins: Records) -> float:
    """Expected calibration error: the mean gap between probability and share, weighed by the rows of each bin."""
    rows = sum(each["n"] for each in bins)
    return sum(each["n"] * abs(each["mean_probability"] - each["share"]) for each in bins) / rows


def brier(truth: np.ndarray, probabilities: np.ndarray) -> float:
    """The mean squared gap between P(contradiction) and 1 for a contradiction, 0 for another reply."""
    return float(((probabilities - truth) ** 2).mean())


def curve(truth: np.ndarray, probabilities: np.ndarray, in_use: float = IN_USE) -> Records:
    """Every threshold that changes anything, from the highest down.

    Returns:
        A record a threshold: threshold, recall, false_alarm_rate, true_positives, false_positives, precision (as the
        rows are), precision_in_use (at the share ``in_use``).
    """
    from sklearn.metrics import roc_curve

    false_alarms, recall, thresholds = (
        each[1:]
        for each in roc_curve(truth, probabilities, drop_intermediate=False)  # the first is no alarm at all
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
    return [
        dict(zip(columns, values, strict=True))
        for values in zip(*(each.tolist() for each in columns.values()), strict=True)
    ]


def operating_points(points: Records, rows: int, prior: float, targets: tuple[float, ...] = TARGETS) -> Records:
    """The threshold of most recall that reaches each wanted precision at a share of contradictions.

    Args:
        points: what ``curve`` returns.
        rows: of the split.
        prior: the share of contradictions to reckon with.
        targets: precisions wanted.

    Returns:
        A record a target: prior, wanted, reached (whether any threshold reaches it), threshold, precision, low, high,
        recall, false_alarm_rate, true_positives, false_positives, alarms_per_1000 replies. Where it is not reached, the
        point of highest precision. The interval takes the Wilson intervals of recall and false-alarm rate at their
        worse and at their better ends: it is wide on purpose, and says nothing of the threshold's having been chosen
        on these rows.
    """
    recall, false_alarms = (np.array([each[key] for each in points]) for key in ("recall", "false_alarm_rate"))
    precision = precision_at(prior, recall, false_alarms)
    positives, negatives = points[-1]["true_positives"], rows - points[-1]["true_positives"]
    records = []
    for wanted in targets:
        reaching = np.flatnonzero(precision >= wanted - 1e-9)  # 4 / 5 may come out a last digit below 0.8
        candidates = reaching if reaching.size else np.flatnonzero(precision == precision.max())
        chosen = int(max(candidates, key=lambda index: (recall[index], -false_alarms[index])))
        point = points[chosen]
        hits, alarms = wilson(point["true_positives"], positives), wilson(point["false_positives"], negatives)
        low, high = precision_at(prior, hits, alarms[::-1]).tolist()
        record: dict[str, Any] = {"prior": prior, "wanted": wanted, "reached": bool(reaching.size)}
        record |= {key: point[key] for key in ("threshold", "recall", "false_alarm_rate")}
        record |= {key: point[key] for key in ("true_positives", "false_positives")}
        record |= {"precision": float(precision[chosen]), "low": low, "high": high}
        record["alarms_per_1000"] = 1000 * (prior * point["recall"] + (1 - prior) * point["false_alarm_rate"])
        records.append(record)
    return records
