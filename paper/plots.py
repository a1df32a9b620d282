"""Plots of macro-F1 with intervals: a panel for each config."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from contradiction.io.files import new_file
from paper.cells import METHODS
from paper.paired_tests import MethodRuns, PairedTest

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The test macro-F1 of the paper on the official split.
PAPER = {"2-class": ("paper: hierarchical", 0.781), "4-class": ("paper: hierarchical", 0.593)}
# From the palette of Okabe and Ito for colour-blind readers.
COLOURS = {
    "trained": "#0072B2",
    "merged": "#56B4E9",
    "zero-shot": "#009E73",
    "baseline": "#74787F",
    "paper": "#D55E00",
}
GRID = "#E5E5E5"
MEANINGS: Mapping[str, str] = {
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


def draw_legend(figure: "Figure", panels: Sequence[Panel]) -> None:
    """Draws a legend of the colours and marks below the panels, in the order of ``MEANINGS``."""
    from matplotlib.lines import Line2D

    kinds = {method.kind for panel in panels for method in (*panel.methods, *panel.baselines)}
    marks = [
        Line2D([], [], color=COLOURS[kind], marker="o", linewidth=2.2, label=MEANINGS[kind])
        for kind in MEANINGS
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


def method_plot(panels: Sequence[Panel], title: str, path: str | Path) -> None:
    """Draws a panel for each config, with a line for each method, and writes a PNG.

    A filled dot is the mean over the runs, a bar their intervals, a ring one run, the dashed line the paper's score.
    """
    from matplotlib.figure import Figure

    heights = [len(panel.methods) + len(panel.baselines) for panel in panels]
    figure = Figure(figsize=(9, 1.5 + 0.36 * sum(heights) + 0.75 * len(heights)), dpi=110, layout="constrained")
    axes = figure.subplots(len(heights), 1, squeeze=False, height_ratios=[height + 1 for height in heights])[:, 0]
    for ax, panel in zip(axes, panels, strict=True):
        draw_panel(ax, panel)
    draw_title(figure, title)
    draw_legend(figure, panels)
    save_png(figure, path)


def curve_plot(panels: Sequence[Panel], title: str, path: str | Path) -> None:
    """Draws a panel for each config: macro-F1 against training rows, a curve for each method. Writes a PNG.

    A dot is the mean over the runs, and a bar their intervals. Dotted lines are the artefact baselines on all rows.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 1 + 4 * len(panels)), dpi=110, layout="constrained")
    for axes, panel in zip(figure.subplots(len(panels), 1, squeeze=False)[:, 0], panels, strict=True):
        _draw_curves(axes, panel)
    draw_title(figure, title)
    save_png(figure, path)


def _draw_curves(axes: "Axes", panel: Panel) -> None:
    curves: dict[tuple[str, str], list[MethodRuns]] = {}
    for point in panel.methods:
        curves.setdefault((point.method, point.kind), []).append(point)
    for number, ((method, kind), points) in enumerate(curves.items()):
        means, rows = [100 * point.mean("macro_f1") for point in points], [point.rows for point in points]
        # Side by side, so that no bar hides another.
        places = [count * 1.02 ** (number - (len(curves) - 1) / 2) for count in rows]
        bounds = [point.interval("macro_f1") for point in points]
        reach = [
            [max(0.0, mean - 100 * low) for mean, (low, _) in zip(means, bounds, strict=True)],
            [max(0.0, 100 * high - mean) for mean, (_, high) in zip(means, bounds, strict=True)],
        ]
        label = f"{method}, 4-class merged" if kind == "merged" else method
        style = "--" if kind == "merged" else "-"
        axes.errorbar(places, means, reach, fmt=f"o{style}", color=METHODS[method].colour, label=label)
    for baseline in panel.baselines:
        # An underscore keeps all but the first out of the legend.
        label = f"{'' if baseline is panel.baselines[0] else '_'}{MEANINGS['baseline']}, all rows"
        axes.axhline(100 * baseline.mean("macro_f1"), color=COLOURS["baseline"], linestyle=":", label=label)
    if panel.paper:
        axes.axhline(100 * panel.paper[1], color=COLOURS["paper"], linestyle="--", label=MEANINGS["paper"])
    ticks = sorted({point.rows for point in panel.methods})
    axes.set_xscale("log")
    axes.set_xticks(ticks, [f"{count:,}" for count in ticks], minor=False)
    axes.set_xticks([], minor=True)
    axes.set_title(panel.title, loc="left", fontsize=10.5)
    axes.set_xlabel("training rows (each point: the same number of steps)", fontsize=9)
    axes.set_ylabel("macro-F1 (%) and its\n95 % bootstrap intervals", fontsize=9)
    draw_grid(axes, "y", ("top", "right"))
    axes.legend(frameon=False, fontsize=9, loc="center left", bbox_to_anchor=(1, 0.5))
