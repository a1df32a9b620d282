"""The table of a grid, in Markdown, CSV and a plot."""

import csv
from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

from contradiction.evaluation import results
from contradiction.evaluation.paired_tests import Line
from contradiction.io.files import write_text
from contradiction.io.tables import Table, interval, percent, signed, signed_interval
from contradiction.io.templates import render
from contradiction.labels import LABELS, task_of
from contradiction.reports.panel import Panel
from contradiction.reproduction import plot as plots
from contradiction.reproduction.cells import ARTEFACTS, CURVE, TABLES, VARIED, Cell
from contradiction.training.recipe import Recipe

LEVEL = 0.05

MATTER = ("epochs", "batch_size", "learning_rate", "precision")  # of a recipe, whatever their values


def score_table(panel: Panel) -> Table:
    """Macro-F1, the F1 of each class and accuracy of each line: mean and standard deviation over its runs."""
    labels = LABELS[task_of(panel.config)]
    header = ("method", "macro-F1", "95 % interval", *(f"F1 {label}" for label in labels), "accuracy", "runs")
    body = [
        (
            line.name,
            _spread(line, "macro_f1"),
            interval(line.interval("macro_f1")),
            *(_spread(line, "f1", label) for label in labels),
            _spread(line, "accuracy"),
            "" if line.kind == "baseline" else f"{len(line.runs)} of {line.asked}",
        )
        for line in (*panel.lines, *panel.baselines)
    ]
    if panel.paper:
        name, macro_f1 = panel.paper
        body.append((name, percent(macro_f1), *[""] * (len(header) - 2)))
    return Table(panel.title, header, body)


def _spread(line: Line, figure: str, label: str | None = None) -> str:
    deviation = line.deviation(figure, label)
    mean = percent(line.mean(figure, label))
    return mean if deviation is None else f"{mean} ± {percent(deviation)}"


def contrast_table(panel: Panel) -> Table | None:
    """The paired tests; None where there are none."""
    if not panel.contrasts:
        return None
    header = ("macro-F1 of … above that of …", "difference", "95 % interval", "p", "p, Holm", "seeds")
    body = [
        (
            f"{each.line} – {each.against}",
            signed(each.difference),
            signed_interval(each.interval),
            f"{each.p_value:.3f}",
            f"{each.adjusted:.3f}",
            str(each.seeds),
        )
        for each in panel.contrasts
    ]
    return Table(f"{panel.title}: paired tests", header, body)


def write(
    out: str | Path, table: str, cells: Sequence[Cell], done: Mapping[str, Mapping[str, Any]], found: Sequence[Panel]
) -> list[Path]:
    """Writes the page, the CSV and the picture of a table, as ``table4.md`` and so on; gives their paths.

    Tables that share cells can so stand in one folder.
    """
    out = Path(out)
    page = render(
        "reproduction.md",
        title=TABLES[table],
        table=table,
        plot=f"{table}.png",
        artefacts=any(cell.method in ARTEFACTS for cell in cells),
        panels=[(panel, score_table(panel), contrast_table(panel)) for panel in found],
        data=next((cell.request["data_name"] for cell in cells if cell.trained), ""),
        starts=list(dict.fromkeys(cell.start for cell in cells)),
        seeds=list(dict.fromkeys(str(cell.seed) for cell in cells if cell.trained)),
        settings=_settings(cells),
        several=any(len(line.runs) > 1 for panel in found for line in panel.lines),
        only_merged=_only_merged(found),
        finished=len(done),
        missing=[cell.name for cell in cells if cell.name not in done],
        runs=_run_table(cells, done),
        resamples=results.RESAMPLES,
        level=LEVEL,
    )
    write_text(out / f"{table}.md", page)
    write_text(out / f"{table}.csv", _csv(found))
    (plots.curve_plot if table == CURVE else plots.method_plot)(found, TABLES[table], out / f"{table}.png")
    return [out / f"{table}.{kind}" for kind in ("md", "csv", "png")]


def _only_merged(found: Sequence[Panel]) -> list[str]:
    """The configs on whose labels no run was trained."""
    kinds: dict[str, set[str]] = {}
    for panel in found:
        kinds.setdefault(panel.config, set()).update(line.kind for line in panel.lines)
    return [config for config, each in kinds.items() if each == {"merged"}]


def _settings(cells: Sequence[Cell]) -> dict[str, str]:
    """The values that matter most, and those that are not a recipe's default, of what the table does not vary."""
    recipes = [cell.recipe for cell in cells if cell.trained]
    others = [
        key
        for key, field in Recipe.model_fields.items()
        if key not in (*VARIED, *MATTER, "base_model") and any(getattr(each, key) != field.default for each in recipes)
    ]
    found = {key: dict.fromkeys(str(getattr(each, key)) for each in recipes) for key in (*MATTER, *others)}
    return {key.replace("_", " "): " or ".join(values) for key, values in found.items() if values}


def _run_table(cells: Sequence[Cell], done: Mapping[str, Mapping[str, Any]]) -> Table:
    groups: dict[tuple[str, str, str, str, int, int], list[Mapping[str, Any]]] = {}
    for cell in cells:
        if cell.trained and cell.name in done:
            key = (cell.method, cell.config, cell.start, cell.recipe.bot or "", cell.rows, cell.recipe.epochs)
            groups.setdefault(key, []).append(done[cell.name]["run"])
    body = [
        (
            f"{method}, {config}, from {start}{f', {bot} alone' if bot else ''}",
            f"{rows:,}",
            str(epochs),
            f"{runs[0]['parameters'] / 1e6:.1f} M",
            f"{sum(run['minutes'] for run in runs) / len(runs):.1f}",
            " / ".join(sorted({run["hardware"] for run in runs})),
        )
        for (method, config, start, bot, rows, epochs), runs in groups.items()
    ]
    return Table("Runs", ("trained", "rows", "epochs", "parameters", "minutes of training", "hardware"), body)


def _csv(found: Sequence[Panel]) -> str:
    """One row a figure, as fractions; bounds are empty where the metric gives none, bots where all rows are meant."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        (
            "config",
            "bot",
            "method",
            "trained_on",
            "kind",
            "start",
            "figure",
            "label",
            "mean",
            "sd",
            "low",
            "high",
            "runs",
            "rows",
        )
    )
    for panel in found:
        for line in (*panel.lines, *panel.baselines):
            method = line.name if line.kind == "baseline" else line.method
            figures: list[tuple[str, str | None]] = [("macro_f1", None), ("accuracy", None)]
            figures += [
                (name, label) for label in LABELS[task_of(panel.config)] for name in ("precision", "recall", "f1")
            ]
            for figure, label in figures:
                deviation = line.deviation(figure, label)
                bounds = ("", "") if label else tuple(f"{each:.6f}" for each in line.interval(figure))
                writer.writerow(
                    (
                        panel.config, panel.bot, method, line.bot, line.kind, line.start, figure,
                        label or "",
                        f"{line.mean(figure, label):.6f}", "" if deviation is None else f"{deviation:.6f}", *bounds,
                        len(line.runs), line.rows or "",
                    )
                )  # fmt: skip
    return text.getvalue()
