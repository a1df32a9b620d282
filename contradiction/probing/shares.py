"""How many conversations were called a contradiction: shares, estimates without the detector's errors, comparisons."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from contradiction.decision import Rule, decide
from contradiction.errors import InputError
from contradiction.evaluation import results
from contradiction.evaluation.figures import rule_of, wilson
from contradiction.labels import (
    CATEGORIES,
    CONTRADICTION,
    CONTRADICTIONS,
    LABELS,
    NON_CONTRADICTION,
    has_two_texts,
    task_of,
)

if TYPE_CHECKING:
    from contradiction.detector import ContradictionDetector

ANY = CONTRADICTION  # a contradiction of any kind
Figures = dict[str, Any]
KINDS = (ANY, *CATEGORIES)
FEW = 20  # of fewer conversations no share is given
DRAWS = 10_000
BOUNDS = (2.5, 97.5)
IMPOSSIBLE = 0.05  # below this probability the measured errors do not fit what was called
WIDEST = 0.5  # an interval that is wider says next to nothing
TOO_WIDE = "the detector errs too often to tell"
NO_BETTER = "the detector is not surely better than chance at this"
TOO_FEW = "the detector called fewer than its false alarms alone would explain, so it errs in another way on this bot"
TOO_MANY = "the detector called more than if every conversation were a contradiction, so it errs in another way here"
ONE_SIDED = "no conversation that the detector called, or none that it did not call, has a label"


def share(called: Sequence[bool], clusters: Sequence[str]) -> Figures | None:
    """The share of conversations that were called a contradiction; None without conversations.

    Args:
        called: whether each conversation was called a contradiction.
        clusters: its opening.

    Returns:
        ``called`` of ``n`` as ``share``, with its 95 % Wilson interval ``low``, ``high``, in which conversations with
        the same opening count as fewer. The share of fewer than ``FEW`` conversations is None.
    """
    n, positives = len(called), sum(called)
    if not n:
        return None
    if n < FEW:
        return {"called": positives, "n": n} | _figures(None)
    effect = design_effect(np.asarray(called, dtype=float), clusters)
    low, high = wilson(round(positives / effect), round(n / effect))
    return {"called": positives, "n": n} | _figures(positives / n, low, high)


def _figures(share: float | None, low: float | None = None, high: float | None = None) -> Figures:
    values = {"share": share, "low": low, "high": high}
    return {name: value if value is None else round(float(value), 5) for name, value in values.items()}


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


def accuracy_of(references: Sequence[str], called: Sequence[str]) -> dict[str, Accuracy]:
    """The accuracy for every kind, of the labels that a detector gave; for any kind alone if labels have no kinds."""
    truth, given = np.array(references), np.array(called)
    has_kinds = ANY not in truth and ANY not in given
    accuracies = {}
    for kind in KINDS if has_kinds else (ANY,):
        is_kind, is_called = (
            (values != NON_CONTRADICTION if kind == ANY else values == kind) for values in (truth, given)
        )
        counts = ((is_kind & is_called), is_kind, (~is_kind & is_called), ~is_kind)
        accuracies[kind] = Accuracy(*(int(part.sum()) for part in counts))
    return accuracies


def accuracy_of_evaluation(evaluation: Mapping[str, Any], threshold: float) -> dict[str, Accuracy]:
    """The accuracy of a detector in an evaluation of ``cdconv evaluate``, with the decision that verdicts come from."""
    task = task_of(evaluation["config"])
    labels = LABELS[task]
    rows = (dict(zip(labels, row, strict=True)) for row in evaluation["probabilities"])
    called = [decide(row, threshold, CONTRADICTIONS[task]) for row in rows]
    return accuracy_of([labels[index] for index in evaluation["references"]], called)


def estimate(
    called: Sequence[bool], clusters: Sequence[str], accuracy: Accuracy, *, own: bool, seed: int = 0
) -> Figures:
    """Estimates the share of true contradictions, from what the detector called and how often it is right.

    The interval comes from a parametric bootstrap: what was counted is drawn again and again from what the counts leave
    open (Beta distributions with Jeffreys' prior, for which 0 of 50 does not mean never).

    Args:
        called: whether the detector called each conversation a contradiction.
        clusters: its opening.
        accuracy: how often the detector is right.
        own: whether that was measured on a sample of these conversations. The estimate is then that of double sampling
            (Tenenbein, 1970): what share of the called, and of the other conversations, people found to be
            contradictions. Otherwise it is that of Rogan and Gladen (1978), by sensitivity and specificity, which hold
            for rows with another share of contradictions.
        seed: of the draws.

    Returns:
        ``share`` with its 95 % interval ``low``, ``high``; None if it cannot be estimated, and ``why``.
    """
    chance, n, positives = np.random.default_rng(seed), len(called), sum(called)
    if n < FEW:
        return _figures(None) | {"why": f"there are fewer than {FEW} conversations"}
    effect = design_effect(np.asarray(called, dtype=float), clusters)
    drawn_called = _draw(positives / effect, (n - positives) / effect, chance)
    hits, alarms, rate = accuracy.hits, accuracy.alarms, positives / n
    misses, rejections = accuracy.contradictions - hits, accuracy.others - alarms
    why = None
    if own and hits + alarms and misses + rejections:
        among_called, among_others = _draw(hits, alarms, chance), _draw(misses, rejections, chance)
        drawn = drawn_called * among_called + (1 - drawn_called) * among_others
        point = rate * hits / (hits + alarms) + (1 - rate) * misses / (misses + rejections)
    elif own:
        why = ONE_SIDED
    else:
        sensitivity, false_alarms = _draw(hits, misses, chance), _draw(alarms, rejections, chance)
        better = sensitivity - false_alarms
        drawn = (drawn_called - false_alarms) / np.maximum(better, 1e-9)
        if not (hits + misses and alarms + rejections and np.percentile(better, BOUNDS[0]) > 0):
            why = NO_BETTER
        elif np.mean(drawn >= 0) < IMPOSSIBLE:
            why = TOO_FEW
        elif np.mean(drawn <= 1) < IMPOSSIBLE:
            why = TOO_MANY
        else:
            false_alarm_rate = alarms / accuracy.others
            point = (rate - false_alarm_rate) / (hits / accuracy.contradictions - false_alarm_rate)
    low, high = (0, 1) if why else np.percentile(np.clip(drawn, 0, 1), BOUNDS)
    if why or high - low > WIDEST:
        return _figures(None) | {"why": why or TOO_WIDE}
    return _figures(np.clip(point, 0, 1), low, high) | {"why": None}


def _draw(part: float, rest: float, chance: np.random.Generator) -> np.ndarray:
    return chance.beta(part + 0.5, rest + 0.5, DRAWS)


def compare(first: Sequence[bool], second: Sequence[bool], clusters: Sequence[str]) -> Figures | None:
    """Compares two bots on pairs of conversations; None without pairs.

    Args:
        first: whether each conversation of the first bot was called a contradiction.
        second: the same of the second bot, on the same probes.
        clusters: the opening of each pair.

    Returns:
        ``n`` pairs; in ``only_first`` and ``only_second`` of them only this bot was called. ``share`` is the share of
        the second bot minus that of the first, with its 95 % interval ``low``, ``high`` (Agresti and Min, 2005), in
        which pairs with the same opening count as fewer. ``p_value`` is two-sided, of McNemar's exact test over
        openings. Both are None for fewer than ``FEW`` pairs.
    """
    from scipy.stats import binomtest

    n, changes = len(first), np.subtract(second, first, dtype=float)
    if not n:
        return None
    only_first, only_second = int((changes < 0).sum()), int((changes > 0).sum())
    counts = {"n": n, "only_first": only_first, "only_second": only_second}
    if n < FEW:
        return counts | _figures(None) | {"p_value": None}
    effect = design_effect(changes, clusters)
    lost, won, pairs = only_first / effect + 0.5, only_second / effect + 0.5, n / effect + 2
    centre = (won - lost) / pairs
    width = 1.96 * np.sqrt((won + lost) / pairs - centre**2) / np.sqrt(pairs)
    low, high = np.clip([centre - width, centre + width], -1, 1)
    _, index = np.unique(np.asarray(clusters), return_inverse=True)
    sums = np.bincount(index, weights=changes)
    changed = int((sums != 0).sum())
    p_value = float(binomtest(int((sums > 0).sum()), changed).pvalue) if changed else 1.0
    return counts | _figures(changes.mean(), low, high) | {"p_value": round(p_value, 5)}


def find_accuracy(
    detector: "ContradictionDetector", evaluation: str | Path | None = None, on_note: Callable[[str], Any] = str
) -> dict[str, Any] | None:
    """How often a detector is right, as the record of a run keeps it; None if it was not measured.

    An evaluation by another decision rule counts only if its probabilities are those of the detector: if temperature
    and biases are the same.

    Args:
        detector: with the settings and the rule that it decides by.
        evaluation: a file of ``cdconv evaluate --json``; by default a saved result on the test split.
        on_note: called with what to do if the saved results have other probabilities.

    Raises:
        InputError: the file is no evaluation with probabilities of contradictions, or has other probabilities.
    """
    again = f"`cdconv evaluate {detector.name} --json FILE`"
    rule = detector.classifier.rule
    if evaluation:
        result = results.read_evaluation(evaluation)
        if not _is_calibrated_alike(result, rule):
            raise InputError(
                f"{evaluation}: was made with another calibration of the detector; {again} makes a new one"
            )
        return _measured(result, detector)
    saved = [
        result
        for result in results.evaluations_of(detector.name)
        if task_of(result["config"]) == detector.task
        and not has_two_texts(result["config"])
        and result["split"] == "test"
        and "probabilities" in result
    ]
    fitting = [result for result in saved if _is_calibrated_alike(result, rule)]
    if saved and not fitting:
        on_note(
            f"{detector.name}: was calibrated after its saved evaluation, so there is no estimate without its errors; "
            f"{again} measures it again, and --evaluation FILE reads that"
        )
    return _measured(fitting[0], detector) if fitting else None


def _is_calibrated_alike(result: Mapping[str, Any], rule: Rule) -> bool:
    """Whether the probabilities of an evaluation are those of a rule."""
    saved = rule_of(result)
    return (saved["temperature"], saved["biases"]) == (rule.temperature, rule.biases)


def _measured(result: Mapping[str, Any], detector: "ContradictionDetector") -> dict[str, Any]:
    threshold = detector.settings.threshold_for(detector.classifier.rule, detector.name)
    accuracy = accuracy_of_evaluation(result, threshold)
    if not (accuracy[ANY].contradictions and accuracy[ANY].others):
        raise InputError(f"{result['name']}: errors can be corrected only with contradictions and other replies in it")
    of_chats = f"{result.get('data_name')}, " if result.get("as_chats") else ""
    part = f"{of_chats}{result['split']} {'chats' if of_chats else 'split'}"
    source = f"{result['config']}, {part}, n = {len(result['references']):,}"
    return {"source": source, "counts": {kind: asdict(counts) for kind, counts in accuracy.items()}}
