"""Methods side by side: the mean over their seeds, and paired tests with a correction for their number."""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev
from typing import Any

from contradiction.labels import merge_id, task_of


@dataclass(frozen=True)
class Run:
    """The test predictions of one seed (None where nothing is drawn), as class ids, with their metrics."""

    seed: int | None
    ids: Sequence[int]
    references: Sequence[int]
    predictions: Sequence[int]
    metrics: Mapping[str, Any]


@dataclass(frozen=True)
class Line:
    """What one line of a table shows: a method, trained one way, one run a seed.

    Attributes:
        name: as shown.
        method: for instance ``flatten``; of a baseline the view that it reads.
        start: the checkpoint that it starts from; empty for a baseline.
        kind: ``trained``, ``merged`` (trained on four classes, its labels merged to two), ``zero-shot``, ``baseline``,
            or ``shipped``, the one that comes with the project.
        runs: at least one.
        asked: how many runs there are to be.
        bot: whose rows alone it is trained on, or fitted to; empty where they are of both.
        rows: how many these are; 0 where nothing is trained, or nobody asks.
        drawn: which part of the rows they are, equal for lines of the same part: the share, and the config by whose
            labels it was drawn; empty for all rows.
    """

    name: str
    method: str
    start: str
    kind: str
    runs: tuple[Run, ...]
    asked: int
    bot: str = ""
    rows: int = 0
    drawn: str = ""

    def values(self, figure: str, label: str | None = None) -> list[float]:
        """A figure of each run, of the metrics or of one class's."""
        found = [run.metrics if label is None else run.metrics["per_class"][label] for run in self.runs]
        return [each[figure] for each in found]

    def mean(self, figure: str, label: str | None = None) -> float:
        """Its mean over the runs."""
        return fmean(self.values(figure, label))

    def deviation(self, figure: str, label: str | None = None) -> float | None:
        """Its standard deviation over the runs, with n - 1; None for one run."""
        return stdev(self.values(figure, label)) if len(self.runs) > 1 else None

    def interval(self, figure: str) -> tuple[float, float]:
        """What the bootstrap intervals of the runs span together, so that it also shows how far seeds lie apart."""
        return _span(run.metrics["interval"][figure] for run in self.runs)


@dataclass(frozen=True)
class Contrast:
    """By how much macro-F1 of one line is above another's, seed by seed on the same rows.

    Attributes:
        line: the name of the one.
        against: the name of the other.
        difference: the mean over the common seeds.
        interval: what the bootstrap intervals of these seeds span together.
        seeds: how many are common.
        p_value: see :func:`combined`.
        adjusted: see :func:`holm`.
    """

    line: str
    against: str
    difference: float
    interval: tuple[float, float]
    seeds: int
    p_value: float
    adjusted: float


def run_of(kept: Mapping[str, Any], *, rule: bool = False) -> Run:
    """The run of a kept evaluation: its most probable labels, as in the paper, or those of its decision ``rule``."""
    recipe = (kept.get("run") or {}).get("request", {}).get("recipe", {})
    seed = None if kept.get("request") else recipe.get("seed")
    said = kept if rule else {**kept, **kept.get("plain", {})}
    return Run(seed, kept["ids"], kept["references"], said["predictions"], said["metrics"])


def merged_run_of(kept: Mapping[str, Any], *, rule: bool = False) -> Run:
    """The same with its labels merged to two classes, as in the paper."""
    task, one = task_of(kept["config"]), run_of(kept, rule=rule)
    references, predictions = ([merge_id(task, label) for label in ids] for ids in (one.references, one.predictions))
    return Run(one.seed, one.ids, references, predictions, one.metrics["two_class"])


def line_of(kept: Mapping[str, Any], run: Run, kind: str = "trained") -> Line:
    """A kept evaluation as a line of its own, without its seed, by which the lines of a grid are paired."""
    return Line(kept["name"], "", "", kind, (replace(run, seed=None),), 1)


def part_of(run: Run, ids: Container[int], task: str, bootstrap: int) -> Run:
    """A run on some of its rows, those with these ids, with metrics of their own."""
    from evaluate_metric.evaluate_metric import score

    chosen = [place for place, number in enumerate(run.ids) if number in ids]
    numbers, references, predictions = (
        [column[place] for place in chosen] for column in (run.ids, run.references, run.predictions)
    )
    return Run(run.seed, numbers, references, predictions, score(references, predictions, task, bootstrap=bootstrap))


def contrasts(pairs: Iterable[tuple[Line, Line]], task: str, bootstrap: int) -> list[Contrast]:
    """Tests each pair of lines that have runs of the same seed on the same rows; one family for Holm's correction."""
    found = [each for line, against in pairs if (each := _contrast(line, against, task, bootstrap))]
    adjusted = holm([each["p_value"] for each in found])
    return [Contrast(**each, adjusted=p) for each, p in zip(found, adjusted, strict=True)]


def _contrast(line: Line, against: Line, task: str, bootstrap: int) -> dict[str, Any] | None:
    from evaluate_metric.evaluate_metric import compare

    others = {run.seed: run for run in against.runs}
    results = [
        compare(run.references, run.predictions, other.predictions, task, bootstrap=bootstrap)
        for run in line.runs
        if (other := others.get(run.seed)) and list(run.ids) == list(other.ids)
    ]
    if not results:
        return None
    tests = [(each["macro_f1_difference"], each["p_value"]) for each in results]
    return {
        "line": line.name,
        "against": against.name,
        "difference": fmean(difference for difference, _ in tests),
        "interval": _span(each["interval"]["macro_f1_difference"] for each in results),
        "seeds": len(results),
        "p_value": combined(tests),
    }


def _span(intervals: Iterable[Sequence[float]]) -> tuple[float, float]:
    lows, highs = zip(*intervals, strict=True)
    return min(lows), max(highs)


def combined(tests: Sequence[tuple[float, float]]) -> float:
    """One two-sided p-value from the differences and two-sided p-values of several seeds.

    In each direction, K / k times the k-th smallest of the K one-sided p-values, k being more than half of K; then
    twice the smaller of the two. So most seeds must agree, also on which is better. Seeds are tested on the same rows
    and depend on each other; the rule is valid however they do (Rüger, 1978, *Das maximale Signifikanzniveau des Tests:
    "Lehne H0 ab, wenn k unter n gegebenen Tests zur Ablehnung führen"*, Metrika 25). A single seed keeps its p-value.
    """
    k = len(tests) // 2 + 1
    directions = []
    for sign in (1, -1):
        one_sided = sorted(p / 2 if sign * difference > 0 else 1 - p / 2 for difference, p in tests)
        directions.append(len(tests) / k * one_sided[k - 1])
    return min(1.0, 2 * min(directions))


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values after Holm's correction for their number, in the order given.

    One is at or below a level exactly where the procedure rejects at that level (Holm, 1979, *A simple sequentially
    rejective multiple test procedure*, Scandinavian Journal of Statistics 6).
    """
    adjusted = [1.0] * len(p_values)
    reached = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda index: p_values[index])):
        reached = max(reached, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = reached
    return adjusted
