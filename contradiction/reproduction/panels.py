"""The panels of a table: the finished cells of each config beside the baselines, and the paired tests."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from contradiction.evaluation.figures import RESAMPLES
from contradiction.evaluation.paired_tests import MethodRuns, Run, merged_run_of, paired_tests, restricted, run_of
from contradiction.labels import BOTS, merged_config, task_of
from contradiction.reports.interval_plot import PAPER, Panel
from contradiction.reproduction import baselines as artefacts
from contradiction.reproduction.cells import BY_BOT, CURVE, Cell, share_label
from contradiction.reproduction.methods import METHODS, label_of

AGAINST = ("sentence-pair", "hierarchical")  # all other methods are tested against these
KINDS = ("zero-shot", "trained", "merged")  # in the order of a table


def configs_of(cells: Sequence[Cell]) -> list[str]:
    """The configs that a table has panels for: those of the cells, and 2-class for merged 4-class labels."""
    configs = {cell.config for cell in cells} | {merged_config(cell.config) for cell in cells}
    return sorted(configs, key=lambda config: (config.endswith("grouped"), config))


def panels_of(
    table: str,
    cells: Sequence[Cell],
    done: Mapping[str, Mapping[str, Any]],
    baselines: Mapping[str, Sequence[dict[str, Any]]],
    bots: Mapping[int, str] | None = None,
    bootstrap: int = RESAMPLES,
) -> list[Panel]:
    """A panel for each config with a finished cell. In the table ``bots`` it is one for each bot's replies.

    Args:
        table: a key of ``TABLES``.
        cells: the whole grid.
        done: the test evaluations of finished cells, by the cell's name.
        baselines: for each config, the artefact baselines on its test split, see
            :func:`contradiction.reproduction.baselines.baselines_of`.
        bots: for the table ``bots``, the bot of each test row, by the row's id.
        bootstrap: resamples of the paired tests, and of the figures on a part of the rows.
    """
    panels = []
    tested_on = BOTS if table == BY_BOT else ("",)
    nli = {cell.start for cell in cells if cell.nli}
    for config in configs_of(cells):
        methods = _methods(table, cells, done, config)
        if not methods:
            continue
        ngrams = _baselines(baselines.get(config, ()))
        release = all(cell.request.get("data_name", "CDConv") == "CDConv" for cell in cells)
        for bot in tested_on:
            ids = {number for number, its_bot in (bots or {}).items() if its_bot == bot}
            if bot and ids.isdisjoint(methods[0].runs[0].ids):
                continue
            shown, beside = (
                _restricted(group, ids, config, bootstrap) if bot else group for group in (methods, ngrams)
            )
            tests = paired_tests(_pairs(table, shown, beside, nli, bot), task_of(config), bootstrap)
            paper = PAPER.get(config) if release and not bot else None
            n = len(shown[0].runs[0].ids)
            panels.append(Panel(config, bot, n, tuple(shown), tuple(beside), tuple(tests), paper))
    return panels


def _restricted(methods: Sequence[MethodRuns], ids: Container[int], config: str, bootstrap: int) -> list[MethodRuns]:
    def part(run: Run) -> Run:
        return restricted(run, ids, config, bootstrap)

    return [replace(method, runs=tuple(map(part, method.runs))) for method in methods]


def _methods(table: str, cells: Sequence[Cell], done: Mapping[str, Mapping[str, Any]], config: str) -> list[MethodRuns]:
    groups: dict[tuple[str, str, str, str, float], list[Cell]] = {}
    for cell in cells:
        if cell.config == config:
            kind = "trained" if cell.trained else "zero-shot"
        elif merged_config(cell.config) == config:
            kind = "merged"
        else:
            continue
        key = (cell.method, cell.start, kind, cell.recipe.data.bot or "", cell.recipe.data.train_fraction)
        groups.setdefault(key, []).append(cell)
    order = list(METHODS)
    methods = []
    for key in sorted(groups, key=lambda key: (KINDS.index(key[2]), order.index(key[0]), key[4])):
        (method, start, kind, bot, _), group = key, groups[key]
        read = merged_run_of if kind == "merged" else run_of
        if runs := tuple(read(done[cell.name]) for cell in group if cell.name in done):
            name, first = _name(table, *key), group[0]
            methods.append(MethodRuns(name, method, start, kind, runs, len(group), bot, first.rows, first.subset))
    return methods


def _baselines(evaluations: Sequence[dict[str, Any]]) -> list[MethodRuns]:
    """The baselines on all rows, then those on parts, the smallest share first. The runs of a part are its seeds."""
    groups: dict[tuple[str, float, str, str], list[dict[str, Any]]] = {}
    for result in evaluations:
        part = result["part"]
        key = (part["bot"] or "", part["share"], part["subset"], artefacts.label_of(result))
        groups.setdefault(key, []).append(result)
    methods = []
    for key in sorted(groups, key=lambda key: (key[0], key[1] < 1, key[1])):
        (bot, _, subset, name), group = key, groups[key]
        runs = tuple(replace(run_of(result), seed=result["part"]["seed"]) for result in group)
        rows = group[0]["part"]["rows"]
        methods.append(MethodRuns(name, group[0]["view"], "", "baseline", runs, len(runs), bot, rows, subset))
    return methods


def _name(table: str, method: str, start: str, kind: str, bot: str, share: float) -> str:
    if kind == "zero-shot":
        return f"zero-shot {start}, {method}"
    return "".join(
        (
            label_of(method),
            f" from {start}" if table == "table5" else "",
            share_label(share) if table == CURVE else "",
            f", trained on {bot or 'both'}" if table == BY_BOT else "",
            ", 4-class merged" if kind == "merged" else "",
        )
    )


def _pairs(
    table: str, methods: Sequence[MethodRuns], baselines: Sequence[MethodRuns], nli: set[str], bot: str
) -> list[tuple[MethodRuns, MethodRuns]]:
    """The methods that are tested against each other.

    In ``table4`` all methods are tested against two of them. In ``table5`` each is tested with the NLI stage against
    without. In a learning curve each share is tested against the next smaller one, and against n-grams of its rows.
    On the replies of a bot, what is trained on the other bot or on both is tested against what is trained on this one,
    and each against n-grams of the same rows.
    """
    if table == CURVE:  # the shares of a method follow each other, the smallest first
        return [(method, other) for other, method in pairwise(methods) if _alike(method, other)] + _against_ngrams(
            methods, baselines
        )
    if table == BY_BOT:
        return [
            (method, other)
            for method in methods
            for other in methods
            if _alike(method, other) and other.bot == bot != method.bot
        ] + _against_ngrams(methods, baselines)
    if table == "table5":
        return [
            (method, other)
            for method in methods
            for other in methods
            if _alike(method, other) and method.start in nli and other.start not in nli
        ]
    pairs: dict[frozenset[str], tuple[MethodRuns, MethodRuns]] = {}
    for name in AGAINST:
        # Trained ones come before merged ones.
        if against := next((method for method in methods if method.method == name), None):
            for method in methods:
                if method is not against:
                    pairs.setdefault(frozenset((method.name, against.name)), (method, against))
    return list(pairs.values())


def _alike(one: MethodRuns, other: MethodRuns) -> bool:
    return (one.method, one.kind) == (other.method, other.kind)


def _against_ngrams(
    methods: Sequence[MethodRuns], baselines: Sequence[MethodRuns]
) -> list[tuple[MethodRuns, MethodRuns]]:
    """Each method with the n-grams of all utterances that were fitted to the same rows."""
    return [
        (method, _for_each_seed(baseline, method))
        for method in methods
        for baseline in baselines
        if not METHODS[method.method].artefact
        and baseline.method == artefacts.VIEW
        and (baseline.bot, baseline.subset) == (method.bot, method.subset)
    ]


def _for_each_seed(baseline: MethodRuns, method: MethodRuns) -> MethodRuns:
    """A baseline without randomness has one run, which stands for every seed of a method."""
    [first, *others] = baseline.runs
    if others or first.seed is not None:
        return baseline
    return replace(baseline, runs=tuple(replace(first, seed=run.seed) for run in method.runs))
