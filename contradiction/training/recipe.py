"""A recipe is one experiment: data, model, and training options. It is read from a TOML file or the record of a run."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from contradiction.errors import InputError, listed
from contradiction.inputs.views import HIERARCHICAL, TWO_TEXTS
from contradiction.io.files import RECORD, read_json
from contradiction.labels import CONTRADICTIONS, LABELS, STAGES, task_of
from contradiction.paths import CHECKOUT, RECIPES
from contradiction.training.recipe_options import (
    AugmentationOptions,
    DataOptions,
    DistillationOptions,
    LossOptions,
    ModelOptions,
    OptimizerOptions,
    Options,
)

TEACHERS = ("distillation.teachers", "distillation.ngram_teacher_weight")
FOR_CONVERSATIONS = (
    "data.bot", "distillation.ngram_teacher_weight", "distillation.transfer_per_row", "augmentation.nli",
    "augmentation.crossed", "augmentation.other_endings", "augmentation.long_replies",
)  # fmt: skip
FOR_ENCODERS = (
    "data.target", "model.dropout", "model.freeze_embeddings", "model.nli_head", "model.max_length",
    "optimizer.checkpoint", "loss.class_weights", "loss.logit_adjustment", "loss.ranking", "loss.choice", *TEACHERS,
    "augmentation.other_endings", "augmentation.long_replies",
)  # fmt: skip
FOR_DECODERS = ("model.num_layers", "model.lora_rank")


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

    @model_validator(mode="after")
    def _options_fit_together(self) -> Self:
        if message := next(self._conflicts(), None):
            raise ValueError(message)
        return self

    def _conflicts(self) -> Iterator[str]:
        """Why options do not go together, the first reason first."""
        config, view, method = self.data.config, self.data.view, self.model.method
        if (method == "hierarchical") != (view == HIERARCHICAL):
            yield f"data.view is {view!r}: method 'hierarchical' chooses its views itself, and any other needs a view"
        for kind in dict.fromkeys(TWO_TEXTS.values()):
            if (TWO_TEXTS.get(view) == kind) != config.startswith(kind):
                yield f"data.view {view!r} does not read data.config {config!r}"
        if method == "decoder" and (view != "flatten" or self.model.backbone is None):
            yield "method 'decoder' needs data.view 'flatten' and model.backbone"
        if self.loss.choice and self.optimizer.checkpoint == "best":
            yield 'loss.choice compares replies, and macro-F1 judges each alone; set optimizer.checkpoint to "last"'
        task, teachers, given = task_of(config), self.distillation.has_teachers, self.changed()
        for applies, names, why in (
            (self.data.view in TWO_TEXTS, FOR_CONVERSATIONS, "is for conversations, and the view reads two texts"),
            (method == "hierarchical", ("data.target", *TEACHERS, "augmentation.context_negatives",
                                        "augmentation.crossed"), "is for one checkpoint, and the method trains three"),
            (method == "decoder", FOR_ENCODERS, "has no effect with the method 'decoder'"),
            (method == "decoder" and not self.augmentation.crossed, ("augmentation.context_negatives",),
             "has no effect without augmentation.crossed"),
            (method != "decoder", FOR_DECODERS, f"has no effect with the method {method!r}"),
            (task != "4-class", ("data.target", "augmentation.context_negatives"), "needs the labels of 4-class"),
            (task != "4-class", ("model.method",), f"{method!r} needs the labels of 4-class"),
            (task not in ("2-class", "4-class"), ("augmentation.crossed", "augmentation.nli"),
             "needs the labels of 2-class or 4-class"),
            (task not in CONTRADICTIONS, ("model.nli_head", "loss.ranking"), "needs labels of contradictions"),
            (task != "response", ("loss.choice",), "needs the labels of response"),
            (self.loss.choice, ("data.train_fraction",), "would split the replies that loss.choice compares"),
            (self.loss.choice, ("loss.class_weights", "loss.logit_adjustment", *TEACHERS),
             "has no effect with loss.choice, which is the whole loss"),
            (self.data.target, ("distillation.ngram_teacher_weight",), "needs all labels, without data.target"),
            (not teachers, ("distillation.weight", "distillation.temperature", "distillation.transfer_per_row"),
             "has no effect without teachers"),
            (not self.augmentation.nli, ("augmentation.nli_pairs_per_row",), "has no effect without augmentation.nli"),
            (not self.augmentation.crossed, ("augmentation.crossed_batches",),
             "has no effect without augmentation.crossed"),
            (not self.model.backbone, ("model.base_model", "model.nli_head"), "has no effect without model.backbone"),
        ):  # fmt: skip
            if applies:
                yield from (f"{name} {why}" for name in names if name in given)

    def changed(self) -> set[str]:
        """The full names of the options that do not have their default."""
        values = self.model_dump(exclude_defaults=True)
        return {f"{table}.{option}" for table in values.keys() & TABLES.keys() for option in values[table]}

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
        of_decoders = {"num_layers", "lora_rank"} if self.model.method != "decoder" else set[str]()
        return self.model_dump(exclude={"model": {"base_model", *of_decoders}})

    @classmethod
    def of(cls, **options: Any) -> "Recipe":
        """A recipe from options by their bare names: ``Recipe.of(name="trial", config="4-class", epochs=3, …)``."""
        return validated(in_tables(options), f"recipe {options.get('name', '')}".rstrip())

    def with_changes(self, **options: Any) -> "Recipe":
        """The same recipe with other values, by their bare names; None does not change a value.

        A new backbone removes ``scratch``, and the ``base_model`` of the previous backbone. See :func:`validated`.
        """
        changes = in_tables({key: value for key, value in options.items() if value is not None})
        values, model = self.model_dump(), changes.get("model", {})
        if "backbone" in model:
            values["model"] |= {"scratch": None, "base_model": None}
        if model.get("method") == "hierarchical":
            del values["data"]["view"]
        return validated(in_tables(values, changes), f"recipe {self.name}")


TABLES: dict[str, type[Options]] = {
    name: field.annotation
    for name, field in Recipe.model_fields.items()
    if isinstance(field.annotation, type) and issubclass(field.annotation, Options)
}
# Bare name -> full name of each option: epochs -> optimizer.epochs.
FULL_NAMES = {key: key for key in Recipe.model_fields if key not in TABLES} | {
    option: f"{table}.{option}" for table, options in TABLES.items() for option in options.model_fields
}


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
        raise InputError(f"{where}: {_describe(error)}") from None


def in_tables(*parts: Mapping[str, Any]) -> dict[str, Any]:
    """The values of all parts with their tables; later parts count. Options that stand outside get into their table.

    What is no option stays where it is, so that validation names it.
    """
    placed: dict[str, Any] = {}
    for key, value in (item for part in parts for item in part.items()):
        table, _, option = FULL_NAMES.get(key, key).rpartition(".")
        if table in TABLES:
            placed.setdefault(table, {})[option] = value
        elif key in TABLES and isinstance(value, Mapping):
            placed[key] = {**placed.get(key, {}), **value}
        else:
            placed[key] = value
    return placed


def _describe(error: "ValidationError") -> str:
    """The first error: its key with the table, and what would be right."""
    first: Any = error.errors(include_url=False)[0]
    key = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        table = key.rpartition(".")[0]
        known = TABLES[table].model_fields if table in TABLES else FULL_NAMES.values()
        return f"{key} is not an option; the options are {', '.join(known)}"
    message = first["msg"].removeprefix("Value error, ").replace("Input should be", "it should be")
    if not key:
        return message
    given = "" if isinstance(first["input"], Mapping) else f" is {first['input']!r}"
    return f"{key}{given}: {message}"


def recipe_files() -> dict[str, Path]:
    """The recipes of the repository: a dictionary from name to file."""
    return {file.stem: file for file in sorted(RECIPES.glob("*/*.toml"))}


def load_recipe(path: str | Path | Mapping[str, Any]) -> Recipe:
    """Reads a recipe.

    Args:
        path: a TOML file, the name of a recipe of the repository, a ``run.json``, or a model folder with one; or a
            dictionary of options. Options have their tables or stand by their bare names.

    Raises:
        InputError: there is no such file, it is not TOML or not a record, or see :func:`validated`.
    """
    if isinstance(path, Mapping):
        return Recipe.of(**path)
    file = Path(path)
    if not file.is_file():
        file = recipe_files().get(str(path), file)
    if file.is_dir():
        file = file / RECORD
    if not file.is_file():
        known = listed(recipe_files(), path)
        raise InputError(f"{path}: no such recipe; give a TOML file, the run.json of a model, or one of {known}")
    values = _of_record(file) if file.suffix == ".json" else _of_toml(file)
    return validated(values, str(file))


def require_folders(recipe: Recipe, where: str) -> None:
    """Raises InputError where a recipe names a folder by its digest: only the user knows where that folder is."""
    for option, names in (
        ("backbone", [recipe.model.backbone]),
        ("teacher", recipe.distillation.teachers),
        ("nli", [recipe.augmentation.nli]),
    ):
        if any(map(is_recorded_folder, names)):
            named = ", ".join(map(str, names))
            raise InputError(f"{where}: made from {named}, a folder's name and digest; name the folder by --{option}")


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
    if {"ensemble", "soup"} & request.keys():
        raise InputError(f"{file}: of several runs; train each of them, then combine them again")
    values: dict[str, Any] = request["recipe"]
    if isinstance(model := values.get("model"), dict) and model.get("method") != "decoder":  # it names its base
        values = {**values, "model": {**model, "base_model": run.get("base_model")}}
    return values
