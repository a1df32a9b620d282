"""The cells of a table: one run for each method, config, starting checkpoint, part of the rows, and seed."""

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
from contradiction.training.recipe import FULL_NAMES, Recipe, is_recorded_folder, load_recipe

if TYPE_CHECKING:
    from datasets import Dataset


@dataclass(frozen=True)
class Method:
    """A method; its key in ``METHODS`` is its view.

    Attributes:
        recipes: the name of its recipe for each label set.
        colour: the colour of its curve, from the palette of Okabe and Ito for colour-blind readers.
        paper: whether it is a method of the paper. The others are artefact baselines: the same encoder, which reads
            only the reply, or only the context.
    """

    recipes: Mapping[str, str]
    colour: str
    paper: bool = True


_FLATTEN = {"2-class": "flatten-2-class", "4-class": "flatten-4-class"}
METHODS: dict[str, Method] = {
    "sentence-pair": Method({"2-class": "sentence-pair-2-class", "4-class": "sentence-pair-4-class"}, "#0072B2"),
    "flatten": Method(_FLATTEN, "#E69F00"),
    "hierarchical": Method({"4-class": "hierarchical-4-class"}, "#009E73"),
    "reply-only": Method(_FLATTEN, "#CC79A7", paper=False),
    "context-only": Method(_FLATTEN, "#000000", paper=False),
}
CONFIGS = tuple(f"{task}{end}" for task in ("4-class", "2-class") for end in ("", GROUPED))
CURVE, BY_BOT = "learning-curve", "bots"
TABLES = {
    "table4": "The paper's Table 4: methods",
    "table5": "The paper's Table 5: the influence of an NLI stage",
    CURVE: "Learning curve: the influence of the training rows",
    BY_BOT: "Leaving one bot out: trained on one bot, tested on the other",
}
FRACTIONS = (0.1, 0.25, 0.5, 1.0)
# The recipe options that the grid itself sets, so --set cannot.
VARIED = (
    *("name", "seed", "data.view", "data.target", "data.config", "data.train_fraction", "data.bot"),
    *("model.method", "model.backbone", "model.scratch"),
)


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
        data = self.recipe.data
        part = f"-{data.bot}" if data.bot else ""
        part += "" if data.train_fraction == 1 else f"-share{data.train_fraction:g}"
        return f"{self.method}-{self.config}-{self.checkpoint}{part}-seed{self.seed}"

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
    methods: Sequence[str] = ("sentence-pair", "flatten", "hierarchical"),
    configs: Sequence[str] = ("4-class", "2-class"),
    seeds: Sequence[int] = (23, 42, 133, 233),
    backbone: str | None = None,
    nli: Sequence[str] = (),
    values: Mapping[str, Any] | None = None,
) -> list[Cell]:
    """The cells of a table.

    A method has no cell on a config that it cannot be trained on, for instance the hierarchical one on 2-class.

    Args:
        table: a key of ``TABLES``. ``table4`` has a cell for each method, config and seed. ``table5`` has these cells
            for the backbone and for each NLI checkpoint, and a zero-shot cell for each plain method on 2-class configs.
            ``learning-curve`` has the cells of ``table4`` for each of ``FRACTIONS``, and ``bots`` has them for each bot
            and for both. A cell of all rows, or of both bots, is the cell of ``table4``.
        data: the data repo.
        methods: keys of ``METHODS``.
        configs: members of ``CONFIGS``.
        seeds: the seeds.
        backbone: folder or Hub id, instead of the recipes'.
        nli: NLI checkpoints, for ``table5``.
        values: recipe options for all cells.

    Raises:
        InputError: an argument is not allowed, no cell is left, or a starting checkpoint was trained on rows that a
            cell leaves out.
    """
    _check(table, methods, configs, seeds, nli)
    parts: Sequence[Mapping[str, Any]] = [{}]
    if table == CURVE:
        parts = [{"train_fraction": fraction} for fraction in FRACTIONS]
    elif table == BY_BOT:
        parts = [{"bot": bot} for bot in (*BOTS, None)]
    cells: list[Cell] = []
    for config in configs:
        for method in methods:
            if not (name := METHODS[method].recipes.get(task_of(config))):
                continue
            for checkpoint, is_nli in [(backbone, False), *((checkpoint, True) for checkpoint in nli)]:
                recipe = load_recipe(name).with_changes(config=config, backbone=checkpoint, **(values or {}))
                recipe = recipe.with_changes(name=f"{method}-{task_of(config)}", view=method)
                cells += _cells(method, is_nli, recipe, seeds, parts, data)
    if not cells:
        raise InputError(f"no cell is left: {', '.join(methods)} cannot be trained on {', '.join(configs)}")
    places = {cell.name: str(cell.recipe.model.backbone) for cell in cells}
    if alike := [cell for cell in cells if places[cell.name] != str(cell.recipe.model.backbone)]:
        raise InputError(f"two starting checkpoints have the same name, {alike[0].checkpoint}; rename one of them")
    return cells


def _check(
    table: str, methods: Sequence[str], configs: Sequence[str], seeds: Sequence[int], nli: Sequence[str]
) -> None:
    for kind, names, allowed in (
        ("table", [table], [*TABLES]),
        ("method", methods, [*METHODS]),
        ("config", configs, [*CONFIGS]),
    ):
        if wrong := [name for name in names if name not in allowed]:
            raise InputError(f"{kind} {wrong[0]!r} does not exist; the {kind}s are {', '.join(allowed)}")
        if not names or len(set(names)) < len(names):
            raise InputError(f"{kind}s {', '.join(names) or 'none'}: name at least one, each once")
    if not seeds or len(set(seeds)) < len(seeds):
        raise InputError(f"seeds {', '.join(map(str, seeds)) or 'none'}: give at least one, each once")
    if (table == "table5") != bool(nli):
        raise InputError(f"{table}: --nli names the checkpoints of an NLI stage for table5, and for no other table")


def _cells(
    method: str, nli: bool, recipe: Recipe, seeds: Sequence[int], parts: Sequence[Mapping[str, Any]], data: str | Path
) -> list[Cell]:
    """A cell for each part of the rows and each seed, after the zero-shot cell of an NLI checkpoint."""
    from contradiction.training.augmentation import training_rows
    from contradiction.training.run import run_request

    # Once for all seeds, because reading and hashing data and backbone is slow.
    request = run_request(recipe, data)
    train = load_split(data, recipe.data.config, "train")
    test = fingerprint(load_split(data, recipe.data.config, "test"))
    checkpoint = checkpoint_name(str(recipe.model.backbone))
    cells = []
    plain = recipe.data.view in VIEWS and METHODS[method].paper
    if nli and plain and task_of(recipe.data.config) == "2-class":
        zero_shot = {"zero_shot": recipe.data.view, "backbone": request["recipe"]["model"]["backbone"]}
        cells.append(Cell(method, checkpoint, nli, False, recipe, 0, zero_shot, test))
    for values in parts:
        part = _with_as_many_steps(recipe.with_changes(**values), train)
        rows = len(training_rows(train, part).rows)
        for seed in seeds:
            seeded = part.with_changes(seed=seed)
            leakage.check_sources(seeded, request["data_name"])
            varied = {**values, "seed": seed, "epochs": seeded.optimizer.epochs}
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
        InputError: a pair has another form, or the grid itself sets its key.
    """
    values: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = (part.strip() for part in pair.partition("="))
        if not (key and equals and value):
            raise InputError(f"{pair!r}: must be key=value, for instance optimizer.epochs=3")
        key = FULL_NAMES.get(key, key)
        if key in VARIED:
            raise InputError(f"{pair!r}: the grid itself sets {key}")
        try:
            values[key] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            values[key] = value
    return values
