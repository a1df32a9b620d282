"""A recipe is one experiment: data, model, and training options. It is read from a TOML file or the record of a run."""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from contradiction.errors import InputError
from contradiction.inputs.views import HIERARCHICAL, TWO_TEXTS
from contradiction.io.files import RECORD, read_json
from contradiction.labels import CONTRADICTIONS, LABELS, STAGES, task_of
from contradiction.paths import CHECKOUT, RECIPES
from contradiction.training.recipe_options import (
    TABLES,
    AugmentationOptions,
    DataOptions,
    DistillationOptions,
    LossOptions,
    ModelOptions,
    OptimizerOptions,
    Options,
)

# Options that go with some views, methods or labels alone, and options that have an effect only with another one.
FOR_CONVERSATIONS = (
    "data.bot", "distillation.ngram_teacher_weight", "distillation.transfer_per_row", "augmentation.nli",
    "augmentation.crossed", "augmentation.other_endings", "augmentation.long_replies",
)  # fmt: skip
FOR_ONE_CHECKPOINT = ("data.target", "teachers", "augmentation.context_negatives", "augmentation.crossed")
MERGED = ("2-class", "4-class")
FOR_LABELS: Mapping[str, Sequence[str]] = {
    "data.target": ("4-class",),
    "model.nli_head": tuple(CONTRADICTIONS),
    "loss.choice": ("response",),
    "loss.ranking": tuple(CONTRADICTIONS),
    "augmentation.context_negatives": ("4-class",),
    "augmentation.crossed": MERGED,
    "augmentation.nli": MERGED,
}
FOR_ENCODERS = (
    "data.target", "model.base_model", "model.dropout", "model.freeze_embeddings", "model.nli_head", "model.max_length",
    "optimizer.checkpoint", "loss.class_weights", "loss.logit_adjustment", "loss.ranking", "loss.choice", "teachers",
    "augmentation.context_negatives", "augmentation.other_endings", "augmentation.long_replies",
)  # fmt: skip
FOR_DECODERS = ("model.num_layers", "model.lora_rank")
NEEDS: Mapping[str, str] = {
    "distillation.weight": "teachers",
    "distillation.temperature": "teachers",
    "augmentation.nli_pairs_per_row": "augmentation.nli",
    "model.base_model": "model.backbone",
    "model.nli_head": "model.backbone",
}


class Recipe(Options):
    """One experiment.

    Attributes:
        name: by default the name of its file, without ``.toml``.
        seed: the seed of weights, data order and dropout, and of the rows that ``train_fraction``,
            ``context_negatives`` and ``nli`` draw.
        precision: fp32, or bf16 or fp16 by autocast; the weights stay in float32. On a CPU with bf16 instructions, bf16
            is more than twice as fast.
        data, model, optimizer, loss, distillation, augmentation: the tables.
    """

    name: str
    seed: int = Field(default=23, ge=0, lt=2**32)
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    data: DataOptions
    model: ModelOptions
    optimizer: OptimizerOptions = OptimizerOptions()
    loss: LossOptions = LossOptions()
    distillation: DistillationOptions = DistillationOptions()
    augmentation: AugmentationOptions = AugmentationOptions()

    @model_validator(mode="before")
    @classmethod
    def _hierarchical_needs_no_view(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        data, model = values.get("data"), values.get("model")
        if isinstance(data, Mapping) and isinstance(model, Mapping) and model.get("method") == "hierarchical":
            return {**values, "data": {"view": HIERARCHICAL, **data}}
        return values

    @model_validator(mode="after")
    def _options_fit_together(self) -> Self:
        if message := next(self._conflicts(), None):
            raise ValueError(message)
        return self

    def _conflicts(self) -> Iterator[str]:
        """Why options do not go together, the first reason first."""
        config, view, method = self.data.config, self.data.view, self.model.method
        task, given = task_of(config), self._changed()
        if (method == "hierarchical") != (view == HIERARCHICAL):
            yield (
                f"data.view is {view!r} and model.method {method!r}; method 'hierarchical' chooses the views of its "
                "stages itself, every other method needs a view"
            )
        for kind in dict.fromkeys(TWO_TEXTS.values()):
            if (TWO_TEXTS.get(view) == kind) != config.startswith(kind):
                views = " or ".join(view for view in TWO_TEXTS if TWO_TEXTS[view] == kind)
                yield f"data.view {view!r} does not read data.config {config!r}; {views} goes with {kind} configs"
        if method == "hierarchical" and task != "4-class":
            yield f"data.config {config!r} has no categories for the stages; allowed are 4-class, 4-class-grouped"
        for name in given:
            if view in TWO_TEXTS and name in FOR_CONVERSATIONS:
                yield f"{name} is for conversations; the view {view} reads two texts"
            if method == "hierarchical" and name in FOR_ONE_CHECKPOINT:
                yield f"{name} is for one checkpoint; method 'hierarchical' trains one for each category"
            if name in (FOR_ENCODERS if method == "decoder" else FOR_DECODERS):
                yield f"{name} has no effect with the method {method!r}; remove it"
            if task not in (tasks := FOR_LABELS.get(name, (task,))):
                yield f"{name} needs the labels of {' or '.join(tasks)}; data.config is {config!r}"
            if (needed := NEEDS.get(name)) and needed not in given:
                yield f"{name} has no effect without {needed}; remove it"
        if method == "decoder" and (view != "flatten" or task != "4-class" or self.model.backbone is None):
            yield "method 'decoder' needs data.view 'flatten', four classes, and model.backbone"
        if "distillation.ngram_teacher_weight" in given and self.data.target:
            yield "distillation.ngram_teacher_weight needs all labels of the config; remove data.target"
        yield from self._conflicts_of_choice()

    def _conflicts_of_choice(self) -> Iterator[str]:
        loss = self.loss
        if loss.choice and self.optimizer.checkpoint == "best":
            yield (
                "loss.choice compares replies, so macro-F1 over single replies cannot choose an epoch; set "
                'optimizer.checkpoint to "last"'
            )
        if loss.choice and (loss.class_weights or loss.logit_adjustment or self.distillation.has_teachers):
            yield "loss.choice is the whole loss; remove class_weights, logit_adjustment and teachers"

    def _changed(self) -> list[str]:
        """The full names of the options that do not have their default."""
        standard = defaults()
        changed = [option_named(key) for key, value in self.options().items() if value != standard.get(key)]
        return [*changed, "teachers"] if self.distillation.has_teachers else changed

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the predicted labels, by class id."""
        return STAGES[self.data.target] if self.data.target else LABELS[task_of(self.data.config)]

    def stages(self) -> "list[Recipe]":
        """The recipes of the stages of a hierarchical recipe, in the order in which they decide; else the recipe."""
        if self.data.view != HIERARCHICAL:
            return [self]
        return [
            self.with_changes(name=f"{self.name}/{stage}", method="checkpoint", view=stage, target=stage)
            for stage in STAGES
        ]

    def options(self) -> dict[str, Any]:
        """All values by their bare names, without tables."""
        values = self.model_dump()
        in_tables = {option: value for table in TABLES for option, value in values.pop(table).items()}
        return in_tables | values

    def recorded(self) -> dict[str, Any]:
        """The values that the record of a run stores: those that identify a run."""
        of_decoders = () if self.model.method == "decoder" else (name.rpartition(".")[2] for name in FOR_DECODERS)
        return self.model_dump(exclude={"model": {"base_model", *of_decoders}})

    @classmethod
    def of(cls, **options: Any) -> "Recipe":
        """A recipe from options by their bare names: ``Recipe.of(name="trial", config="4-class", epochs=3, …)``.

        Raises:
            InputError: an unknown name, or a value out of range.
        """
        changes = {option_named(key): value for key, value in options.items()}
        return validated(in_tables(changes), f"recipe {options.get('name', '')}".rstrip())

    def with_changes(self, **options: Any) -> "Recipe":
        """The same recipe with other values, by their bare names; None does not change a value.

        A new backbone removes ``scratch``, and the ``base_model`` of the previous backbone.

        Raises:
            InputError: an unknown name, or a value out of range.
        """
        changes = {option_named(key): value for key, value in options.items() if value is not None}
        values = self.model_dump()
        if "model.backbone" in changes:
            values["model"] |= {"scratch": None, "base_model": None}
        if changes.get("model.method") == "hierarchical":
            del values["data"]["view"]
        return validated(in_tables(values, changes), f"recipe {self.name}")


TOP_LEVEL = tuple(key for key in Recipe.model_fields if key not in TABLES)


def option_named(key: str) -> str:
    """The full name of an option, with its table: ``epochs`` -> ``optimizer.epochs``; full names do not change.

    Raises:
        InputError: there is no such option.
    """
    known = full_names()
    bare = key.rpartition(".")[2]
    if key in known.values():
        return key
    if "." not in key and key in known:
        return known[key]
    hint = f"did you mean {known[bare]}?" if bare in known else f"the options are {', '.join(known.values())}"
    raise InputError(f"{key!r}: a recipe has no such option; {hint}")


def is_recorded_folder(checkpoint: str | None) -> bool:
    """Whether a name is that of a folder in a record: the name of the folder and the digest of its weights."""
    return bool(checkpoint and re.fullmatch(r"[^/]+@[0-9a-f]{12}", checkpoint))


def validated(values: Mapping[str, Any], where: str) -> Recipe:
    """The recipe with these values.

    Raises:
        InputError: a key or value is wrong; the message starts with ``where`` and names the first wrong key.
    """
    try:
        return Recipe.model_validate(values)
    except ValidationError as error:
        raise InputError(f"{where}: {describe(error)}") from None


def full_names() -> dict[str, str]:
    """Bare name -> full name of each option."""
    in_tables = {option: f"{table}.{option}" for table, options in TABLES.items() for option in options.model_fields}
    return {key: key for key in TOP_LEVEL} | in_tables


def defaults() -> dict[str, Any]:
    """Bare name -> default of each option that has one."""
    fields = [*Recipe.model_fields.items(), *(item for table in TABLES.values() for item in table.model_fields.items())]
    return {key: field.default for key, field in fields if key not in TABLES and not field.is_required()}


def in_tables(*parts: Mapping[str, Any]) -> dict[str, Any]:
    """The values of all parts with their tables; later parts count. Options that stand outside get into their table.

    What is no option stays where it is, so that validation names it.
    """
    known = full_names()
    placed: dict[str, Any] = {}
    for key, value in (item for part in parts for item in part.items()):
        table, _, option = known.get(key, key).rpartition(".")
        if table in TABLES:
            placed.setdefault(table, {})[option] = value
        elif key in TABLES and isinstance(value, Mapping):
            placed[key] = {**placed.get(key, {}), **value}
        else:
            placed[key] = value
    return placed


def describe(error: "ValidationError") -> str:
    """The first error: its key with the table, and what would be right."""
    first: Any = error.errors(include_url=False)[0]
    key = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        table = key.rpartition(".")[0]
        known = TABLES[table].model_fields if table in TABLES else [*TOP_LEVEL, *(f"[{name}]" for name in TABLES)]
        return f"{key} is not an option; " + (f"[{table}] has " if table else "a recipe has ") + ", ".join(known)
    if first["type"] == "missing":
        return f"{key} is missing"
    message = first["msg"].removeprefix("Value error, ").replace("Input should be", "it should be")
    if not key:
        return message
    # An error of a whole table names its keys in the message.
    is_table = key in TABLES or key == "model.scratch"
    return f"[{key}]: {message}" if is_table else f"{key} is {first['input']!r}: {message}"


def recipe_files() -> dict[str, Path]:
    """The recipes of the repository: a dictionary from name to file."""
    return {file.stem: file for file in sorted(RECIPES.glob("*/*.toml"))}


def load_recipe(path: str | Path | Mapping[str, Any]) -> Recipe:
    """Reads a recipe.

    Args:
        path: a TOML file, the name of a recipe of the repository, a ``run.json``, or a model folder with one. A record
            names folders by their digest, see :func:`require_folders`. Or a dictionary of options. In a dictionary and
            in a file, options have their tables or stand by their bare names.

    Raises:
        InputError: there is no such file, it is not TOML or not a record, or its recipe has an unknown key or a wrong
            value.
    """
    if isinstance(path, Mapping):
        where = f"recipe {path.get('name', '')}".rstrip()
        return validated(in_tables(path), where)
    file = Path(path)
    if not file.is_file():
        file = recipe_files().get(str(path), file)
    if file.is_dir():
        file = file / RECORD
    if not file.is_file():
        known = ", ".join(recipe_files())
        raise InputError(f"{path}: no such recipe; give a TOML file, the run.json of a model, or one of {known}")
    values = _of_record(file) if file.suffix == ".json" else _of_toml(file)
    return validated(values, str(file))


def require_folders(recipe: Recipe, where: str) -> None:
    """Raises InputError where a recipe names a folder by its digest: only the user knows where that folder is."""
    backbone, teachers, nli = recipe.model.backbone, recipe.distillation.teachers, recipe.augmentation.nli
    if is_recorded_folder(backbone):
        raise InputError(f"{where}: started from {backbone}, a folder's name and digest; name it by --backbone")
    if recorded := [teacher for teacher in teachers if is_recorded_folder(teacher)]:
        several = len(teachers) > 1
        remedy = f"name all {len(teachers)} by --teacher, in this order" if several else "name it by --teacher"
        raise InputError(f"{where}: distilled from {', '.join(recorded)}, a folder's name and digest; {remedy}")
    if is_recorded_folder(nli):
        raise InputError(f"{where}: read pairs of {nli}, a folder's name and digest; name it by --nli")


def _of_toml(file: Path) -> dict[str, Any]:
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{file}: not a TOML file in UTF-8 ({error})") from None
    values = {"name": file.stem, **in_tables(values)}
    model, distillation = values.get("model"), values.get("distillation")
    if isinstance(model, dict) and "backbone" in model:
        model["backbone"] = _in_checkout(model["backbone"])
    if isinstance(distillation, dict) and isinstance(teachers := distillation.get("teachers"), list):
        distillation["teachers"] = [_in_checkout(teacher) for teacher in teachers]
    return values


def _in_checkout(model: Any) -> Any:
    """A folder such as ``models/NAME`` of the checkout, where the current folder has none of that name."""
    if not isinstance(model, str) or not CHECKOUT or Path(model).exists() or not (CHECKOUT / model).is_dir():
        return model
    return str(CHECKOUT / model)


def _of_record(file: Path) -> dict[str, Any]:
    run = read_json(file)
    request = run.get("request")
    if not isinstance(request, dict) or not isinstance(request.get("recipe"), dict):
        raise InputError(f"{file}: not the record of a run, it holds no recipe; `cdconv train` writes one")
    for kind, command in {"ensemble": "cdconv ensemble", "soup": "python -m paper.soup"}.items():
        if kind in request:
            raise InputError(f"{file}: of {len(request[kind])} runs; train each of them, then use `{command}`")
    values: dict[str, Any] = request["recipe"]
    if isinstance(model := values.get("model"), dict):
        values = {**values, "model": {**model, "base_model": run.get("base_model")}}
    return values
