"""``cdconv ensemble``."""

from pathlib import Path
from typing import Annotated

import typer

from contradiction.commands.options import DataOption


def ensemble(
    models: Annotated[list[Path], typer.Argument(help="Model folders that `cdconv train` wrote, two or more.")],
    out: Annotated[Path, typer.Option(help="The model folder to write.")],
    data: DataOption = "cdconv",
) -> None:
    """Puts detectors into one folder that are asked together, in any views: better than each, and as dear as all."""
    from contradiction.merging.ensembling import ensemble as run

    run(models, out, data=data)
    where = "" if data == "cdconv" else f" --data {data}"
    typer.echo(f"{out}: an ensemble of {len(models)}; next: cdconv evaluate {out} --split validation{where}")
