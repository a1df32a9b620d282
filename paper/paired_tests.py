"""Compares methods: means over seeds, and paired tests with a correction for their number."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from contradiction.evaluation.figures import holm
from contradiction.io.tables import p_value, signed, signed_interval
from contradiction.labels import merge_id, task_of

# A p-value cannot be lower than 2 / (resamples + 1), which is too coarse after a correction for many tests. Low ones
# are measured again with more resamples.
LOW, FINE = 0.01, 100_000
COMPARISON = ("difference", "95 % interval", "p", "p, Holm")  # the columns of a paired test in a table


@dataclass(frozen=True)
class Run:
    """The predictions of one seed on one split as class ids, with their metrics; no seed means no randomness."""

    seed: int | None
    ids: Sequence[int]
    references: Sequence[int]
    predictions: Sequence[int]
    metrics: Mapping[str, Any]


@dataclass(frozen=True)
class MethodRuns:
    """A row of a table: a method with one run for each seed.

    Attributes:
        name: the name in tables.
        method: for instance ``flatten``; for a baseline its view.
        checkpoint: the starting checkpoint; empty for a baseline.
        kind: ``trained``, ``merged`` (trained on four classes, its labels merged to two), ``zero-shot``, ``baseline``.
        runs: at least one run.
        planned: the planned number of runs.
        bot: the bot of the training rows; empty for both.
        rows: the number of training rows; 0 without training, or where it does not matter.
    """

    name: str
    method: str
    checkpoint: str
    kind: str
    runs: tuple[Run, ...]
    planned: int
    bot: str = ""
    rows: int = 0

    def values(self, figure: str, label: str | None = None) -> list[float]:
        """A figure of each run, over all classes or for one class."""
        sources = [run.metrics if label is None else run.metrics["per_class"][label] for run in self.runs]
        return [source[figure] for source in sources]

    def mean(self, figure: str, label: str | None = None) -> float:
        """The mean of a figure over the runs."""
        return fmean(self.values(figure, label))

    def deviation(self, figure: str, label: str | None = None) -> float | None:
        """The standard deviation of a figure over the runs, with n - 1; None for one run."""
        return stdev(self.values(figure, label)) if len(self.runs) > 1 else None

    def interval(self, figure: str) -> tuple[float, float]:
        """The range from the lowest to the highest bound of the bootstrap intervals of the runs."""
        return _span(run.metrics["interval"][figure] for run in self.runs)


@dataclass(frozen=True)
class PairedTest:
    """The difference of the macro-F1 of two methods, seed by seed on the same rows.

    Attributes:
        name: the name of the method.
        against: the name of its opponent.
        difference: the mean over the seeds of both.
        interval: from the lowest to the highest bound of the bootstrap intervals of these seeds.
        seeds: the number of these seeds.
        p_value: see :func:`combined_p_value`.
        adjusted: the p-value after :func:`holm`.
    """

    name: str
    against: str
    difference: float
    interval: tuple[float, float]
    seeds: int
    p_value: float
    adjusted: float

    def cells(self) -> list[str]:
        """The cells of the columns ``COMPARISON``."""
        return [signed(self.difference), signed_interval(self.interval), p_value(self.p_value), p_value(self.adjusted)]


def run_of(result: Mapping[str, Any], *, rule: bool = False) -> Run:
    """The run of an evaluation, by its decision rule or, as in the paper, by its most probable labels."""
    recipe = (result.get("run") or {}).get("request", {}).get("recipe", {})
    seed = None if result.get("request") else recipe.get("seed")
    labels = result if rule else result.get("argmax", result)
    return Run(seed, result["ids"], result["references"], labels["predictions"], labels["metrics"])


def merged_run_of(result: Mapping[str, Any], *, rule: bool = False) -> Run:
    """The run of an evaluation with labels merged to two classes, as in the paper."""
    task, run = task_of(result["config"]), run_of(result, rule=rule)
    references, predictions = ([merge_id(task, label) for label in ids] for ids in (run.references, run.predictions))
    return Run(run.seed, run.ids, references, predictions, run.metrics["two_class"])


def paired_tests(
    pairs: Iterable[tuple[MethodRuns, MethodRuns]], task: str, bootstrap: int, removed: int = 0
) -> list[PairedTest]:
    """Tests pairs of a method and its opponent with runs of the same seeds on the same rows.

    A p-value of at most ``LOW`` is measured again with ``FINE`` resamples.

    Args:
        pairs: the pairs.
        task: the labels.
        bootstrap: the number of resamples.
        removed: how many more tests were made; their p-values count as 1.

    Returns:
        The tests with p-values that are corrected by Holm's procedure.
    """
    tests = [test for method, against in pairs if (test := _paired_test(method, against, task, bootstrap))]
    values = [test["p_value"] for test in tests]
    adjusted = holm(values + [1.0] * removed)
    return [PairedTest(**test, adjusted=p) for test, p in zip(tests, adjusted, strict=False)]


def _paired_test(method: MethodRuns, against: MethodRuns, task: str, bootstrap: int) -> dict[str, Any] | None:
    from evaluate_metric.evaluate_metric import compare

    runs_of_opponent = {run.seed: run for run in against.runs}
    results, tests = [], []
    for run in method.runs:
        if (other := runs_of_opponent.get(run.seed)) and list(run.ids) == list(other.ids):
            labels = run.references, run.predictions, other.predictions, task
            result = compare(*labels, bootstrap=bootstrap)
            p_value = result["p_value"]
            if p_value <= LOW and bootstrap < FINE:
                p_value = compare(*labels, bootstrap=FINE)["p_value"]
            results.append(result)
            tests.append((result["macro_f1_difference"], p_value))
    if not results:
        return None
    return {
        "name": method.name,
        "against": against.name,
        "difference": fmean(difference for difference, _ in tests),
        "interval": _span(result["interval"]["macro_f1_difference"] for result in results),
        "seeds": len(results),
        "p_value": combined_p_value(tests),
    }


def _span(intervals: Iterable[Sequence[float]]) -> tuple[float, float]:
    lows, highs = zip(*intervals, strict=True)
    return min(lows), max(highs)


def combined_p_value(tests: Sequence[tuple[float, float]]) -> float:
    """Combines the differences and two-sided p-values of several seeds into one two-sided p-value.

    In each direction it takes K / k times the k-th smallest of the K one-sided p-values, with k above half of K, and
    returns twice the smaller of the two. So most seeds must agree, also on the direction. The tests of seeds on the
    same rows depend on each other; the rule is valid for any dependence (Rüger, 1978, *Das maximale
    Signifikanzniveau des Tests: "Lehne H0 ab, wenn k unter n gegebenen Tests zur Ablehnung führen"*, Metrika 25). A
    single seed keeps its p-value.
    """
    k = len(tests) // 2 + 1
    directions = []
    for sign in (1, -1):
        one_sided = sorted(p / 2 if sign * difference > 0 else 1 - p / 2 for difference, p in tests)
        directions.append(len(tests) / k * one_sided[k - 1])
    return min(1.0, 2 * min(directions))
