"""What a grid says, config by config: its finished cells as lines beside the baselines, and the paired tests."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from contradiction.evaluation import results
from contradiction.evaluation.paired_tests import Line, Run, contrasts, merged_run_of, part_of, run_of
from contradiction.labels import BOTS, merged_config, task_of
from contradiction.reports.panel import PAPER, Panel
from contradiction.reproduction.baselines import VIEW
from contradiction.reproduction.cells import ARTEFACTS, BY_BOT, CURVE, METHODS, Cell, of_rows

AGAINST = ("sentence-pair", "hierarchical")  # the methods that all others are tested against


def configs_of(cells: Sequence[Cell]) -> list[str]:
    """The configs that a grid says something about: those of its cells, and 2-class by merging 4-class labels."""
    found = {cell.config for cell in cells} | {merged_config(cell.config) for cell in cells}
    return sorted(found, key=lambda config: (config.endswith("grouped"), config))


def panels_of(
    table: str,
    cells: Sequence[Cell],
    done: Mapping[str, Mapping[str, Any]],
    baselines: Mapping[str, Sequence[Mapping[str, Any]]],
    bots: Mapping[int, str] | None = None,
    bootstrap: int = results.RESAMPLES,
) -> list[Panel]:
    """The finished cells of a grid, config by config; a config of which nothing is finished has no panel.

    Where bots are left out, a config has a panel for the replies of each that its test split has any of.

    Args:
        table: a key of ``TABLES``.
        cells: the whole grid.
        done: the kept test evaluations, by the cell's name.
        baselines: config -> kept evaluations of the artefact baselines on its test split, see
            ``contradiction.reproduction.baselines``.
        bots: whose reply a test row is, by its id; for the table ``bots``.
        bootstrap: resamples of the paired tests, and of the figures on a part of the rows.
    """
    found = []
    tested = BOTS if table == BY_BOT else ("",)
    nli = {cell.start for cell in cells if cell.nli}
    for config in configs_of(cells):
        lines = _lines(table, cells, done, config)
        if not lines:
            continue
        beside = _baselines(baselines.get(config, ()))
        release = all(cell.request.get("data_name", "CDConv") == "CDConv" for cell in cells)
        for bot in tested:
            ids = {number for number, its in (bots or {}).items() if its == bot}
            if bot and ids.isdisjoint(lines[0].runs[0].ids):
                continue
            shown, others = (_on(each, ids, config, bootstrap) if bot else each for each in (lines, beside))
            tests = contrasts(_pairs(table, shown, others, nli, bot), task_of(config), bootstrap)
            paper = PAPER.get(config) if release and not bot else None
            n = len(shown[0].runs[0].ids)
            found.append(Panel(config, bot, n, tuple(shown), tuple(others), tuple(tests), paper))
    return found


def _on(lines: Sequence[Line], ids: Container[int], config: str, bootstrap: int) -> list[Line]:
    def part(run: Run) -> Run:
        return part_of(run, ids, task_of(config), bootstrap)

    return [replace(line, runs=tuple(map(part, line.runs))) for line in lines]


def _lines(table: str, cells: Sequence[Cell], done: Mapping[str, Mapping[str, Any]], config: str) -> list[Line]:
    groups: dict[tuple[str, str, str, str, float], list[Cell]] = {}
    for cell in cells:
        if cell.config == config:
            kind = "trained" if cell.trained else "zero-shot"
        elif merged_config(cell.config) == config:
            kind = "merged"
        else:
            continue
        key = (cell.method, cell.start, kind, cell.recipe.bot or "", cell.recipe.share)
        groups.setdefault(key, []).append(cell)
    kinds, methods = ["zero-shot", "trained", "merged"], list(METHODS)
    lines = []
    for key in sorted(groups, key=lambda key: (kinds.index(key[2]), methods.index(key[0]), key[4])):
        (method, start, kind, bot, _), group = key, groups[key]
        read = merged_run_of if kind == "merged" else run_of
        if runs := tuple(read(done[cell.name]) for cell in group if cell.name in done):
            name = _name(table, *key)
            lines.append(Line(name, method, start, kind, runs, len(group), bot, group[0].rows, group[0].drawn))
    return lines


def _baselines(found: Sequence[Mapping[str, Any]]) -> list[Line]:
    """Those of all rows, then those of parts, the smallest share first; the runs of a part are its seeds."""
    groups: dict[tuple[str, float, str, str], list[Mapping[str, Any]]] = {}
    for each in found:
        part = each["part"]
        groups.setdefault((part["bot"] or "", part["share"], part["drawn"], each["name"]), []).append(each)
    lines = []
    for key in sorted(groups, key=lambda key: (key[0], key[1] < 1, key[1])):
        (bot, _, drawn, name), group = key, groups[key]
        runs = tuple(replace(run_of(each), seed=each["part"]["seed"]) for each in group)
        rows = group[0]["part"]["rows"]
        lines.append(Line(name, group[0]["view"], "", "baseline", runs, len(runs), bot, rows, drawn))
    return lines


def _name(table: str, method: str, start: str, kind: str, bot: str, share: float) -> str:
    if kind == "zero-shot":
        return f"zero-shot {start}, {method}"
    return "".join(
        (
            method,
            " (artefact baseline)" if method in ARTEFACTS else "",
            f" from {start}" if table == "table5" else "",
            of_rows(share) if table == CURVE else "",
            f", trained on {bot or 'both'}" if table == BY_BOT else "",
            ", 4-class merged" if kind == "merged" else "",
        )
    )


def _pairs(
    table: str, lines: Sequence[Line], baselines: Sequence[Line], nli: set[str], bot: str
) -> list[tuple[Line, Line]]:
    """Which lines are tested against each other.

    Methods against two of them; with the NLI stage against without; a share of the rows against the next smaller one,
    and against n-grams of that share; on the replies of a bot, what is trained on the other, or on both, against
    what is trained on this one, and each against n-grams of its rows.
    """
    if table == CURVE:  # where the shares of a method and kind stand one after the other, from the smallest
        return [
            (line, other) for other, line in pairwise(lines) if (line.method, line.kind) == (other.method, other.kind)
        ] + _against_ngrams(lines, baselines)
    if table == BY_BOT:
        return [
            (line, other)
            for line in lines
            for other in lines
            if (line.method, line.kind) == (other.method, other.kind) and other.bot == bot != line.bot
        ] + _against_ngrams(lines, baselines)
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


def _against_ngrams(lines: Sequence[Line], baselines: Sequence[Line]) -> list[tuple[Line, Line]]:
    """Each of the methods with the n-grams of all utterances that were fitted to the same rows."""
    return [
        (line, _for_each_seed(other, line))
        for line in lines
        for other in baselines
        if line.method not in ARTEFACTS and other.method == VIEW and (other.bot, other.drawn) == (line.bot, line.drawn)
    ]


def _for_each_seed(baseline: Line, line: Line) -> Line:
    """A baseline that draws nothing has one run, which is the same for each seed of a line."""
    [first, *others] = baseline.runs
    if others or first.seed is not None:
        return baseline
    return replace(baseline, runs=tuple(replace(first, seed=run.seed) for run in line.runs))
