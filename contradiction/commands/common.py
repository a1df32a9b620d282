"""Options, tables and progress bars that several commands share."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from contradiction import paths
from contradiction.errors import InputError

if TYPE_CHECKING:
    from rich.progress import Progress

    from contradiction.io.tables import Table

SHIPPED = str(paths.SHIPPED)
RESULTS = paths.RESULTS
SHOWN_RESULTS = "models/results"  # of the checkout, wherever that lies

ModelOption = Annotated[
    str, typer.Option(envvar="CDCONV_MODEL", help="A model folder or Hub id.", show_default="the shipped detector")
]
RevisionOption = Annotated[str | None, typer.Option(help="The branch, tag or commit of a model on the Hub.")]
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


def say(message: str) -> None:
    """Writes a message to stderr, in one line."""
    typer.echo(f"cdconv: {' '.join(message.split())}", err=True)


def show(*tables: "Table") -> None:
    """Prints tables under their titles."""
    from rich.console import Console

    # Wide enough for every table where the output is no terminal, so that nothing is cut in a file.
    console = Console(width=None if sys.stdout.isatty() else 160)
    for table in tables:
        console.print(table.title, style="bold", highlight=False)
        console.print(table.rich())


def tell_seen(result: Mapping[str, Any]) -> None:
    """Says on stderr, in one line, that an evaluation is of rows that the detector has seen; else nothing."""
    from contradiction.training import leakage  # which takes the recipes with it

    if why := leakage.of_evaluation(result):
        typer.echo(
            f"cdconv: {result['name']} {why}: the figures are too good, kept they are marked as seen, and no card or "
            "table takes them",
            err=True,
        )


def progress(title: str, *, in_bytes: bool = False) -> "Progress":
    """A bar with the time left, on stderr; it goes away when the work is done."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    return Progress(
        TextColumn(title),
        BarColumn(),
        DownloadColumn() if in_bytes else MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,  # in a file it would leave an empty line
    )
