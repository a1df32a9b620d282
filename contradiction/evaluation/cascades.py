"""The gain and the cost of a cascade: macro-F1 by the share of replies that go to its judge."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit, logit

from contradiction.decision import TINY
from contradiction.errors import InputError
from contradiction.evaluation.figures import TASKS, measure
from contradiction.inference.base import OnBatch
from contradiction.io.tables import Table, percent, with_interval
from contradiction.labels import CONTRADICTION, LABELS, merge
from contradiction.methods.base import Classifier
from contradiction.methods.composite import joint_progress
from contradiction.verdict import NO_ANSWER

if TYPE_CHECKING:
    from datasets import Dataset
    from numpy.typing import ArrayLike

SHARES = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0)
RESAMPLES = 1000


@dataclass(frozen=True)
class Step:
    """A cascade that sends some share of the replies to its judge.

    Attributes:
        share: of the rows that go to the judge.
        low, high: the probabilities of a contradiction between which a reply is doubtful, to six decimal places.
        macro_f1: task -> macro-F1 and the ends of its 95 % bootstrap interval, over the rows that both parts read.
        scored: the number of these rows.
        unanswered: about how many rows the judge is asked without a usable answer.
        unchecked: how many other rows are not read completely by the part that they go to.
        tokens, seconds, cost: of the judge for 1,000 rows, its answers one after the other; None where not known.
    """

    share: float
    low: float
    high: float
    macro_f1: Mapping[str, tuple[float, float, float]]
    scored: int
    unanswered: int
    unchecked: int
    tokens: float
    seconds: float | None
    cost: float | None


def curve(
    detector: Classifier, judge: Classifier, rows: "Dataset", shares: Sequence[float] = SHARES,
    on_batch: OnBatch | None = None,
) -> list[Step]:  # fmt: skip
    """The cascades of a detector and a judge, by the share of the rows that go to the judge.

    Both parts judge all rows, so measuring costs as much as sending all rows to the judge. In each cascade, a row is
    decided by the rule of the part that it goes to. The most doubtful rows go to the judge first: those whose
    calibrated probability of a contradiction is nearest to its threshold, in log-odds. Rows with the same probability
    go together, so a share can be larger than the one asked for. Rows that one of the parts did not read completely, or
    did not answer, are in no score, so all cascades are scored on the same.

    Raises:
        InputError: the labels of the parts and of the rows are not the same, or do not name contradictions; or there is
            no row that both parts read.
    """
    names = rows.features["label"].names
    for part in (detector, judge):
        if set(part.labels) != set(names):
            raise InputError(f"{part.name} has the labels {', '.join(part.labels)}; the data has {', '.join(names)}")
    detector.check_contradictions()
    utterances, task = rows.to_list(), detector.task
    report = joint_progress(on_batch, len(rows), 2 * len(rows))
    # The judge first, because it asks before it sends requests; the detector takes long.
    classified = [part.classify(utterances, on_batch=report) for part in (judge, detector)][::-1]
    contradiction = np.array([merge(task, row.scores)[CONTRADICTION] for row in classified[0]])
    doubt = np.abs(_log_odds(contradiction) - _log_odds(detector.rule.threshold))
    references = np.array(rows["label"])
    decided = [np.array([LABELS[task].index(row.label) for row in of_part]) for of_part in classified]
    answered = np.array([row.truncation != NO_ANSWER for row in classified[1]])
    was_read = np.array([[row.truncation is None for row in of_part] for of_part in classified])
    scored = was_read.all(axis=0)
    if not scored.any():
        reason = next(row.truncation for row in (*classified[1], *classified[0]) if row.truncation)
        raise InputError(f"{detector.name} and {judge.name}: no row was read by both; of the first one, {reason}")
    usage = judge.usage() or {}
    steps = []
    for share in shares:
        low, high = _bounds(np.sort(doubt), round(share * len(rows)), detector.rule.threshold)
        in_doubt = (low <= contradiction) & (contradiction <= high)
        share = float(in_doubt.mean())
        scores = _scores(task, references[scored], np.where(in_doubt, decided[1], decided[0])[scored])
        tokens, seconds, cost = _spent(usage, share, len(rows))
        unanswered = int((in_doubt & ~answered).sum())
        unchecked = int((~np.where(in_doubt, was_read[1], was_read[0])).sum()) - unanswered
        counts = int(scored.sum()), unanswered, unchecked
        steps.append(Step(share, low, high, scores, *counts, tokens, seconds, cost))
    return steps


def _log_odds(probabilities: "ArrayLike") -> np.ndarray:
    return logit(np.clip(probabilities, TINY, 1 - TINY))


def _bounds(doubt: np.ndarray, count: int, threshold: float) -> tuple[float, float]:
    """The probabilities between which the first ``count`` rows lie, and those with the same doubt as the last one.

    ``doubt`` is the distance of each row to the threshold in log-odds, in ascending order.
    """
    if count == 0:
        return 1.0, 0.0
    if count == len(doubt):
        return 0.0, 1.0
    middle, reach = _log_odds(threshold), (doubt[count - 1] + doubt[count]) / 2
    # Rounded outwards, so that rows at the bounds are between them.
    return math.floor(1e6 * expit(middle - reach)) / 1e6, math.ceil(1e6 * expit(middle + reach)) / 1e6


def _scores(task: str, references: np.ndarray, predictions: np.ndarray) -> dict[str, tuple[float, float, float]]:
    result = measure(task, references.tolist(), predictions.tolist(), bootstrap=RESAMPLES)
    by_task = {"2-class": result.get("two_class", result), task: result}
    return {name: (part["macro_f1"], *part["interval"]["macro_f1"]) for name, part in by_task.items()}


def _spent(usage: Mapping[str, Any], share: float, rows: int) -> tuple[float, float | None, float | None]:
    """Tokens, seconds and cost of 1,000 rows, of which a share goes to the judge."""
    factor = 1000 * share / rows
    seconds, cost = usage.get("seconds"), usage.get("cost")
    return (
        factor * (usage.get("prompt_tokens", 0) + usage.get("completion_tokens", 0)),
        None if seconds is None else factor * seconds * usage["answers"],
        None if cost is None else factor * cost,
    )


def table(steps: Sequence[Step], rows: int) -> Table:
    """The steps of a curve, with intervals; without equal steps, and columns that are empty or zero in all steps."""
    tasks = [task for task in TASKS if task in steps[0].macro_f1]
    header = ("judge is asked about, %", "at a probability of", *(f"macro-F1, {task}" for task in tasks),
              "no answer", "unchecked", "tokens / 1,000", "seconds / 1,000", "cost / 1,000")  # fmt: skip
    body = [
        (
            percent(step.share),
            f"{step.low:.3f} to {step.high:.3f}" if step.share else "never",
            *(with_interval(step.macro_f1[task][0], step.macro_f1[task][1:]) for task in tasks),
            f"{step.unanswered:,}",
            f"{step.unchecked:,}",
            f"{step.tokens:,.0f}",
            "" if step.seconds is None else f"{step.seconds:,.0f}",
            "" if step.cost is None else f"{step.cost:.4f}",
        )
        for step in {step.share: step for step in steps}.values()
    ]
    kept = [place for place in range(len(header)) if any(row[place] not in ("", "0") for row in body)]
    shown = [[row[place] for place in kept] for row in (header, *body)]
    title = f"A detector, and a judge of doubtful replies, on {rows:,} validation rows"
    return Table(title, shown[0], shown[1:], texts=2)
