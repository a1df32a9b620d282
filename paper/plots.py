"""Plots of macro-F1 with intervals: a panel for each config, and the leaderboard of the page of results."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from contradiction import paths
from contradiction.evaluation import results
from contradiction.io.files import new_file
from paper.paired_tests import MethodRuns, PairedTest, merged_run_of, run_of, single_run
from paper.saved_results import best_first

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The test macro-F1 of the paper on the official split.
PAPER = {"2-class": ("paper: hierarchical", 0.781), "4-class": ("paper: hierarchical", 0.593)}
# From the palette of Okabe and Ito for colour-blind readers.
COLOURS = {
    "shipped": "#CC79A7",
    "trained": "#0072B2",
    "merged": "#56B4E9",
    "zero-shot": "#009E73",
    "baseline": "#74787F",
    "paper": "#D55E00",
}
GRID = "#E5E5E5"
MEANINGS: Mapping[str, str] = {
    "shipped": "the shipped detector",
    "trained": "trained on these labels",
    "merged": "trained on four classes, merged",
    "zero-shot": "NLI checkpoint, zero-shot",
    "baseline": "artefact baseline",
    "paper": "the paper's hierarchical method",
}


@dataclass(frozen=True)
class Panel:
    """The results on the test split of a config, or on the replies of one bot in it.

    ``paper`` is the name and macro-F1 of the paper's best method, where the rows are those of the paper.
    """

    config: str
    bot: str
    n: int
    methods: tuple[MethodRuns, ...]
    baselines: tuple[MethodRuns, ...]
    tests: tuple[PairedTest, ...]
    paper: tuple[str, float] | None

    @property
    def title(self) -> str:
        """The title: the rows and their number."""
        return f"{self.config}, test split{f', replies of {self.bot}' if self.bot else ''}, n = {self.n:,}"


def draw_grid(axes: "Axes", axis: Literal["x", "y"], hidden: Sequence[str]) -> None:
    """Draws the grid of an axis in a faint colour behind the marks, and hides some spines."""
    axes.grid(axis=axis, color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[list(hidden)].set_visible(False)


def draw_title(figure: "Figure", title: str) -> None:
    """Draws the title of a figure at its left edge."""
    figure.suptitle(title, x=0.01, ha="left", fontsize=13, fontweight="bold")


def draw_panel(axes: "Axes", panel: Panel) -> None:
    """Draws a row for each method: its name, the mean over its runs as a dot, and their intervals as a bar."""
    methods = (*panel.methods, *panel.baselines)
    for height, method in enumerate(reversed(methods)):
        colour = COLOURS[method.kind]
        low, high = (100 * bound for bound in method.interval("macro_f1"))
        values = [100 * value for value in method.values("macro_f1")]
        mean = 100 * method.mean("macro_f1")
        axes.plot((low, high), (height, height), color=colour, linewidth=2.2, solid_capstyle="round")
        if len(values) > 1:
            # Below the bar, so that both are visible.
            axes.plot(values, [height - 0.24] * len(values), "o", markersize=4, fillstyle="none", color=colour)
        axes.plot(mean, height, "o", markersize=8, color=colour, markeredgecolor="white", zorder=4)
        axes.text(1.01, height, f"{mean:.1f}", transform=axes.get_yaxis_transform(), va="center", fontsize=9.5)
    if panel.paper:
        axes.axvline(100 * panel.paper[1], color=COLOURS["paper"], linestyle="--", linewidth=1.5, zorder=1)
    axes.set_yticks(range(len(methods)), [method.name for method in reversed(methods)], fontsize=9.5)
    axes.set_ylim(-0.6, len(methods) - 0.4)
    axes.set_title(panel.title, loc="left", fontsize=10.5)
    axes.set_xlabel("macro-F1 (%): mean over the runs, and their 95 % bootstrap intervals", fontsize=9)
    draw_grid(axes, "x", ("top", "right", "left"))
    axes.tick_params(length=0)
    axes.margins(x=0.08)


def draw_legend(figure: "Figure", panels: Sequence[Panel], meanings: Mapping[str, str] = MEANINGS) -> None:
    """Draws a legend of the colours and marks below the panels, in the order of ``meanings``."""
    from matplotlib.lines import Line2D

    kinds = {method.kind for panel in panels for method in (*panel.methods, *panel.baselines)}
    marks = [
        Line2D([], [], color=COLOURS[kind], marker="o", linewidth=2.2, label=meanings[kind])
        for kind in meanings
        if kind in kinds
    ]
    if any(panel.paper for panel in panels):
        marks.append(Line2D([], [], color=COLOURS["paper"], linestyle="--", label=MEANINGS["paper"]))
    if any(len(method.runs) > 1 for panel in panels for method in panel.methods):
        marks.append(Line2D([], [], color="#333333", marker="o", fillstyle="none", linestyle="", label="one seed"))
    if marks:
        figure.legend(handles=marks, loc="outside lower left", ncols=3, frameon=False, fontsize=9)


def save_png(figure: "Figure", path: str | Path) -> None:
    """Writes a figure as a PNG."""
    with new_file(path) as partial:
        figure.savefig(partial, format="png")


LEADERBOARD = "leaderboard.png"
LEADERBOARD_CONFIG = "4-class"


def leaderboard(evaluations: Sequence[dict[str, Any]]) -> list[Panel]:
    """The panels of the plot: four classes, and the same labels merged to two; empty without detectors.

    Both are in the same order, by macro-F1 on four classes. Labels are those of the decision rule.
    """
    tests = [result for result in evaluations if (result["config"], result["split"]) == (LEADERBOARD_CONFIG, "test")]
    detectors = [result for result in tests if result["kind"] == results.DETECTOR]
    if not detectors:
        return []
    data, _ = Counter(result["data"] for result in detectors).most_common(1)[0]  # some evaluations may be on other rows
    tests = best_first(result for result in tests if result["data"] == data)
    n = tests[0]["metrics"]["n"]
    return [
        Panel(config, "", n, tuple(_method(result, merged) for result in tests), (), (), PAPER[config])
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
    draw_title(figure, f"Official test split, n = {panels[0].n:,}")
    meanings = {"trained": "other detectors of four classes", "baseline": "without a fine-tuned encoder"}
    draw_legend(figure, panels, {**MEANINGS, **meanings})
    save_png(figure, path)
