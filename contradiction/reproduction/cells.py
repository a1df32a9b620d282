"""The cells of a table: which method is trained on what, from which start, with which seed."""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contradiction.data.splits import of_bot
from contradiction.errors import InputError
from contradiction.inputs.views import VIEWS
from contradiction.labels import BOTS, task_of
from contradiction.training import leakage
from contradiction.training.recipe import Recipe, of_folder

if TYPE_CHECKING:
    from datasets import Dataset

# Method -> the label sets that it is trained on -> the recipe in models/recipes that says how.
PAPER_METHODS: Mapping[str, Mapping[str, str]] = {
    "sentence-pair": {"2-class": "sentence-pair-2-class", "4-class": "sentence-pair-4-class"},
    "flatten": {"2-class": "flatten-2-class", "4-class": "flatten-4-class"},
    "hierarchical": {"4-class": "hierarchical-4-class"},
}
# Fine-tuned artefact baselines: what an encoder learns that sees no more than one side. Trained as flatten is, on the
# view of their own name.
ARTEFACTS = ("reply-only", "context-only")
METHODS: Mapping[str, Mapping[str, str]] = {**PAPER_METHODS, **dict.fromkeys(ARTEFACTS, PAPER_METHODS["flatten"])}
CURVE, BY_BOT = "learning-curve", "bots"
TABLES = {
    "table4": "The paper's Table 4: methods",
    "table5": "The paper's Table 5: the influence of an NLI stage",
    CURVE: "Learning curve: the influence of the training rows",
    BY_BOT: "Leaving one bot out: what is learnt from one, tested on the other",
}
SEEDS = (23, 42, 133, 233)
SHARES = (0.1, 0.25, 0.5, 1.0)
# What the grid itself varies, so that --set may not.
VARIED = {
    "name": "is the method's",
    "view": "is the method's; --methods chooses",
    "target": "is the method's",
    "config": "is chosen by --configs",
    "seed": "is chosen by --seeds",
    "backbone": "is chosen by --backbone",
    "scratch": "has no place here: the grid starts from a backbone",
    "frozen": "has no place here: the grid fine-tunes",
    "share": f"is chosen by --shares, in {CURVE}",
    "bot": f"is varied by {BY_BOT}",
}


@dataclass(frozen=True)
class Cell:
    """One run of the grid.

    Attributes:
        method: a key of ``METHODS``.
        start: the short name of the checkpoint that it starts from.
        nli: whether that is a checkpoint of an NLI stage.
        trained: False for zero-shot: the NLI checkpoint is asked as it is.
        recipe: what is trained; of a zero-shot cell the view, the config and the checkpoint.
        rows: that it is trained on.
        request: what the run's record will say that it was asked to do.
        test: the fingerprint of the test split.
    """

    method: str
    start: str
    nli: bool
    trained: bool
    recipe: Recipe
    rows: int
    request: Mapping[str, Any]
    test: str

    @property
    def config(self) -> str:
        """The data set config that is predicted."""
        return self.recipe.config

    @property
    def seed(self) -> int | None:
        """The seed; None where nothing is drawn."""
        return self.recipe.seed if self.trained else None

    @property
    def name(self) -> str:
        """The name of its files."""
        if not self.trained:
            return f"zero-shot-{self.method}-{self.config}-{self.start}"
        return f"{self.method}-{self.config}-{self.start}{self.part}-seed{self.seed}"

    @property
    def part(self) -> str:
        """What names of files say of the part of the rows that it reads; nothing of all of them."""
        share = "" if self.recipe.share == 1 else f"-share{self.recipe.share:g}"
        return f"{f'-{self.recipe.bot}' if self.recipe.bot else ''}{share}"

    @property
    def drawn(self) -> str:
        """The share of the rows that it reads, and the config by whose labels it was drawn; empty for all rows."""
        return "" if self.recipe.share == 1 else f"{self.recipe.share:g} of {self.config}"

    def model(self, out: Path) -> Path:
        """Its model folder."""
        return out / "models" / self.name

    def evaluation(self, out: Path, split: str) -> Path:
        """The file of its evaluation."""
        return out / f"{self.name}.{split}.json"


def cells_of(
    table: str,
    *,
    data: str | Path,
    methods: Sequence[str] = tuple(PAPER_METHODS),
    configs: Sequence[str] = ("4-class", "2-class"),
    seeds: Sequence[int] = SEEDS,
    backbone: str | None = None,
    nli: Sequence[str] = (),
    shares: Sequence[float] = (),
    values: Mapping[str, Any] | None = None,
) -> list[Cell]:
    """The cells of a table.

    A method that cannot be trained on a config (the hierarchical one on 2-class) has no cell there.

    Args:
        table: ``table4``, or ``table5``, which has a zero-shot cell a plain method on 2-class configs, and every other
            cell twice: from the backbone and from each NLI checkpoint; or ``learning-curve``, which has every
            cell once a share; or ``bots``, which has every cell once a bot, and once for both.
        data: the data repo.
        methods: keys of ``METHODS``.
        configs: of two or four classes, also grouped.
        seeds: of the runs.
        backbone: folder or Hub id, instead of the recipes'.
        nli: NLI checkpoints, for ``table5``.
        shares: of the training rows, for ``learning-curve``, by default ``SHARES``. A cell of share 1, or of both
            bots, is that of ``table4``.
        values: recipe values for all cells.

    Raises:
        InputError: an argument is none of the allowed, or leaves no cell, or a start has read rows that a cell is to be
            kept from.
    """
    _check(table, methods, configs, seeds, nli)
    _check_shares(table, shares)
    parts: Sequence[Mapping[str, Any]] = [{}]
    if table == CURVE:
        parts = [{"share": share} for share in shares or SHARES]
    elif table == BY_BOT:
        parts = [{"bot": bot} for bot in (*BOTS, None)]
    starts = [(backbone, False), *((each, True) for each in nli)]
    found: list[Cell] = []
    for config in configs:
        for method in methods:
            if not (name := METHODS[method].get(task_of(config))):
                continue
            for checkpoint, is_nli in starts:
                recipe = Recipe.load(name).with_changes(config=config, backbone=checkpoint, **(values or {}))
                recipe = recipe.with_changes(name=f"{method}-{task_of(config)}", view=method)
                found += _cells(method, is_nli, recipe, seeds, parts, data)
    if not found:
        only = "; ".join(f"{method} is trained on {', '.join(METHODS[method])}" for method in methods)
        raise InputError(f"no cell is left: the configs are {', '.join(configs)}, but {only}")
    _check_names(found)
    return found


def _check(
    table: str, methods: Sequence[str], configs: Sequence[str], seeds: Sequence[int], nli: Sequence[str]
) -> None:
    tasks = {task for each in METHODS.values() for task in each}
    for kind, given, allowed in (
        ("table", [table], list(TABLES)),
        ("method", methods, list(METHODS)),
        ("config", configs, [f"{task}{end}" for task in sorted(tasks) for end in ("", "-grouped")]),
    ):
        if not given:
            raise InputError(f"no {kind} is named; there are {', '.join(allowed)}")
        if wrong := [each for each in given if each not in allowed]:
            raise InputError(f"{kind} {wrong[0]!r}; there are {', '.join(allowed)}")
        if len(set(given)) < len(given):
            raise InputError(f"a {kind} is named twice in {', '.join(given)}")
    if not seeds or len(set(seeds)) < len(seeds):
        raise InputError(f"the seeds are {', '.join(map(str, seeds)) or 'none'}; give at least one, each once")
    if (table == "table5") != bool(nli):
        raise InputError(
            "table5 compares with an NLI stage: --nli names its checkpoint, a folder or a Hub id"
            if table == "table5"
            else f"{table} has no NLI stage to compare with; --backbone starts all cells from an NLI checkpoint"
        )


def _check_shares(table: str, shares: Sequence[float]) -> None:
    if shares and table != CURVE:
        raise InputError(f"{table} is trained on all rows; --shares goes with {CURVE}")
    if len({f"{share:g}" for share in shares}) < len(shares):  # as cells are named
        raise InputError(f"a share is named twice in {', '.join(f'{share:g}' for share in shares)}")


def _check_names(found: Iterable[Cell]) -> None:
    starts: dict[str, set[str]] = {}
    for cell in found:
        starts.setdefault(cell.start, set()).add(str(cell.recipe.backbone))
    for start, places in starts.items():
        if len(places) > 1:
            raise InputError(f"{' and '.join(sorted(places))} have the same name, {start}; rename one of them")


def _cells(
    method: str, nli: bool, recipe: Recipe, seeds: Sequence[int], parts: Sequence[Mapping[str, Any]], data: str | Path
) -> list[Cell]:
    """A cell a part of the rows and seed; before them the zero-shot cell, where an NLI checkpoint can be asked."""
    from contradiction.data.splits import fingerprint, load_split
    from contradiction.training import run_folder
    from contradiction.training.rows import training_rows

    # Once for all seeds, because to read and hash data and backbone takes a while.
    request = run_folder.request(recipe, data)
    train, test = load_split(data, recipe.config, "train"), fingerprint(load_split(data, recipe.config, "test"))
    start = start_name(str(recipe.backbone))
    found = []
    if nli and recipe.view in VIEWS and method not in ARTEFACTS and task_of(recipe.config) == "2-class":
        asked = {"zero_shot": recipe.view, "backbone": request["recipe"]["backbone"]}
        found.append(Cell(method, start, nli, False, recipe, 0, asked, test))
    for values in parts:
        part = _on_part(recipe.with_changes(**values), train)
        rows = len(training_rows(train, part).rows)
        for seed in seeds:
            one = part.with_changes(seed=seed)
            leakage.check_sources(one, request["data_name"])
            varied = {key: getattr(one, key) for key in ("share", "bot", "epochs", "seed")}
            asked = {**request, "recipe": {**request["recipe"], **varied}}
            found.append(Cell(method, start, nli, True, one, rows, asked, test))
    return found


def of_rows(share: float) -> str:
    """What tables add to the name of what reads a share of the rows."""
    return f", {100 * share:g} % of the rows"


def start_name(checkpoint: str) -> str:
    """The short name of a start: of a folder, the last part of a Hub id, or of what a record calls name@digest."""
    return checkpoint.partition("@")[0] if of_folder(checkpoint) else Path(checkpoint).resolve().name


def _on_part(recipe: Recipe, train: "Dataset") -> Recipe:
    """A recipe that reads a part of the rows, with as many steps as on all of them.

    At equal epochs a tenth of the rows would also mean a tenth of the steps, and a small encoder that starts on the
    majority class has not left it by then: the table would show that.
    """
    times = len(train) / (recipe.share * len(of_bot(train, recipe.bot)))
    return recipe.with_changes(epochs=round(times * recipe.epochs))


def values_of(pairs: Iterable[str]) -> dict[str, Any]:
    """Recipe values from ``key=value``, the value as in TOML, where a word needs no quotes.

    Raises:
        InputError: not of that form, or a key that the grid itself varies.
    """
    values: dict[str, Any] = {}
    for pair in pairs:
        key, found, value = (part.strip() for part in pair.partition("="))
        if not (key and found and value):
            raise InputError(f"{pair!r}: must be key=value, for instance epochs=3")
        if key in VARIED:
            raise InputError(f"{pair!r}: {key} {VARIED[key]}")
        try:
            values[key] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            values[key] = value
    return values


def shard(all_cells: Sequence[Cell], part: str) -> list[Cell]:
    """Every n-th cell from the i-th, for ``i/n`` with i from 1; the n shards together are the whole."""
    numbers = part.split("/")
    if (
        len(numbers) != 2
        or not all(each.isdecimal() for each in numbers)
        or not 1 <= int(numbers[0]) <= int(numbers[1])
    ):
        raise InputError(f"shard {part!r}: must be i/n with i from 1 to n, for instance 1/3")
    first, step = map(int, numbers)
    return list(all_cells[first - 1 :: step])
