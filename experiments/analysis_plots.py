"""The plots of an analysis, in one style, for light and for dark pages.

Colours are from the palette of Okabe and Ito for colour-blind readers. Marks also differ in shape. Plots contain no
Chinese, because the machine that draws them may lack the glyphs.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np

from contradiction.decision import IN_USE, precision_at
from contradiction.evaluation.figures import Outcome
from contradiction.io.tables import percent
from contradiction.labels import LABELS, task_of
from evaluate_metric.evaluate_metric import calibration_error
from experiments.operating_points import TARGETS, Records

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 5.2  # inches; letters on a phone are ten pixels high
DPI = 180


@dataclass(frozen=True)
class Palette:
    """The colours of one scheme: background, text, faint lines, and three kinds of marks."""

    surface: str
    ink: str
    faint: str
    first: str
    second: str
    third: str


@dataclass(frozen=True)
class Analysis:
    """What ``experiments.analyze`` finds in an evaluation: tables, and what they are made of.

    ``truth`` says whether each row is a contradiction, ``probabilities`` has its P(contradiction), both of shape
    (rows,), and ``prior`` is the fraction of contradictions.
    """

    evaluation: Mapping[str, Any]
    truth: np.ndarray
    probabilities: np.ndarray
    prior: float
    slices: Records
    classes: Records
    comparison: Records
    reliability: Records
    curve: list[Outcome]
    operating_points: Records


PALETTES = {
    "light": Palette("#ffffff", "#1f2328", "#c3c9d0", "#0072b2", "#d55e00", "#009e73"),
    "dark": Palette("#161b22", "#e6edf3", "#4a535e", "#56b4e9", "#e69f00", "#2fc49a"),
}
Plot = Callable[[Any, Palette], "Figure"]  # draws an analysis, or other figures


def png(draw: Plot, analysis: Any, palette: Palette) -> bytes:
    """One plot as a PNG."""
    from matplotlib import rc_context

    style: dict[Any, Any] = {
        "font.size": 11,
        "axes.titlesize": 12,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.titlepad": 10,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.facecolor": palette.surface,
        "figure.facecolor": palette.surface,
        "axes.edgecolor": palette.faint,
        "grid.color": palette.faint,
        "grid.linewidth": 0.5,
        **dict.fromkeys(
            ("text.color", "axes.labelcolor", "xtick.color", "ytick.color", "axes.titlecolor"), palette.ink
        ),
        "legend.frameon": False,
        "legend.fontsize": 10,
    }
    with rc_context(style):
        image = BytesIO()
        # Without the software version, equal figures give equal files.
        draw(analysis, palette).savefig(image, format="png", dpi=DPI, metadata={"Software": None})
    return image.getvalue()


def _axes(height: float) -> tuple["Figure", "Axes"]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    return figure, figure.add_subplot()


def _title(figure: "Figure", text: str) -> None:
    # A title of the figure starts at the left edge, above long labels.
    figure.suptitle(text, x=0.01, ha="left", fontsize=12, fontweight="bold")


def confusion(analysis: Analysis, palette: Palette) -> "Figure":
    """The confusion matrix: counts, coloured by their fraction of the row."""
    from matplotlib.colors import LinearSegmentedColormap

    labels = LABELS[task_of(analysis.evaluation["config"])]
    counts = np.array(analysis.evaluation["metrics"]["confusion_matrix"])
    fractions = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    figure, axes = _axes(1.7 + 0.62 * len(labels))
    colours = LinearSegmentedColormap.from_list("", [palette.surface, palette.first])
    axes.imshow(fractions, cmap=colours, vmin=0, vmax=1, aspect="auto")
    for (row, column), count in np.ndenumerate(counts):
        text = f"{count:,}\n{percent(fractions[row, column], 0)} %"
        axes.text(
            column, row, text, ha="center", va="center", color=readable_on(colours(fractions[row, column])[:3]),
            fontweight="bold" if row == column else "normal",
        )  # fmt: skip
    short = [label.replace("-", "-\n", 1) for label in labels]
    axes.set_xticks(range(len(labels)), short, fontsize=10)
    axes.set_yticks(range(len(labels)), short, fontsize=10)
    axes.set_xlabel("predicted")
    axes.set_ylabel("label")
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    accuracy = analysis.evaluation["metrics"]["accuracy"]
    _title(figure, f"Accuracy {percent(accuracy)} %: rows, and % of their label")
    return figure


def readable_on(colour: Sequence[float]) -> str:
    """Near-black or white, whichever has more contrast (WCAG) with a colour (red, green and blue from 0 to 1)."""
    parts = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in colour]
    luminance = 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]
    return "#0d1117" if luminance > 0.18 else "#ffffff"  # there black and white have about the same contrast


def slices(analysis: Analysis, palette: Palette) -> "Figure":
    """Macro-F1 of every slice, in groups, with a line for all rows."""
    overall, *records = analysis.slices
    places, ticks, heads, place = [], [], [], 0.0
    group = ""
    for record in records:
        if record["by"] != group:
            group = record["by"]
            place += 0.5
            heads.append((place, group))
            place += 1
        places.append(place)
        ticks.append(f"{record['slice']}{' *' if record['absent'] else ''}")
        place += 1
    figure, axes = _axes(1.2 + 0.25 * place)
    keys = ("macro_f1", "low", "high")
    axes.axvspan(100 * overall[keys[1]], 100 * overall[keys[2]], color=palette.faint, alpha=0.35, linewidth=0)
    axes.axvline(100 * overall[keys[0]], color=palette.ink, linewidth=1, linestyle="--")
    value, low, high = (100 * np.array([record[key] for record in records]) for key in keys)
    reach = [np.maximum(value - low, 0), np.maximum(high - value, 0)]
    axes.errorbar(value, places, xerr=reach, fmt="o", elinewidth=2, markersize=6, color=palette.first)
    axes.set_yticks(places, ticks, fontsize=10)
    axes.set_ylim(place, -0.2)
    for where, name in heads:
        axes.text(
            0, where, f"by {name}", transform=axes.get_yaxis_transform(), fontsize=10, fontweight="bold", va="center"
        )
    right = axes.secondary_yaxis("right")
    right.set_yticks(places, [f"{record['n']:,}" for record in records], fontsize=9)
    right.tick_params(length=0)
    right.spines["right"].set_visible(False)
    right.set_ylabel("rows (n)", fontsize=10)
    axes.grid(axis="x")
    axes.set_xlabel(f"macro-F1, 95 % interval (%)\ndashed, shaded: all rows, {percent(overall[keys[0]])}")
    _title(figure, f"Macro-F1 ({task_of(analysis.evaluation['config'])}) by slice")
    return figure


def reliability(analysis: Analysis, palette: Palette) -> "Figure":
    """The fraction of contradictions against the predicted probability, a point for each bin."""
    bins = analysis.reliability
    predicted, fraction, low, high = (
        100 * np.array([record[key] for record in bins]) for key in ("mean_probability", "share", "low", "high")
    )
    figure, axes = _axes(4.6)
    axes.plot([0, 100], [0, 100], color=palette.ink, linestyle="--", linewidth=1, label="perfect calibration")
    axes.errorbar(
        predicted, fraction, yerr=[fraction - low, high - fraction], fmt="o-", color=palette.first, linewidth=1.2,
        elinewidth=2,
        label=f"{len(bins)} bins of equal mass",
    )  # fmt: skip
    axes.set(xlim=(0, 100), ylim=(0, 100), aspect="equal")
    axes.set_xlabel("mean P(contradiction) of the bin (%)")
    axes.set_ylabel("contradictions in the bin (%)")
    axes.grid()
    axes.legend(loc="upper left")
    error = calibration_error(analysis.truth, analysis.probabilities)
    _title(figure, f"Expected calibration error {percent(error)} points")
    return figure


def precision_recall(analysis: Analysis, palette: Palette) -> "Figure":
    """Precision against recall at two fractions of contradictions, with operating points and baselines."""
    from sklearn.metrics import average_precision_score

    recall, false_alarms = np.array([(point.recall, point.false_alarms) for point in analysis.curve]).T
    figure, axes = _axes(4.8)
    baselines = [record for record in analysis.comparison if "p_value" in record]
    average_precision = average_precision_score(analysis.truth, analysis.probabilities)
    for prior, colour, marker, line in ((analysis.prior, palette.first, "o", "-"), (IN_USE, palette.second, "s", "--")):
        axes.plot(
            100 * recall, 100 * precision_at(prior, recall, false_alarms), color=colour, linestyle=line, linewidth=1.8,
            label=f"{100 * prior:.3g} % contradictions{', as here' if prior == analysis.prior else ', as in use'}",
        )  # fmt: skip
        for point in analysis.operating_points:
            if point["prior"] == prior and point["reached"]:
                axes.plot(
                    100 * point["recall"], 100 * point["precision"], marker=marker, color=colour, markersize=7,
                    markeredgecolor=palette.surface,
                )  # fmt: skip
    if baselines:
        axes.plot(
            [100 * record["recall"] for record in baselines],
            [100 * record["precision"] for record in baselines], "^",
            color=palette.third, markersize=8, label="TF-IDF baselines, as here",
        )  # fmt: skip
    for target in TARGETS:
        axes.axhline(100 * target, color=palette.faint, linewidth=0.8, linestyle=":")
    axes.set(xlim=(0, 101), ylim=(0, 104))
    axes.set_xlabel("recall of contradictions (%)")
    axes.set_ylabel("precision of alarms (%)")
    axes.legend(loc="upper right")
    _title(figure, f"Average precision {percent(average_precision)} %; at random {percent(analysis.prior)} %")
    return figure


PLOTS: dict[str, Plot] = {
    "confusion": confusion,
    "slices": slices,
    "reliability": reliability,
    "precision-recall": precision_recall,
}
