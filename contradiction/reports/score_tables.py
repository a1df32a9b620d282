"""Tables of scores: of each class, of several evaluations, and of the baselines."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from contradiction.evaluation import results
from contradiction.evaluation.figures import FIGURES, Figure, value_of
from contradiction.io.tables import Table, interval, percent


def class_table(result: Mapping[str, Any]) -> Table:
    """Precision, recall, F1 and support of each class."""
    metrics = result["metrics"]
    body = [
        (name, percent(scores["precision"]), percent(scores["recall"]), percent(scores["f1"]), f"{scores['support']:,}")
        for name, scores in metrics["per_class"].items()
    ]
    title = f"{result['name']}: {result['config']}, {result['split']} split, n = {metrics['n']:,}"
    return Table(title, ("class", "precision", "recall", "F1", "support"), body)


def score_table(evaluations: Sequence[Mapping[str, Any]], title: str, with_split: bool = False) -> Table:
    """Every figure with its 95 % interval, a row for each evaluation.

    Where any detector has a decision rule that changes labels, each figure has a second column for the most probable
    labels. Figures that make sense for merged labels have columns for these too.
    """
    has_rule = any("argmax" in result for result in evaluations)
    columns = [column for column in _columns() if _any_value(evaluations, column) and (has_rule or not column[2])]
    body = [
        (
            result["name"],
            *((result["config"], result["split"]) if with_split else ()),
            *(_cell(result, column) for column in columns),
        )
        for result in evaluations
    ]
    header = ("detector", *(("config", "split") if with_split else ()), *map(_title, columns))
    return Table(title, header, body)


# A column: the figure, whether of merged labels, and whether of the most probable ones.
_Column = tuple[Figure, bool, bool]


def _columns() -> list[_Column]:
    return [
        (figure, merged, argmax)
        for figure in FIGURES
        for merged in ((False, True) if figure.merged else (False,))
        for argmax in (False, True)
    ]


def _any_value(evaluations: Sequence[Mapping[str, Any]], column: _Column) -> bool:
    return any(_cell(result, column) for result in evaluations)


def _title(column: _Column) -> str:
    figure, merged, argmax = column
    return f"{figure.title}{', merged' if merged else ''}{', argmax' if argmax else ''}"


def _cell(result: Mapping[str, Any], column: _Column) -> str:
    figure, merged, argmax = column
    metrics = (result.get("argmax", result) if argmax else result)["metrics"]
    if merged:
        metrics = metrics.get("two_class", {})
    return with_interval(value_of(metrics, figure))


def with_interval(value: tuple[float, Sequence[float] | None] | None) -> str:
    """A figure and its interval as percentages: ``48.2 (45.2–51.1)``; nothing for None."""
    if value is None:
        return ""
    return f"{percent(value[0])} ({interval(value[1])})" if value[1] else percent(value[0])


def baseline_table(folder: str | Path = results.FOLDER) -> Table | None:
    """Test macro-F1 of the baselines on every config that they were run on; None where none is kept."""
    evaluations = results.load(folder, kind=results.BASELINE, split="test", with_rows=False)
    if not evaluations:
        return None
    configs = sorted({result["config"] for result in evaluations}, key=lambda name: (name.endswith("grouped"), name))
    scores = {(result["name"], result["config"]): value_of(result["metrics"], FIGURES[0]) for result in evaluations}
    names = dict.fromkeys(result["name"] for result in evaluations)
    body = [(name, *(with_interval(scores.get((name, config))) for config in configs)) for name in names]
    return Table("Baselines, test macro-F1", ("features", *configs), body)
