"""How often a bot contradicts itself: shares with intervals that carry the errors of the detector too."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from contradiction.decision import Rule
from contradiction.evaluation.figures import wilson
from contradiction.labels import CATEGORIES, CONTRADICTION, CONTRADICTIONS, LABELS, NON_CONTRADICTION, task_of
from contradiction.settings import Settings

ANY = CONTRADICTION  # a contradiction of any kind
KINDS = (ANY, *CATEGORIES)
DRAWS = 10_000
BOUNDS = (2.5, 97.5)
IMPOSSIBLE = 0.05  # below this probability the measured errors do not fit what was called


@dataclass(frozen=True)
class Accuracy:
    """How often a detector is right about one kind of contradiction, as counts of rows with true labels.

    Attributes:
        hits, contradictions: how many rows of the kind the detector calls so, and how many there are.
        alarms, others: how many other rows the detector calls so, and how many there are.
    """

    hits: int
    contradictions: int
    alarms: int
    others: int

    @property
    def sensitivity(self) -> float:
        """The share of this kind that is called so."""
        return self.hits / self.contradictions if self.contradictions else float("nan")

    @property
    def specificity(self) -> float:
        """The share of other rows that is not called so."""
        return 1 - self.alarms / self.others if self.others else float("nan")


def accuracy_of(references: Sequence[str], called: Sequence[str]) -> dict[str, Accuracy]:
    """The accuracy for every kind that occurs among the true labels, of those that a detector gave."""
    truth, given = np.array(references), np.array(called)
    accuracies = {}
    for kind in KINDS:
        is_kind, is_called = (
            (values != NON_CONTRADICTION if kind == ANY else values == kind) for values in (truth, given)
        )
        if kind == ANY or (is_kind.any() and set(CATEGORIES) & set(given.tolist())):
            counts = ((is_kind & is_called), is_kind, (~is_kind & is_called), ~is_kind)
            accuracies[kind] = Accuracy(*(int(part.sum()) for part in counts))
    return accuracies


def accuracy_of_evaluation(evaluation: Mapping[str, Any], settings: Settings, rule: Rule) -> dict[str, Accuracy]:
    """The accuracy of a detector in an evaluation of ``cdconv evaluate``, with the decision that verdicts come from.

    Args:
        evaluation: with references, and probabilities by the same calibration as the rule's.
        settings: the settings of the detector, with all categories.
        rule: the decision rule of the detector.
    """
    task = task_of(evaluation["config"])
    labels, contradictions, threshold = LABELS[task], CONTRADICTIONS[task], settings.threshold_for(rule)

    def decide(probabilities: Mapping[str, float]) -> str:
        if settings.at_prior(sum(probabilities[name] for name in contradictions), rule) < threshold:
            return NON_CONTRADICTION
        return max(contradictions, key=lambda name: probabilities[name])

    called = [decide(dict(zip(labels, row, strict=True))) for row in evaluation["probabilities"]]
    return accuracy_of([labels[index] for index in evaluation["references"]], called)


class _Figures:
    """A dataclass of figures that a report contains."""

    def to_record(self) -> dict[str, Any]:
        """The fields, rounded."""
        return {name: round(value, 5) if isinstance(value, float) else value for name, value in vars(self).items()}


@dataclass(frozen=True)
class Share(_Figures):
    """A share of conversations.

    Attributes:
        called: how many were called a contradiction.
        n: of how many.
        apparent: called / n, with its 95 % Wilson interval ``apparent_low``, ``apparent_high``.
        estimate: the share of true contradictions, corrected for the errors of the detector; the same as the apparent
            share if its errors are not known. None if the detector is not surely better than chance. None also if it
            calls fewer conversations than its false alarms alone explain, or more than if all were contradictions. In
            both cases its errors on this bot are not the measured ones.
        low, high: the 95 % interval of the estimate; 0 and 1 without an estimate. If too few conversations were called,
            ``high`` is a bound that assumes no false alarm. If too many were called, ``low`` is a bound that assumes no
            missed contradiction.
    """

    called: int
    n: int
    apparent: float
    apparent_low: float
    apparent_high: float
    estimate: float | None
    low: float
    high: float


def share(called: Sequence[bool], clusters: Sequence[str], accuracy: Accuracy | None, seed: int = 0) -> Share | None:
    """The share of contradictions; None without conversations.

    The estimate is that of Rogan and Gladen (1978), cut to 0 to 1: (apparent + specificity - 1) / (sensitivity +
    specificity - 1). Its interval comes from a parametric bootstrap: the three shares are drawn again and again from
    what their counts leave open (Beta distributions with Jeffreys' prior, for which 0 of 50 does not mean never).
    Conversations with the same opening resemble each other; the apparent share is drawn as if from fewer
    conversations, by the design effect of these clusters.

    Args:
        called: whether each conversation was called a contradiction.
        clusters: its opening.
        accuracy: how often the detector is right; None where the labels are true.
        seed: of the draws.
    """
    n, positives = len(called), int(np.sum(called))
    if not n:
        return None
    effect = design_effect(np.asarray(called, dtype=float), clusters)
    apparent = wilson(round(positives / effect), round(n / effect))
    estimate: float | None = positives / n
    low, high = apparent
    if accuracy and accuracy.contradictions and accuracy.others:
        estimate, low, high = _correct(positives, n, effect, accuracy, np.random.default_rng(seed))
    return Share(positives, n, positives / n, *apparent, estimate, low, high)


def _correct(
    positives: int, n: int, effect: float, accuracy: Accuracy, chance: np.random.Generator
) -> tuple[float | None, float, float]:
    """The corrected share with its interval, as in :class:`Share`; ``effect`` is the design effect of the clusters."""
    apparent = _draw(positives / effect, (n - positives) / effect, chance)
    sensitivity, specificity = _draw_accuracy(accuracy, chance)
    if np.percentile(sensitivity + specificity, BOUNDS[0]) <= 1:
        return None, 0.0, 1.0
    drawn = _rogan_gladen(apparent, sensitivity, specificity)
    if np.mean(drawn >= 0) < IMPOSSIBLE:
        return None, 0.0, float(np.percentile(np.clip(apparent / sensitivity, 0, 1), BOUNDS[1]))
    if np.mean(drawn <= 1) < IMPOSSIBLE:
        without_misses = np.clip((apparent + specificity - 1) / specificity, 0, 1)
        return None, float(np.percentile(without_misses, BOUNDS[0])), 1.0
    low, high = np.percentile(np.clip(drawn, 0, 1), BOUNDS)
    estimate = _rogan_gladen(positives / n, accuracy.sensitivity, accuracy.specificity)
    return float(np.clip(estimate, 0, 1)), float(low), float(high)


def _rogan_gladen(apparent: Any, sensitivity: Any, specificity: Any) -> Any:
    """The share of true contradictions behind an apparent share; for numbers or arrays."""
    return (apparent + specificity - 1) / np.maximum(sensitivity + specificity - 1, 1e-9)


def _draw_accuracy(accuracy: Accuracy, chance: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draws of sensitivity and specificity."""
    return (
        _draw(accuracy.hits, accuracy.contradictions - accuracy.hits, chance),
        _draw(accuracy.others - accuracy.alarms, accuracy.alarms, chance),
    )


def _draw(part: float, rest: float, chance: np.random.Generator) -> np.ndarray:
    return chance.beta(part + 0.5, rest + 0.5, DRAWS)


def design_effect(values: np.ndarray, clusters: Sequence[str]) -> float:
    """How many times larger the variance of the mean is than with independent values; 1 at least."""
    n, mean, variance = len(values), values.mean(), values.var()
    _, index = np.unique(np.asarray(clusters), return_inverse=True)
    groups = index.max() + 1
    if groups == 1:  # as if all were one: other openings may give anything
        return float(n)
    if groups == n or variance < 1e-12:
        return 1.0
    residuals = np.bincount(index, weights=values - mean)
    clustered = (residuals**2).sum() / n**2 * groups / (groups - 1)
    return float(np.clip(clustered / (variance / n), 1.0, n))


@dataclass(frozen=True)
class Difference(_Figures):
    """Two bots on the same probes.

    Attributes:
        n: the pairs of conversations.
        only_first, only_second: pairs of which only this bot was called a contradiction.
        difference: the share of the second minus that of the first.
        low, high: its 95 % interval, from a parametric bootstrap like that of :func:`share`, in which the four kinds of
            pairs are drawn together.
        corrected: whether both shares are corrected for the errors of the detector. They are if both have an estimate,
            see :class:`Share`; if not, the difference is that of the calls.
        p_value: two-sided, of a permutation test: which of the two bots had which conversation is exchanged at random,
            for all conversations of an opening together.
    """

    n: int
    only_first: int
    only_second: int
    difference: float
    low: float
    high: float
    corrected: bool
    p_value: float


def compare(
    first: Sequence[bool],
    second: Sequence[bool],
    clusters: Sequence[str],
    accuracies: tuple[Accuracy | None, Accuracy | None] = (None, None),
    seed: int = 0,
) -> Difference | None:
    """Compares two bots on pairs of conversations; None without pairs.

    Args:
        first: whether each conversation of the first bot was called a contradiction.
        second: the same of the second bot, on the same probes.
        clusters: the opening of each pair.
        accuracies: of the detector on each bot; None where the labels are true. Equal ones are one measurement.
        seed: of the draws.
    """
    n = len(first)
    if not n:
        return None
    called = np.asarray([first, second], dtype=float)
    _, index = np.unique(np.asarray(clusters), return_inverse=True)
    sums = np.stack([np.bincount(index, weights=side) for side in called], axis=1)
    changes = sums[:, 1] - sums[:, 0]
    chance = np.random.default_rng(seed)
    signs = chance.choice(np.array([-1, 1], dtype=np.int8), (DRAWS, len(sums)))
    as_large = np.abs(signs @ changes) >= abs(changes.sum()) - 1e-9
    effect = design_effect(called[1] - called[0], clusters)
    pairs = [((called[0] == one) & (called[1] == other)).sum() / effect for one in (0, 1) for other in (0, 1)]
    drawn = chance.dirichlet(np.array(pairs) + 0.5, DRAWS)  # Jeffreys' prior: pairs that never occurred are possible
    shares, points = np.stack([drawn[:, 2] + drawn[:, 3], drawn[:, 1] + drawn[:, 3]], axis=1), called.mean(axis=1)
    known = [accuracy for accuracy in accuracies if accuracy and accuracy.contradictions and accuracy.others]
    estimates = [
        share(list(side > 0), clusters, accuracy, seed) for side, accuracy in zip(called, accuracies, strict=True)
    ]
    corrected = len(known) == 2 and all(estimate and estimate.estimate is not None for estimate in estimates)
    if corrected:
        draws = {accuracy: _draw_accuracy(accuracy, chance) for accuracy in dict.fromkeys(known)}
        for side, accuracy in enumerate(known):
            shares[:, side] = np.clip(_rogan_gladen(shares[:, side], *draws[accuracy]), 0, 1)
            points[side] = np.clip(_rogan_gladen(points[side], accuracy.sensitivity, accuracy.specificity), 0, 1)
    low, high = np.percentile(np.clip(shares[:, 1] - shares[:, 0], -1, 1), BOUNDS)
    return Difference(
        n=n,
        only_first=int((called[0] > called[1]).sum()),
        only_second=int((called[1] > called[0]).sum()),
        difference=float(np.clip(points[1] - points[0], -1, 1)),
        low=float(low),
        high=float(high),
        corrected=corrected,
        p_value=float((as_large.sum() + 1) / (DRAWS + 1)),
    )
