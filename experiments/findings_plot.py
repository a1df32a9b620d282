"""Draws the plot of docs/findings.md: the difference between each detector and n-grams, with its 95 % interval.

    python -m experiments.findings_plot

Reads `models/results/comparisons.csv`, which `python -m paper.results` writes. A filled dot stays below p = 0.05 after
Holm's correction.
"""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from contradiction import cli, paths
from paper.comparisons import NGRAMS
from paper.plots import COLOURS, draw_grid, save_png

# Config -> name in the saved results -> label in the plot.
SHOWN = {
    "4-class": {
        "qwen-1.5b": "qwen-1.5b (causal)",
        "qwen-0.5b": "qwen-0.5b (causal)",
        "e5-small-with-crossed": "e5-small-with-crossed (ensemble)",
        "e5-small-ensemble": "e5-small-ensemble (ensemble)",
        "e5-small-student": "e5-small-student",
        paths.SHIPPED.name: f"{paths.SHIPPED.name} (shipped)",
        "e5-small-balanced": "e5-small-balanced",
        "e5-small-cdconv-soup": "e5-small-cdconv-soup",
        "hierarchical-4-class-e5-small-nli-seed23": "hierarchical, three encoders",
        "e5-small-cdconv": "e5-small-cdconv",
    },
    "4-class-grouped": {
        "e5-small-ngram-student-grouped": "e5-small-ngram-student",
        "e5-small-ngram-student-grouped-seed42": "the same, another seed",
        "hierarchical-4-class-grouped-e5-small-nli-seed23": "hierarchical, three encoders",
        "sentence-pair-4-class-grouped-e5-small-nli-seed42": "sentence pair",
    },
}
SPLITS = {"4-class": "official split", "4-class-grouped": "grouped split: new contexts"}


def main(
    out: Annotated[Path, typer.Option(help="The plot, a PNG file.")] = Path("docs/images/findings-n-grams.png"),
) -> None:
    """Draws the difference between each detector and n-grams."""
    with (paths.RESULTS / "comparisons.csv").open(encoding="utf-8", newline="") as lines:
        rows = {
            (row["config"], row["task"], row["detector"]): row
            for row in csv.DictReader(lines)
            if row["against"] == NGRAMS
        }
    figure = Figure(figsize=(10, 6.6), dpi=130, layout="constrained")
    heights = [len(names) for names in SHOWN.values()]
    grid = figure.subplots(2, 2, sharex=True, gridspec_kw={"height_ratios": heights})
    for (config, names), (left, right) in zip(SHOWN.items(), grid, strict=True):
        draw(left, [(label, rows[config, "4-class", name]) for name, label in names.items()])
        draw(right, [("", rows[config, "2-class", name]) for name in names])
        left.set_title(f"4-class, {SPLITS[config]}", loc="left", fontsize=10.5)
        right.set_title(f"2-class, {SPLITS[config]}", loc="left", fontsize=10.5)
    for axes in grid[-1]:
        axes.set_xlabel("macro-F1 compared with n-grams, in points", fontsize=9)
    marks = [
        Line2D([], [], color=COLOURS["trained"], marker="o", label="p < 0.05 after Holm's correction"),
        Line2D([], [], color=COLOURS["trained"], marker="o", markerfacecolor="white", label="p ≥ 0.05"),
    ]
    figure.legend(handles=marks, loc="outside lower left", ncols=2, frameon=False, fontsize=9)
    save_png(figure, out)


def draw(axes: Axes, rows: Sequence[tuple[str, Mapping[str, str]]]) -> None:
    """Draws a row for each detector: the difference as a dot, its interval as a bar."""
    colour = COLOURS["trained"]
    for height, (_, row) in enumerate(reversed(rows)):
        low, high, difference = (100 * float(row[key]) for key in ("low", "high", "difference"))
        axes.plot((low, high), (height, height), color=colour, linewidth=2.2, solid_capstyle="round")
        face = colour if float(row["p_holm"]) < 0.05 else "white"
        axes.plot(difference, height, "o", markersize=7, color=colour, markerfacecolor=face, zorder=4)
        said = f"{difference:+.1f}".replace("-", "−")
        axes.text(1.02, height, said, transform=axes.get_yaxis_transform(), va="center", fontsize=9)
    axes.axvline(0, color=COLOURS["baseline"], linewidth=1.2, zorder=1)
    axes.set_yticks(range(len(rows)), [label for label, _ in reversed(rows)], fontsize=9.5)
    axes.set_ylim(-0.6, len(rows) - 0.4)
    draw_grid(axes, "x", ("top", "right", "left"))
    axes.tick_params(length=0)


if __name__ == "__main__":
    cli.main(cli.script(main))
