"""A run: what is trained, on what, and where; and what a trainer gives back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contradiction.data.corpora.crossed import FOLDERS, batch_files, digest, training_files
from contradiction.data.splits import (
    CHINESE,
    Data,
    check_columns,
    fingerprint,
    languages_of,
    load_labelled_split,
    load_split,
    name_of,
    of_bot,
)
from contradiction.errors import InputError
from contradiction.inputs.views import VIEWS
from contradiction.io.hub import revision
from contradiction.labels import CROSSED
from contradiction.methods.loading import name_with_digest
from contradiction.training import leakage, record
from contradiction.training.augmentation import TrainingRows, labelled_rows, training_rows
from contradiction.training.recipe import Recipe

if TYPE_CHECKING:
    from datasets import Dataset


@dataclass(frozen=True)
class Run:
    """A recipe that is trained on data, and written to a model folder.

    Attributes:
        recipe: the experiment.
        data: the data repo, a folder or Hub id; or rows in memory by split.
        out: the model folder to write.
        resume: continue an unfinished run of the same recipe and data; a finished run stays as it is.
        save_steps: save the training state every so many steps; by default only after each epoch.
        track: an experiment tracker of accelerate, for instance ``tensorboard``.
        deterministic: see ``contradiction.training.accelerators``.
        logs: the folder for the files of a tracker.
        tracked_as: the name of the run in the tracker, by default the name of ``out``.
    """

    recipe: Recipe
    data: Data
    out: Path
    resume: bool = False
    save_steps: int | None = None
    track: str | None = None
    deterministic: bool = False
    logs: Path | None = None
    tracked_as: str | None = None

    @property
    def work(self) -> Path:
        """The working folder of a run, beside the finished one.

        Raises:
            InputError: ``out`` has no name, for instance ``.`` or ``/``.
        """
        if not self.out.name:
            raise InputError(f"{self.out}: names no new folder; name one inside it, for instance {self.out / 'run'}")
        return self.out.with_name(f"{self.out.name}.partial")

    @property
    def model(self) -> Path:
        """The folder for the model while the run goes on. A trainer writes it under a temporary name first."""
        return self.work / "model"

    @cached_property
    def splits(self) -> dict[str, "Dataset"]:
        """The whole training and validation split of the recipe's config.

        Raises:
            InputError: a validation row has no label, a column that the recipe reads is missing, or the recipe's bot
                has no rows.
        """
        return load_splits(self.recipe, self.data)

    @cached_property
    def languages(self) -> list[str]:
        """The languages of the data."""
        return languages_of(self.data)

    @cached_property
    def training(self) -> TrainingRows:
        """The rows to train on."""
        return training_rows(self.splits["train"], self.recipe)

    @cached_property
    def labelled(self) -> "Dataset":
        """The rows of the training split that the recipe uses, without those that it makes from them."""
        return labelled_rows(self.splits["train"], self.recipe)

    @property
    def validation(self) -> "Dataset":
        """The validation rows of the recipe's bot."""
        return of_bot(self.splits["validation"], self.recipe.data.bot)


@dataclass(frozen=True)
class Trained:
    """What a trainer did. The model lies in :attr:`Run.model`, or in ``folder``.

    Attributes:
        parameters: the number of weights.
        minutes: the time of training.
        device: where it was trained.
        result: what the record of the run has besides, by key; see ``contradiction.training.record``.
        folder: where the model lies, if not in :attr:`Run.model`.
    """

    parameters: int
    minutes: float
    device: str = "cpu"
    result: Mapping[str, Any] = field(default_factory=dict)
    folder: Path | None = None


def load_splits(recipe: Recipe, data: Data) -> dict[str, "Dataset"]:
    """The splits of :attr:`Run.splits`."""
    config = recipe.data.config
    rows = {"train": load_split(data, config, "train"), "validation": load_labelled_split(data, config, "validation")}
    columns = dict.fromkeys(column for stage in recipe.stages() for column in VIEWS[stage.data.view])
    for split in rows.values():
        check_columns(split, [*columns, "label"], f"recipe {recipe.name}")
        of_bot(split, recipe.data.bot)  # raises an error where the bot has no rows
    return rows


def run_request(recipe: Recipe, data: Data, rows: "Mapping[str, Dataset] | None" = None) -> dict[str, Any]:
    """The request of a run, as its record stores it: the recipe and the fingerprint of the data.

    Two runs with equal requests and equal :func:`provenance` produce equal weights, within the limits that
    :func:`contradiction.training.accelerators.deterministic` describes. ``rows`` is the result of :func:`load_splits`,
    where the caller has read them already.

    Raises:
        InputError: the backbone or a teacher was trained on test rows of this run.
    """
    rows = rows or load_splits(recipe, data)
    values = recipe.recorded()
    values["model"]["backbone"] = name_with_digest(recipe.model.backbone)
    values["distillation"]["teachers"] = [name_with_digest(teacher) for teacher in recipe.distillation.teachers]
    nli, fingerprints = recipe.augmentation.nli, {}
    if nli:
        pairs = fingerprint(load_split(nli, "nli", "train"))
        if (folder := Path(nli)).is_dir():
            values["augmentation"]["nli"] = f"{folder.resolve().name}@{pairs[:12]}"
        else:  # the content of a Hub repo may change, so the request has its fingerprint too
            fingerprints = {"nli": pairs}
    if recipe.augmentation.crossed:
        read = {CROSSED, *(file.parent for file in crossed_files(recipe))}
        fingerprints |= {name: digest("train", name) for name, folder in FOLDERS.items() if {name, folder} & read}
    name = name_of(data)
    leakage.check_sources(recipe, name)
    return {"recipe": values, "data": fingerprint(*rows.values()), "data_name": name, **fingerprints}


def crossed_files(recipe: Recipe) -> list[Path]:
    """The batches of crossed chats that a recipe reads."""
    options = recipe.augmentation
    if not options.crossed:
        return []
    if recipe.model.method == "decoder" and not options.crossed_batches:
        return [file for folder in FOLDERS.values() for file in batch_files(folder, "train")]
    return training_files(options.crossed_batches)


def provenance(recipe: Recipe, deterministic: bool = False) -> dict[str, Any]:
    """The conditions, besides the request, that the weights of a run depend on: determinism, and commits on the Hub."""
    names = [name for name in leakage.sources(recipe) if not Path(name).is_dir()]
    commits = {name: commit for name in names if (commit := revision(name))}
    return {"deterministic": deterministic, "revisions": commits}


def origin(recipe: Recipe, languages: Sequence[str]) -> dict[str, Any]:
    """What the record of a run says about its sources: the languages of the data, the base model, and the ancestors."""
    return {
        **({"languages": list(languages)} if list(languages) != [CHINESE] else {}),
        "base_model": record.base_model_of_recipe(recipe),
        "ancestors": leakage.ancestors(leakage.sources(recipe)),
    }
