"""The panels of a table: the finished cells of each config beside the n-gram baselines, and the paired tests."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any

from contradiction.data.splits import fingerprint, load_split
from contradiction.evaluation import results
from contradiction.evaluation.figures import RESAMPLES, measure
from contradiction.labels import BOTS, GROUPED, RELEASE, task_of
from paper import baselines
from paper.cells import BY_BOT, CURVE, METHODS, Cell
from paper.paired_tests import MethodRuns, Run, merged_run_of, paired_tests, run_of
from paper.plots import PAPER, Panel

AGAINST = ("sentence-pair", "hierarchical")  # the opponents of all other methods
KINDS = ("zero-shot", "trained", "merged")  # in the order of a table


def panels_of(
    table: str, cells: Sequence[Cell], done: Mapping[str, Mapping[str, Any]], data: str | Path
) -> list[Panel]:
    """A panel for each config with a finished cell; in the table ``bots``, one for the replies of each bot.

    ``cells`` is the whole grid, and ``done`` has the test evaluations of the finished ones by their names.
    """
    panels = []
    release = all(cell.request.get("data_name", RELEASE) == RELEASE for cell in cells)
    nli = {cell.checkpoint for cell in cells if cell.nli}
    configs = {cell.config for cell in cells} | {cell.config.replace("4-class", "2-class") for cell in cells}
    for config in sorted(configs, key=lambda config: (config.endswith(GROUPED), config)):
        if not (methods := _methods(table, cells, done, config)):
            continue
        ngrams = _baselines(config, data)
        for bot in BOTS if table == BY_BOT else ("",):
            shown, beside = methods, ngrams
            if bot:
                ids = _ids(data, config, bot)
                shown = [_restricted(method, ids, config) for method in methods]
                beside = [_restricted(method, ids, config) for method in ngrams]
            tests = paired_tests(_pairs(table, shown, nli, bot), task_of(config), RESAMPLES)
            paper = PAPER.get(config) if release and not bot else None
            n = len(shown[0].runs[0].ids)
            panels.append(Panel(config, bot, n, tuple(shown), tuple(beside), tuple(tests), paper))
    return panels


def _ids(data: str | Path, config: str, bot: str) -> set[int]:
    """The ids of the test rows with a reply of a bot."""
    rows = load_split(data, config, "test")
    bots = rows.features["bot"].int2str(rows["bot"][:])
    return {number for number, other in zip(rows["id"][:], bots, strict=True) if other == bot}


def _restricted(method: MethodRuns, ids: Container[int], config: str) -> MethodRuns:
    """The parts of the runs of a method with these row ids, with metrics of their own."""
    runs = []
    for run in method.runs:
        places = [place for place, number in enumerate(run.ids) if number in ids]
        columns = ([column[place] for place in places] for column in (run.ids, run.references, run.predictions))
        numbers, references, predictions = columns
        runs.append(Run(run.seed, numbers, references, predictions, measure(config, references, predictions)))
    return replace(method, runs=tuple(runs))


def _methods(table: str, cells: Sequence[Cell], done: Mapping[str, Mapping[str, Any]], config: str) -> list[MethodRuns]:
    groups: dict[tuple[str, str, str, str, float], list[Cell]] = {}
    for cell in cells:
        if cell.config == config:
            kind = "trained" if cell.trained else "zero-shot"
        elif cell.config.replace("4-class", "2-class") == config:
            kind = "merged"
        else:
            continue
        key = (cell.method, cell.checkpoint, kind, cell.recipe.data.bot or "", cell.recipe.data.train_fraction)
        groups.setdefault(key, []).append(cell)
    order, methods = list(METHODS), []
    for key in sorted(groups, key=lambda key: (KINDS.index(key[2]), order.index(key[0]), key[4])):
        (method, checkpoint, kind, bot, _), group = key, groups[key]
        read = merged_run_of if kind == "merged" else run_of
        if runs := tuple(read(done[cell.name]) for cell in group if cell.name in done):
            methods.append(
                MethodRuns(_name(table, *key), method, checkpoint, kind, runs, len(group), bot, group[0].rows)
            )
    return methods


def _name(table: str, method: str, checkpoint: str, kind: str, bot: str, fraction: float) -> str:
    if kind == "zero-shot":
        return f"zero-shot {checkpoint}, {method}"
    return "".join(
        (
            method if METHODS[method].paper else f"{method} (artefact baseline)",
            f" from {checkpoint}" if table == "table5" else "",
            f", {100 * fraction:g} % of the rows" if table == CURVE else "",
            f", trained on {bot or 'both'}" if table == BY_BOT else "",
            ", 4-class merged" if kind == "merged" else "",
        )
    )


def _baselines(config: str, data: str | Path) -> list[MethodRuns]:
    """The n-gram baselines on the test split: the published ones, or fitted now where the rows are others."""
    rows = fingerprint(load_split(data, config, "test"))
    saved = {result["name"]: result for result in results.baselines(config, "test", data=rows)}
    names = baselines.FEATURES.values()
    found = [saved[name] for name in names if name in saved] or list(baselines.tfidf(data, config))
    return [MethodRuns(result["name"], result["view"], "", "baseline", (run_of(result),), 1) for result in found]


def _pairs(table: str, methods: Sequence[MethodRuns], nli: set[str], bot: str) -> list[tuple[MethodRuns, MethodRuns]]:
    """The methods that are tested against each other.

    In ``table4``, each method is tested against ``AGAINST``. In ``table5``, each method with the NLI stage is tested
    against the same method without. In a learning curve, each fraction is tested against the next smaller one. In
    ``bots``, training on the other bot or on both is tested against training on the bot of the replies.
    """
    alike = [pair for pair in product(methods, repeat=2) if _alike(*pair)]
    if table == CURVE:  # the fractions of a method are in ascending order
        return [(method, other) for other, method in pairwise(methods) if _alike(method, other)]
    if table == BY_BOT:
        return [(method, other) for method, other in alike if other.bot == bot != method.bot]
    if table == "table5":
        return [(method, other) for method, other in alike if method.checkpoint in nli and other.checkpoint not in nli]
    pairs: dict[frozenset[str], tuple[MethodRuns, MethodRuns]] = {}
    for name in AGAINST:
        # Trained methods come before merged ones.
        if against := next((method for method in methods if method.method == name), None):
            for method in methods:
                if method is not against:
                    pairs.setdefault(frozenset((method.name, against.name)), (method, against))
    return list(pairs.values())


def _alike(method: MethodRuns, other: MethodRuns) -> bool:
    return (method.method, method.kind) == (other.method, other.kind)
