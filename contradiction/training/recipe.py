"""A recipe is one experiment: its data, its model, and its training options."""

import re
from collections.abc import Mapping
from typing import Any, Literal, Self, TypeVar

from pydantic import Field, ValidationError, model_validator

from contradiction.errors import InputError
from contradiction.inputs.views import HIERARCHICAL, TWO_TEXTS
from contradiction.labels import CONTRADICTIONS, LABELS, STAGES, task_of
from contradiction.training.recipe_options import (
    ALLOWED,
    TABLES,
    AugmentationOptions,
    DataOptions,
    DistillationOptions,
    LossOptions,
    ModelOptions,
    OptimizerOptions,
    Options,
)

# The options that apply to a method that fine-tunes nothing.
WITHOUT_STEPS = (
    "name", "seed", "precision", "config", "view", "bot", "train_fraction", "method", "options", "backbone",
    "base_model",
)  # fmt: skip
RecipeT = TypeVar("RecipeT", bound="Recipe")


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
    def _data_fit_together(self) -> Self:
        data, hierarchical = self.data, self.model.method == "hierarchical"
        if hierarchical != (data.view == HIERARCHICAL):
            raise ValueError(
                f"data.view is {data.view!r} and model.method {self.model.method!r}; method 'hierarchical' chooses the "
                "views of its stages itself, every other method needs a view"
            )
        for kind in dict.fromkeys(TWO_TEXTS.values()):
            if (TWO_TEXTS.get(data.view) == kind) != data.config.startswith(kind):
                views = " or ".join(view for view in TWO_TEXTS if TWO_TEXTS[view] == kind)
                raise ValueError(
                    f"data.view {data.view!r} does not read data.config {data.config!r}; the view {views} goes with "
                    f"{kind} configs"
                )
        if data.bot and data.view in TWO_TEXTS:
            raise ValueError(f"data.config {data.config!r} holds no replies of bots; remove data.bot")
        if data.target and hierarchical:
            raise ValueError("method 'hierarchical' targets each category in turn; remove data.target")
        if (data.target or hierarchical) and task_of(data.config) != "4-class":
            raise ValueError(
                f"data.config {data.config!r} has no categories to target; allowed are 4-class, 4-class-grouped"
            )
        return self

    @model_validator(mode="after")
    def _teachers_teach_one_checkpoint(self) -> Self:
        distillation, data = self.distillation, self.data
        if distillation.has_teachers and data.view == HIERARCHICAL:
            raise ValueError("teachers teach one checkpoint; method 'hierarchical' trains one for each category")
        if distillation.ngram_teacher_weight and (data.view in TWO_TEXTS or data.target):
            raise ValueError(
                "distillation.ngram_teacher_weight needs conversations, and all labels of the config; it goes neither "
                f"with the views {' and '.join(TWO_TEXTS)} nor with data.target"
            )
        if distillation.transfer_per_row and data.view in TWO_TEXTS:
            raise ValueError(
                f"distillation.transfer_per_row makes conversations; the view {data.view} reads pairs of texts"
            )
        return self

    @model_validator(mode="after")
    def _augmentation_fits_the_labels(self) -> Self:
        task, view = task_of(self.data.config), self.data.view
        if self.augmentation.context_negatives and (task != "4-class" or view == HIERARCHICAL):
            raise ValueError(
                "augmentation.context_negatives copies rows labelled history; it needs one checkpoint of four classes"
            )
        if self.augmentation.nli and (view in TWO_TEXTS or task not in ("2-class", "4-class")):
            raise ValueError(
                "augmentation.nli reads pairs of sentences as conversations, for a detector of contradictions"
            )
        if (self.augmentation.other_endings or self.augmentation.long_replies) and view in TWO_TEXTS:
            raise ValueError(
                "augmentation.other_endings and augmentation.long_replies rewrite conversations; the view "
                f"{view} reads pairs of texts"
            )
        if self.augmentation.crossed and (view in (*TWO_TEXTS, HIERARCHICAL) or task not in ("2-class", "4-class")):
            raise ValueError(
                "augmentation.crossed adds conversations with the labels of 2-class or 4-class, to one checkpoint"
            )
        return self

    @model_validator(mode="after")
    def _loss_fits_the_labels(self) -> Self:
        task = task_of(self.data.config)
        if self.loss.choice and task != "response":
            raise ValueError("loss.choice chooses among the replies to one chat; it needs a config of responses")
        conflicts = (self.loss.class_weights, self.loss.logit_adjustment, self.distillation.has_teachers)
        if self.loss.choice and self.optimizer.checkpoint == "best":
            raise ValueError(
                "loss.choice compares replies, so macro-F1 over single replies cannot choose an epoch; set "
                'optimizer.checkpoint to "last"'
            )
        if self.loss.choice and any(conflicts):
            raise ValueError("loss.choice is the whole loss; remove class_weights, logit_adjustment and teachers")
        if self.loss.ranking and task not in CONTRADICTIONS:
            raise ValueError(f"loss.ranking ranks contradictions; data.config {self.data.config!r} has no such label")
        return self

    @model_validator(mode="after")
    def _nli_head_fits_the_labels(self) -> Self:
        if self.model.nli_head and task_of(self.data.config) not in CONTRADICTIONS:
            raise ValueError(
                f"model.nli_head starts the head from a contradiction of NLI; data.config {self.data.config!r} has no "
                "such label"
            )
        return self

    @model_validator(mode="after")
    def _without_fine_tuning_there_are_no_steps(self) -> Self:
        if self.model.fine_tunes:
            return self
        method, standard = self.model.method, defaults()
        if self.model.scratch or self.data.view in TWO_TEXTS:
            needed = "model.backbone, and " if self.model.needs_encoder else ""
            raise ValueError(f"method {method!r} needs {needed}a view of conversations")
        for key, value in self.options().items():
            if key not in WITHOUT_STEPS and value != standard.get(key, value):
                raise ValueError(f"method {method!r} trains nothing in steps; remove {option_named(key)}")
        return self

    @model_validator(mode="after")
    def _options_have_an_effect(self) -> Self:
        values, standard = self.options(), defaults()
        for needed, present, keys in (
            ("teachers", self.distillation.has_teachers, ("weight", "temperature")),
            ("augmentation.nli", self.augmentation.nli, ("nli_pairs_per_row",)),
            ("model.backbone", self.model.backbone, ("base_model", "nli_head")),
        ):
            for key in keys:
                if not present and values[key] != standard[key]:
                    raise ValueError(f"{option_named(key)} has no effect without {needed}; remove it")
        return self

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the predicted labels, by class id."""
        return STAGES[self.data.target] if self.data.target else LABELS[task_of(self.data.config)]

    def stages(self) -> list[Self]:
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
        return self.model_dump(exclude={"model": {"base_model"}})

    @classmethod
    def of(cls, **options: Any) -> Self:
        """A recipe from options by their bare names: ``Recipe.of(name="trial", config="4-class", epochs=3, …)``.

        Raises:
            InputError: an unknown name, or a value out of range.
        """
        return validated(cls, _in_tables({}, options), f"recipe {options.get('name', '')}".rstrip())

    def with_changes(self, **options: Any) -> Self:
        """The same recipe with other values, by their bare names; None does not change a value.

        A new backbone removes ``scratch``, and the ``base_model`` of the previous backbone. A new method removes the
        previous method's own options.

        Raises:
            InputError: an unknown name, or a value out of range.
        """
        changes = {option_named(key): value for key, value in options.items() if value is not None}
        values = self.model_dump()
        if "model.backbone" in changes:
            values["model"] |= {"scratch": None, "base_model": None}
        if changes.get("model.method", self.model.method) != self.model.method:
            values["model"]["options"] = {}
        if changes.get("model.method") == "hierarchical":
            del values["data"]["view"]
        return validated(type(self), _in_tables(values, changes), f"recipe {self.name}")


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


def validated(cls: type[RecipeT], values: Mapping[str, Any], where: str) -> RecipeT:
    """The recipe with these values.

    Raises:
        InputError: a key or value is wrong; the message starts with ``where`` and names the first wrong key.
    """
    try:
        return cls.model_validate(values)
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


def _in_tables(values: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """The values with the options inserted into their tables."""
    placed = {key: dict(value) if key in TABLES else value for key, value in values.items()}
    for name, value in options.items():
        table, _, option = option_named(name).rpartition(".")
        if table:
            placed.setdefault(table, {})[option] = value
        else:
            placed[option] = value
    return placed


def describe(error: "ValidationError") -> str:
    """The first error: its key with the table, and what would be right."""
    first: Any = error.errors(include_url=False)[0]
    key = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        return f"{key} is not an option; {_where_it_belongs(first['loc'])}"
    if first["type"] == "missing":
        return f"{key} is missing{_allowed_values(key)}"
    message = first["msg"].removeprefix("Value error, ").replace("Input should be", "it should be")
    if not key:
        return message
    # An error of a whole table names its keys in the message.
    table = key in TABLES or key == "model.scratch"
    return f"[{key}]: {message}" if table else f"{key} is {first['input']!r}: {message}"


def _allowed_values(missing: str) -> str:
    if missing in TABLES:
        return f"; the table [{missing}] has {', '.join(TABLES[missing].model_fields)}"
    return f"; allowed are {', '.join(ALLOWED[missing])}" if missing in ALLOWED else ""


def _where_it_belongs(place: tuple[str | int, ...]) -> str:
    table, option = ".".join(map(str, place[:-1])), str(place[-1])
    owners = [name for name, options in TABLES.items() if option in options.model_fields]
    if owners:
        return f"it belongs to the table [{owners[0]}]"
    if table in TABLES:
        return f"[{table}] has {', '.join(TABLES[table].model_fields)}"
    if not table:
        return f"a recipe has {', '.join(TOP_LEVEL)} and the tables {', '.join(f'[{name}]' for name in TABLES)}"
    return "remove it"
