"""Tables of scores and requests, and of training: the cost of each run, and macro-F1 by epoch."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from contradiction.evaluation import results
from contradiction.evaluation.figures import FIGURES, Figure
from contradiction.io.tables import Table, percent, with_interval
from contradiction.labels import GROUPED
from contradiction.paths import RESULTS


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

    Where a decision rule changes labels, each figure has a second column for the most probable labels. Some figures
    also have columns for labels that are merged to two classes.
    """
    has_rule = any("argmax" in result for result in evaluations)
    columns = [
        (figure, merged, argmax)
        for figure in FIGURES
        for merged in ((False, True) if figure.merged else (False,))
        for argmax in ((False, True) if has_rule else (False,))
        if any(_cell(result, figure, merged, argmax) for result in evaluations)
    ]
    body = [
        (
            result["name"],
            *((result["config"], result["split"]) if with_split else ()),
            *(_cell(result, *column) for column in columns),
        )
        for result in evaluations
    ]
    titles = (
        f"{figure.title}{', merged' if merged else ''}{', argmax' if argmax else ''}"
        for figure, merged, argmax in columns
    )
    return Table(title, ("detector", *(("config", "split") if with_split else ()), *titles), body)


def _cell(result: Mapping[str, Any], figure: Figure, merged: bool, argmax: bool) -> str:
    metrics = (result.get("argmax", result) if argmax else result)["metrics"]
    return figure_text(metrics.get("two_class", {}) if merged else metrics, figure)


def figure_text(metrics: Mapping[str, Any], figure: Figure) -> str:
    """A figure, with its interval where it has one; empty where the evaluation does not have it."""
    if figure.key not in metrics:
        return ""
    value, bounds = metrics[figure.key], metrics.get("interval", {}).get(figure.key)
    return with_interval(value, bounds) if bounds else percent(value)


def usage_table(usage: Mapping[str, Any], rows: int) -> Table:
    """The requests to a judge and their cost, as a table."""
    body = [
        ("answers", f"{usage['answers']:,} for {rows:,} rows, {usage['cached']:,} of them kept from an earlier run"),
        ("answers without a label", f"{usage['unusable']:,}"),
        ("prompt tokens", f"{usage['prompt_tokens']:,}"),
        ("completion tokens", f"{usage['completion_tokens']:,}"),
    ]
    if usage["seconds"] is not None:
        body.append(
            ("seconds an answer", f"{usage['seconds']:.2f} on average, 95 % within {usage['slow_seconds']:.2f}")
        )
    if usage["cost"] is not None:
        body.append(("cost", f"{usage['cost']:.4f}, {1000 * usage['cost'] / rows:.4f} for 1,000 rows"))
    return Table("What the judge was asked for", ("", ""), body, texts=2)


def baseline_table(folder: str | Path = RESULTS) -> Table | None:
    """The test macro-F1 of the saved baselines on every config; None without any."""
    evaluations = results.load(folder, kind=results.BASELINE, split="test", with_rows=False)
    if not evaluations:
        return None
    configs = sorted({result["config"] for result in evaluations}, key=lambda name: (name.endswith(GROUPED), name))
    scores = {(result["name"], result["config"]): figure_text(result["metrics"], FIGURES[0]) for result in evaluations}
    names = dict.fromkeys(result["name"] for result in evaluations)
    body = [(name, *(scores.get((name, config), "") for config in configs)) for name in names]
    return Table("Baselines, test macro-F1", ("features", *configs), body)


def backbone_name(backbone: str | None) -> str | None:
    """The short name of a recorded backbone; None for random weights, and without an encoder."""
    return Path(backbone).name.partition("@")[0] if backbone else None
