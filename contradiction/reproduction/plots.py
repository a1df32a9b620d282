"""The plots of a grid: macro-F1, its interval and its runs, beside baselines and the paper, by method or by rows."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from contradiction.reports.interval_plot import COLOURS, MEANINGS, Panel, draw_legend, draw_panel, save_png
from contradiction.reproduction.baselines import VIEW
from contradiction.reproduction.methods import METHODS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from contradiction.evaluation.paired_tests import MethodRuns


def method_plot(panels: Sequence[Panel], title: str, path: str | Path) -> None:
    """Draws a panel for each config, with a line for each method, and writes a PNG.

    A filled dot is the mean over the runs, a bar their intervals, a ring one run, the dashed line the paper's score.
    """
    from matplotlib.figure import Figure

    heights = [len(panel.methods) + len(panel.baselines) for panel in panels] or [1]
    figure = Figure(figsize=(9, 1.5 + 0.36 * sum(heights) + 0.75 * len(heights)), dpi=110, layout="constrained")
    axes = figure.subplots(len(heights), 1, squeeze=False, height_ratios=[height + 1 for height in heights])[:, 0]
    for each, panel in zip(axes, panels, strict=False):
        draw_panel(each, panel)
    if not panels:
        axes[0].text(0.5, 0.5, "no cell is finished yet", ha="center", va="center")
        axes[0].set_axis_off()
    figure.suptitle(title, x=0.01, ha="left", fontsize=13, fontweight="bold")
    draw_legend(figure, panels)
    save_png(figure, path)


def curve_plot(panels: Sequence[Panel], title: str, path: str | Path) -> None:
    """Draws a panel for each config: macro-F1 against training rows, a curve for each method. Writes a PNG.

    A dot is the mean over the runs, and a bar their intervals. Squares are n-grams of the same rows, and dotted lines
    are the artefact baselines on all rows.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 1 + 4 * len(panels)), dpi=110, layout="constrained")
    for axes, panel in zip(figure.subplots(len(panels), 1, squeeze=False)[:, 0], panels, strict=True):
        _draw_curves(axes, panel)
    figure.suptitle(title, x=0.01, ha="left", fontsize=13, fontweight="bold")
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
    ngrams = sorted((point for point in panel.baselines if point.method == VIEW), key=lambda point: point.rows)
    if len(ngrams) > 1:
        rows, means = [point.rows for point in ngrams], [100 * point.mean("macro_f1") for point in ngrams]
        axes.plot(rows, means, "s:", color=COLOURS["baseline"], label="n-grams of all utterances")
    levels = [baseline for baseline in panel.baselines if baseline not in ngrams or len(ngrams) == 1]
    for baseline in levels:
        # An underscore keeps all but the first out of the legend.
        label = f"{'' if baseline is levels[0] else '_'}{MEANINGS['baseline']}, all rows"
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
    axes.grid(axis="y", color="#E5E5E5", linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.legend(frameon=False, fontsize=9, loc="center left", bbox_to_anchor=(1, 0.5))
