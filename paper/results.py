"""Adds evaluations to the saved results, and writes their page: ``python -m paper.results FILE``."""

from pathlib import Path
from typing import Annotated

import typer

from contradiction import cli
from contradiction.errors import InputError

FOLDER, PAGE = Path("models/results"), Path("models/README.md")  # in a checkout
COMPARISONS = "comparisons.csv"


def results(
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="Files that `cdconv evaluate --json` wrote, or folders of them, to add first."),
    ] = None,
    folder: Annotated[Path, typer.Option(help="The folder of saved results.")] = FOLDER,
    out: Annotated[
        Path | None, typer.Option(help="The page to write.", show_default=f"{PAGE}, or README.md in another folder")
    ] = None,
    page: Annotated[
        str, typer.Option(help="results, or reproduction: only the tables of `python -m paper.reproduce` show FILES.")
    ] = "results",
) -> None:
    """Writes the page of results with its plot, and the paired comparisons, after adding FILES to the saved results.

    An added evaluation replaces that of the same run, config and split.
    """
    from contradiction.io.files import check_file, write_text
    from contradiction.io.tables import as_csv
    from paper import saved_results as saved
    from paper.comparisons import comparisons
    from paper.plots import LEADERBOARD, draw_leaderboard, leaderboard
    from paper.results_page import results_page

    out = out or (PAGE if folder == FOLDER else folder / "README.md")
    if folder == FOLDER and not folder.is_dir():
        raise InputError(f"{folder}: no such folder here; go to a checkout, or name another one with --folder")
    if page not in saved.PAGES:
        raise InputError(f"page {page!r}; allowed are {', '.join(saved.PAGES)}")
    if files:
        saved.add(saved.read_files(files), folder, page=page)
    if not (evaluations := saved.published(folder)):
        raise InputError(f"{folder}: no such folder, or no results in it; name files of `cdconv evaluate --json`")
    check_file(out)
    rows = [row for config in ("4-class", "4-class-grouped") for row in comparisons(evaluations, config)]
    write_text(folder / COMPARISONS, as_csv(rows))
    if panels := leaderboard(evaluations):
        draw_leaderboard(panels, out.with_name(LEADERBOARD))
    write_text(out, results_page(folder))
    print(f"{out}: written from {folder}")


if __name__ == "__main__":
    cli.main(cli.script(results))
