"""A cascade of two detectors on the validation rows of CDConv: macro-F1 by the share that goes to the second one.

python -m experiments.cascade_curve models/e5-small-long-replies models/qwen-1.5b --data cdconv --out cascade.png
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from contradiction import cli
from contradiction.commands.common import DATA, DataOption
from contradiction.data.splits import load_labelled_split
from contradiction.detector import ContradictionDetector
from contradiction.evaluation import cascades
from experiments.analysis_plots import PALETTES, WIDTH, Palette, png

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def main(
    detector: Annotated[str, typer.Argument(help="Judges every row.")],
    judge: Annotated[str, typer.Argument(help="Judges the doubtful rows.")],
    out: Annotated[Path, typer.Option(help="The plot, a PNG file.")],
    data: DataOption = DATA,
) -> None:
    """Prints and plots macro-F1 by the share of the validation rows that goes to the second of two detectors."""
    rows = load_labelled_split(data, "4-class", "validation")
    first, second = (ContradictionDetector.from_pretrained(name).classifier for name in (detector, judge))
    steps = cascades.curve(first, second, rows)
    print(cascades.table(steps, len(rows)).markdown())
    out.write_bytes(png(draw, steps, PALETTES["light"]))


def draw(steps: Any, palette: Palette) -> "Figure":
    """Macro-F1 with its interval over the share, for each task."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, 3), layout="constrained")
    axes = figure.subplots()
    shares = [100 * step.share for step in steps]
    for task, colour, mark in (("2-class", palette.first, "o"), ("4-class", palette.second, "s")):
        values, low, high = zip(*([100 * value for value in step.macro_f1[task]] for step in steps), strict=True)
        axes.plot(shares, values, color=colour, marker=mark, label=task)
        axes.fill_between(shares, low, high, color=colour, alpha=0.15, linewidth=0)
    axes.set(xlabel="replies that go to the second detector, %", ylabel="macro-F1, %")
    axes.legend()
    axes.grid()
    return figure


if __name__ == "__main__":
    cli.main(cli.script(main))
