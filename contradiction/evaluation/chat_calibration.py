"""Fits the decision rule of a detector to chats that its owner has labelled."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logit

from contradiction.base_detector import BaseDetector, Case
from contradiction.data.labelled import OF_INSTRUCTIONS, LabelledChat
from contradiction.decision import FEWEST, TINY, Rule
from contradiction.errors import InputError
from contradiction.inference.base import OnBatch
from contradiction.inputs.views import is_opening
from contradiction.labels import CONTRADICTION, CONTRADICTIONS, is_contradiction, merge
from contradiction.methods.calibration import with_curve

FOLDS = 5
DEVIATION = 2.0  # the deviation of a normal prior on the change of the calibration, because an owner has few chats

Probabilities = Callable[[Rule], np.ndarray]


@dataclass(frozen=True)
class Calibrated:
    """A rule that was fitted to labelled chats.

    Attributes:
        before, rule: the previous rule of the detector, and the fitted one.
        chats, contradictions, unjudged: how many chats could be judged, were contradictions, could not be judged.
        left_out: how many further chats gave nothing to fit to, and why.
        truth: whether each chat that could be judged is a contradiction, shape (chats,).
        called_before: whether the previous rule calls it one.
        called_held_out: the same of rules that were each fitted to four fifths of the chats, for the other fifth. Chats
            that begin alike are in the same fifth, unless there are too few beginnings.
    """

    before: Rule
    rule: Rule
    chats: int
    contradictions: int
    unjudged: int
    left_out: Counter[str]
    truth: np.ndarray
    called_before: np.ndarray
    called_held_out: np.ndarray


def fit(detector: BaseDetector, chats: Sequence[LabelledChat], on_batch: OnBatch | None = None) -> Calibrated:
    """Fits calibration, threshold and curve to labelled chats; writes nothing.

    The fit uses the probability of a whole chat, as in verdicts: the highest over its windows. It changes only two
    numbers of the current rule, a temperature and a bias of all contradictions (Platt scaling), so that some dozens of
    chats are enough. The kinds keep their shares. The detector must not have been trained on the chats.

    Raises:
        InputError: there are too few chats of either kind, or the model does not judge replies.
    """
    detector.check_judges_replies()
    left_out = Counter(OF_INSTRUCTIONS.format(label=chat.label) for chat in chats if chat.of_instructions)
    chats = [chat for chat in chats if not chat.of_instructions]
    cases = [detector.case(chat.turns, len(chat.turns) - 1) for chat in chats]
    even = dict.fromkeys(detector.labels, 1 / len(detector.labels))
    judges_openings = detector.classifier.opening_probabilities(even) is not None
    usable = [
        place
        for place, case in enumerate(cases)
        if not case.reason and (judges_openings or not is_opening(case.windows[-1].row))
    ]
    truth = np.array([is_contradiction(chats[place].label) for place in usable], dtype=bool)
    if min(truth.sum(), (~truth).sum()) < FEWEST:
        others = "".join(f"; {count} {reason}" for reason, count in left_out.items())
        raise InputError(
            f"{truth.sum()} contradictions and {(~truth).sum()} other chats can be judged; a rule needs at least "
            f"{FEWEST} of each{others}"
        )
    before, judged = detector.classifier.rule, [cases[place] for place in usable]
    probabilities = _probabilities(detector, judged, on_batch)
    openings = np.array([is_opening(case.windows[-1].row) for case in judged])

    def called(rule: Rule) -> np.ndarray:
        """Whether a verdict by the rule calls each chat a contradiction."""
        return probabilities(rule) >= np.where(openings, max(rule.threshold, rule.opening), rule.threshold)

    rule = _fit(before, probabilities, truth, slice(None), detector)
    called_held_out = np.zeros(len(truth), dtype=bool)
    for rest, held_out in folds(truth, [chats[place].context for place in usable]):
        called_held_out[held_out] = called(_fit(before, probabilities, truth, rest, detector))[held_out]
    return Calibrated(
        before, rule, len(usable), int(truth.sum()), len(chats) - len(usable), left_out, truth, called(before),
        called_held_out,
    )  # fmt: skip


def _probabilities(detector: BaseDetector, cases: Sequence[Case], on_batch: OnBatch | None) -> Probabilities:
    """A function from a rule to the probability of a contradiction in each chat; the model runs once."""
    classifier = detector.classifier
    rows = [window.row for case in cases for window in case.windows]
    if not classifier.LOGITS:  # its probabilities follow from the rules of its stages
        windows = [prediction.scores for prediction in classifier.predict(rows, on_batch=on_batch)]
        fixed = _combined(detector, cases, windows)
        return lambda rule: fixed
    logits = classifier.score(rows, on_batch=on_batch).logits

    def by_rule(rule: Rule) -> np.ndarray:
        table = rule.calibrate(logits, classifier.labels).tolist()
        return _combined(detector, cases, [dict(zip(classifier.labels, row, strict=True)) for row in table])

    return by_rule


def _combined(detector: BaseDetector, cases: Sequence[Case], windows: Sequence[Mapping[str, float]]) -> np.ndarray:
    each = iter(windows)
    combined = [detector.combine(case, list(islice(each, len(case.windows)))) for case in cases]
    return np.array([merge(detector.task, of_chat)[CONTRADICTION] if of_chat else 0.0 for of_chat in combined])


def _fit(
    before: Rule, probabilities: Probabilities, truth: np.ndarray, chosen: "slice | np.ndarray", detector: BaseDetector
) -> Rule:
    """The rule for some of the chats."""
    names, wanted = CONTRADICTIONS[detector.task], truth[chosen]
    penalty = 1 / (2 * DEVIATION**2 * len(wanted))

    def moved(values: np.ndarray) -> Rule:
        scale, shift = float(np.exp(values[0])), float(values[1])
        biases = {
            name: round(before.biases.get(name, 0.0) / scale + (shift if name in names else 0.0), 4)
            for name in detector.labels
        }
        # Where the probability of a first reply moves, its threshold moves along.
        opening = round(float(expit(logit(min(before.opening, 1.0)) / scale + shift)), 4)
        return replace(before, temperature=round(before.temperature * scale, 4), biases=biases, opening=opening)

    def loss(values: np.ndarray) -> float:
        fitted = np.clip(probabilities(moved(values))[chosen], TINY, 1 - TINY)
        return -float(np.log(np.where(wanted, fitted, 1 - fitted)).mean()) + penalty * float(values @ values)

    rule = before
    if detector.classifier.LOGITS:
        # The default first steps are so small that the search would stop at its start if the loss is flat.
        steps = [[0.0, 0.0], [0.5, 0.0], [0.0, 0.5]]
        options = {"xatol": 1e-3, "fatol": 1e-5, "maxiter": 120, "initial_simplex": steps}
        rule = moved(minimize(loss, np.zeros(2), method="Nelder-Mead", bounds=[(-2, 2), (-6, 6)], options=options).x)
    return with_curve(rule, probabilities(rule)[chosen], wanted)


def folds(truth: np.ndarray, contexts: Sequence[str]) -> list[tuple[np.ndarray, np.ndarray]]:
    """The places of the chats to fit to and of those held out, for each fold; both kinds are among the first.

    Chats with the same context are in the same fold, unless there are too few contexts. There must be at least
    ``FOLDS`` chats of each kind; ``truth``, shape (chats,), says which are contradictions.
    """
    from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

    options: dict[str, Any] = {"n_splits": FOLDS, "shuffle": True, "random_state": 13}
    if len(set(contexts)) >= FOLDS:
        grouped = list(StratifiedGroupKFold(**options).split(contexts, truth, contexts))
        if all(len(set(truth[rest])) == 2 for rest, _ in grouped):
            return grouped
    return list(StratifiedKFold(**options).split(contexts, truth))
