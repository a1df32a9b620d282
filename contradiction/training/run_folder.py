"""The folder of a run: its request, its saved state, and whether the run is new, unfinished or finished.

The subfolder ``state`` holds what ``accelerate`` saves (weights, optimizer, schedule, random states),
``progress.json``, and, inside an epoch, a ``position-N.json`` for each process. A run continues from it as if it had
never stopped.
"""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError

from contradiction.data.corpora.crossed import FOLDERS, digest, training_files
from contradiction.data.splits import (
    CHINESE,
    Data,
    check_columns,
    fingerprint,
    load_labelled_split,
    load_split,
    name_of,
)
from contradiction.errors import InputError, first_line
from contradiction.inputs.views import VIEWS
from contradiction.io import files
from contradiction.io.hub import revision
from contradiction.labels import CROSSED_LONG, WITHOUT_RULE, task_of_labels
from contradiction.methods.calibration import calibrate
from contradiction.methods.loading import name_with_digest, write_manifests
from contradiction.training import leakage, record
from contradiction.training.recipe import Recipe

if TYPE_CHECKING:
    from accelerate import Accelerator, PartialState
    from datasets import Dataset

TEACHER_PROBABILITIES = "teachers.npy"  # the cache in the working folder of a run


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
        fingerprints["crossed"] = digest("train")
        if any(file.parent == FOLDERS[CROSSED_LONG] for file in training_files(recipe.augmentation.crossed_batches)):
            fingerprints[CROSSED_LONG] = digest("train", CROSSED_LONG)
    name = name_of(data)
    leakage.check_sources(recipe, name)
    return {"recipe": values, "data": fingerprint(*rows.values()), "data_name": name, **fingerprints}


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


def load_splits(recipe: Recipe, data: Data) -> dict[str, "Dataset"]:
    """The whole training and validation split of a recipe's config.

    Raises:
        InputError: a validation row has no label, or a column that the recipe reads is missing.
    """
    config = recipe.data.config
    rows = {"train": load_split(data, config, "train"), "validation": load_labelled_split(data, config, "validation")}
    columns = dict.fromkeys(column for stage in recipe.stages() for column in VIEWS[stage.data.view])
    for split in rows.values():
        check_columns(split, [*columns, "label"], f"recipe {recipe.name}")
    return rows


def partial_folder(out: Path) -> Path:
    """The working folder of a run, beside the finished one.

    Raises:
        InputError: ``out`` has no name, for instance ``.`` or ``/``.
    """
    if not out.name:
        raise InputError(f"{out}: names no new folder; name one inside it, for instance {out / 'run'}")
    return out.with_name(f"{out.name}.partial")


@contextmanager
def claimed(
    out: Path, request: dict[str, Any], resume: bool, processes: "Accelerator | PartialState"
) -> Iterator[bool]:
    """Locks a model folder inside the block, and gives whether its run is finished, see :func:`is_finished`.

    All processes of a run begin and end the block together.
    """
    with files.locked(out, processes.is_main_process):
        processes.wait_for_everyone()
        finished = is_finished(out, request, resume, processes.is_main_process)
        processes.wait_for_everyone()
        yield finished
        processes.wait_for_everyone()


def is_finished(out: Path, request: dict[str, Any], resume: bool, is_main_process: bool) -> bool:
    """Whether the run is finished, so that there is nothing to resume.

    The main process removes a working folder that a killed process left behind after the run was finished.

    Raises:
        InputError: ``out`` exists, and ``resume`` is false or ``out`` is another run.
    """
    if not out.exists():
        return False
    if not resume or record.recorded_request(out) != request:
        raise InputError(f"{out}: exists already; remove it, or name another folder")
    if is_main_process and record.recorded_request(work := partial_folder(out)) == request:
        shutil.rmtree(work, ignore_errors=True)  # the run is finished even if this fails
    return True


def open_run(work: Path, request: dict[str, Any], resume: bool, provenance: dict[str, Any]) -> None:
    """Creates the working folder of a run, or checks that an existing one belongs to this run.

    Raises:
        InputError: the folder holds an unfinished run, and ``resume`` is false, or the run has another request or other
            conditions.
    """
    files.restore_folders(work)
    # Without a saved state, a finished stage, or teacher probabilities there is nothing to lose.
    if any(any(work.glob(pattern)) for pattern in ("**/state", f"*/{files.RECORD}", TEACHER_PROBABILITIES)):
        if not resume:
            raise InputError(f"{work}: an unfinished run; --resume continues it, or remove it")
        if record.recorded_request(work) != request:
            raise InputError(
                f"{work}: the unfinished run is of another recipe or other data; remove it, or name another folder"
            )
        _check_conditions(work, provenance)
        return
    with files.new_folder(work) as folder:
        files.write_json(folder / files.RECORD, {"request": request, **provenance})


def _check_conditions(work: Path, provenance: dict[str, Any]) -> None:
    """Raises InputError where an unfinished run began under other conditions; unrecorded conditions match any value."""
    started = record.read(work)
    if (was := started.get("deterministic", provenance["deterministic"])) != provenance["deterministic"]:
        raise InputError(
            f"{work}: the unfinished run began {'with' if was else 'without'} --deterministic; resume it so, or "
            "remove it"
        )
    for name, now in provenance["revisions"].items():
        if (was := started.get("revisions", {}).get(name, now)) != now:
            raise InputError(
                f"{work}: the unfinished run began with {name} at commit {was[:12]}, and the Hub has {now[:12]} now; "
                "remove the run, or fetch that commit into a folder and train from there"
            )


def finalize(folder: Path, validation: "Dataset") -> None:
    """Adds the decision rule, chosen on validation, and the manifest to a model folder; only a detector gets a rule.

    Only the main process calls this function. A run that is killed here repeats it after a resume.
    """
    if task_of_labels(validation.features["label"].names) not in WITHOUT_RULE:
        calibrate(folder, validation)
    write_manifests(folder)


# torch.save raises a plain RuntimeError when the disk is full; its message contains one of these.
TORCH_CANNOT_WRITE = ("inline_container", "PytorchStreamWriter", "iostream error")


@dataclass
class Progress:
    """The progress of a run: one entry for each epoch, and the best validation macro-F1 with its epoch (from 1)."""

    epochs: list[dict[str, Any]] = field(default_factory=list)
    best_epoch: int = 0
    best_macro_f1: float = -1.0


@dataclass(frozen=True)
class Position:
    """The position of a process inside an epoch: finished steps, the summed loss of its rows, their number, seconds."""

    steps: int = 0
    loss: float = 0.0
    rows: int = 0
    seconds: float = 0.0


def save_state(accelerator: "Accelerator", work: Path, progress: Progress, position: Position | None = None) -> None:
    """Saves the training state under a temporary name, then renames it; between two epochs there is no position.

    Raises:
        InputError: the state cannot be written; the previous one stays.
    """
    fresh, number = work / ".state.partial", accelerator.process_index
    with explain_write_errors(work):
        if accelerator.is_main_process:
            shutil.rmtree(fresh, ignore_errors=True)  # a killed process may have left it
        accelerator.wait_for_everyone()
        try:
            accelerator.save_state(str(fresh))
            if position:
                files.write_json(fresh / f"position-{number}.json", asdict(position))
            accelerator.wait_for_everyone()
            if accelerator.is_main_process:
                values = {**asdict(progress), "processes": accelerator.num_processes}
                files.write_json(fresh / "progress.json", values)
                files.replace_folder(fresh, work / "state")
        except BaseException:
            shutil.rmtree(fresh, ignore_errors=True)  # the disk may be full
            raise
    accelerator.wait_for_everyone()


def load_state(accelerator: "Accelerator", work: Path) -> tuple[Progress, Position]:
    """Loads the saved training state; without one, the run starts from the beginning.

    Raises:
        InputError: another number of processes saved the state; their random states and rows do not fit.
    """
    state = work / "state"
    if not state.is_dir():
        return Progress(), Position()
    progress = files.read_json(state / "progress.json")
    processes = progress.pop("processes", accelerator.num_processes)
    if processes != accelerator.num_processes:
        raise InputError(
            f"{state}: saved by {processes} processes, and {accelerator.num_processes} cannot resume it; start "
            f"{processes}"
        )
    accelerator.load_state(str(state))
    position = state / f"position-{accelerator.process_index}.json"
    return Progress(**progress), Position(**files.read_json(position)) if position.is_file() else Position()


@contextmanager
def explain_write_errors(folder: Path) -> Iterator[None]:
    """Turns errors of libraries that write weights into one clear line, for instance when the disk is full.

    Raises:
        InputError: the folder cannot be written; the message names the reason.
    """
    try:
        yield
    except (OSError, SafetensorError) as error:
        raise _unwritable(folder, error) from error
    except RuntimeError as error:
        if not any(sign in str(error) for sign in TORCH_CANNOT_WRITE):
            raise
        raise _unwritable(folder, error) from error


def _unwritable(folder: Path, error: Exception) -> InputError:
    free = shutil.disk_usage(folder).free / 1e6
    reason = getattr(error, "strerror", None) or first_line(error)
    return InputError(
        f"{folder}: cannot be written, {free:,.0f} MB are free ({reason}); finished epochs are saved: make room, then "
        "--resume continues"
    )
