"""The table of a grid: its finished cells as lines beside the artefact baselines, in Markdown, CSV and a plot."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any

from contradiction import results
from contradiction.cards import render
from contradiction.files import write_text
from contradiction.labels import LABELS, task_of
from contradiction.reproduction import plot as plots
from contradiction.reproduction.comparison import Contrast, Line, contrasts, merged_run_of, run_of
from contradiction.reproduction.grid import ARTEFACTS, CURVE, METHODS, TABLES, Cell
from contradiction.tables import Table, interval, percent, signed, signed_interval

# What the paper reports: test macro-F1 on the official split.
PAPER = {"2-class": ("paper: hierarchical", 0.781), "4-class": ("paper: hierarchical", 0.593)}
AGAINST = ("sentence-pair", "hierarchical")  # the methods that all others are tested against
LEVEL = 0.05


@dataclass(frozen=True)
class Panel:
    """All that is said about one config.

    Attributes:
        config: that is predicted, on its test split.
        n: rows of that split.
        lines: the methods.
        baselines: the artefact baselines on the same rows.
        contrasts: the paired tests between methods.
        paper: the name and macro-F1 of the paper's best method, where the rows are the paper's.
    """

    config: str
    n: int
    lines: tuple[Line, ...]
    baselines: tuple[Line, ...]
    contrasts: tuple[Contrast, ...]
    paper: tuple[str, float] | None


def configs_of(cells: Sequence[Cell]) -> list[str]:
    """The configs that a grid says something about: those of its cells, and 2-class by merging 4-class labels."""
    found = {cell.config for cell in cells} | {_merged(cell.config) for cell in cells}
    return sorted(found, key=lambda config: (config.endswith("grouped"), config))


def _merged(config: str) -> str:
    return config.replace("4-class", "2-class")


def panels(
    table: str,
    cells: Sequence[Cell],
    done: Mapping[str, Mapping[str, Any]],
    baselines: Mapping[str, Sequence[Mapping[str, Any]]],
    bootstrap: int = results.RESAMPLES,
) -> list[Panel]:
    """The finished cells of a grid, config by config; a config of which nothing is finished has no panel.

    Args:
        table: a key of ``TABLES``.
        cells: the whole grid.
        done: the kept test evaluations, by the cell's name.
        baselines: config -> kept evaluations of the artefact baselines on its test split.
        bootstrap: resamples of the paired tests.
    """
    found = []
    nli = {cell.start for cell in cells if cell.nli}
    for config in configs_of(cells):
        lines = _lines(table, cells, done, config)
        if not lines:
            continue
        beside = [Line(each["name"], "", "", "baseline", (run_of(each),), 1) for each in baselines.get(config, ())]
        tested = contrasts(_pairs(table, lines, nli), task_of(config), bootstrap)
        release = all(cell.request.get("data_name", "CDConv") == "CDConv" for cell in cells)
        n = lines[0].runs[0].metrics["n"]
        paper = PAPER.get(config) if release else None
        found.append(Panel(config, n, tuple(lines), tuple(beside), tuple(tested), paper))
    return found


def _lines(table: str, cells: Sequence[Cell], done: Mapping[str, Mapping[str, Any]], config: str) -> list[Line]:
    groups: dict[tuple[str, str, str, float], list[Cell]] = {}
    for cell in cells:
        if cell.config == config:
            kind = "trained" if cell.trained else "zero-shot"
        elif _merged(cell.config) == config:
            kind = "merged"
        else:
            continue
        groups.setdefault((cell.method, cell.start, kind, cell.recipe.share), []).append(cell)
    kinds, methods = ["zero-shot", "trained", "merged"], list(METHODS)
    lines = []
    for key in sorted(groups, key=lambda key: (kinds.index(key[2]), methods.index(key[0]), key[3])):
        (method, start, kind, share), group = key, groups[key]
        read = merged_run_of if kind == "merged" else run_of
        if runs := tuple(read(done[cell.name]) for cell in group if cell.name in done):
            name = _name(table, *key)
            lines.append(Line(name, method, start, kind, runs, len(group), share, group[0].rows))
    return lines


def _name(table: str, method: str, start: str, kind: str, share: float) -> str:
    if kind == "zero-shot":
        return f"zero-shot {start}, {method}"
    return "".join(
        (
            method,
            " (artefact baseline)" if method in ARTEFACTS else "",
            f" from {start}" if table == "table5" else "",
            f", {100 * share:g} % of the rows" if table == CURVE else "",
            ", 4-class merged" if kind == "merged" else "",
        )
    )


def _pairs(table: str, lines: Sequence[Line], nli: set[str]) -> list[tuple[Line, Line]]:
    """Which lines are tested against each other.

    Methods against two of them; with the NLI stage against without; a share of the rows against the next smaller one.
    """
    if table == CURVE:  # where the shares of a method and kind stand one after the other, from the smallest
        return [
            (line, other) for other, line in pairwise(lines) if (line.method, line.kind) == (other.method, other.kind)
        ]
    if table == "table5":
        return [
            (line, other)
            for line in lines
            for other in lines
            if (line.method, line.kind) == (other.method, other.kind) and line.start in nli and other.start not in nli
        ]
    pairs: dict[frozenset[str], tuple[Line, Line]] = {}
    for method in AGAINST:
        # Trained lines stand before merged ones.
        if against := next((line for line in lines if line.method == method), None):
            for line in lines:
                if line is not against:
                    pairs.setdefault(frozenset((line.name, against.name)), (line, against))
    return list(pairs.values())


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
    return Table(f"{panel.config}, test split, n = {panel.n:,}", header, body)


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
    return Table(f"{panel.config}: paired tests", header, body)


def write(
    out: str | Path, table: str, cells: Sequence[Cell], done: Mapping[str, Mapping[str, Any]], found: Sequence[Panel]
) -> list[Path]:
    """Writes ``table.md``, ``table.csv`` and ``table.png``, or ``learning-curve.md`` and so on; gives their paths.

    The learning curve has names of its own, so that it can stand in the folder of the table whose cells it shares.
    """
    out, stem = Path(out), CURVE if table == CURVE else "table"
    page = render(
        "reproduction.md",
        title=TABLES[table],
        table=table,
        plot=f"{stem}.png",
        artefacts=any(cell.method in ARTEFACTS for cell in cells),
        panels=[(panel, score_table(panel), contrast_table(panel)) for panel in found],
        data=next((cell.request["data_name"] for cell in cells if cell.trained), ""),
        starts=list(dict.fromkeys(cell.start for cell in cells)),
        seeds=list(dict.fromkeys(str(cell.seed) for cell in cells if cell.trained)),
        settings=_settings(cells),
        finished=len(done),
        missing=[cell.name for cell in cells if cell.name not in done],
        runs=_run_table(cells, done),
        resamples=results.RESAMPLES,
        level=LEVEL,
    )
    write_text(out / f"{stem}.md", page)
    write_text(out / f"{stem}.csv", _csv(found))
    (plots.curve_plot if table == CURVE else plots.method_plot)(found, TABLES[table], out / f"{stem}.png")
    return [out / f"{stem}.{kind}" for kind in ("md", "csv", "png")]


def _settings(cells: Sequence[Cell]) -> dict[str, str]:
    """The values that all recipes of a grid share, of those that matter most."""
    keys = ("epochs", "batch_size", "learning_rate", "precision")
    found = {key: {str(getattr(cell.recipe, key)) for cell in cells if cell.trained} for key in keys}
    return {key.replace("_", " "): values.pop() for key, values in found.items() if len(values) == 1}


def _run_table(cells: Sequence[Cell], done: Mapping[str, Mapping[str, Any]]) -> Table:
    groups: dict[tuple[str, str, str, int], list[Mapping[str, Any]]] = {}
    for cell in cells:
        if cell.trained and cell.name in done:
            groups.setdefault((cell.method, cell.config, cell.start, cell.rows), []).append(done[cell.name]["run"])
    body = [
        (
            f"{method}, {config}, from {start}",
            f"{rows:,}",
            f"{runs[0]['parameters'] / 1e6:.1f} M",
            f"{sum(run['minutes'] for run in runs) / len(runs):.1f}",
            ", ".join(sorted({run["hardware"] for run in runs})),
        )
        for (method, config, start, rows), runs in groups.items()
    ]
    return Table("Runs", ("trained", "rows", "parameters", "minutes a run", "hardware"), body)


def _csv(found: Sequence[Panel]) -> str:
    """One row a figure, as fractions; the bounds are empty where the metric gives none."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        ("config", "method", "kind", "start", "figure", "label", "mean", "sd", "low", "high", "runs", "rows")
    )
    for panel in found:
        for line in (*panel.lines, *panel.baselines):
            figures: list[tuple[str, str | None]] = [("macro_f1", None), ("accuracy", None)]
            figures += [
                (name, label) for label in LABELS[task_of(panel.config)] for name in ("precision", "recall", "f1")
            ]
            for figure, label in figures:
                deviation = line.deviation(figure, label)
                bounds = ("", "") if label else tuple(f"{each:.6f}" for each in line.interval(figure))
                writer.writerow(
                    (
                        panel.config, line.method or line.name, line.kind, line.start, figure, label or "",
                        f"{line.mean(figure, label):.6f}", "" if deviation is None else f"{deviation:.6f}", *bounds,
                        len(line.runs), line.rows or "",
                    )
                )  # fmt: skip
    return text.getvalue()
