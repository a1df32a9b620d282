"""Plots what a cascade gains: macro-F1 by the share of the validation rows that goes to its judge.

python -m experiments.cascade_curve models/cascade --out docs/images/cascade.png
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from contradiction import cli
from contradiction.io.files import new_file
from contradiction.training import record
from experiments.analysis_plots import PALETTES, WIDTH, Palette, png

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def main(
    cascade: Annotated[Path, typer.Argument(help="A folder that `cdconv cascade` wrote.")],
    out: Annotated[Path, typer.Option(help="The plot, a PNG file.")],
) -> None:
    """Plots macro-F1 by the share of the validation rows that goes to the judge of a cascade."""
    steps = record.of_cascade(cascade)[record.CASCADE]["curve"]
    with new_file(out) as partial:
        partial.write_bytes(png(draw, steps, PALETTES["light"]))


def draw(steps: Any, palette: Palette) -> "Figure":
    """Macro-F1 with its interval over the share, for each task."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, 3), layout="constrained")
    axes = figure.subplots()
    shares = [100 * step["share"] for step in steps]
    for task, colour, mark in (("2-class", palette.first, "o"), ("4-class", palette.second, "s")):
        values, low, high = zip(*([100 * value for value in step["macro_f1"][task]] for step in steps), strict=True)
        axes.plot(shares, values, color=colour, marker=mark, label=task)
        axes.fill_between(shares, low, high, color=colour, alpha=0.15, linewidth=0)
    axes.set(xlabel="replies that go to the second detector, %", ylabel="macro-F1, %")
    axes.legend()
    axes.grid()
    return figure


if __name__ == "__main__":
    cli.main(cli.script(main))
