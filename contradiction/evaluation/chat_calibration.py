"""Fits the decision rule of a detector to chats that its owner has labelled."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.optimize import minimize

from contradiction.errors import InputError
from contradiction.inference.base import OnBatch
from contradiction.judge import Case, Judge
from contradiction.labels import CONTRADICTIONS, is_contradiction
from contradiction.methods.calibration import with_curve
from contradiction.methods.decision import TINY, Rule
from contradiction.methods.loading import load_classifier, save_rule
from contradiction.methods.softmax import SoftmaxClassifier
from contradiction.training.labelled import LabelledChat

FOLDS = 5
FEWEST = 10  # chats of each kind; with fewer, a threshold is a guess
DEVIATION = 2.0  # of a normal prior on how far the calibration moves, because an owner's chats are few

Probabilities = Callable[[Rule], np.ndarray]


@dataclass(frozen=True)
class Calibrated:
    """A rule that was fitted to labelled chats.

    Attributes:
        before, rule: the rule of the detector before and now.
        chats: the number of chats; contradictions among them; and those that could not be judged, which do not count.
        contradictions: see ``chats``.
        unjudged: see ``chats``.
        f1_before: macro-F1 of the two classes by the rule before.
        f1_held_out: the same by rules that were fitted to four fifths of the chats, each on the other fifth.
    """

    before: Rule
    rule: Rule
    chats: int
    contradictions: int
    unjudged: int
    f1_before: float
    f1_held_out: float


def calibrate(folder: str | Path, chats: Sequence[LabelledChat], on_batch: OnBatch | None = None) -> Calibrated:
    """Fits calibration, threshold and curve of a model folder to labelled chats, and writes them there.

    The probability of a whole chat is fitted, as verdicts have it: the highest over its windows. Two numbers are added
    to the rule that the detector has: a temperature, and a bias of all contradictions (Platt scaling), so that some
    dozens of chats are enough. The offsets of single labels stay.

    Args:
        folder: a model folder.
        chats: labelled chats that the detector was not trained on.
        on_batch: called with the number of windows done.

    Raises:
        InputError: there are too few chats of either kind, or the model does not judge replies.
    """
    judge = Judge(load_classifier(folder))
    judge.check_judges_replies()
    cases = [judge.case(chat.turns, len(chat.turns) - 1) for chat in chats]
    usable = [place for place, case in enumerate(cases) if not case.reason and _judged(judge, case)]
    truth = np.array([is_contradiction(chats[place].label) for place in usable], dtype=bool)
    if min(truth.sum(), (~truth).sum()) < FEWEST:
        raise InputError(
            f"{truth.sum()} contradictions and {(~truth).sum()} other chats can be judged; a rule needs at least "
            f"{FEWEST} of each"
        )
    before = judge.classifier.rule
    probabilities = _probabilities(judge, [cases[place] for place in usable], on_batch)
    rule = _fit(before, probabilities, truth, slice(None), judge)
    result = Calibrated(
        before, rule, len(usable), int(truth.sum()), len(chats) - len(usable),
        _f1(truth, probabilities(before) >= before.threshold), _held_out(before, probabilities, truth, judge),
    )  # fmt: skip
    save_rule(folder, rule)
    return result


def _judged(judge: Judge, case: Case) -> bool:
    """Whether the model judges a case; some do not judge a reply without an earlier one."""
    if not case.windows[-1].opening:
        return True
    even = dict.fromkeys(judge.labels, 1 / len(judge.labels))
    return (
        not isinstance(judge.classifier, SoftmaxClassifier) or judge.classifier.opening_probabilities(even) is not None
    )


def _probabilities(judge: Judge, cases: Sequence[Case], on_batch: OnBatch | None) -> Probabilities:
    """A function from a rule to the probability of a contradiction in each chat; the model runs once."""
    classifier = judge.classifier
    rows = [window.row for case in cases for window in case.windows]
    ends = np.cumsum([len(case.windows) for case in cases])
    if not isinstance(classifier, SoftmaxClassifier):  # its probabilities follow from the rules of its stages
        found = [one.probabilities for one in classifier.predict(rows, on_batch=on_batch)]
        fixed = _combined(judge, cases, found, ends)
        return lambda rule: fixed
    logits = classifier.score(rows, on_batch=on_batch).logits

    def of(rule: Rule) -> np.ndarray:
        table = rule.calibrate(logits, classifier.labels).tolist()
        return _combined(judge, cases, [dict(zip(classifier.labels, row, strict=True)) for row in table], ends)

    return of


def _combined(
    judge: Judge, cases: Sequence[Case], windows: Sequence[Mapping[str, float]], ends: np.ndarray
) -> np.ndarray:
    classifier, names = judge.classifier, CONTRADICTIONS[judge.task]
    values = []
    for case, start, end in zip(cases, [0, *ends[:-1]], ends, strict=True):
        own = windows[start:end]
        combined = (
            classifier.opening_probabilities(own[0]) if case.windows[-1].opening else classifier.combine_windows(own)
        )
        values.append(classifier.contradiction_probability(combined or {}, names))
    return np.array(values)


def _fit(
    before: Rule, probabilities: Probabilities, truth: np.ndarray, chosen: "slice | np.ndarray", judge: Judge
) -> Rule:
    """The rule for some of the chats."""
    names, wanted = CONTRADICTIONS[judge.task], truth[chosen]
    penalty = 1 / (2 * DEVIATION**2 * len(wanted))

    def moved(values: np.ndarray) -> Rule:
        scale = float(np.exp(values[0]))
        biases = {
            name: round(before.biases.get(name, 0.0) / scale + (float(values[1]) if name in names else 0.0), 4)
            for name in judge.labels
        }
        return replace(before, temperature=round(before.temperature * scale, 4), biases=biases)

    def loss(values: np.ndarray) -> float:
        found = np.clip(probabilities(moved(values))[chosen], TINY, 1 - TINY)
        return -float(np.log(np.where(wanted, found, 1 - found)).mean()) + penalty * float(values @ values)

    rule = before
    if isinstance(judge.classifier, SoftmaxClassifier):
        # By default the first steps are so small that a flat loss ends the search at its start.
        steps = [[0.0, 0.0], [0.5, 0.0], [0.0, 0.5]]
        options = {"xatol": 1e-3, "fatol": 1e-5, "maxiter": 120, "initial_simplex": steps}
        rule = moved(minimize(loss, np.zeros(2), method="Nelder-Mead", bounds=[(-2, 2), (-6, 6)], options=options).x)
    return with_curve(rule, probabilities(rule)[chosen], wanted)


def _held_out(before: Rule, probabilities: Probabilities, truth: np.ndarray, judge: Judge) -> float:
    from sklearn.model_selection import StratifiedKFold

    called = np.zeros(len(truth), dtype=bool)
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=13)
    for rest, held_out in folds.split(np.zeros(len(truth)), truth):
        rule = _fit(before, probabilities, truth, rest, judge)
        called[held_out] = probabilities(rule)[held_out] >= rule.threshold
    return _f1(truth, called)


def _f1(truth: np.ndarray, called: np.ndarray) -> float:
    from sklearn.metrics import f1_score

    return float(f1_score(truth, called, average="macro"))
