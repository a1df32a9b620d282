"""Tables for people: an evaluation, the scores of several ones, baselines, and the requests to a judge."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from contradiction.evaluation import results
from contradiction.evaluation.figures import FIGURES, wilson
from contradiction.io.tables import Table, percent, with_interval
from contradiction.labels import CONTRADICTION, EMBEDDED, GROUPED
from contradiction.paths import RESULTS

# Figure -> its header. Those of ``two_class`` have the prefix.
MERGED = "two_class."
HEADERS = {
    "macro_f1": "macro-F1", f"{MERGED}macro_f1": "macro-F1, two classes", "accuracy": "accuracy", "auc": "AUC",
    "calibration_error": "ECE", "in_order": "in order", "both_right": "both right", "all_right": "all right",
    "evidence_f1": "evidence F1", "strict_accuracy": "strict", "r1": "R@1", "r2": "R@2", "mrr": "MRR",
}  # fmt: skip
SINGLE = ("macro_f1", f"{MERGED}macro_f1", "accuracy", "auc", "calibration_error", "r1", "r2", "mrr")
OF_PARTS = ("macro_f1", "accuracy", "in_order", "both_right", "all_right", "evidence_f1", "r1")
COINS = {"auc": "50", "in_order": "50", "both_right": "25"}  # the value of a coin, in percent


def evaluation_tables(result: Mapping[str, Any]) -> list[Table]:
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


def evaluation_notes(result: Mapping[str, Any]) -> Iterator[str]:
    """What a reader of the tables must know, a sentence each."""
    metrics = result.get("metrics", {})
    if result.get("data_name") == EMBEDDED:
        yield "the rows are the embedded sample and not CDConv; these scores only show how the steps work"
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
    for title, keys in zip(titles, (SINGLE, [key for key in HEADERS if key not in SINGLE]), strict=True):
        shown = [key for key in keys if any(_cell(metrics, key) for metrics in named.values())]
        body = [(name, *(_cell(metrics, key) for key in shown)) for name, metrics in named.items()]
        coins = [COINS.get(key, "") for key in shown]
        body += [("a coin", *coins)] if any(coins) else []
        if shown:
            found.append(Table(title, ("", *(HEADERS[key] for key in shown)), body))
    return found


def _by_part(column: str, values: Mapping[str, Mapping[str, Any]]) -> Table:
    shown = [key for key in OF_PARTS if any(_cell(metrics, key) for metrics in values.values())]
    body = [(value, f"{metrics['n']:,}", *(_cell(metrics, key) for key in shown)) for value, metrics in values.items()]
    return Table(f"By {column}, in %", (column, "n", *(HEADERS[key] for key in shown)), body)


def _cell(metrics: Mapping[str, Any], key: str) -> str:
    part = metrics.get("two_class", {}) if key.startswith(MERGED) else metrics
    return figure_text(part, key.removeprefix(MERGED))


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
    also have columns for two classes, contradiction or not.
    """
    has_rule = any("argmax" in result for result in evaluations)
    columns: dict[str, list[str]] = {}
    for figure in FIGURES:
        for merged in (False, True) if figure.merged else (False,):
            for argmax in (False, True) if has_rule else (False,):
                key = f"{MERGED if merged else ''}{figure.key}"
                shown = [result.get("argmax", result) if argmax else result for result in evaluations]
                cells = [_cell(result["metrics"], key) for result in shown]
                if any(cells):
                    columns[f"{figure.title}{', two classes' if merged else ''}{', argmax' if argmax else ''}"] = cells
    body = [
        (result["name"], *((result["config"], result["split"]) if with_split else ()), *row)
        for result, row in zip(evaluations, zip(*columns.values(), strict=True), strict=True)
    ]
    return Table(title, ("detector", *(("config", "split") if with_split else ()), *columns), body)


def figure_text(metrics: Mapping[str, Any], key: str) -> str:
    """A figure, with its interval where it has one; empty where the evaluation does not have it."""
    if (value := metrics.get(key)) is None:
        return ""
    bounds = metrics.get("interval", {}).get(key)
    return with_interval(value, bounds) if bounds else percent(value)


def usage_table(usage: Mapping[str, Any], rows: int | None = None) -> Table:
    """The requests to a judge and their cost, as a table."""
    for_rows = f" for {rows:,} rows" if rows else ""
    body = [
        ("answers", f"{usage['answers']:,}{for_rows}, {usage['cached']:,} of them kept from an earlier run"),
        ("answers without a label", f"{usage['unusable']:,}"),
        ("prompt tokens", f"{usage['prompt_tokens']:,}"),
        ("completion tokens", f"{usage['completion_tokens']:,}"),
    ]
    if usage["seconds"] is not None:
        body += [("seconds an answer", f"{usage['seconds']:.2f} on average, 95 % within {usage['slow_seconds']:.2f}")]
    if usage["cost"] is not None:
        per_row = f", {1000 * usage['cost'] / rows:.4f} for 1,000 rows" if rows else ""
        body += [("cost", f"{usage['cost']:.4f}{per_row}")]
    return Table("What the judge was asked for", ("", ""), body, texts=2)


def baseline_table() -> Table | None:
    """The test macro-F1 of the saved baselines on every config; None without any."""
    rows = [row for row in results.read_metrics(RESULTS) if (row["kind"], row["split"]) == (results.BASELINE, "test")]
    if not rows:
        return None
    configs = sorted({row["config"] for row in rows}, key=lambda name: (name.endswith(GROUPED), name))
    # The intervals are those of the file, because drawing them again takes seconds.
    columns = [f"{FIGURES[0].key}{end}" for end in ("", "_low", "_high")]
    figures = {(row["name"], row["config"]): [float(row[column]) for column in columns] for row in rows}
    scores = {place: with_interval(value, bounds) for place, (value, *bounds) in figures.items()}
    names = dict.fromkeys(row["name"] for row in rows)
    body = [(name, *(scores.get((name, config), "") for config in configs)) for name in names]
    return Table("Baselines, test macro-F1", ("features", *configs), body)
