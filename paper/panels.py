"""The panels of a table: the finished cells of each config beside the artefact baselines, and the paired tests."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any

from contradiction.data.splits import fingerprint, load_split, of_bot
from contradiction.evaluation import baselines, results
from contradiction.evaluation.figures import RESAMPLES, measure
from contradiction.io.files import write_json
from contradiction.labels import BOTS, GROUPED, RELEASE, merged_config, task_of
from contradiction.paths import RESULTS
from paper.cells import BY_BOT, CURVE, METHODS, Cell
from paper.paired_tests import MethodRuns, Run, merged_run_of, paired_tests, run_of
from paper.plots import PAPER, Panel

AGAINST = ("sentence-pair", "hierarchical")  # the opponents of all other methods
KINDS = ("zero-shot", "trained", "merged")  # in the order of a table


def configs_of(cells: Sequence[Cell]) -> list[str]:
    """The configs of the panels: those of the cells, and 2-class for merged 4-class labels."""
    configs = {cell.config for cell in cells} | {merged_config(cell.config) for cell in cells}
    return sorted(configs, key=lambda config: (config.endswith(GROUPED), config))


def panels_of(
    table: str,
    cells: Sequence[Cell],
    done: Mapping[str, Mapping[str, Any]],
    baselines: Mapping[str, Sequence[dict[str, Any]]],
    bots: Mapping[int, str] | None = None,
    bootstrap: int = RESAMPLES,
) -> list[Panel]:
    """A panel for each config with a finished cell; in the table ``bots``, one for the replies of each bot.

    ``cells`` is the whole grid, ``done`` has the test evaluations of the finished ones by their names, ``baselines``
    the result of :func:`baselines_of` for each config, and ``bots`` the bot of each test row by its id.
    """
    panels = []
    tested_on = BOTS if table == BY_BOT else ("",)
    nli = {cell.checkpoint for cell in cells if cell.nli}
    release = all(cell.request.get("data_name", RELEASE) == RELEASE for cell in cells)
    for config in configs_of(cells):
        methods = _methods(table, cells, done, config)
        if not methods:
            continue
        ngrams = _baselines(baselines.get(config, ()))
        for bot in tested_on:
            ids = {number for number, bot_of_row in (bots or {}).items() if bot_of_row == bot}
            if bot and ids.isdisjoint(methods[0].runs[0].ids):
                continue
            trained, fitted = (
                [_restricted(method, ids, config, bootstrap) if bot else method for method in group]
                for group in (methods, ngrams)
            )
            tests = paired_tests(_pairs(table, trained, fitted, nli, bot), task_of(config), bootstrap)
            paper = PAPER.get(config) if release and not bot else None
            n = len(trained[0].runs[0].ids)
            panels.append(Panel(config, bot, n, tuple(trained), tuple(fitted), tuple(tests), paper))
    return panels


def _restricted(method: MethodRuns, ids: Container[int], config: str, bootstrap: int) -> MethodRuns:
    """The parts of the runs of a method with these row ids, with metrics of their own."""
    runs = []
    for run in method.runs:
        places = [place for place, number in enumerate(run.ids) if number in ids]
        numbers, references, predictions = (
            [column[place] for place in places] for column in (run.ids, run.references, run.predictions)
        )
        metrics = measure(config, references, predictions, bootstrap=bootstrap)
        runs.append(Run(run.seed, numbers, references, predictions, metrics))
    return replace(method, runs=tuple(runs))


def _methods(table: str, cells: Sequence[Cell], done: Mapping[str, Mapping[str, Any]], config: str) -> list[MethodRuns]:
    groups: dict[tuple[str, str, str, str, float], list[Cell]] = {}
    for cell in cells:
        if cell.config == config:
            kind = "trained" if cell.trained else "zero-shot"
        elif merged_config(cell.config) == config:
            kind = "merged"
        else:
            continue
        key = (cell.method, cell.checkpoint, kind, cell.recipe.data.bot or "", cell.recipe.data.train_fraction)
        groups.setdefault(key, []).append(cell)
    order = list(METHODS)
    methods = []
    for key in sorted(groups, key=lambda key: (KINDS.index(key[2]), order.index(key[0]), key[4])):
        (method, checkpoint, kind, bot, _), group = key, groups[key]
        read = merged_run_of if kind == "merged" else run_of
        if runs := tuple(read(done[cell.name]) for cell in group if cell.name in done):
            name, first = _name(table, *key), group[0]
            methods.append(MethodRuns(name, method, checkpoint, kind, runs, len(group), bot, first.rows, first.subset))
    return methods


def _baselines(evaluations: Sequence[dict[str, Any]]) -> list[MethodRuns]:
    """The baselines on all rows, then those on parts, the smallest first. A part has a run for each seed."""
    groups: dict[tuple[str, float, str, str], list[dict[str, Any]]] = {}
    for result in evaluations:
        part = result["part"]
        key = (part["bot"] or "", part["share"], part["subset"], baseline_label(result))
        groups.setdefault(key, []).append(result)
    methods = []
    for key in sorted(groups, key=lambda key: (key[0], key[1] < 1, *key[1:3])):
        (bot, _, subset, name), group = key, groups[key]
        runs = tuple(replace(run_of(result), seed=result["part"]["seed"]) for result in group)
        rows = group[0]["part"]["rows"]
        methods.append(MethodRuns(name, group[0]["view"], "", "baseline", runs, len(runs), bot, rows, subset))
    return methods


def _name(table: str, method: str, checkpoint: str, kind: str, bot: str, fraction: float) -> str:
    if kind == "zero-shot":
        return f"zero-shot {checkpoint}, {method}"
    return "".join(
        (
            f"{method} (artefact baseline)" if METHODS[method].artefact else method,
            f" from {checkpoint}" if table == "table5" else "",
            _fraction_label(fraction) if table == CURVE else "",
            f", trained on {bot or 'both'}" if table == BY_BOT else "",
            ", 4-class merged" if kind == "merged" else "",
        )
    )


def _fraction_label(fraction: float) -> str:
    return f", {100 * fraction:g} % of the rows"


def _pairs(
    table: str, methods: Sequence[MethodRuns], baselines: Sequence[MethodRuns], nli: set[str], bot: str
) -> list[tuple[MethodRuns, MethodRuns]]:
    """The methods that are tested against each other.

    In ``table4``, each method is tested against ``AGAINST``. In ``table5``, each method with the NLI stage is tested
    against the same method without. In a learning curve, each fraction is tested against the next smaller one, and
    against n-grams of its rows. In ``bots``, training on the other bot or on both is tested against training on the
    bot of the replies, and each against n-grams of the same rows.
    """
    alike = [pair for pair in product(methods, repeat=2) if _alike(*pair)]
    if table == CURVE:  # the fractions of a method are in ascending order
        smaller = [(method, other) for other, method in pairwise(methods) if _alike(method, other)]
        return smaller + _against_ngrams(methods, baselines)
    if table == BY_BOT:
        on_bot = [(method, other) for method, other in alike if other.bot == bot != method.bot]
        return on_bot + _against_ngrams(methods, baselines)
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


def _against_ngrams(
    methods: Sequence[MethodRuns], baselines: Sequence[MethodRuns]
) -> list[tuple[MethodRuns, MethodRuns]]:
    """Each method with the n-gram baseline that was fitted to the same rows."""
    return [
        (method, _for_each_seed(baseline, method))
        for method in methods
        for baseline in baselines
        if not METHODS[method.method].artefact
        and baseline.method == BASELINE_VIEW
        and (baseline.bot, baseline.subset) == (method.bot, method.subset)
    ]


def _for_each_seed(baseline: MethodRuns, method: MethodRuns) -> MethodRuns:
    """The baseline; if it has one run without randomness, that run is repeated for every seed of the method."""
    [first, *others] = baseline.runs
    if others or first.seed is not None:
        return baseline
    return replace(baseline, runs=tuple(replace(first, seed=run.seed) for run in method.runs))


BASELINE_VIEW = "flatten"  # the view of the n-grams that are fitted to parts


def baselines_of(
    config: str, cells: Sequence[Cell], data: str | Path, out: str | Path, fit: bool
) -> list[dict[str, Any]]:
    """The evaluations of the baselines on the test split of a config: fitted to all rows, then to the parts of cells.

    The baselines on all rows are in the published results or in ``out``, those on parts in ``out``. Missing ones are
    left out, or fitted and saved in ``out``.

    Returns:
        The evaluations. Each has a ``part``, the rows that it was fitted to: ``bot``, ``subset`` (as in a cell),
        ``share``, ``seed`` (None without randomness), and ``rows``, their number.
    """
    train, test = (load_split(data, config, split) for split in ("train", "test"))
    part = {"bot": None, "subset": "", "share": 1.0, "seed": None, "rows": len(train)}
    on_all_rows = _on_all(config, fingerprint(test), data, out, fit)
    return [{**result, "part": part} for result in on_all_rows] + _on_parts(
        config, fingerprint(test), cells, data, out, fit
    )


def _on_all(config: str, rows: str, data: str | Path, out: str | Path, fit: bool) -> list[dict[str, Any]]:
    for folder in (RESULTS, out):
        saved = {result["name"]: result for result in results.baselines(config, "test", folder, rows)}
        if available := [saved[name] for name in baselines.FEATURES.values() if name in saved]:
            return available
    fitted = list(baselines.tfidf(data, config)) if fit else []
    for result in fitted:
        write_json(Path(out) / f"tfidf-{result['view']}.{config}.test.json", result)
    return fitted


def _on_parts(
    config: str, rows: str, cells: Sequence[Cell], data: str | Path, out: str | Path, fit: bool
) -> list[dict[str, Any]]:
    fitted = results.load(out, kind=results.PART_BASELINE, config=config)
    saved = [result for result in fitted if result["data"] == rows]
    evaluations = []
    for cell in _parts(config, cells):
        part = _part_of(cell)
        result = next((result for result in saved if part.items() <= result["part"].items()), None)
        if result is None and fit:
            result = _fit(config, cell, data)
            seed = "" if part["seed"] is None else f"-seed{part['seed']}"
            of = f"-of-{cell.config}" if cell.subset and cell.config != config else ""
            write_json(Path(out) / f"tfidf-{BASELINE_VIEW}.{config}{cell.part}{of}{seed}.test.json", result)
        evaluations += [result] if result else []
    return evaluations


def _parts(config: str, cells: Sequence[Cell]) -> list[Cell]:
    """One cell for each part of the rows. Merged runs have parts of their own, because labels decide what is drawn."""
    parts: dict[tuple[object, ...], Cell] = {}
    for cell in cells:
        if cell.trained and cell.part and config in (cell.config, merged_config(cell.config)):
            parts.setdefault(tuple(_part_of(cell).values()), cell)
    return list(parts.values())


def _part_of(cell: Cell) -> dict[str, Any]:
    data = cell.recipe.data
    seed = cell.seed if cell.subset else None
    return {"bot": data.bot, "subset": cell.subset, "share": data.train_fraction, "seed": seed}


def _fit(config: str, cell: Cell, data: str | Path) -> dict[str, Any]:
    from contradiction.training.augmentation import fraction_of

    # The rows are sampled by label, so by the labels of the config that the cell was trained on.
    rows = of_bot(load_split(data, cell.config, "train"), cell.recipe.data.bot)
    train_ids = set(fraction_of(rows, cell.recipe.data.train_fraction, cell.recipe.seed)["id"])
    part = {**_part_of(cell), "rows": len(train_ids)}
    drawn = (
        f", {100 * cell.recipe.data.train_fraction:g} % of the {cell.config} rows, seed {cell.seed}"
        if cell.subset
        else ""
    )
    bot = f", trained on {cell.recipe.data.bot}" if cell.recipe.data.bot else ""
    [result] = baselines.tfidf(
        data, config, views=[BASELINE_VIEW], train_ids=train_ids, part=part, kind=results.PART_BASELINE,
        name=f"{baselines.FEATURES[BASELINE_VIEW]}{bot}{drawn}",
    )  # fmt: skip
    return result


def baseline_label(result: dict[str, Any]) -> str:
    """The name of a baseline in tables: its features and the rows that it was fitted to, without the seed."""
    part = result["part"]
    fraction = _fraction_label(part["share"]) if part["subset"] else ""
    bot = f", trained on {part['bot']}" if part["bot"] else ""
    return f"{baselines.FEATURES[result['view']]}{fraction}{drawn_label(part['subset'], result['config'])}{bot}"


def drawn_label(subset: str, config: str) -> str:
    """The part of a baseline's name for a subset that was drawn by the labels of another config, as merged runs do."""
    _, _, drawn_by = subset.partition(" of ")
    return f", drawn by {drawn_by} labels" if drawn_by not in ("", config) else ""
