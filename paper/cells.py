"""The cells of a table: one for each method, training data, starting checkpoint and seed.

To add a method, add an entry to :data:`METHODS`.
"""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contradiction.data.splits import fingerprint, load_split, of_bot
from contradiction.errors import InputError
from contradiction.inputs.views import VIEWS
from contradiction.labels import BOTS, GROUPED, task_of
from contradiction.training import leakage, record
from contradiction.training.recipe import Recipe, is_recorded_folder, option_named
from contradiction.training.recipe_files import load_recipe

if TYPE_CHECKING:
    from datasets import Dataset


@dataclass(frozen=True)
class Method:
    """A method of the grid; its key in ``METHODS`` is its view.

    Attributes:
        recipes: the name of its recipe in ``models/recipes`` for each label set.
        colour: the colour of its curve, from the palette of Okabe and Ito for colour-blind readers.
        paper: whether it is a method of the paper. By default a table has only these.
        artefact: whether it is an artefact baseline: an encoder that reads only the reply or only the context.
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
    # The training of flatten, on other views.
    "reply-only": Method(_FLATTEN, colour="#CC79A7", artefact=True),
    "context-only": Method(_FLATTEN, colour="#000000", artefact=True),
}


def paper_methods() -> tuple[str, ...]:
    """The names of the paper's methods."""
    return tuple(name for name, method in METHODS.items() if method.paper)


CURVE, BY_BOT = "learning-curve", "bots"
TABLES = {
    "table4": "The paper's Table 4: methods",
    "table5": "The paper's Table 5: the influence of an NLI stage",
    CURVE: "Learning curve: the influence of the training rows",
    BY_BOT: "Leaving one bot out: trained on one bot, tested on the other",
}
SEEDS = (23, 42, 133, 233)
TRAIN_FRACTIONS = (0.1, 0.25, 0.5, 1.0)
# The recipe options that the grid varies, so --set cannot set them.
VARIED = {
    "name": "is set by the method",
    "seed": "is chosen by --seeds",
    "data.view": "is set by the method; --methods chooses",
    "data.target": "is set by the method",
    "data.config": "is chosen by --configs",
    "data.train_fraction": f"is chosen by --train-fractions, in {CURVE}",
    "data.bot": f"is varied by {BY_BOT}",
    "model.method": "is chosen by --methods",
    "model.backbone": "is chosen by --backbone",
    "model.scratch": "is not possible: the grid starts from a backbone",
}


@dataclass(frozen=True)
class Cell:
    """One run of the grid.

    Attributes:
        method: a key of ``METHODS``.
        checkpoint: the short name of the starting checkpoint.
        nli: whether the starting checkpoint is that of an NLI stage.
        trained: False for zero-shot, where the NLI checkpoint predicts without further training.
        recipe: the recipe. A zero-shot cell uses only its view, config and checkpoint.
        rows: the number of training rows.
        request: the request in the record of the run.
        test: the fingerprint of the test split.
    """

    method: str
    checkpoint: str
    nli: bool
    trained: bool
    recipe: Recipe
    rows: int
    request: Mapping[str, Any]
    test: str

    @property
    def config(self) -> str:
        """The predicted config."""
        return self.recipe.data.config

    @property
    def seed(self) -> int | None:
        """The seed; None where nothing is random."""
        return self.recipe.seed if self.trained else None

    @property
    def name(self) -> str:
        """The name of the files of the cell."""
        if not self.trained:
            return f"zero-shot-{self.method}-{self.config}-{self.checkpoint}"
        return f"{self.method}-{self.config}-{self.checkpoint}{self.part}-seed{self.seed}"

    @property
    def part(self) -> str:
        """The part of the file names for the training rows; empty for all rows."""
        fraction = "" if self.recipe.data.train_fraction == 1 else f"-share{self.recipe.data.train_fraction:g}"
        return f"{f'-{self.recipe.data.bot}' if self.recipe.data.bot else ''}{fraction}"

    @property
    def subset(self) -> str:
        """The fraction of the training rows, and the config whose labels it was drawn by; empty for all rows."""
        return "" if self.recipe.data.train_fraction == 1 else f"{self.recipe.data.train_fraction:g} of {self.config}"

    def model(self, out: Path) -> Path:
        """The model folder."""
        return out / "models" / self.name

    def evaluation(self, out: Path, split: str) -> Path:
        """The file of the evaluation."""
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
    train_fractions: Sequence[float] = (),
    values: Mapping[str, Any] | None = None,
) -> list[Cell]:
    """The cells of a table.

    A method has no cell on a config that it cannot be trained on, for instance the hierarchical one on 2-class.

    Args:
        table: a key of ``TABLES``. ``table4`` has a cell for each method, config and seed. ``table5`` has these cells
            for the backbone and for each NLI checkpoint, and a zero-shot cell for each plain method on 2-class configs.
            ``learning-curve`` has the cells of ``table4`` for every fraction of the rows, and ``bots`` has them for
            each bot and for both. A cell of fraction 1, or of both bots, is the cell of ``table4``.
        data: the data repo.
        methods: keys of ``METHODS``, by default those of the paper.
        configs: configs of two or four classes, also grouped.
        seeds: the seeds.
        backbone: folder or Hub id, instead of the recipes'.
        nli: NLI checkpoints, for ``table5``.
        train_fractions: fractions of the training rows, for ``learning-curve``, by default ``TRAIN_FRACTIONS``.
        values: recipe options for all cells.

    Raises:
        InputError: an argument is not allowed, no cell is left, or a starting checkpoint was trained on rows that a
            cell leaves out.
    """
    methods = paper_methods() if methods is None else methods
    _check(table, methods, configs, seeds, nli, train_fractions)
    parts: Sequence[Mapping[str, Any]] = [{}]
    if table == CURVE:
        parts = [{"train_fraction": fraction} for fraction in train_fractions or TRAIN_FRACTIONS]
    elif table == BY_BOT:
        parts = [{"bot": bot} for bot in (*BOTS, None)]
    checkpoints = [(backbone, False), *((checkpoint, True) for checkpoint in nli)]
    cells: list[Cell] = []
    for config in configs:
        for method in methods:
            if not (name := METHODS[method].recipes.get(task_of(config))):
                continue
            for checkpoint, is_nli in checkpoints:
                recipe = load_recipe(name).with_changes(config=config, backbone=checkpoint, **(values or {}))
                recipe = recipe.with_changes(name=f"{method}-{task_of(config)}", view=method)
                cells += _cells(method, is_nli, recipe, seeds, parts, data)
    if not cells:
        trained_on = "; ".join(f"{method} is trained on {', '.join(METHODS[method].recipes)}" for method in methods)
        raise InputError(f"no cell is left: the configs are {', '.join(configs)}, but {trained_on}")
    _check_names(cells)
    return cells


def _check(
    table: str,
    methods: Sequence[str],
    configs: Sequence[str],
    seeds: Sequence[int],
    nli: Sequence[str],
    fractions: Sequence[float],
) -> None:
    tasks = {task for method in METHODS.values() for task in method.recipes}
    for kind, names, allowed in (
        ("table", [table], list(TABLES)),
        ("method", methods, list(METHODS)),
        ("config", configs, [f"{task}{end}" for task in sorted(tasks) for end in ("", GROUPED)]),
    ):
        if not names:
            raise InputError(f"no {kind} is named; the {kind}s are {', '.join(allowed)}")
        if wrong := [name for name in names if name not in allowed]:
            raise InputError(f"{kind} {wrong[0]!r} does not exist; the {kind}s are {', '.join(allowed)}")
        if len(set(names)) < len(names):
            raise InputError(f"a {kind} is named twice in {', '.join(names)}")
    if not seeds or len(set(seeds)) < len(seeds):
        raise InputError(f"the seeds are {', '.join(map(str, seeds)) or 'none'}; give at least one, each once")
    if (table == "table5") != bool(nli):
        raise InputError(
            "table5 compares with an NLI stage: --nli names its checkpoint, a folder or a Hub id"
            if table == "table5"
            else f"{table} has no NLI stage to compare with; --backbone starts all cells from an NLI checkpoint"
        )
    if fractions and table != CURVE:
        raise InputError(f"{table} is trained on all rows; --train-fractions goes with {CURVE}")
    written = [f"{fraction:g}" for fraction in fractions]
    if len(set(written)) < len(written):
        raise InputError(f"a fraction is named twice in {', '.join(written)}")


def _check_names(cells: Iterable[Cell]) -> None:
    places_of: dict[str, set[str]] = {}
    for cell in cells:
        places_of.setdefault(cell.checkpoint, set()).add(str(cell.recipe.model.backbone))
    for checkpoint, places in places_of.items():
        if len(places) > 1:
            raise InputError(f"{' and '.join(sorted(places))} have the same name, {checkpoint}; rename one of them")


def _cells(
    method: str, nli: bool, recipe: Recipe, seeds: Sequence[int], parts: Sequence[Mapping[str, Any]], data: str | Path
) -> list[Cell]:
    """A cell for each part of the rows and each seed, after the zero-shot cell of an NLI checkpoint."""
    from contradiction.training import run_folder
    from contradiction.training.augmentation import training_rows

    # Once for all seeds, because reading and hashing data and backbone is slow.
    request = run_folder.run_request(recipe, data)
    train = load_split(data, recipe.data.config, "train")
    test = fingerprint(load_split(data, recipe.data.config, "test"))
    checkpoint = checkpoint_name(str(recipe.model.backbone))
    cells = []
    plain = recipe.data.view in VIEWS and not METHODS[method].artefact
    if nli and plain and task_of(recipe.data.config) == "2-class":
        zero_shot = {"zero_shot": recipe.data.view, "backbone": request["recipe"]["model"]["backbone"]}
        cells.append(Cell(method, checkpoint, nli, False, recipe, 0, zero_shot, test))
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
            changed = {**request, "recipe": record.recipe(request).with_changes(**varied).recorded()}
            cells.append(Cell(method, checkpoint, nli, True, seeded, rows, changed, test))
    return cells


def checkpoint_name(checkpoint: str) -> str:
    """The short name of a checkpoint: a folder, a Hub id, or the ``name@digest`` of a record."""
    return checkpoint.partition("@")[0] if is_recorded_folder(checkpoint) else Path(checkpoint).resolve().name


def _with_as_many_steps(recipe: Recipe, train: "Dataset") -> Recipe:
    """A recipe for a part of the rows, with the same number of steps as on all rows.

    With the same number of epochs, a tenth of the rows would have a tenth of the steps. A small encoder predicts only
    the majority class after so few steps, and the table would show this instead of the influence of the rows.
    """
    times = len(train) / (recipe.data.train_fraction * len(of_bot(train, recipe.data.bot)))
    return recipe.with_changes(epochs=round(times * recipe.optimizer.epochs))


def values_of(pairs: Iterable[str]) -> dict[str, Any]:
    """Recipe options from ``key=value``, by their full names. Values are TOML; a word needs no quotes.

    A key may leave out its table: ``epochs=3`` is ``optimizer.epochs=3``.

    Raises:
        InputError: a pair has another form, or the grid itself varies its key.
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
    """Every n-th cell from the i-th, for ``i/n`` with i from 1; the n shards together have all cells."""
    numbers = part.split("/")
    if (
        len(numbers) != 2
        or not all(number.isdecimal() for number in numbers)
        or not 1 <= int(numbers[0]) <= int(numbers[1])
    ):
        raise InputError(f"shard {part!r}: must be i/n with i from 1 to n, for instance 1/3")
    first, step = map(int, numbers)
    return list(all_cells[first - 1 :: step])
