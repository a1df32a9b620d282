"""The page of results, ``models/README.md``, and its plot."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from contradiction import paths
from contradiction.evaluation import results
from contradiction.evaluation.figures import RESAMPLES
from contradiction.evaluation.paired_tests import MethodRuns, merged_run_of, run_of, single_run
from contradiction.io.tables import render
from contradiction.reports.comparisons import REFERENCE, ablation, comparison_tables
from contradiction.reports.interval_plot import MEANINGS, PAPER, Panel, draw_legend, draw_panel, save_png
from contradiction.reports.tables import (
    COLLAPSED,
    baseline_table,
    class_table,
    contrast_results_table,
    run_table,
    score_table,
    training_log,
)

SPLITS = ("validation", "test")


def results_page(folder: str | Path = results.FOLDER) -> str:
    """The page of results, made from the saved evaluations."""
    evaluations = results.published(folder)
    detectors = [result for result in evaluations if result["kind"] == results.DETECTOR]
    configs = ("4-class", "4-class-grouped")
    return render(
        "results.md",
        plot=LEADERBOARD if leaderboard(evaluations) else None,
        tables=_score_tables(evaluations, detectors),
        classes=[class_table(result) for result in detectors],
        comparisons={config: tables for config in configs if (tables := comparison_tables(evaluations, config))},
        ablations={split: result for split in SPLITS if (result := ablation(detectors, split))},
        notes={result["name"]: result["run"]["note"] for result in detectors if (result.get("run") or {}).get("note")},
        runs=run_table(detectors),
        log=training_log(detectors),
        collapsed=COLLAPSED,
        baselines=baseline_table(folder),
        contrast=contrast_results_table(folder),
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


LEADERBOARD = "leaderboard.png"
LEADERBOARD_CONFIG = "4-class"


def leaderboard(evaluations: Sequence[dict[str, Any]]) -> list[Panel]:
    """The panels of the plot: four classes, and the same labels merged to two; empty without detectors.

    Both are in the same order, by macro-F1 on four classes. Labels are those of the decision rule.

    Args:
        evaluations: evaluations of detectors and of baselines.
    """
    tests = [result for result in evaluations if (result["config"], result["split"]) == (LEADERBOARD_CONFIG, "test")]
    detectors = [result for result in tests if result["kind"] == results.DETECTOR]
    if not detectors:
        return []
    data, _ = Counter(result["data"] for result in detectors).most_common(1)[0]  # some evaluations may be on other rows
    tests = results.best_first(result for result in tests if result["data"] == data)
    return [
        Panel(
            config,
            "",
            tests[0]["metrics"]["n"],
            tuple(_method(result, merged) for result in tests),
            (),
            (),
            PAPER[config],
        )
        for config, merged in ((LEADERBOARD_CONFIG, False), ("2-class", True))
    ]


def _method(result: Mapping[str, Any], merged: bool) -> MethodRuns:
    if result["kind"] == results.BASELINE:
        kind = "baseline"
    else:
        kind = "shipped" if result["name"] == paths.SHIPPED.name else "trained"
    return single_run(result, (merged_run_of if merged else run_of)(result, rule=True), kind)


def draw_leaderboard(panels: Sequence[Panel], path: str | Path) -> None:
    """Draws the panels side by side and writes a PNG."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 1.6 + 0.3 * len(panels[0].methods)), dpi=130, layout="constrained")
    first, *others = figure.subplots(1, len(panels))
    for axes, panel in zip((first, *others), panels, strict=True):
        draw_panel(axes, panel)
        axes.set_title(f"{panel.config}{'' if axes is first else ', merged from four classes'}", loc="left")
        axes.set_xlabel("macro-F1 (%) and its 95 % bootstrap interval")
    for axes in others:
        axes.set_yticklabels([])
    figure.suptitle(f"Official test split, n = {panels[0].n:,}", x=0.01, ha="left", fontsize=13, fontweight="bold")
    meanings = {"trained": "other detectors of four classes", "baseline": "without a fine-tuned encoder"}
    draw_legend(figure, panels, {**MEANINGS, **meanings})
    save_png(figure, path)
