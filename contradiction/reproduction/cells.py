"""The cells of a table: which method is trained on what, from which start, with which seed.

To add a method, add an entry to :data:`METHODS`.
"""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contradiction.data.splits import of_bot
from contradiction.errors import InputError
from contradiction.inputs.views import VIEWS
from contradiction.labels import BOTS, task_of
from contradiction.training import leakage, record
from contradiction.training.recipe import Recipe, is_recorded_folder, option_named
from contradiction.training.recipe_files import load_recipe

if TYPE_CHECKING:
    from datasets import Dataset


@dataclass(frozen=True)
class Method:
    """A method of the grid. Its key in ``METHODS`` is the view that it reads.

    Attributes:
        recipes: for each label set that it is trained on, the name of its recipe in ``models/recipes``.
        colour: of its curve; from Okabe and Ito's palette, which colour-blind people can tell apart.
        paper: whether the paper has it. Only these are in a table by default.
        artefact: whether it is an artefact baseline: an encoder that sees only one side of the comparison.
    """

    recipes: Mapping[str, str]
    colour: str
    paper: bool = False
    artefact: bool = False


_FLATTEN = {"2-class": "flatten-2-class", "4-class": "flatten-4-class"}
METHODS: dict[str, Method] = {
    "sentence-pair": Method(
        {"2-class": "sentence-pair-2-class", "4-class": "sentence-pair-4-class"}, colour="#0072B2", paper=True
    ),
    "flatten": Method(_FLATTEN, colour="#E69F00", paper=True),
    "hierarchical": Method({"4-class": "hierarchical-4-class"}, colour="#009E73", paper=True),
    # Trained as flatten is, each on its own view.
    "reply-only": Method(_FLATTEN, colour="#CC79A7", artefact=True),
    "context-only": Method(_FLATTEN, colour="#000000", artefact=True),
}


def paper_methods() -> tuple[str, ...]:
    """The names of the paper's methods."""
    return tuple(name for name, method in METHODS.items() if method.paper)


def method_label(name: str) -> str:
    """How tables name a method."""
    return f"{name} (artefact baseline)" if METHODS[name].artefact else name


CURVE, BY_BOT = "learning-curve", "bots"
TABLES = {
    "table4": "The paper's Table 4: methods",
    "table5": "The paper's Table 5: the influence of an NLI stage",
    CURVE: "Learning curve: the influence of the training rows",
    BY_BOT: "Leaving one bot out: trained on one bot, tested on the other",
}
SEEDS = (23, 42, 133, 233)
SHARES = (0.1, 0.25, 0.5, 1.0)
# The recipe keys that the grid itself varies. --set may not set them.
VARIED = {
    "name": "is the method's",
    "seed": "is chosen by --seeds",
    "data.view": "is the method's; --methods chooses",
    "data.target": "is the method's",
    "data.config": "is chosen by --configs",
    "data.train_fraction": f"is chosen by --shares, in {CURVE}",
    "data.bot": f"is varied by {BY_BOT}",
    "model.method": "is chosen by --methods",
    "model.backbone": "is chosen by --backbone",
    "model.scratch": "has no place here: the grid starts from a backbone",
}


@dataclass(frozen=True)
class Cell:
    """One run of the grid.

    Attributes:
        method: a key of ``METHODS``.
        start: the short name of the checkpoint that it starts from.
        nli: whether that is a checkpoint of an NLI stage.
        trained: False for zero-shot, where the NLI checkpoint predicts as it is.
        recipe: what is trained. A zero-shot cell uses its view, config and checkpoint alone.
        rows: how many rows it is trained on.
        request: the request that the record of the run will hold.
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
        return self.recipe.data.config

    @property
    def seed(self) -> int | None:
        """The seed; None where nothing is random."""
        return self.recipe.seed if self.trained else None

    @property
    def name(self) -> str:
        """The name of its files."""
        if not self.trained:
            return f"zero-shot-{self.method}-{self.config}-{self.start}"
        return f"{self.method}-{self.config}-{self.start}{self.part}-seed{self.seed}"

    @property
    def part(self) -> str:
        """The part of the file names that tells which rows it is trained on; empty for all rows."""
        share = "" if self.recipe.data.train_fraction == 1 else f"-share{self.recipe.data.train_fraction:g}"
        return f"{f'-{self.recipe.data.bot}' if self.recipe.data.bot else ''}{share}"

    @property
    def subset(self) -> str:
        """The share of the rows that it is trained on, and the config by whose labels it is drawn; empty for all."""
        return "" if self.recipe.data.train_fraction == 1 else f"{self.recipe.data.train_fraction:g} of {self.config}"

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
    methods: Sequence[str] | None = None,
    configs: Sequence[str] = ("4-class", "2-class"),
    seeds: Sequence[int] = SEEDS,
    backbone: str | None = None,
    nli: Sequence[str] = (),
    shares: Sequence[float] = (),
    values: Mapping[str, Any] | None = None,
) -> list[Cell]:
    """The cells of a table.

    A method has no cell on a config that it cannot be trained on, as the hierarchical one on 2-class.

    Args:
        table: a key of ``TABLES``. ``table4`` has a cell for each method, config and seed. ``table5`` has each of these
            from the backbone and from each NLI checkpoint, and a zero-shot cell for each plain method on 2-class
            configs. ``learning-curve`` has each for every share. ``bots`` has each for either bot, and for both. A cell
            of share 1, or of both bots, is that of ``table4``.
        data: the data repo.
        methods: keys of ``METHODS``, by default those of the paper.
        configs: of two or four classes, also grouped.
        seeds: of the runs.
        backbone: folder or Hub id, instead of the recipes'.
        nli: NLI checkpoints, for ``table5``.
        shares: of the training rows, for ``learning-curve``, by default ``SHARES``.
        values: recipe values for all cells.

    Raises:
        InputError: an argument is not allowed, or no cell is left, or a start was trained on rows that a cell must not
            see.
    """
    methods = paper_methods() if methods is None else methods
    _check(table, methods, configs, seeds, nli)
    _check_shares(table, shares)
    parts: Sequence[Mapping[str, Any]] = [{}]
    if table == CURVE:
        parts = [{"train_fraction": share} for share in shares or SHARES]
    elif table == BY_BOT:
        parts = [{"bot": bot} for bot in (*BOTS, None)]
    starts = [(backbone, False), *((checkpoint, True) for checkpoint in nli)]
    cells: list[Cell] = []
    for config in configs:
        for method in methods:
            if not (name := METHODS[method].recipes.get(task_of(config))):
                continue
            for checkpoint, is_nli in starts:
                recipe = load_recipe(name).with_changes(config=config, backbone=checkpoint, **(values or {}))
                recipe = recipe.with_changes(name=f"{method}-{task_of(config)}", view=method)
                cells += _cells(method, is_nli, recipe, seeds, parts, data)
    if not cells:
        only = "; ".join(f"{method} is trained on {', '.join(METHODS[method].recipes)}" for method in methods)
        raise InputError(f"no cell is left: the configs are {', '.join(configs)}, but {only}")
    _check_names(cells)
    return cells


def _check(
    table: str, methods: Sequence[str], configs: Sequence[str], seeds: Sequence[int], nli: Sequence[str]
) -> None:
    tasks = {task for method in METHODS.values() for task in method.recipes}
    for kind, given, allowed in (
        ("table", [table], list(TABLES)),
        ("method", methods, list(METHODS)),
        ("config", configs, [f"{task}{end}" for task in sorted(tasks) for end in ("", "-grouped")]),
    ):
        if not given:
            raise InputError(f"no {kind} is named; there are {', '.join(allowed)}")
        if wrong := [name for name in given if name not in allowed]:
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
    if len({f"{share:g}" for share in shares}) < len(shares):  # as in the names of cells
        raise InputError(f"a share is named twice in {', '.join(f'{share:g}' for share in shares)}")


def _check_names(cells: Iterable[Cell]) -> None:
    starts: dict[str, set[str]] = {}
    for cell in cells:
        starts.setdefault(cell.start, set()).add(str(cell.recipe.model.backbone))
    for start, places in starts.items():
        if len(places) > 1:
            raise InputError(f"{' and '.join(sorted(places))} have the same name, {start}; rename one of them")


def _cells(
    method: str, nli: bool, recipe: Recipe, seeds: Sequence[int], parts: Sequence[Mapping[str, Any]], data: str | Path
) -> list[Cell]:
    """A cell for each part of the rows and seed. A zero-shot cell comes first, where an NLI checkpoint can predict."""
    from contradiction.data.splits import fingerprint, load_split
    from contradiction.training import run_folder
    from contradiction.training.augmentation import training_rows

    # Once for all seeds, because it takes a while to read and hash data and backbone.
    request = run_folder.request(recipe, data)
    train = load_split(data, recipe.data.config, "train")
    test = fingerprint(load_split(data, recipe.data.config, "test"))
    start = start_name(str(recipe.model.backbone))
    cells = []
    plain = recipe.data.view in VIEWS and not METHODS[method].artefact
    if nli and plain and task_of(recipe.data.config) == "2-class":
        asked = {"zero_shot": recipe.data.view, "backbone": request["recipe"]["model"]["backbone"]}
        cells.append(Cell(method, start, nli, False, recipe, 0, asked, test))
    for values in parts:
        part = _with_as_many_steps(recipe.with_changes(**values), train)
        rows = len(training_rows(train, part).rows)
        for seed in seeds:
            seeded = part.with_changes(seed=seed)
            leakage.check_sources(seeded, request["data_name"])
            varied = {
                "train_fraction": seeded.data.train_fraction, "bot": seeded.data.bot, "seed": seeded.seed,
                "epochs": seeded.optimizer.epochs,
            }  # fmt: skip
            asked = {**request, "recipe": record.recipe(request).with_changes(**varied).recorded()}
            cells.append(Cell(method, start, nli, True, seeded, rows, asked, test))
    return cells


def share_label(share: float) -> str:
    """What tables add to the name of a method that is trained on a share of the rows."""
    return f", {100 * share:g} % of the rows"


def start_name(checkpoint: str) -> str:
    """The short name of a start: of a folder, of a Hub id without its user, or of what a record calls name@digest."""
    return checkpoint.partition("@")[0] if is_recorded_folder(checkpoint) else Path(checkpoint).resolve().name


def _with_as_many_steps(recipe: Recipe, train: "Dataset") -> Recipe:
    """A recipe for a part of the rows, with as many steps as on all of them.

    With equal epochs, a tenth of the rows would mean a tenth of the steps. A small encoder that starts on the majority
    class has not left it by then, and the table would show that instead of the influence of the rows.
    """
    times = len(train) / (recipe.data.train_fraction * len(of_bot(train, recipe.data.bot)))
    return recipe.with_changes(epochs=round(times * recipe.optimizer.epochs))


def values_of(pairs: Iterable[str]) -> dict[str, Any]:
    """Recipe options from ``key=value``, by their full names. The value is TOML, except that a word needs no quotes.

    A key may leave out its table: ``epochs=3`` is ``optimizer.epochs=3``.

    Raises:
        InputError: a pair is not of that form, or its key is one that the grid varies.
    """
    values: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = (part.strip() for part in pair.partition("="))
        if not (key and equals and value):
            raise InputError(f"{pair!r}: must be key=value, for instance optimizer.epochs=3")
        key = option_named(key)
        if key in VARIED:
            raise InputError(f"{pair!r}: {key} {VARIED[key]}")
        try:
            values[key] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            values[key] = value
    return values


def shard(all_cells: Sequence[Cell], part: str) -> list[Cell]:
    """Every n-th cell from the i-th, for ``i/n`` with i from 1. The n shards together are the whole."""
    numbers = part.split("/")
    if (
        len(numbers) != 2
        or not all(number.isdecimal() for number in numbers)
        or not 1 <= int(numbers[0]) <= int(numbers[1])
    ):
        raise InputError(f"shard {part!r}: must be i/n with i from 1 to n, for instance 1/3")
    first, step = map(int, numbers)
    return list(all_cells[first - 1 :: step])
