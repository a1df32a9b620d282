"""An evaluation as tables for people."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from contradiction.evaluation.figures import wilson
from contradiction.io.tables import Table, percent, with_interval
from contradiction.labels import CONTRADICTION
from contradiction.reports.tables import class_table, usage_table

# Figure -> its header. Those of ``two_class`` have the prefix.
MERGED = "two_class."
FIGURES = {
    "macro_f1": "macro-F1", f"{MERGED}macro_f1": "macro-F1, two classes", "accuracy": "accuracy", "auc": "AUC",
    "calibration_error": "ECE", "in_order": "in order", "both_right": "both right", "all_right": "all right",
    "evidence_f1": "evidence F1", "strict_accuracy": "strict", "r1": "R@1", "r2": "R@2", "mrr": "MRR",
}  # fmt: skip
SINGLE = ("macro_f1", f"{MERGED}macro_f1", "accuracy", "auc", "calibration_error", "r1", "r2", "mrr")
OF_PARTS = ("macro_f1", "accuracy", "in_order", "both_right", "all_right", "evidence_f1", "r1")
COINS = {"auc": "50", "in_order": "50", "both_right": "25"}  # the value of a coin, in percent


def tables(result: Mapping[str, Any]) -> list[Table]:
    """The tables of an evaluation: by class, the figures beside those of baselines, by part, and the requests."""
    found = []
    if "metrics" in result and "per_class" in result["metrics"]:
        found.append(_classes(result))
    found += _figures(result)
    found += [_by_part(column, values) for column, values in result.get("parts", {}).items()]
    if "usage" in result:
        found.append(usage_table(result["usage"], len(result["references"])))
    return found


def _classes(result: Mapping[str, Any]) -> Table:
    """The figures of each label, and of a contradiction of any kind where the labels are kinds."""
    table, merged = class_table(result), result["metrics"].get("two_class")
    if not merged or CONTRADICTION in result["metrics"]["per_class"]:
        return table
    scores = merged["per_class"][CONTRADICTION]
    cells = (percent(scores[key]) for key in ("precision", "recall", "f1"))
    return replace(table, rows=[*table.rows, ("any contradiction", *cells, f"{scores['support']:,}")])


def notes(result: Mapping[str, Any]) -> Iterator[str]:
    """What a reader of the tables must know, a sentence each."""
    metrics = result.get("metrics", {})
    if unjudged := result.get("unjudged"):
        yield f"{unjudged:,} rows cannot be judged and are left out"
    if absent := [name for name, values in metrics.get("per_class", {}).items() if not values["support"]]:
        yield f"no row has the label {', '.join(absent)}, so macro-F1 is the mean over the other labels"
    if pairs := metrics.get("pairs"):
        yield f"in order and both right are shares of {pairs:,} pairs of replies to one context; a tie is half in order"
    if "evidence_f1" in metrics:
        yield "evidence is counted by turn; strict: label and evidence both exactly right"
    if metrics and "per_class" in metrics:
        yield from _called(metrics.get("two_class", metrics))


def _called(metrics: Mapping[str, Any]) -> Iterator[str]:
    """The share of false alarms, where nothing is a contradiction."""
    contradictions = metrics["per_class"].get(CONTRADICTION)
    if contradictions and not contradictions["support"]:
        n = metrics["n"]
        called = n - round(metrics["accuracy"] * n)
        yield f"no row is a contradiction; {with_interval(called / n, wilson(called, n))} % are called one"


def _figures(result: Mapping[str, Any]) -> list[Table]:
    """The figures of the detector and of baselines: those of single rows, then those of pairs and of evidence."""
    named = {result["name"]: result["metrics"]} if "metrics" in result else {}
    named |= result.get("baselines", {})
    n = next(iter(named.values()))["n"]
    titles = (
        f"{result['config']}, {result['split']}, n = {n:,}; in %, with 95 % intervals",
        "Pairs and evidence, in %",
    )
    found = []
    for title, keys in zip(titles, (SINGLE, [key for key in FIGURES if key not in SINGLE]), strict=True):
        shown = [key for key in keys if any(_value(metrics, key) is not None for metrics in named.values())]
        body = [(name, *(_cell(metrics, key) for key in shown)) for name, metrics in named.items()]
        coins = [COINS.get(key, "") for key in shown]
        body += [("a coin", *coins)] if any(coins) else []
        if shown:
            found.append(Table(title, ("", *(FIGURES[key] for key in shown)), body))
    return found


def _by_part(column: str, values: Mapping[str, Mapping[str, Any]]) -> Table:
    shown = [key for key in OF_PARTS if any(_value(metrics, key) is not None for metrics in values.values())]
    body = [(value, f"{metrics['n']:,}", *(_cell(metrics, key) for key in shown)) for value, metrics in values.items()]
    return Table(f"By {column}, in %", (column, "n", *(FIGURES[key] for key in shown)), body)


def _value(metrics: Mapping[str, Any], key: str) -> float | None:
    if key.startswith(MERGED):
        return metrics.get("two_class", {}).get(key.removeprefix(MERGED))
    value: float | None = metrics.get(key)
    return value


def _cell(metrics: Mapping[str, Any], key: str) -> str:
    value = _value(metrics, key)
    if value is None:
        return ""
    part = metrics["two_class"] if key.startswith(MERGED) else metrics
    bounds = part.get("interval", {}).get(key.removeprefix(MERGED))
    return with_interval(value, bounds) if bounds else percent(value)
