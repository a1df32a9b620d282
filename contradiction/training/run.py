"""A run: what is trained, on what, and where; its working folder, and how the folder of its model is finished.

The working folder has ``run.json`` with the request, the ``model`` so far, and a ``state`` to resume from.
"""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError

from contradiction.data.corpora.crossed import FOLDERS, batch_files, digest, training_files
from contradiction.data.splits import (
    Data,
    check_columns,
    fingerprint,
    languages_of,
    load_labelled_split,
    load_split,
    name_of,
    of_bot,
)
from contradiction.decision import FEWEST, NO_RULE, Rule
from contradiction.errors import InputError, first_line
from contradiction.inputs.views import VIEWS
from contradiction.io import files
from contradiction.io.hub import revision
from contradiction.labels import CONTRADICTIONS, CROSSED, CROSSED_EN, WITHOUT_RULE, is_contradiction, task_of_labels
from contradiction.methods.loading import fit_rule, load_rule, method_of, name_with_digest, save_rule, write_manifests
from contradiction.training import leakage, record
from contradiction.training.augmentation import TrainingRows, training_rows
from contradiction.training.recipe import Recipe

if TYPE_CHECKING:
    from accelerate import PartialState
    from datasets import Dataset

TEACHER_PROBABILITIES = "teachers.npy"  # the cache in the working folder of a run


@dataclass(frozen=True)
class Run:
    """A recipe that is trained on data, and written to a model folder.

    Attributes:
        recipe, data, out, resume, save_steps, track, deterministic: see :func:`contradiction.runs.train`.
        logs: the folder for the files of a tracker, by default beside ``out``.
    """

    recipe: Recipe
    data: Data
    out: Path
    resume: bool = False
    save_steps: int | None = None
    track: str | None = None
    deterministic: bool = False
    logs: Path | None = None

    @property
    def work(self) -> Path:
        """The working folder of a run, beside the finished one; raises InputError where ``out`` has no name."""
        if not self.out.name:
            raise InputError(f"{self.out}: names no new folder; name one inside it, for instance {self.out / 'run'}")
        return self.out.with_name(f"{self.out.name}.partial")

    @property
    def tracked(self) -> Path:
        """The folder for the files of trackers, beside the model folder, all of which is published."""
        return self.logs or self.out.with_name(f"{self.out.name}.tracking")

    @property
    def model(self) -> Path:
        """The folder for the model while the run goes on. A trainer writes it under a temporary name first."""
        return self.work / "model"

    @cached_property
    def splits(self) -> dict[str, "Dataset"]:
        """The result of :func:`load_splits`."""
        return load_splits(self.recipe, self.data)

    @cached_property
    def training(self) -> TrainingRows:
        """The rows to train on."""
        return training_rows(self.splits["train"], self.recipe)

    @property
    def validation(self) -> "Dataset":
        """The validation rows of the recipe's bot."""
        return of_bot(self.splits["validation"], self.recipe.data.bot)


@dataclass(frozen=True)
class Trained:
    """The number of weights, the minutes and the device of a training, and the ``result`` for the record of the run."""

    parameters: int
    minutes: float
    device: str
    result: Mapping[str, Any]


def load_splits(recipe: Recipe, data: Data) -> dict[str, "Dataset"]:
    """The training and validation split of a recipe's config.

    Raises:
        InputError: a validation row has no label, a column that the recipe reads is missing, or the recipe's bot has no
            rows.
    """
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
    :func:`contradiction.training.accelerators.deterministic` describes. ``rows`` are those of :func:`load_splits`.

    Raises:
        InputError: see :func:`contradiction.training.leakage.check_sources`.
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
        corpora = {CROSSED, *(file.parent for file in crossed_files(recipe))}
        fingerprints |= {name: digest("train", name) for name, folder in FOLDERS.items() if {name, folder} & corpora}
    name, read = name_of(data), fingerprint(*rows.values())
    leakage.check_sources(recipe, name, read)
    return {"recipe": values, "data": read, "data_name": name, **fingerprints}


def crossed_files(recipe: Recipe) -> list[Path]:
    """The batches of crossed chats that a recipe reads."""
    options = recipe.augmentation
    if not options.crossed:
        return []
    if recipe.model.method == "decoder" and not options.crossed_batches:
        return [file for folder in FOLDERS.values() for file in batch_files(folder, "train")]
    return training_files(options.crossed_batches)


def languages_read(recipe: Recipe, data: Data) -> list[str]:
    """The languages of the data and of the crossed chats that a recipe reads, and that a causal detector has read."""
    english = any(file.parent == FOLDERS[CROSSED_EN] for file in crossed_files(recipe))
    before = record.names_of_backbone(recipe, "languages") if recipe.model.method == "decoder" else []
    return list(dict.fromkeys([*languages_of(data), *(["en"] if english else []), *before]))


def provenance(recipe: Recipe, deterministic: bool = False) -> dict[str, Any]:
    """The conditions, besides the request, that the weights of a run depend on: determinism, and commits on the Hub."""
    names = [name for name in leakage.sources(recipe) if not Path(name).is_dir()]
    commits = {name: commit for name in names if (commit := revision(name))}
    return {"deterministic": deterministic, "revisions": commits}


@contextmanager
def claimed(run: Run, request: Mapping[str, Any], processes: "PartialState") -> Iterator[bool]:
    """Locks the model folder of a run inside the block, and gives whether the run is finished already.

    All processes of a run begin and end the block together. A working folder that a killed process left behind after
    the run was finished is removed.

    Raises:
        InputError: ``out`` exists, and the run does not resume or ``out`` is another run.
    """
    with files.locked(run.out) if processes.is_main_process else nullcontext():
        processes.wait_for_everyone()
        finished = run.out.exists()
        if finished and (not run.resume or record.read(run.out).get("request") != request):
            which = ", and is not of this recipe and data" if run.resume else ""
            raise InputError(f"{run.out}: exists already{which}; remove it, or name another folder")
        if finished and processes.is_main_process and record.read(run.work).get("request") == request:
            shutil.rmtree(run.work, ignore_errors=True)  # the run is finished even if this fails
        processes.wait_for_everyone()
        yield finished
        processes.wait_for_everyone()


def open_run(work: Path, request: Mapping[str, Any], resume: bool, conditions: Mapping[str, Any]) -> None:
    """Creates the working folder of a run, or checks that an existing one belongs to this run.

    Raises:
        InputError: the folder holds an unfinished run, and ``resume`` is false, or the run has another request or began
            under other conditions, see :func:`provenance`; unrecorded conditions match any value.
    """
    files.restore_folders(work)
    if not has_progress(work):
        with files.new_folder(work) as folder:
            files.write_json(folder / files.RECORD, {"request": request, **conditions})
        return
    if not resume:
        raise InputError(f"{work}: an unfinished run; --resume continues it, or remove it")
    begun = record.read(work)
    if begun.get("request") != request:
        raise InputError(f"{work}: the unfinished run is of another recipe or other data; remove it, or name another")
    was, now = (
        {"--deterministic": each.get("deterministic"), **each.get("revisions", {})} for each in (begun, conditions)
    )
    for name in was.keys() & now.keys():
        if was[name] not in (None, now[name]):  # what was not recorded matches any value
            raise InputError(
                f"{work}: the unfinished run began with {name} at {was[name]}, and now it is {now[name]}; go on as it "
                "began, or remove it"
            )


def has_progress(work: Path) -> bool:
    """Whether a working folder holds anything to resume from: a state, a finished stage, or teacher probabilities."""
    return any(any(work.glob(name)) for name in ("**/state", f"model/*/{files.RECORD}", TEACHER_PROBABILITIES))


def finalize(folder: Path, validation: "Dataset", start: str | None = None, precision: str = "fp32") -> str | None:
    """Adds the decision rule and the manifest to a model folder; only a detector gets a rule.

    The rule is chosen on validation. With fewer than ``FEWEST`` contradictions or other rows it would be a guess: the
    model keeps the rule of the folder ``start``, or has none if that is no detector with the same labels.

    Returns:
        Why the rule was not chosen on validation, in words that follow the name of the model; None if it was.
    """
    labels, reason = validation.features["label"].names, None
    task = task_of_labels(labels)
    contradictions = sum(is_contradiction(labels[label]) for label in validation["label"][:])
    others = len(validation) - contradictions
    if task in CONTRADICTIONS and task not in WITHOUT_RULE and min(contradictions, others) < FEWEST:
        rule = _rule_of(start, folder)
        save_rule(folder, rule)
        kept = "no fitted decision rule" if rule == NO_RULE else f"the decision rule of {Path(str(start)).name}"
        reason = (
            f"has {kept}, because validation has only {contradictions} contradictions and {others} other rows, and a "
            f"rule of its own needs {FEWEST} of each"
        )
    elif task not in WITHOUT_RULE:
        save_rule(folder, fit_rule(folder, validation, precision=precision))
    write_manifests(folder)
    return reason


def _rule_of(start: str | None, trained: Path) -> Rule:
    """The rule of the folder that training started from, if that is a detector of the same kind."""
    if start and Path(start).is_dir() and (method := method_of(start)) is method_of(trained):
        before, now = (method.describe(Path(folder)) for folder in (start, trained))
        with suppress(InputError):  # a damaged rule
            if all(before.get(key) == now.get(key) for key in ("labels", "id2label")):
                return load_rule(start)
    return NO_RULE


@contextmanager
def explain_write_errors(folder: Path) -> Iterator[None]:
    """Turns errors of libraries that write weights into one clear line, for instance when the disk is full.

    Raises:
        InputError: the folder cannot be written; the message names the reason.
    """
    try:
        yield
    except (OSError, SafetensorError, RuntimeError) as error:
        # torch.save raises a plain RuntimeError when the disk is full; its message contains one of these.
        signs = ("inline_container", "PytorchStreamWriter", "iostream error")
        if isinstance(error, RuntimeError) and not any(sign in str(error) for sign in signs):
            raise
        free, reason = shutil.disk_usage(folder).free / 1e6, getattr(error, "strerror", None) or first_line(error)
        raise InputError(
            f"{folder}: cannot be written, {free:,.0f} MB are free ({reason}); "
            "finished epochs are saved: make room, then --resume continues"
        ) from error
