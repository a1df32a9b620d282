"""``cdconv soup`` and ``cdconv ensemble``: one detector of several."""

from pathlib import Path
from typing import Annotated

import typer

from contradiction.commands.options import DATA, DataOption, data_option

ModelsArgument = Annotated[list[Path], typer.Argument(help="Model folders that `cdconv train` wrote, two or more.")]
OutOption = Annotated[Path, typer.Option(help="The model folder to write.")]


def soup(models: ModelsArgument, out: OutOption, data: DataOption = DATA) -> None:
    """Averages the weights of runs that started from one checkpoint; the mean costs no more to ask than one of them."""
    from contradiction.training.merging import soup

    soup(models, out, data=data)
    _finish(out, f"the mean of {len(models)} models", data)


def ensemble(
    models: ModelsArgument,
    out: OutOption,
    data: DataOption = DATA,
    calibrate: Annotated[
        bool, typer.Option(help="Calibrate each by its own rule first, so that the surest is not heard most.")
    ] = True,
) -> None:
    """Puts detectors of any views into one folder, to be asked together; it costs as much as all of them."""
    from contradiction.training.merging import ensemble

    ensemble(models, out, data=data, calibrate=calibrate)
    _finish(out, f"an ensemble of {len(models)}", data)


def _finish(out: Path, what: str, data: str) -> None:
    from contradiction.reports.model_card import write_cards

    write_cards(out)
    typer.echo(f"{out}: {what}; next: cdconv evaluate {out} --split validation{data_option(data)}")
