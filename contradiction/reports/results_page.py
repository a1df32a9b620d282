"""The page of results, ``models/README.md``: scores, comparisons, what each choice brings, and the training of runs."""

from pathlib import Path
from typing import Any

from contradiction.evaluation import results
from contradiction.evaluation.figures import RESAMPLES
from contradiction.io.templates import render
from contradiction.reports import leaderboard
from contradiction.reports.ablation_table import REFERENCE, ablation
from contradiction.reports.comparison_tables import comparison_tables
from contradiction.reports.contrast_table import kept_table
from contradiction.reports.score_tables import baseline_table, class_table, score_table
from contradiction.reports.training_tables import COLLAPSED, run_table, training_log

SPLITS = ("validation", "test")


def results_page(folder: str | Path = results.FOLDER) -> str:
    """The page of results, made from the kept evaluations."""
    evaluations = results.published(folder)
    detectors = [result for result in evaluations if result["kind"] == results.DETECTOR]
    configs = ("4-class", "4-class-grouped")
    return render(
        "results.md",
        plot=leaderboard.NAME if leaderboard.leaderboard(evaluations) else None,
        tables=_score_tables(evaluations, detectors),
        classes=[class_table(result) for result in detectors],
        comparisons={config: tables for config in configs if (tables := comparison_tables(evaluations, config))},
        ablations={split: found for split in SPLITS if (found := ablation(detectors, split))},
        notes={result["name"]: result["run"]["note"] for result in detectors if (result.get("run") or {}).get("note")},
        runs=run_table(detectors),
        log=training_log(detectors),
        collapsed=COLLAPSED,
        baselines=baseline_table(folder),
        contrast=kept_table(folder),
        reference=REFERENCE,
        resamples=RESAMPLES,
    )


def _score_tables(evaluations: list[dict[str, Any]], detectors: list[dict[str, Any]]) -> list[Any]:
    """A table of scores for each config and split that a detector was evaluated on, with the baselines on its rows."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for result in detectors:
        groups.setdefault((result["config"], result["split"]), []).append(result)
    tables = []
    for (config, split), group in sorted(groups.items(), key=_order):
        baselines = [
            result
            for result in evaluations
            if result["kind"] == results.BASELINE
            and (result["config"], result["split"], result["data"]) == (config, split, group[0]["data"])
        ]
        title = f"{config}, {split} split (n = {group[0]['metrics']['n']:,})"
        tables.append(score_table(results.best_first([*group, *baselines]), title))
    return tables


def _order(group: tuple[tuple[str, str], Any]) -> tuple[bool, bool, str]:
    """Test before validation, and official before grouped splits."""
    (config, split), _ = group
    return split != "test", config.endswith("grouped"), config
