"""The plot of the page of results: every kept detector on the official test split, the best first."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from contradiction import paths
from contradiction.evaluation import results
from contradiction.evaluation.paired_tests import MethodRuns, merged_run_of, run_of, single_run
from contradiction.reports.interval_plot import MEANINGS, PAPER, Panel, draw_legend, draw_panel, save_png

NAME = "leaderboard.png"
CONFIG = "4-class"


def leaderboard(evaluations: Sequence[dict[str, Any]]) -> list[Panel]:
    """The panels of the plot: four classes, and the same labels merged to two; none without a detector.

    Both are in the same order, by macro-F1 on four classes. Labels are those that a detector gives, with its decision
    rule.

    Args:
        evaluations: of detectors and of baselines.
    """
    tests = [result for result in evaluations if (result["config"], result["split"]) == (CONFIG, "test")]
    detectors = [result for result in tests if result["kind"] == results.DETECTOR]
    if not detectors:
        return []
    data, _ = Counter(result["data"] for result in detectors).most_common(1)[0]  # some may be on other rows
    tests = results.best_first(result for result in tests if result["data"] == data)
    return [
        Panel(
            config, "", tests[0]["metrics"]["n"], tuple(_method(each, merged) for each in tests), (), (), PAPER[config]
        )
        for config, merged in ((CONFIG, False), ("2-class", True))
    ]


def _method(result: Mapping[str, Any], merged: bool) -> MethodRuns:
    if result["kind"] == results.BASELINE:
        kind = "baseline"
    else:
        kind = "shipped" if result["name"] == paths.SHIPPED.name else "trained"
    return single_run(result, (merged_run_of if merged else run_of)(result, rule=True), kind)


def draw(panels: Sequence[Panel], path: str | Path) -> None:
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
