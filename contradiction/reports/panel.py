"""Methods beside each other on the rows of one config: as data, and as a picture."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from contradiction.evaluation.paired_tests import Contrast, Line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# What the paper reports: test macro-F1 on the official split.
PAPER = {"2-class": ("paper: hierarchical", 0.781), "4-class": ("paper: hierarchical", 0.593)}
# Of Okabe and Ito's palette, which colour-blind people can tell apart.
COLOURS = {
    "shipped": "#CC79A7",
    "trained": "#0072B2",
    "merged": "#56B4E9",
    "zero-shot": "#009E73",
    "baseline": "#74787F",
    "paper": "#D55E00",
}
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
    """All that is said about one config, or about one bot's replies in it.

    Attributes:
        config: that is predicted, on its test split.
        bot: whose replies these rows are; empty where they are of both.
        n: how many rows.
        lines: the methods.
        baselines: the artefact baselines on the same rows.
        contrasts: the paired tests between methods.
        paper: the name and macro-F1 of the paper's best method, where the rows are the paper's.
    """

    config: str
    bot: str
    n: int
    lines: tuple[Line, ...]
    baselines: tuple[Line, ...]
    contrasts: tuple[Contrast, ...]
    paper: tuple[str, float] | None

    @property
    def title(self) -> str:
        """What the rows are, and how many."""
        return f"{self.config}, test split{f', replies of {self.bot}' if self.bot else ''}, n = {self.n:,}"


def draw_panel(axes: "Axes", panel: Panel) -> None:
    """Draws a line a method: its name, the mean over the runs as a dot, and what their intervals span as a bar."""
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
    axes.set_title(panel.title, loc="left", fontsize=10.5)
    axes.set_xlabel("macro-F1 (%), mean over the runs and what their 95 % bootstrap intervals span", fontsize=9)
    axes.grid(axis="x", color="#E5E5E5", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(length=0)
    axes.margins(x=0.08)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)


def draw_legend(figure: "Figure", panels: Sequence[Panel], meanings: Mapping[str, str] = MEANINGS) -> None:
    """Says below the panels what their colours and marks mean.

    Args:
        figure: that they were drawn on.
        panels: what was drawn.
        meanings: of the kinds of lines, in the order in which they are told.
    """
    from matplotlib.lines import Line2D

    kinds = {line.kind for panel in panels for line in (*panel.lines, *panel.baselines)}
    marks = [
        Line2D([], [], color=COLOURS[kind], marker="o", linewidth=2.2, label=meanings[kind])
        for kind in meanings
        if kind in kinds
    ]
    if any(panel.paper for panel in panels):
        marks.append(Line2D([], [], color=COLOURS["paper"], linestyle="--", label=MEANINGS["paper"]))
    if any(len(line.runs) > 1 for panel in panels for line in panel.lines):
        marks.append(Line2D([], [], color="#333333", marker="o", fillstyle="none", linestyle="", label="one seed"))
    if marks:
        figure.legend(handles=marks, loc="outside lower left", ncols=3, frameon=False, fontsize=9)
