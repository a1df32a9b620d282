"""The commands ``cdconv backbone ...``."""

from pathlib import Path
from typing import Annotated

import typer

from contradiction.commands.terminal import progress, show

app = typer.Typer(help="Makes backbones fit what they are used for.", no_args_is_help=True)


@app.callback()
def _backbone() -> None:
    # With a callback, a single command keeps its name.
    pass


@app.command("prune")
def prune_(
    backbone: Annotated[str, typer.Argument(help="Folder or Hub id of an encoder.")],
    corpus: Annotated[list[Path], typer.Option(help="A text file, JSON lines, or a data repo; may be given again.")],
    out: Annotated[Path, typer.Option(help="The folder to write.")],
    keep: Annotated[int | None, typer.Option(min=1, help="Pieces at most, the most used.")] = None,
    min_count: Annotated[int | None, typer.Option(min=1, help="How often a piece must be used. By default 1.")] = None,
) -> None:
    """Cuts a multilingual backbone's vocabulary to what a corpus needs: the same scores from fewer parameters."""
    from contradiction.io.tables import Table
    from contradiction.training.pruning import prune
    from contradiction.training.pruning_corpus import read_texts

    with progress("reading texts, twice") as bar:
        task = bar.add_task("", total=None)
        done = prune(
            backbone,
            lambda: read_texts(corpus),
            out,
            keep=keep,
            min_count=min_count,
            on_texts=lambda texts: bar.advance(task, texts),
        )
    sizes = (("before", done.before), ("after", done.after))
    rows = [(name, f"{size.pieces:,}", f"{size.parameters:,}", f"{size.bytes / 1e6:.1f}") for name, size in sizes]
    show(Table(str(out), ("", "pieces", "parameters", "MB"), rows))
    typer.echo(f"{done.unchanged:,} of {done.texts:,} texts are tokenised as before")
