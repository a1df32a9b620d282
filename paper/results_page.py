"""The page of results, ``models/README.md``: a table for the official split and one for the grouped split."""

import csv
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from contradiction.evaluation import results
from contradiction.evaluation.figures import RESAMPLES
from contradiction.io.tables import Table, render, with_interval
from contradiction.labels import GROUPED
from contradiction.paths import RESULTS
from paper.plots import LEADERBOARD, leaderboard
from paper.saved_results import published, seeds_of

CROSSED = "crossed.csv"
HEADER = ("detector", "parameters", "seed", "4-class, argmax", "4-class, rule", "2-class, rule")


def results_page(folder: str | Path = RESULTS) -> str:
    """The page of results, made from the saved evaluations in a folder."""
    evaluations = published(folder)
    crossed = _crossed(Path(folder) / CROSSED)
    tables = {
        "Official split": result_table(evaluations, "4-class", crossed),
        "Grouped split": result_table(evaluations, f"4-class{GROUPED}", {}),
    }
    return render(
        "results.md",
        templates=Path(__file__).parent,
        folder=Path(folder).resolve().name,
        tables={title: table for title, table in tables.items() if table.rows},
        plot=LEADERBOARD if leaderboard(evaluations) else None,
        resamples=RESAMPLES,
    )


def _crossed(file: Path) -> dict[str, str]:
    """The share of crossed pairs of replies that a detector puts in order, with its interval, by its name."""
    if not file.is_file():
        return {}
    with file.open(encoding="utf-8", newline="") as lines:
        rows = [
            (row["detector"], float(row["in_order"]), (float(row["low"]), float(row["high"])))
            for row in csv.DictReader(lines)
        ]
    return {name: with_interval(share, bounds) for name, share, bounds in rows}


def result_table(evaluations: Sequence[Mapping[str, Any]], config: str, crossed: Mapping[str, str]) -> Table:
    """Macro-F1 on the test split with 95 % intervals, a row for each detector and baseline, the best first.

    For two classes, the labels of a detector of four classes are merged. A model that was fitted to two classes, and
    every baseline, has the score of its own labels.
    """
    two = config.replace("4-class", "2-class")
    tests = {
        (result["name"], result["config"]): result
        for name in (config, two)
        for result in _on_same_rows([r for r in evaluations if (r["config"], r["split"]) == (name, "test")])
    }
    body = []
    for name in dict.fromkeys(name for name, _ in tests):
        four, own = tests.get((name, config)), tests.get((name, two))
        result = four or own
        assert result is not None
        merged = own if own and (result["kind"] == results.BASELINE or not four) else None
        run = result.get("run") or {}
        body.append(
            (
                four["metrics"]["macro_f1"] if four else -1.0,
                name,
                f"{run['parameters'] / 1e6:.0f} M" if run.get("parameters") else "",
                "" if result.get("request") else seeds_of(run),  # nothing is random in a zero-shot run
                _macro_f1((four.get("argmax", four))["metrics"]) if four else "",
                _macro_f1(four["metrics"]) if four else "",
                _macro_f1(merged["metrics"] if merged else result["metrics"]["two_class"]),
                *([crossed.get(name, "")] if crossed else []),
            )
        )
    rows = [row for _, *row in sorted(body, key=lambda row: (-row[0], row[1]))]
    n = next((result["metrics"]["n"] for (_, found), result in tests.items() if found == config), 0)
    header = (*HEADER, "crossed, in order") if crossed else HEADER
    return Table(f"n = {n:,}", header, rows)


def _on_same_rows(evaluations: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The evaluations on the rows that most of them are on."""
    [(rows, _)] = Counter(result["data"] for result in evaluations).most_common(1) or [("", 0)]
    return [result for result in evaluations if result["data"] == rows]


def _macro_f1(metrics: Mapping[str, Any]) -> str:
    return with_interval(metrics["macro_f1"], metrics["interval"]["macro_f1"])
