"""The page of results, ``models/README.md``, and evaluations that are added to it: ``python -m paper.results FILE``."""

import csv
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from contradiction import cli
from contradiction.errors import InputError
from contradiction.evaluation import results as saved
from contradiction.evaluation import sets
from contradiction.evaluation.figures import RESAMPLES
from contradiction.io.files import check_file, write_text
from contradiction.io.tables import Table, render, with_interval
from contradiction.labels import GROUPED
from contradiction.paths import RESULTS, SHIPPED
from paper import saved_results
from paper.comparisons import comparisons

FOLDER, PAGE = Path("models/results"), Path("models/README.md")  # in a checkout
COMPARISONS = "comparisons.csv"
# How many detectors were once compared with an opponent, and are not on the page any more. They count in Holm's
# correction too: otherwise a difference would become significant because others were removed.
REMOVED = {"4-class": 28, "4-class-grouped": 5}
CROSSED = "crossed.csv"
HEADER = ("detector", "parameters", "4-class", "2-class")


def results_page(folder: str | Path = RESULTS) -> str:
    """The page of results, made from the saved evaluations in a folder."""
    evaluations = saved_results.published(folder)
    crossed = {
        row["detector"]: with_interval(float(row["in_order"]), (float(row["low"]), float(row["high"])))
        for row in _read_crossed(Path(folder))
    }
    tables = {
        "Official split": result_table(evaluations, "4-class", crossed),
        "Grouped split": result_table(evaluations, f"4-class{GROUPED}", {}),
    }
    return render(
        "results.md",
        templates=Path(__file__).parent,
        folder=Path(folder).resolve().name,
        tables={title: table for title, table in tables.items() if table.rows},
        resamples=RESAMPLES,
        others=len({result["name"] for result in saved.load(folder)}) - len({result["name"] for result in evaluations}),
    )


def _read_crossed(folder: Path) -> list[dict[str, str]]:
    file = folder / CROSSED
    if not file.is_file():
        return []
    with file.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def add_crossed(folder: Path, evaluations: Iterable[Mapping[str, Any]]) -> None:
    """Adds how often a detector puts the replies to a crossed chat in order, with its interval, to ``crossed.csv``.

    Raises:
        InputError: an evaluation is on other rows than those of the test split; nothing is written then.
    """
    rows = {row["detector"]: row for row in _read_crossed(folder)}
    if evaluations := [*evaluations]:
        whole = sets.load("crossed", split="test").data
    for result in evaluations:
        if result.get("data") != whole:
            raise InputError(f"{result['name']}: not on all rows of the crossed test split; evaluate without --limit")
        figures = (result["metrics"]["in_order"], *result["metrics"]["interval"]["in_order"])
        values = {key: f"{value:.3f}" for key, value in zip(("in_order", "low", "high"), figures, strict=True)}
        rows[result["name"]] = {"detector": result["name"], **values}
    if rows:
        write_text(folder / CROSSED, saved_results.as_csv([*rows.values()]))


def result_table(evaluations: Sequence[Mapping[str, Any]], config: str, crossed: Mapping[str, str]) -> Table:
    """Macro-F1 on the test split with 95 % intervals, a row for each detector and baseline, the best first.

    For two classes, the labels of a detector of four classes are merged. A model that was fitted to two classes, and
    every baseline, has the score of its own labels.
    """
    two = config.replace("4-class", "2-class")
    tests = {
        (result["name"], result["config"]): result
        for name in (config, two)
        for result in _on_same_rows([r for r in evaluations if (r["config"], r["split"]) == (name, "test")])
    }
    body: list[tuple[float, list[str]]] = []
    for name in dict.fromkeys(name for name, _ in tests):
        four, own = tests.get((name, config)), tests.get((name, two))
        result = four or own
        assert result is not None
        merged = own if own and (result["kind"] == saved.BASELINE or not four) else None
        run = result.get("run") or {}
        cells = [
            f"{name}, shipped" if name == SHIPPED.name else name,
            f"{run['parameters'] / 1e6:.0f} M" if run.get("parameters") else "",
            _macro_f1(four["metrics"]) if four else "",
            _macro_f1(merged["metrics"] if merged else result["metrics"]["two_class"]),
            *([crossed.get(name, "")] if crossed else []),
        ]
        body.append((four["metrics"]["macro_f1"] if four else -1.0, cells))
    rows = [cells for _, cells in sorted(body, key=lambda row: (-row[0], row[1]))]
    n = next((result["metrics"]["n"] for (_, found), result in tests.items() if found == config), 0)
    header = (*HEADER, "crossed, in order") if crossed else HEADER
    return Table(f"n = {n:,}", header, rows)


def _on_same_rows(evaluations: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The evaluations on the rows that most of them are on."""
    [(rows, _)] = Counter(result["data"] for result in evaluations).most_common(1) or [("", 0)]
    return [result for result in evaluations if result["data"] == rows]


def _macro_f1(metrics: Mapping[str, Any]) -> str:
    return with_interval(metrics["macro_f1"], metrics["interval"]["macro_f1"])


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
    """Writes the page of results, and the paired comparisons, after adding FILES to the saved results.

    An added evaluation replaces that of the same run, config and split. FILES of the crossed chats add to crossed.csv.
    """
    published = folder.resolve() in (FOLDER.resolve(), Path(RESULTS).resolve())  # however the folder is spelled
    if out is None:
        out = PAGE if folder == FOLDER else (folder.resolve().parent if published else folder) / PAGE.name
    if published and not folder.is_dir():
        raise InputError(f"{folder}: no such folder here; go to a checkout, or name another one with --folder")
    if page not in saved_results.PAGES:
        raise InputError(f"page {page!r}; allowed are {', '.join(saved_results.PAGES)}")
    added = saved_results.read_files(files or [])
    if others := [result for result in added if not saved_results.is_crossed(result)]:
        saved_results.add(others, folder, page=page)
    add_crossed(folder, filter(saved_results.is_crossed, added))
    if not (evaluations := saved_results.published(folder)):
        raise InputError(f"{folder}: no such folder, or no results in it; name files of `cdconv evaluate --json`")
    check_file(out)
    removed = REMOVED if published else {}
    rows = [row for config in REMOVED for row in comparisons(evaluations, config, removed=removed.get(config, 0))]
    write_text(folder / COMPARISONS, saved_results.as_csv(rows))
    write_text(out, results_page(folder))
    print(f"{out}: written from {folder}")


if __name__ == "__main__":
    cli.main(cli.script(results))
