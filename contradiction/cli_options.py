"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

from contradiction.errors import InputError

DEMO = "runs/demo"  # where `make demo` leaves its detector

ModelOption = Annotated[str, typer.Option(envvar="CDCONV_MODEL", help="A model folder or Hub id.")]


def demand_model(model: str) -> None:
    """Raises InputError where the default detector is meant and was never made."""
    # Else the default would be taken for a Hub id.
    if model == DEMO and not Path(model).exists():
        raise InputError(f"{model}: no detector there yet; `make demo` trains one, or --model names another")
