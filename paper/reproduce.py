"""Reruns a table of the paper on any encoder: ``python -m paper.reproduce table4``."""

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from contradiction import cli
from contradiction.commands.common import DATA, DataOption, say, show
from contradiction.errors import InputError
from contradiction.io.tables import Table
from contradiction.training.recipe import is_recorded_folder
from paper.cells import Cell, cells_of, values_of


def reproduce(
    table: Annotated[
        str, typer.Argument(help="table4 (methods), table5 (with and without an NLI stage), learning-curve or bots.")
    ],
    backbone: Annotated[
        str | None, typer.Option(help="Folder or Hub id of an encoder, instead of the recipes'.")
    ] = None,
    nli: Annotated[list[str] | None, typer.Option(help="For table5: an NLI checkpoint; can be repeated.")] = None,
    seeds: Annotated[str, typer.Option(help="Random seeds, separated by commas.")] = "23,42,133,233",
    methods: Annotated[
        str, typer.Option(help="Methods, separated by commas. The baselines reply-only and context-only are others.")
    ] = "sentence-pair,flatten,hierarchical",
    configs: Annotated[
        str, typer.Option(help="Configs, separated by commas, for instance 4-class-grouped.")
    ] = "4-class,2-class",
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="key=value: a recipe option for all cells, for instance epochs=3; can be repeated."),
    ] = None,
    data: DataOption = DATA,
    out: Annotated[Path | None, typer.Option(help="The folder of the table. By default runs/TABLE.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the cells, and train nothing.")] = False,
    only_table: Annotated[
        bool, typer.Option("--only-table", help="Train nothing, and write the table of the finished cells.")
    ] = False,
) -> None:
    """Trains the cells of a table, each a method with one config and one seed, and writes the table.

    The same command continues where it stopped. Several processes can share one --out: each trains cells that no other
    one works on. A failed cell is reported, the others run, and the exit code is 1.
    """
    from contradiction.io.files import locked
    from paper import grid, panels
    from paper import table as tables

    folder = out or Path("runs") / table
    cells = cells_of(
        table, data=data, methods=_words(methods), configs=_words(configs), seeds=_seeds(seeds), backbone=backbone,
        nli=nli or [], values=values_of(set_ or []),
    )  # fmt: skip
    done = grid.finished(cells, folder)
    if dry_run:
        states = [(cell.name, "finished" if cell.name in done else "to do") for cell in cells]
        return show(Table(f"{len(cells)} cells, {len(done)} finished", ("cell", "state"), states, texts=2))
    failed = 0 if only_table else _run([cell for cell in cells if cell.name not in done], data, folder)
    # One process at a time, so that the last table has all finished cells.
    with locked(folder / "table", wait=True) if folder.is_dir() else nullcontext():
        if done := grid.finished(cells, folder):
            made = panels.panels_of(table, cells, done, data)
            show(*(one for panel in made for one in (tables.score_table(panel), tables.test_table(panel)) if one))
            written = tables.write(folder, table, cells, done, made)
            typer.echo(f"{', '.join(map(str, written))}: written, {len(done)} of {len(cells)} cells")
        else:
            say(f"{folder}: there is no table yet, because no cell is finished")
    if failed:
        raise typer.Exit(1)


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _seeds(text: str) -> list[int]:
    try:
        return [int(word) for word in _words(text)]
    except ValueError:
        raise InputError(f"seeds {text!r}: must be whole numbers separated by commas, for instance 23,42") from None


def _run(cells: Sequence[Cell], data: str, folder: Path) -> int:
    """Runs cells, and returns how many failed."""
    from paper import grid

    for cell in cells:
        if is_recorded_folder(backbone := str(cell.recipe.model.backbone)):
            raise InputError(f"{cell.name}: starts from {backbone}, a folder's name and digest; name its folder")
    failed = 0
    for number, cell in enumerate(cells, start=1):
        typer.secho(f"cell {number} of {len(cells)}: {cell.name}", bold=True, err=True)
        try:
            if message := grid.run(cell, data=data, out=folder):
                say(f"{cell.name}: {message}")
        except Exception as error:  # for instance a full disk: the other cells run
            failed += 1
            kind = "" if isinstance(error, InputError) else f"{type(error).__name__}: "
            say(f"{cell.name} failed: {kind}{error}")
    if failed:
        say(f"{failed} of {len(cells)} cells failed; the same command tries them again")
    return failed


if __name__ == "__main__":
    cli.main(cli.script(reproduce))
