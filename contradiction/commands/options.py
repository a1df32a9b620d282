"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

from contradiction import paths
from contradiction.errors import InputError

SHIPPED = str(paths.SHIPPED)
RESULTS = paths.RESULTS
SHOWN_RESULTS = "models/results"  # of the checkout, wherever that lies

ModelOption = Annotated[
    str, typer.Option(envvar="CDCONV_MODEL", help="A model folder or Hub id.", show_default="the shipped detector")
]
DATA = "cdconv"  # the data repo that `cdconv data build` writes
DataOption = Annotated[str, typer.Option(help="The data repo: a folder or a Hub id.")]


def data_option(data: str) -> str:
    """What names a data repo to the next command: an option after a space, or nothing where it is the usual one."""
    return "" if data == DATA else f" --data {data}"


def demand_model(model: str) -> None:
    """Raises InputError where the shipped detector is meant and not there."""
    # Else the path would be taken for a Hub id.
    if model == SHIPPED and not Path(model).exists():
        raise InputError(
            f"{model}: the shipped detector is not there; the repository holds it, the installed package does not. "
            "--model takes a model folder or a Hub id"
        )
