"""The table of a grid, written as Markdown, CSV and a plot."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from contradiction.evaluation.figures import RESAMPLES
from contradiction.io.files import write_text
from contradiction.io.tables import Table, interval, percent, render
from contradiction.labels import LABELS, task_of
from contradiction.training.recipe import FULL_NAMES
from paper.cells import CURVE, METHODS, TABLES, VARIED, Cell
from paper.paired_tests import COMPARISON, MethodRuns
from paper.plots import Panel, curve_plot, method_plot
from paper.saved_results import as_csv

LEVEL = 0.05
SHOWN = ("epochs", "batch_size", "learning_rate", "precision")  # recipe options that the page always shows


def score_table(panel: Panel) -> Table:
    """Macro-F1, the F1 of each class and accuracy of each method: mean and standard deviation over its runs."""
    labels = LABELS[task_of(panel.config)]
    header = ("method", "macro-F1", "95 % interval", *(f"F1 {label}" for label in labels), "accuracy", "runs")
    body = [
        (
            method.name,
            _mean_and_deviation(method, "macro_f1"),
            interval(method.interval("macro_f1")),
            *(_mean_and_deviation(method, "f1", label) for label in labels),
            _mean_and_deviation(method, "accuracy"),
            "" if method.kind == "baseline" else f"{len(method.runs)} of {method.planned}",
        )
        for method in (*panel.methods, *panel.baselines)
    ]
    if panel.paper:
        name, macro_f1 = panel.paper
        body.append((name, percent(macro_f1), *[""] * (len(header) - 2)))
    return Table(panel.title, header, body)


def _mean_and_deviation(method: MethodRuns, figure: str, label: str | None = None) -> str:
    deviation = method.deviation(figure, label)
    mean = percent(method.mean(figure, label))
    return mean if deviation is None else f"{mean} ± {percent(deviation)}"


def test_table(panel: Panel) -> Table | None:
    """The paired tests; None where there are none."""
    if not panel.tests:
        return None
    header = ("macro-F1 of … above that of …", *COMPARISON, "seeds")
    body = [(f"{test.name} – {test.against}", *test.cells(), str(test.seeds)) for test in panel.tests]
    return Table(f"{panel.title}: paired tests", header, body)


def write(
    out: str | Path, table: str, cells: Sequence[Cell], done: Mapping[str, Mapping[str, Any]], panels: Sequence[Panel]
) -> list[Path]:
    """Writes the page, the CSV and the plot of a table.

    Their names contain that of the table, so tables that share cells can share a folder.

    Returns:
        The paths of the three files.
    """
    out = Path(out)
    page = render(
        "reproduction.md",
        templates=Path(__file__).parent,
        title=TABLES[table],
        table=table,
        plot=f"{table}.png",
        artefacts=any(not METHODS[cell.method].paper for cell in cells),
        panels=[(panel, score_table(panel), test_table(panel)) for panel in panels],
        data=next((cell.request["data_name"] for cell in cells if cell.trained), ""),
        starts=list(dict.fromkeys(cell.checkpoint for cell in cells)),
        seeds=list(dict.fromkeys(str(cell.seed) for cell in cells if cell.trained)),
        settings=_settings(cells),
        several=any(len(method.runs) > 1 for panel in panels for method in panel.methods),
        finished=len(done),
        missing=[cell.name for cell in cells if cell.name not in done],
        runs=_run_table(cells, done),
        resamples=RESAMPLES,
        level=LEVEL,
    )
    write_text(out / f"{table}.md", page)
    write_text(out / f"{table}.csv", as_csv(list(_csv_rows(panels))))
    (curve_plot if table == CURVE else method_plot)(panels, TABLES[table], out / f"{table}.png")
    return [out / f"{table}.{kind}" for kind in ("md", "csv", "png")]


def _settings(cells: Sequence[Cell]) -> dict[str, str]:
    """The recipe options in ``SHOWN``, and those without their default that the table does not vary."""
    recipes = [cell.recipe for cell in cells if cell.trained]
    options, given = [recipe.options() for recipe in recipes], {name for recipe in recipes for name in recipe.changed()}
    changed = [
        key
        for key, name in FULL_NAMES.items()
        if key not in (*SHOWN, "base_model") and name in given and name not in VARIED
    ]
    values = {key: dict.fromkeys(str(option[key]) for option in options) for key in (*SHOWN, *changed)}
    return {key.replace("_", " "): " or ".join(distinct) for key, distinct in values.items() if distinct}


def _run_table(cells: Sequence[Cell], done: Mapping[str, Mapping[str, Any]]) -> Table:
    groups: dict[tuple[str, str, str, str, int, int], list[Mapping[str, Any]]] = {}
    for cell in cells:
        if cell.trained and cell.name in done:
            bot, epochs = cell.recipe.data.bot or "", cell.recipe.optimizer.epochs
            key = (cell.method, cell.config, cell.checkpoint, bot, cell.rows, epochs)
            groups.setdefault(key, []).append(done[cell.name]["run"])
    body = [
        (
            f"{method}, {config}, from {checkpoint}{f', {bot} alone' if bot else ''}",
            f"{rows:,}",
            str(epochs),
            f"{runs[0]['parameters'] / 1e6:.1f} M",
            f"{sum(run['minutes'] for run in runs) / len(runs):.1f}",
            " / ".join(sorted({run["hardware"] for run in runs})),
        )
        for (method, config, checkpoint, bot, rows, epochs), runs in groups.items()
    ]
    return Table("Runs", ("trained", "rows", "epochs", "parameters", "minutes of training", "hardware"), body)


def _csv_rows(panels: Sequence[Panel]) -> Iterator[dict[str, Any]]:
    """A row for each figure, as a fraction. Bounds are empty where the metric has none, and ``bot`` for all rows."""
    methods = [(panel, method) for panel in panels for method in (*panel.methods, *panel.baselines)]
    for panel, method in methods:
        labels = LABELS[task_of(panel.config)]
        figures: list[tuple[str, str | None]] = [("macro_f1", None), ("accuracy", None)]
        figures += [(figure, label) for label in labels for figure in ("precision", "recall", "f1")]
        for figure, label in figures:
            deviation = method.deviation(figure, label)
            low, high = (None, None) if label else (f"{bound:.6f}" for bound in method.interval(figure))
            yield {
                "config": panel.config,
                "bot": panel.bot,
                "method": method.name if method.kind == "baseline" else method.method,
                "trained_on": method.bot,
                "kind": method.kind,
                "start": method.checkpoint,
                "figure": figure,
                "label": label,
                "mean": f"{method.mean(figure, label):.6f}",
                "sd": None if deviation is None else f"{deviation:.6f}",
                "low": low,
                "high": high,
                "runs": len(method.runs),
                "rows": method.rows or None,
            }
