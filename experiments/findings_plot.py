"""Draws the plot of docs/findings.md: the difference between each detector and n-grams, with its 95 % interval.

    python -m experiments.findings_plot

Reads `models/results` and makes the same paired tests as `python -m paper.results`, so the figures are those of
`models/README.md`. A filled dot stays below p = 0.05 after Holm's correction for all detectors of that table.
"""

import argparse
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from contradiction import paths
from contradiction.evaluation import results
from paper.plots import COLOURS, draw_grid, save_png
from paper.results_page import comparison_tables

# Config -> name in the saved results -> label in the plot.
SHOWN = {
    "4-class": {
        "e5-small-balanced-ensemble": "e5-small-balanced-ensemble",
        "e5-small-with-kernel": "e5-small-with-kernel (ensemble)",
        "e5-small-ensemble": "e5-small-ensemble (ensemble)",
        "e5-small-two-views": "e5-small-two-views (ensemble)",
        "kernel ridge, e5-small-zh": "kernel ridge, frozen encoder",
        "e5-small-ngram-student": "e5-small-ngram-student",
        "e5-small-student": "e5-small-student",
        paths.SHIPPED.name: f"{paths.SHIPPED.name} (shipped)",
        "e5-small-balanced": "e5-small-balanced",
        "e5-small-cdconv-soup": "e5-small-cdconv-soup",
        "hierarchical-4-class-e5-small-nli-seed23": "hierarchical, three encoders",
        "e5-small-cdconv": "e5-small-cdconv",
    },
    "4-class-grouped": {
        "e5-small-with-kernel-grouped": "e5-small-with-kernel (ensemble)",
        "kernel ridge, e5-small-zh": "kernel ridge, frozen encoder",
        "e5-small-ngram-student-grouped": "e5-small-ngram-student",
        "hierarchical-4-class-grouped-e5-small-nli-seed23": "hierarchical, three encoders",
        "sentence-pair-4-class-grouped-e5-small-nli-seed42": "sentence pair",
        "e5-small-plain-student-grouped": "e5-small-plain-student",
    },
}
SPLITS = {"4-class": "official split", "4-class-grouped": "grouped split: new contexts"}


def main() -> None:
    """Parses the arguments and writes the plot."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", default="docs/images/findings-n-grams.png")
    options = parser.parse_args()

    evaluations = results.published()
    figure = Figure(figsize=(10, 6), dpi=130, layout="constrained")
    heights = [len(names) for names in SHOWN.values()]
    grid = figure.subplots(2, 2, sharex=True, gridspec_kw={"height_ratios": heights})
    for (config, names), (left, right) in zip(SHOWN.items(), grid, strict=True):
        table = comparison_tables(evaluations, config)[0]
        rows = {row[0]: row for row in table.rows}
        draw(left, [(label, rows[name][2:6]) for name, label in names.items()])
        draw(right, [("", rows[name][7:11]) for name in names])
        left.set_title(f"4-class, {SPLITS[config]}", loc="left", fontsize=10.5)
        right.set_title(f"2-class, {SPLITS[config]}", loc="left", fontsize=10.5)
    for axes in grid[-1]:
        axes.set_xlabel("macro-F1 compared with n-grams, in points", fontsize=9)
    marks = [
        Line2D([], [], color=COLOURS["trained"], marker="o", label="p < 0.05 after Holm's correction"),
        Line2D([], [], color=COLOURS["trained"], marker="o", markerfacecolor="white", label="p ≥ 0.05"),
    ]
    figure.legend(handles=marks, loc="outside lower left", ncols=2, frameon=False, fontsize=9)
    save_png(figure, options.out)


def draw(axes: Axes, rows: Sequence[tuple[str, Sequence[str]]]) -> None:
    """Draws a row for each detector: the difference as a dot, its interval as a bar."""
    colour = COLOURS["trained"]
    for height, (_, (difference, interval, _, adjusted)) in enumerate(reversed(rows)):
        bounds = [float(bound) for bound in interval.split(" to ")]
        axes.plot(bounds, (height, height), color=colour, linewidth=2.2, solid_capstyle="round")
        face = colour if float(adjusted.lstrip("<")) < 0.05 else "white"
        axes.plot(float(difference), height, "o", markersize=7, color=colour, markerfacecolor=face, zorder=4)
        axes.text(1.02, height, difference, transform=axes.get_yaxis_transform(), va="center", fontsize=9)
    axes.axvline(0, color=COLOURS["baseline"], linewidth=1.2, zorder=1)
    axes.set_yticks(range(len(rows)), [label for label, _ in reversed(rows)], fontsize=9.5)
    axes.set_ylim(-0.6, len(rows) - 0.4)
    draw_grid(axes, "x", ("top", "right", "left"))
    axes.tick_params(length=0)


if __name__ == "__main__":
    main()
