"""The plot of a grid: each method's macro-F1 with its interval and its runs, beside baselines and the paper."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from contradiction.reproduction.table import Panel

# Of Okabe and Ito's palette, which colour-blind people can tell apart.
COLOURS = {"trained": "#0072B2", "merged": "#56B4E9", "zero-shot": "#009E73", "baseline": "#74787F", "paper": "#D55E00"}
MEANINGS = {
    "trained": "trained on these labels",
    "merged": "trained on four classes, merged",
    "zero-shot": "NLI checkpoint, zero-shot",
    "baseline": "artefact baseline",
    "paper": "the paper's hierarchical method",
}


def method_plot(panels: Sequence["Panel"], title: str, path: str | Path) -> None:
    """Draws a panel a config, a line a method, and writes a PNG.

    A filled dot is the mean over the runs, a bar what their intervals span, a ring one run, the dashes the paper's.
    """
    from matplotlib.figure import Figure

    heights = [len(panel.lines) + len(panel.baselines) for panel in panels] or [1]
    figure = Figure(figsize=(9, 1.5 + 0.36 * sum(heights) + 0.75 * len(heights)), dpi=160, layout="constrained")
    axes = figure.subplots(len(heights), 1, squeeze=False, height_ratios=[height + 1 for height in heights])[:, 0]
    for each, panel in zip(axes, panels, strict=False):
        _draw(each, panel)
    if not panels:
        axes[0].text(0.5, 0.5, "no cell is finished yet", ha="center", va="center")
        axes[0].set_axis_off()
    figure.suptitle(title, x=0.01, ha="left", fontsize=13, fontweight="bold")
    _legend(figure, panels)
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        figure.savefig(partial, format="png")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _draw(axes: "Axes", panel: "Panel") -> None:
    lines = (*panel.lines, *panel.baselines)
    for height, line in enumerate(reversed(lines)):
        colour = COLOURS[line.kind]
        low, high = (100 * bound for bound in line.interval("macro_f1"))
        values = [100 * value for value in line.values("macro_f1")]
        mean = 100 * line.mean("macro_f1")
        axes.plot((low, high), (height, height), color=colour, linewidth=2.2, solid_capstyle="round")
        if len(values) > 1:
            # Below the bar, so that neither hides the other.
            axes.plot(values, [height - 0.24] * len(values), "o", markersize=4, fillstyle="none", color=colour)
        axes.plot(mean, height, "o", markersize=8, color=colour, markeredgecolor="white", zorder=4)
        axes.text(1.01, height, f"{mean:.1f}", transform=axes.get_yaxis_transform(), va="center", fontsize=9.5)
    if panel.paper:
        axes.axvline(100 * panel.paper[1], color=COLOURS["paper"], linestyle="--", linewidth=1.5, zorder=1)
    axes.set_yticks(range(len(lines)), [line.name for line in reversed(lines)], fontsize=9.5)
    axes.set_ylim(-0.6, len(lines) - 0.4)
    axes.set_title(f"{panel.config}, test split, n = {panel.n:,}", loc="left", fontsize=10.5)
    axes.set_xlabel("macro-F1 (%), mean over the runs and what their 95 % bootstrap intervals span", fontsize=9)
    axes.grid(axis="x", color="#E5E5E5", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(length=0)
    axes.margins(x=0.08)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)


def _legend(figure: "Figure", panels: Sequence["Panel"]) -> None:
    from matplotlib.lines import Line2D

    kinds = {line.kind for panel in panels for line in (*panel.lines, *panel.baselines)}
    marks = [
        Line2D([], [], color=COLOURS[kind], marker="o", linewidth=2.2, label=MEANINGS[kind])
        for kind in MEANINGS
        if kind in kinds
    ]
    if any(panel.paper for panel in panels):
        marks.append(Line2D([], [], color=COLOURS["paper"], linestyle="--", label=MEANINGS["paper"]))
    if any(len(line.runs) > 1 for panel in panels for line in panel.lines):
        marks.append(Line2D([], [], color="#333333", marker="o", fillstyle="none", linestyle="", label="one seed"))
    if marks:
        figure.legend(handles=marks, loc="outside lower left", ncols=3, frameon=False, fontsize=9)
