"""``python -m paper.results``: the page of results, and evaluations added to the saved results."""

from pathlib import Path
from typing import Annotated

import typer

from contradiction.cli import main
from contradiction.commands.common import SHOWN_RESULTS, ResultsOption
from contradiction.errors import InputError
from contradiction.paths import RESULTS

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Writes the page of results from the saved results, or adds evaluations to them.",
)
PAGE = Path("models/README.md")


@app.callback(invoke_without_command=True)
def results(
    context: typer.Context,
    out: Annotated[Path | None, typer.Option(help="The page to write.", show_default=f"{PAGE}, in a checkout")] = None,
    folder: ResultsOption = RESULTS,
) -> None:
    """Writes the page of results and its plot from the saved results."""
    if context.invoked_subcommand:
        return
    from contradiction.evaluation.results import published
    from contradiction.io.files import check_file, write_text
    from paper.plots import LEADERBOARD, draw_leaderboard, leaderboard
    from paper.results_page import results_page

    if out:
        check_file(out)
    if not (evaluations := published(folder)):
        raise InputError(f"{folder}: no such folder, or no results in it; `python -m paper.results add FILE` adds some")
    if out is None:
        out = PAGE
        if not Path(SHOWN_RESULTS).is_dir():
            raise InputError(f"{PAGE}: there is no {SHOWN_RESULTS} here; go to a checkout, or name the page with --out")
    if panels := leaderboard(evaluations):
        draw_leaderboard(panels, out.with_name(LEADERBOARD))
    write_text(out, results_page(folder))
    typer.echo(f"{out}: written from {folder}")


@app.command("add")
def add(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Files that `cdconv evaluate --json` or `cdconv contrast --json` wrote, or folders of them."
        ),
    ],
    folder: ResultsOption = RESULTS,
    page: Annotated[
        str,
        typer.Option(
            help="The page that shows them: results, or reproduction (only the tables of `python -m paper.reproduce`)."
        ),
    ] = "results",
) -> None:
    """Adds evaluations to the saved results. They replace evaluations of the same run, config and split."""
    from contradiction.evaluation import contrast
    from contradiction.evaluation import results as saved

    if page not in saved.PAGES:
        raise InputError(f"page {page!r}; allowed are {', '.join(saved.PAGES)}")
    evaluations, counts = saved.read_files(files)
    if evaluations:
        saved.add(evaluations, folder, page=page)
    if counts:
        contrast.add(counts, folder)
    typer.echo(f"{folder}: {len(evaluations)} evaluations and {len(counts)} counts of contrast pairs added")


if __name__ == "__main__":
    main(app)
