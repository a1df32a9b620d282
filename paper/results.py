"""Adds evaluations to the saved results, and writes their page: ``python -m paper.results FILE``."""

from pathlib import Path
from typing import Annotated

import typer

from contradiction import cli
from contradiction.errors import InputError

FOLDER, PAGE = Path("models/results"), Path("models/README.md")  # in a checkout
COMPARISONS = "comparisons.csv"
# How many detectors were ever compared with an opponent. All of them count in Holm's correction, also those that the
# page does not show: otherwise a difference would become significant because others were removed.
COMPARED = {"4-class": 37, "4-class-grouped": 9}


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
        str, typer.Option(help="results, or files: the page does not show FILES, but the tables of the grid do.")
    ] = "results",
) -> None:
    """Writes the page of results with its plot, and the paired comparisons, after adding FILES to the saved results.

    An added evaluation replaces that of the same run, config and split. FILES of the crossed chats add to crossed.csv.
    """
    from contradiction.io.files import check_file, read_json, write_text
    from contradiction.io.tables import as_csv
    from paper import saved_results as saved
    from paper.comparisons import comparisons
    from paper.plots import LEADERBOARD, draw_leaderboard, leaderboard
    from paper.results_page import add_crossed, is_crossed, results_page

    out = out or (PAGE if folder == FOLDER else folder / "README.md")
    if folder == FOLDER and not folder.is_dir():
        raise InputError(f"{folder}: no such folder here; go to a checkout, or name another one with --folder")
    if page not in saved.PAGES:
        raise InputError(f"page {page!r}; allowed are {', '.join(saved.PAGES)}")
    crossed = [file for file in files or [] if file.is_file() and is_crossed(read_json(file))]
    if others := [file for file in files or [] if file not in crossed]:
        saved.add(saved.read_files(others), folder, page=page)
    add_crossed(folder, map(read_json, crossed))
    if not (evaluations := saved.published(folder)):
        raise InputError(f"{folder}: no such folder, or no results in it; name files of `cdconv evaluate --json`")
    check_file(out)
    made = COMPARED if folder == FOLDER else {}
    rows = [row for config in COMPARED for row in comparisons(evaluations, config, made=made.get(config, 0))]
    write_text(folder / COMPARISONS, as_csv(rows))
    if panels := leaderboard(evaluations):
        draw_leaderboard(panels, out.with_name(LEADERBOARD))
    write_text(out, results_page(folder))
    print(f"{out}: written from {folder}")


if __name__ == "__main__":
    cli.main(cli.script(results))
