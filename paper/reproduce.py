"""Reruns a table of the paper: ``python -m paper.reproduce table4``."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from contradiction import cli
from contradiction.commands.common import DATA, DataOption, SaveStepsOption, say, show
from contradiction.errors import InputError

if TYPE_CHECKING:
    from paper.cells import Cell

Done = Mapping[str, dict[str, Any]]


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
        str,
        typer.Option(help="Methods, separated by commas. The baselines reply-only and context-only are allowed too."),
    ] = "sentence-pair,flatten,hierarchical",
    configs: Annotated[
        str, typer.Option(help="Configs, separated by commas, for instance 4-class-grouped.")
    ] = "4-class,2-class",
    train_fractions: Annotated[
        str,
        typer.Option(
            help="For learning-curve: fractions of the training rows, separated by commas. All runs have the same "
            "number of steps.",
            show_default="0.1,0.25,0.5,1",
        ),
    ] = "",
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="key=value: a recipe option for all cells, for instance optimizer.epochs=3; can be repeated."
        ),
    ] = None,
    data: DataOption = DATA,
    out: Annotated[Path | None, typer.Option(help="The folder of the table. By default runs/TABLE.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume/--no-resume", help="Skip finished cells and continue unfinished ones.")
    ] = True,
    shard: Annotated[
        str, typer.Option(help="i/n: run only every n-th cell, starting with the i-th, to use several machines.")
    ] = "1/1",
    engine: Annotated[
        Literal["local", "ray"],
        typer.Option(help="ray: run several cells at the same time with Ray, one on each core."),
    ] = "local",
    address: Annotated[str | None, typer.Option(help="The address of a Ray cluster, for --engine ray.")] = None,
    save_steps: SaveStepsOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List the cells and their time, and train nothing.")
    ] = False,
    only_table: Annotated[
        bool, typer.Option("--only-table", help="Train nothing, and write the table from the finished cells.")
    ] = False,
    drop_weights: Annotated[
        bool, typer.Option("--drop-weights", help="Delete the weights of finished cells; their predictions stay.")
    ] = False,
) -> None:
    """Reproduces a table of the paper on any backbone: trains all cells, then writes a table with paired tests.

    A cell is one method with one config and one seed. The same command continues a killed run. A failed cell is
    reported on stderr, the other cells run, and the exit code is 1. Several processes can share one --out. Each of
    them trains cells that no other process works on.
    """
    from contradiction.io.files import locked
    from paper import grid
    from paper.cells import cells_of, values_of
    from paper.cells import shard as shard_of

    folder = out or Path("runs") / table
    cells = cells_of(
        table, data=data, methods=_words(methods), configs=_words(configs), seeds=_seeds(seeds), backbone=backbone,
        nli=nli or [], train_fractions=_fractions(train_fractions), values=values_of(set_ or []),
    )  # fmt: skip
    mine = shard_of(cells, shard)
    trained = {(cell.method, cell.config) for cell in cells}
    for method in _words(methods):
        if untrained := [config for config in _words(configs) if (method, config) not in trained]:
            say(f"{method} is not trained on {', '.join(untrained)}, only merged to it")
    if dry_run:
        _show_plan(mine, grid.finished(mine, folder), data, folder)
        return
    failed = 0 if only_table else _run(cells, mine, data, folder, resume, drop_weights, save_steps, engine, address)
    # One process at a time, so that the last table has all finished cells.
    with locked(folder / "table", wanted=folder.is_dir(), wait=True):
        _write_table(table, cells, data, folder, fit_baselines=not only_table)
    if failed:
        raise typer.Exit(1)


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _seeds(text: str) -> list[int]:
    try:
        return [int(word) for word in _words(text)]
    except ValueError:
        raise InputError(f"seeds {text!r}: must be whole numbers separated by commas, for instance 23,42") from None


def _fractions(text: str) -> list[float]:
    try:
        return [float(word) for word in _words(text)]
    except ValueError:
        raise InputError(
            f"train fractions {text!r}: must be numbers separated by commas, for instance 0.1,0.5,1"
        ) from None


def _run(
    cells: Sequence["Cell"],
    mine: Sequence["Cell"],
    data: str,
    folder: Path,
    resume: bool,
    drop_weights: bool,
    save_steps: int | None,
    engine: str,
    address: str | None,
) -> int:
    """Runs the unfinished cells that no other process works on; returns the number of failed cells."""
    from contradiction.training.recipe import is_recorded_folder
    from paper import grid

    grid.check_free(mine, folder, resume)
    done = grid.finished(cells, folder)
    todo = [cell for cell in mine if cell.name not in done]
    for cell in todo:
        if is_recorded_folder(backbone := str(cell.recipe.model.backbone)):
            raise InputError(
                f"{cell.name}: starts from {backbone}, a folder's name and digest; name its folder, or use "
                "--only-table to leave out unfinished cells"
            )
    if len(todo) < len(mine):
        typer.echo(f"{len(mine) - len(todo)} of {len(mine)} cells are finished already", err=True)
    options: dict[str, Any] = {
        "data": data, "out": folder, "drop_weights": drop_weights, "save_steps": save_steps,
    }  # fmt: skip
    if engine == "ray":
        options |= {"data": str(Path(data).resolve()) if Path(data).is_dir() else data, "out": folder.resolve()}
        results = grid.attempts_on_ray(todo, address, **options)
    else:
        results = _attempts(cells, todo, options)
    failed = 0
    for number, (cell, (cell_failed, message)) in enumerate(results, 1):
        failed += cell_failed
        if message:
            typer.echo(message, err=True)
        elif engine == "ray":
            typer.secho(f"{number} of {len(todo)} cells: {cell.name}", bold=True, err=True)
    if failed:
        say(f"{failed} of {len(todo)} cells failed; the same command tries them again")
    return failed


def _attempts(
    cells: Sequence["Cell"], todo: Sequence["Cell"], options: Mapping[str, Any]
) -> Iterator[tuple["Cell", tuple[bool, str]]]:
    """Runs cells one after another, and prints before each how much time is left."""
    from paper import grid

    for number, cell in enumerate(todo):
        done = grid.finished(cells, options["out"])
        minutes = grid.estimate(cells, done)
        time_left = ""
        if minutes:
            remaining = sum(minutes[later.name] for later in todo[number:] if later.name not in done)
            time_left = f"; {grid.duration(remaining)} of training left"
        typer.secho(f"cell {number + 1} of {len(todo)}: {cell.name}{time_left}", bold=True, err=True)
        yield cell, grid.attempt(cell, **options)


def _show_plan(cells: Sequence["Cell"], done: Done, data: str, folder: Path) -> None:
    from contradiction.io.tables import Table
    from paper import grid

    todo = [cell for cell in cells if cell.name not in done]
    minutes, source = grid.estimate(cells, done), "measured on the finished cells on this hardware"
    if minutes is None and todo:
        source = f"estimated from {grid.STEPS} steps of each method on this machine"
        try:
            minutes = grid.measured_minutes(todo, data)
        except InputError as error:  # for instance, the backbone does not exist yet
            source = str(error)
    body = []
    for cell in cells:
        if cell.name in done:
            state, duration = "finished", ""
        else:
            partial = cell.model(folder).with_name(f"{cell.name}.partial")
            state = "unfinished, will continue" if partial.exists() or cell.model(folder).exists() else "to do"
            duration = f"{minutes[cell.name]:.1f}" if minutes else "?"
        body.append((cell.name, state, duration))
    show(Table(f"{len(cells)} cells, {len(done)} finished", ("cell", "state", "minutes"), body))
    if todo and not minutes:
        say(f"the time is unknown: {source}")
    elif todo and minutes:
        total = grid.duration(sum(minutes[cell.name] for cell in todo))
        typer.echo(f"training: {total}, {source} ({grid.hardware()}); evaluation takes additional time")


def _write_table(table: str, cells: Sequence["Cell"], data: str, folder: Path, fit_baselines: bool) -> None:
    from paper import grid
    from paper import table as tables
    from paper.cells import BY_BOT
    from paper.panels import baselines_of, configs_of, panels_of

    done = grid.finished(cells, folder)
    if not done:
        say(f"{folder}: there is no table yet, because no cell is finished")
        return
    baselines = {config: baselines_of(config, cells, data, folder, fit_baselines) for config in configs_of(cells)}
    bots = grid.bots_of(cells, data) if table == BY_BOT else None
    panels = panels_of(table, cells, done, baselines, bots)
    for panel in panels:
        show(tables.score_table(panel))
        if tests := tables.paired_test_table(panel):
            show(tests)
    written = tables.write(folder, table, cells, done, panels)
    typer.echo(f"{', '.join(map(str, written))}: written, {len(done)} of {len(cells)} cells")


if __name__ == "__main__":
    cli.main(cli.script(reproduce))
