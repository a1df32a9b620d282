"""Scores a detector on the crossed corpus: whether it compares a reply with the earlier messages."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score, roc_curve

from contradiction.conversation import ASSISTANT
from contradiction.data.corpora.crossed import Item, Quadruple
from contradiction.decision import IN_USE, precision_at
from contradiction.detector import ContradictionDetector
from contradiction.evaluation.figures import ratio_interval, wilson
from contradiction.evaluation.thresholds import calibration_error, reliability
from contradiction.io.tables import Table, interval, percent
from contradiction.labels import HISTORY, NON_CONTRADICTION
from contradiction.verdict import Verdict

SEED = 13
LONG = 5  # the messages before the reply of a chat of three turns; in shorter chats, evidence is not scored
ALL = "all"
# Figure -> its title, and its value for a coin, in percent.
FIGURES = {
    "in_order": ("pair in order", "50"),
    "both_right": ("both replies of a chat right", "25"),
    "all_right": ("all replies of an item right", "6 to 25"),
    "evidence": ("evidence right, chats of three turns and more", ""),
}
RECALL = 0.4  # the least recall at which precision is reported


@dataclass(frozen=True)
class JudgedItem:
    """The verdicts of a detector on the judged replies of one item, the consistent reply of each chat first."""

    item: Item
    verdicts: tuple[Verdict, ...]

    def counts(self) -> dict[str, tuple[float, int]]:
        """Each figure of ``FIGURES`` as successes and trials.

        - ``in_order``: chats whose contradicting reply has the higher probability; a tie counts one half.
        - ``both_right``: chats with the right decision on both replies.
        - ``all_right``: items with the right decision on all replies.
        - ``evidence``: of the *history* contradictions found in chats of three turns and more, those whose evidence
          names the right message.
        """
        chats = list(zip(self.verdicts[::2], self.verdicts[1::2], strict=True))  # the consistent reply first
        order = [_order(one.probability or 0.0, other.probability or 0.0) for one, other in chats]
        right = [other.contradiction is True and one.contradiction is False for one, other in chats]
        item, found = self.item, []
        if isinstance(item, Quadruple) and item.label == HISTORY and len(item.a) >= LONG:
            found = [item.evidence in verdict.evidence for _, verdict in chats if verdict.label == HISTORY]
        return {
            "in_order": (sum(order), len(order)),
            "both_right": (sum(right), len(right)),
            "all_right": (float(all(right)), 1),
            "evidence": (sum(found), len(found)),
        }


def _order(low: float, high: float) -> float:
    """Whether two values are in ascending order; a tie counts one half."""
    return float(high > low) + 0.5 * (high == low)


def judge_items(
    detector: ContradictionDetector, items: Sequence[Item], *, on_batch: Callable[[int], Any] | None = None
) -> list[JudgedItem]:
    """Judges every reply of some items.

    Raises:
        InputError: the detector does not judge replies.
    """
    chats = [row.chat() for item in items for row in item.judged()]
    verdicts = iter(detector.batch(chats, on_batch=on_batch))
    return [JudgedItem(item, tuple(next(verdicts) for _ in item.judged())) for item in items]


def summary(
    answers: Sequence[JudgedItem], part_of: Callable[[Item], str] = lambda item: item.phenomenon
) -> dict[str, Any]:
    """The figures over all items and by part.

    Returns:
        Part -> ``n`` (items), each figure of ``FIGURES`` as a share (None where nothing was counted), and
        ``precision``, see :func:`best_precision`. Over all items also ``interval``, 95 % bootstrap intervals over the
        items, ``auc``, the area under the ROC curve, ``calibration_error``, the expected calibration error, and
        ``shared_characters``, see :func:`shared_characters`.
    """
    parts: dict[str, list[JudgedItem]] = {}
    for answer in answers:
        parts.setdefault(part_of(answer.item), []).append(answer)
    truth, probabilities = _probabilities(answers)
    overall = {
        **_shares(answers),
        "interval": _intervals(answers),
        "auc": float(roc_auc_score(truth, probabilities)),
        "calibration_error": calibration_error(reliability(truth, probabilities)),
        "shared_characters": shared_characters([answer.item for answer in answers]),
    }
    return {ALL: overall, **{part: _shares(group) for part, group in sorted(parts.items())}}


def _shares(answers: Sequence[JudgedItem]) -> dict[str, Any]:
    counts = [answer.counts() for answer in answers]
    shares: dict[str, Any] = {"n": len(answers)}
    for figure in FIGURES:
        trials = sum(count[figure][1] for count in counts)
        shares[figure] = sum(count[figure][0] for count in counts) / trials if trials else None
    shares["precision"] = best_precision(*_probabilities(answers))
    return shares


def shared_characters(items: Sequence[Item]) -> float | None:
    """The share of chats in order if the reply that shares less with the contradicted message counts as contradicting.

    This baseline compares two texts without understanding them. It counts the characters and character bigrams of the
    reply that also occur in the message; a tie counts one half. Pairs of self-contradictions are left out.

    Returns:
        None if there are no quadruples.
    """
    order = []
    for item in items:
        if isinstance(item, Quadruple):
            for chat, *replies in ((item.a, item.reply_a, item.reply_b), (item.b, item.reply_b, item.reply_a)):
                consistent, contradicting = (_shared(reply, chat[item.evidence]["content"]) for reply in replies)
                order.append(_order(contradicting, consistent))
    return float(np.mean(order)) if order else None


def _shared(reply: str, message: str) -> float:
    shares = []
    for length in (1, 2):
        grams, message_grams = (
            {text[start : start + length] for start in range(len(text) - length + 1)}
            for text in ("".join(filter(str.isalnum, text)) for text in (reply, message))
        )
        shares.append(len(grams & message_grams) / max(1, len(grams)))
    return sum(shares)


def _intervals(answers: Sequence[JudgedItem]) -> dict[str, tuple[float, float] | None]:
    counts = [answer.counts() for answer in answers]
    intervals: dict[str, tuple[float, float] | None] = {}
    for figure in FIGURES:
        successes, trials = zip(*(count[figure] for count in counts), strict=True)
        intervals[figure] = ratio_interval(successes, trials, SEED) if any(trials) else None
    return intervals


def _probabilities(answers: Sequence[JudgedItem]) -> tuple[np.ndarray, np.ndarray]:
    """Whether each judged reply is a contradiction, and its probability, both of shape (replies,)."""
    truth = [row.label != NON_CONTRADICTION for answer in answers for row in answer.item.judged()]
    probabilities = [verdict.probability or 0.0 for answer in answers for verdict in answer.verdicts]
    return np.array(truth), np.array(probabilities)


def best_precision(truth: np.ndarray, probabilities: np.ndarray) -> float:
    """The highest precision of a threshold with a recall of at least ``RECALL``, where contradictions are rare.

    The share of contradictions is ``IN_USE``. Half a false alarm is added to the counted ones, so that a handful of
    replies cannot give a perfect precision.

    Args:
        truth: whether each reply is a contradiction, shape (replies,).
        probabilities: P(contradiction), shape (replies,).
    """
    false_alarms, recalls, _ = roc_curve(truth, probabilities, drop_intermediate=False)
    others = (~truth).sum()
    smoothed = (false_alarms * others + 0.5) / (others + 1)
    return float(precision_at(IN_USE, recalls, smoothed)[recalls >= RECALL].max())


def false_alarms(
    detector: ContradictionDetector, items: Sequence[Item], *, on_batch: Callable[[int], Any] | None = None
) -> dict[str, tuple[int, int] | None]:
    """How often replies are called contradictions in chats without a message that they could contradict.

    The replies of the quadruples are consistent in themselves. Each one is judged ``alone``, as the first message of a
    chat, and after the chat of the next quadruple with a chat of the same length, which is about something else
    (``unrelated``).

    Returns:
        For both, the number of replies that are called contradictions, and of those that are judged; None where the
        detector does not judge opening replies.
    """
    quadruples = [item for item in items if isinstance(item, Quadruple)]
    by_length: dict[int, list[Quadruple]] = {}
    for item in quadruples:
        by_length.setdefault(len(item.a), []).append(item)
    unrelated = [
        [*same_length[(place + 1) % len(same_length)].a, {"role": ASSISTANT, "content": reply}]
        for same_length in by_length.values()
        if len(same_length) > 1
        for place, item in enumerate(same_length)
        for reply in (item.reply_a, item.reply_b)
    ]
    alone = [[{"role": ASSISTANT, "content": reply}] for item in quadruples for reply in (item.reply_a, item.reply_b)]
    counts: dict[str, tuple[int, int] | None] = {}
    for name, chats in (("alone", alone), ("unrelated", unrelated)):
        judged = [verdict for verdict in detector.batch(chats, on_batch=on_batch) if verdict.label is not None]
        alarms = sum(verdict.contradiction is True for verdict in judged)
        counts[name] = (alarms, len(judged)) if judged else None
    return counts


def table(name: str, figures: Mapping[str, Any], alarms: Mapping[str, tuple[int, int] | None]) -> Table:
    """The figures of :func:`summary` over all items with their intervals, and :func:`false_alarms`, beside chance.

    ``name`` has the detector and the corpus.
    """
    overall = figures[ALL]
    rows = [
        (title, percent(overall[figure]), interval(overall["interval"][figure]), chance)
        for figure, (title, chance) in FIGURES.items()
        if overall[figure] is not None
    ]
    if overall["shared_characters"] is not None:
        rows.insert(1, ("the same, by shared characters alone", percent(overall["shared_characters"]), "", "50"))
    rows.append(("area under the ROC curve", percent(overall["auc"]), "", "50"))
    rows.append(("expected calibration error", percent(overall["calibration_error"]), "", ""))
    places = {"alone": "called a contradiction: a reply alone", "unrelated": "the same, after an unrelated chat"}
    rows += [
        (places[place], percent(count[0] / count[1]), interval(wilson(*count)), "")
        for place, count in alarms.items()
        if count
    ]
    return Table(f"{name}, {overall['n']} items", ("figure", "%", "95 % interval", "a coin"), rows)


def table_by(part: str, figures: Mapping[str, Any]) -> Table:
    """The figures of :func:`summary` by part, for instance by style."""
    shown = (*FIGURES, "precision")
    rows = [
        (name, str(shares["n"]), *("" if shares[figure] is None else percent(shares[figure], 0) for figure in shown))
        for name, shares in figures.items()
        if name != ALL
    ]
    precision = f"precision at {percent(IN_USE, 0)} %, recall {percent(RECALL, 0)}"
    header = (part, "items", "in order", "both right", "all right", "evidence", precision)
    return Table(f"By {part}", header, rows)
