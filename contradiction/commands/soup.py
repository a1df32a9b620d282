"""``cdconv soup``."""

from pathlib import Path
from typing import Annotated

import typer

from contradiction.commands.options import DataOption


def soup(
    models: Annotated[list[Path], typer.Argument(help="Model folders that `cdconv train` wrote, two or more.")],
    out: Annotated[Path, typer.Option(help="The model folder to write.")],
    data: DataOption = "cdconv",
) -> None:
    """Averages the weights of runs that started from one checkpoint; the mean costs no more to ask than one of them."""
    from contradiction.merging.soup import soup as run

    run(models, out, data=data)
    where = "" if data == "cdconv" else f" --data {data}"
    typer.echo(f"{out}: the mean of {len(models)} models; next: cdconv evaluate {out} --split validation{where}")
