"""The picture of the page of results: every kept detector on the official test split, the best first."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from contradiction import paths
from contradiction.evaluation import results
from contradiction.evaluation.paired_tests import Line, line_of, merged_run_of, run_of
from contradiction.io.files import new_file
from contradiction.reports.panel import MEANINGS, PAPER, Panel, draw_legend, draw_panel

NAME = "standings.png"
CONFIG = "4-class"


def standings(folder: str | Path = results.FOLDER) -> list[Panel]:
    """The panels of the picture: four classes, and the same labels merged to two; none where nothing is kept.

    Both have the same order, by macro-F1 of four classes. Labels are those that a detector gives, with its decision
    rule.

    Args:
        folder: where the evaluations are kept.
    """
    kept = [each for each in results.kept(folder) if each.get("kind") in results.KINDS]
    found = [each for each in kept if (each["config"], each["split"]) == (CONFIG, "test")]
    detectors = [each for each in found if each["kind"] == "detector"]
    if not detectors:
        return []
    rows, _ = Counter(each["data"] for each in detectors).most_common(1)[0]  # there may be some on other rows too
    found = results.best_first(each for each in found if each["data"] == rows)
    return [
        Panel(config, "", found[0]["metrics"]["n"], tuple(_line(each, merged) for each in found), (), (), PAPER[config])
        for config, merged in ((CONFIG, False), ("2-class", True))
    ]


def _line(kept: Mapping[str, Any], merged: bool) -> Line:
    kind = "baseline" if kept["kind"] == "baseline" else "shipped" if kept["name"] == paths.SHIPPED.name else "trained"
    return line_of(kept, (merged_run_of if merged else run_of)(kept, rule=True), kind)  # as users get them


def draw(panels: Sequence[Panel], path: str | Path) -> None:
    """Draws the panels side by side, the names once, and writes a PNG."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 1.6 + 0.3 * len(panels[0].lines)), dpi=130, layout="constrained")
    first, *others = figure.subplots(1, len(panels))
    for axes, panel in zip((first, *others), panels, strict=True):
        draw_panel(axes, panel)
        axes.set_title(f"{panel.config}{'' if axes is first else ', merged from four classes'}", loc="left")
        axes.set_xlabel("macro-F1 (%) and its 95 % bootstrap interval")
    for axes in others:
        axes.set_yticklabels([])
    figure.suptitle(f"Official test split, n = {panels[0].n:,}", x=0.01, ha="left", fontsize=13, fontweight="bold")
    others = {"trained": "other detectors of four classes", "baseline": "without a fine-tuned encoder"}
    draw_legend(figure, panels, {**MEANINGS, **others})
    with new_file(path) as partial:
        figure.savefig(partial, format="png")
