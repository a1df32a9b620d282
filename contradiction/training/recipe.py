"""A recipe is an experiment as a small TOML file: what is read, what is predicted, and how it is trained."""

import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator, model_validator

from contradiction.errors import InputError
from contradiction.inputs.views import HIERARCHICAL, VIEWS
from contradiction.io.files import read_json
from contradiction.labels import BOTS, CATEGORIES, CONFIGS, LABELS, STAGES, task_of
from contradiction.paths import RECIPES
from contradiction.training.recipe_history import without_retired

# The keys that count where the backbone is frozen.
FITTED = ("name", "view", "config", "backbone", "base_model", "frozen", "bot", "share", "precision", "seed")

RecipeT = TypeVar("RecipeT", bound="Recipe")
Count = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0, lt=1)]
Strength = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Scratch(BaseModel):
    """The size of a small BERT encoder trained from random weights, with a tokenizer made from the training split."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    hidden_size: Count = 128
    layers: Count = 2
    heads: Count = 4
    vocabulary: Count = 6000

    @model_validator(mode="after")
    def _heads_divide(self) -> Self:
        if self.hidden_size % self.heads:
            raise ValueError(f"hidden_size {self.hidden_size} must be a multiple of heads {self.heads}")
        return self


class Recipe(BaseModel):
    """One experiment. Exactly one of ``backbone`` and ``scratch`` is set.

    The defaults follow the paper (section 5.3): AdamW, 5 epochs, batches of 32, a linear schedule with 10 % warm-up.

    Attributes:
        name: the file's name without ``.toml``.
        view: which utterances are read, see ``contradiction.inputs.views``; ``hierarchical`` trains one detector for
            each of
            the categories, each on the view of its name.
        config: the data set config that is trained on.
        target: a category to tell from all other rows, instead of predicting all labels of the config.
        backbone: Hub id or folder of a pre-trained encoder.
        base_model: Hub id of what a backbone in a folder is a copy or a pruned form of, for the model card. It makes no
            two runs different. What the folder's own record says comes first, see
            ``contradiction.training.base_model``.
        scratch: the size of an encoder trained from nothing instead.
        frozen: the backbone is not fine-tuned, and a kernel machine on its embeddings and on n-grams of each utterance
            is fitted instead, see ``contradiction.methods.kernel_regression``. Nothing is then trained in steps, so
            that of the other keys
            only ``view``, ``config``, ``base_model``, ``bot``, ``share``, ``precision`` and ``seed`` have a place.
        bot: ``eva`` or ``plato``, to train and validate on its rows alone; the other is then one that the detector has
            never seen.
        share: the part of the training rows that is read, above 0, see ``contradiction.training.rows``.
        epochs: passes over the training split, or over that part of it.
        batch_size: rows a step, over all processes together.
        learning_rate: the peak rate, after warm-up.
        warmup: the share of all steps in which the rate rises.
        weight_decay: on all but biases and normalisation weights.
        class_weights, logit_adjustment: see ``contradiction.training.losses``.
        teachers: folders or Hub ids of trained detectors with the same labels, whose mean opinion of each row is learnt
            beside its label, see ``contradiction.training.distillation``.
        ngrams: the part that a linear model of n-grams has in the opinion of the teachers, see
            ``contradiction.training.cross_fitting``; it is 1 where there are no other teachers.
        distill, distill_temperature: how much that opinion counts against the label, and how much it is softened, see
            ``contradiction.training.losses``; without teachers they mean nothing.
        nli: a data repo that ``cdconv data nli`` wrote; its pairs are read beside the rows, as conversations, see
            ``contradiction.training.nli_rehearsal``.
        nli_pairs: how many of them for each training row; without ``nli`` it means nothing.
        replaced: how many further rows to make of each one labelled history: its first turn is that of another row, and
            it contradicts nothing, see ``contradiction.training.context_negatives``.
        transfer: how many conversations to make of the parts of each training row, for the student to learn from its
            teachers alone, see ``contradiction.training.transfer_set``.
        ema: the decay of a moving average of the weights; then the averaged ones are validated and kept.
        dropout: replaces the backbone's own where given.
        max_length: tokens read at most; longer inputs are cut from the left.
        precision: of the arithmetic in a step: fp32, or bf16 or fp16 by autocast; weights stay in float32. On a CPU
            that has bf16 instructions it more than doubles the speed.
        seed: of weights, data order and dropout, and of what is drawn: a ``share``, and the rows of ``replaced``
            and ``nli``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: str
    view: str
    config: str
    target: str | None = None
    backbone: str | None = None
    base_model: str | None = None
    scratch: Scratch | None = None
    frozen: bool = False
    bot: str | None = None
    share: float = Field(1.0, gt=0, le=1)
    epochs: Count = 5
    batch_size: Count = 32
    learning_rate: float = Field(5e-5, gt=0, allow_inf_nan=False)
    warmup: Share = 0.1
    weight_decay: float = Field(0.01, ge=0, allow_inf_nan=False)
    class_weights: Literal["balanced"] | None = None
    logit_adjustment: Strength = 0.0
    teachers: list[str] = []
    ngrams: float = Field(0.0, ge=0, le=1)
    distill: float = Field(0.5, ge=0, le=1)
    distill_temperature: float = Field(1.0, gt=0, allow_inf_nan=False)
    nli: str | None = None
    nli_pairs: Count = 1
    replaced: int = Field(0, ge=0)
    transfer: int = Field(0, ge=0)
    ema: Share = 0.0
    dropout: Share | None = None
    max_length: int = Field(256, ge=8)
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    seed: int = Field(23, ge=0, lt=2**32)

    @field_validator("view", "config", "target", "bot")
    @classmethod
    def _known(cls, value: str | None, info: ValidationInfo) -> str | None:
        allowed = {
            "view": (*VIEWS, HIERARCHICAL), "config": CONFIGS, "target": (None, *CATEGORIES), "bot": (None, *BOTS)
        }[str(info.field_name)]  # fmt: skip
        if value not in allowed:
            raise ValueError(f"allowed are {', '.join(filter(None, allowed))}")
        return value

    @field_validator("base_model")
    @classmethod
    def _hub_id(cls, name: str | None) -> str | None:
        if name is not None and not re.fullmatch(r"[\w.-]+/[\w.-]+", name):
            raise ValueError("must be a Hub id, for instance intfloat/multilingual-e5-small")
        return name

    @model_validator(mode="after")
    def _view_fits_config(self) -> Self:
        if (self.view == "nli") != self.config.startswith("nli"):
            raise ValueError(
                f"view {self.view!r} does not read config {self.config!r}; the view nli goes with nli configs"
            )
        if self.bot and self.view == "nli":
            raise ValueError(f"config {self.config!r} holds no replies of bots; the key 'bot' has no place here")
        if self.target and self.view == HIERARCHICAL:
            raise ValueError("view 'hierarchical' targets each category in turn; the key 'target' has no place here")
        if (self.target or self.view == HIERARCHICAL) and task_of(self.config) != "4-class":
            raise ValueError(
                f"config {self.config!r} has no categories to target; allowed are 4-class, 4-class-grouped"
            )
        return self

    @model_validator(mode="after")
    def _teachers_teach_one(self) -> Self:
        if self.taught and self.view == HIERARCHICAL:
            raise ValueError("teachers teach one checkpoint; view 'hierarchical' trains one for each category")
        if self.transfer and not self.taught:
            raise ValueError("a transfer set has no labels; name the teachers to learn it from")
        if self.ngrams and bool(self.teachers) == (self.ngrams == 1):
            said = "below 1, which leaves the rest to those" if self.teachers else "1 where there are no others"
            raise ValueError(f"key 'ngrams' is a part in the opinion of the teachers, {said}")
        if self.ngrams and (self.view == "nli" or self.target):
            raise ValueError("key 'ngrams' reads conversations, and gives each label of the config a part")
        if self.transfer and self.view == "nli":
            raise ValueError("a transfer set is made of conversations; the view nli reads pairs of sentences")
        return self

    @model_validator(mode="after")
    def _replaced_have_categories(self) -> Self:
        if self.replaced and (task_of(self.config) != "4-class" or self.view == HIERARCHICAL):
            raise ValueError("key 'replaced' makes rows of those labelled history, for one checkpoint of four classes")
        return self

    @model_validator(mode="after")
    def _pairs_have_a_label(self) -> Self:
        if self.nli and (self.view == "nli" or task_of(self.config) not in ("2-class", "4-class")):
            raise ValueError("key 'nli' reads pairs of sentences as conversations, for a detector of contradictions")
        return self

    @property
    def taught(self) -> bool:
        """Whether there is a teacher."""
        return bool(self.teachers or self.ngrams)

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the labels that are predicted, by class id."""
        return STAGES[self.target] if self.target else LABELS[task_of(self.config)]

    def stages(self) -> list[Self]:
        """The recipes that a hierarchical recipe stands for, in the order in which the stages decide."""
        return [self.with_changes(name=f"{self.name}/{stage}", view=stage, target=stage) for stage in STAGES]

    @model_validator(mode="after")
    def _one_start(self) -> Self:
        if (self.backbone is None) == (self.scratch is None):
            raise ValueError("a recipe has either the key 'backbone' or the table [scratch]")
        return self

    @model_validator(mode="after")
    def _frozen_takes_no_steps(self) -> Self:
        if not self.frozen:
            return self
        if self.scratch or self.view in (HIERARCHICAL, "nli"):
            raise ValueError("key 'frozen' goes with a backbone, and with one view of conversations")
        for key, each in type(self).model_fields.items():
            if key not in FITTED and getattr(self, key) != each.default:
                raise ValueError(f"with 'frozen' nothing is trained in steps; the key {key!r} has no place here")
        return self

    def asked(self) -> dict[str, Any]:
        """The values as a run's record keeps them: those that tell one run from another."""
        return self.model_dump(exclude={"base_model"})

    def demand_folders(self, where: str) -> None:
        """Raises InputError where a record names a folder by its digest, so that only the user knows where it is."""
        if of_folder(self.backbone):
            raise InputError(
                f"{where}: started from {self.backbone}, a folder's name and digest; name it by --backbone"
            )
        if found := [each for each in self.teachers if of_folder(each)]:
            several = len(self.teachers) > 1
            name = f"name all {len(self.teachers)} by --teacher, in this order" if several else "name it by --teacher"
            raise InputError(f"{where}: learnt from {', '.join(found)}, a folder's name and digest; {name}")
        if of_folder(self.nli):
            raise InputError(f"{where}: read pairs of {self.nli}, a folder's name and digest; name it by --nli")

    def with_changes(self, **changes: Any) -> Self:
        """The same recipe with other values; None leaves one as it is.

        A backbone takes the place of ``scratch``, and is not made from what the one before it was made from.
        """
        replaced = {"scratch": None, "base_model": None} if changes.get("backbone") is not None else {}
        values = self.model_dump() | replaced | {key: value for key, value in changes.items() if value is not None}
        return _validated(type(self), values, f"recipe {self.name}")

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Reads a recipe from a path, by its bare name from ``models/recipes``, or from the record of a run.

        Args:
            path: a TOML file, a name, a ``run.json``, or the model folder that holds one. A record names folders by
                digest, see :meth:`demand_folders`.

        Raises:
            InputError: no such file, not TOML, no record, an unknown key, or a value out of range.
        """
        file = Path(path)
        if not file.is_file() and (RECIPES / f"{path}.toml").is_file():
            file = RECIPES / f"{path}.toml"
        if file.is_dir():
            file = file / "run.json"
        if file.suffix == ".json" and file.is_file():
            return _validated(cls, _recorded(file), str(file))
        if not file.is_file():
            known = ", ".join(sorted(each.stem for each in RECIPES.glob("*.toml")))
            raise InputError(f"{path}: no such recipe; give a TOML file, the run.json of a model, or one of {known}")
        try:
            values = tomllib.loads(file.read_text(encoding="utf-8"))
        except ValueError as error:
            raise InputError(f"{file}: not a TOML file in UTF-8 ({error})") from None
        return _validated(cls, {"name": file.stem, **values}, str(file))


def of_folder(checkpoint: str | None) -> bool:
    """Whether this is how a record names a folder: by its name and the digest of its weights."""
    return bool(checkpoint and re.fullmatch(r"[^/]+@[0-9a-f]{12}", checkpoint))


def _recorded(file: Path) -> dict[str, Any]:
    """The values of the recipe in the record of a run."""
    run = read_json(file)
    request = run.get("request")
    if not isinstance(request, dict) or not isinstance(request.get("recipe"), dict):
        raise InputError(f"{file}: not the record of a run, it holds no recipe; `cdconv train` writes one")
    for kind in ("ensemble", "soup"):
        if kind in request:
            raise InputError(f"{file}: of {len(request[kind])} runs; train each of them, then use `cdconv {kind}`")
    values, retired = without_retired(request["recipe"])
    if retired:
        raise InputError(
            f"{file}: set {', '.join(retired)}, which this version no longer has; commit {run.get('commit')} trains it"
        )
    return {**values, "base_model": run.get("base_model")}


def _validated(cls: type[RecipeT], values: dict[str, object], where: str) -> RecipeT:
    try:
        return cls.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        got = f" is {first['input']!r}" if key and first["type"] != "missing" else ""
        raise InputError(f"{where}: {repr(key) + got + ': ' if key else ''}{first['msg']}") from None
