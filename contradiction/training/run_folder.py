"""The folder of a run: its request, whether it is free, begun or finished, the saved state, and its completion.

The subfolder ``state`` holds what ``accelerate`` saves (weights, optimizer, schedule, random states, averaged weights),
``progress.json``, and, inside an epoch, a ``position-N.json`` for each process. A run continues from it as if it had
never stopped.
"""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError

from contradiction.data.splits import fingerprint, load_split, name_of
from contradiction.errors import InputError
from contradiction.io import files
from contradiction.io.hub import revision
from contradiction.labels import task_with
from contradiction.methods.calibration import calibrate
from contradiction.methods.loading import name_with_digest, write_manifests
from contradiction.training import leakage, record
from contradiction.training.recipe import Recipe

if TYPE_CHECKING:
    from accelerate import Accelerator
    from datasets import Dataset

# In the working folder of a run: what its teachers say of its rows.
TAUGHT = "teachers.npy"


def request(recipe: Recipe, data: str | Path, rows: "Mapping[str, Dataset] | None" = None) -> dict[str, Any]:
    """What a run is asked to do, as its record keeps it.

    Two runs with equal requests end with equal weights, if :func:`conditions` are equal too, and as far as
    ``contradiction.training.accelerators`` promises.

    Args:
        recipe: of the run.
        data: its data repo.
        rows: what :func:`read` gives, where that has been read.

    Raises:
        InputError: the backbone or a teacher has seen rows that the run is to be tested on.
    """
    rows = rows or read(recipe, data)
    values = recipe.recorded()
    values["model"]["backbone"] = name_with_digest(recipe.model.backbone)
    values["distillation"]["teachers"] = [name_with_digest(teacher) for teacher in recipe.distillation.teachers]
    nli, beside = recipe.augmentation.nli, {}
    if nli:
        pairs = fingerprint(load_split(nli, "nli", "train"))
        if (folder := Path(nli)).is_dir():
            values["augmentation"]["nli"] = f"{folder.resolve().name}@{pairs[:12]}"
        else:  # what lies under a Hub id may change, so its content stands beside the name
            beside = {"nli": pairs}
    name = name_of(data)
    leakage.check_sources(recipe, name)
    return {"recipe": values, "data": fingerprint(*rows.values()), "data_name": name, **beside}


def conditions(recipe: Recipe, deterministic: bool = False) -> dict[str, Any]:
    """What else the weights of a run depend on: it is not asked for in a recipe, and stands beside the request.

    Args:
        recipe: names the backbone and the teachers; of those on the Hub the commits count, where they are known.
        deterministic: see ``contradiction.training.accelerators``.
    """
    names = [each for each in leakage.sources(recipe) if not Path(each).is_dir()]
    found = {name: revision(name) for name in names}
    return {"deterministic": deterministic, "revisions": {name: each for name, each in found.items() if each}}


def read(recipe: Recipe, data: str | Path) -> dict[str, "Dataset"]:
    """The whole training and validation split of a recipe's config."""
    return {split: load_split(data, recipe.data.config, split) for split in ("train", "validation")}


def partial_of(out: Path) -> Path:
    """The working folder of a run, beside the one that it becomes.

    Raises:
        InputError: ``out`` has no name, as ``.`` or ``/``.
    """
    if not out.name:
        raise InputError(f"{out}: names no new folder; name one inside it, for instance {out / 'run'}")
    return out.with_name(f"{out.name}.partial")


def finished(out: Path, request: dict[str, Any], resume: bool) -> bool:
    """Whether the run is over already, so that nothing is left to resume.

    What a kill in its last moment left of the working folder goes.

    Raises:
        InputError: ``out`` is there, and it is not to be resumed or is another run.
    """
    if not out.exists():
        return False
    if resume and record.request(out) == request:
        work = partial_of(out)
        if record.request(work) == request:
            shutil.rmtree(work, ignore_errors=True)  # another process of the run may be at it too
        return True
    raise InputError(f"{out}: exists already; remove it, or name another folder")


def claim(work: Path, request: dict[str, Any], resume: bool, conditions: dict[str, Any]) -> None:
    """Makes the working folder of a run, or checks that the one there belongs to this run.

    Raises:
        InputError: the folder holds an unfinished run, and it is not to be resumed, is another, or began under other
            conditions.
    """
    files.restore_folders(work)
    # Without the state of an epoch, a finished stage, or the answers of teachers there is nothing to lose.
    if any(any(work.glob(each)) for each in ("**/state", f"*/{record.NAME}", TAUGHT)):
        if not resume:
            raise InputError(f"{work}: an unfinished run; --resume continues it, or remove it")
        if record.request(work) != request:
            raise InputError(
                f"{work}: the unfinished run is of another recipe or other data; remove it, or name another folder"
            )
        _check_conditions(work, conditions)
        return
    with files.new_folder(work) as folder:
        files.write_json(folder / record.NAME, {"request": request, **conditions})


def _check_conditions(work: Path, conditions: dict[str, Any]) -> None:
    """Raises InputError where an unfinished run began under others; what it does not record may be anything."""
    begun = record.read(work)
    if (was := begun.get("deterministic", conditions["deterministic"])) != conditions["deterministic"]:
        raise InputError(
            f"{work}: the unfinished run began {'with' if was else 'without'} --deterministic; resume it so, or "
            "remove it"
        )
    for name, now in conditions["revisions"].items():
        if (was := begun.get("revisions", {}).get(name, now)) != now:
            raise InputError(
                f"{work}: the unfinished run began with {name} at commit {was[:12]}, and it stands at {now[:12]} now; "
                "remove the run, or fetch that commit into a folder and train from there"
            )


def complete(folder: Path, validation: "Dataset") -> None:
    """Adds to a model folder its decision rule, chosen on validation, and its manifest; an NLI model gets no rule.

    Of several processes only the main one is here. A run that is killed here comes here again on resume.

    Args:
        folder: with the final weights and their record.
        validation: the rows that its checkpoints were chosen on.
    """
    if task_with(validation.features["label"].names) != "nli":  # an NLI model is a start, not a detector
        calibrate(folder, validation)
    write_manifests(folder)


# torch.save raises a bare RuntimeError when the disk is full; these stand in its words.
TORCH_CANNOT_WRITE = ("inline_container", "PytorchStreamWriter", "iostream error")


@dataclass
class Progress:
    """What a run has reached: one entry an epoch, and the best validation macro-F1 with its epoch (from 1)."""

    epochs: list[dict[str, Any]] = field(default_factory=list)
    best_epoch: int = 0
    best_macro_f1: float = -1.0


@dataclass(frozen=True)
class Position:
    """Where a process stands inside an epoch: steps done, the loss summed over its own rows, and seconds spent."""

    steps: int = 0
    loss: float = 0.0
    rows: int = 0
    seconds: float = 0.0

    def after(self, loss: float, rows: int, seconds: float) -> "Position":
        """Where it stands one step later, ``seconds`` after the epoch began."""
        return Position(self.steps + 1, self.loss + loss, self.rows + rows, seconds)


def keep(accelerator: "Accelerator", work: Path, progress: Progress, position: Position | None = None) -> None:
    """Saves all that the next step depends on, under a temporary name, then renames it.

    Args:
        accelerator: has prepared all that is to be saved.
        work: the working folder of the run.
        progress: the epochs done.
        position: inside the next one; None between two epochs.

    Raises:
        InputError: it cannot be written; the state before stays.
    """
    fresh, number = work / ".state.partial", accelerator.process_index
    with writing(work):
        if accelerator.is_main_process:
            shutil.rmtree(fresh, ignore_errors=True)  # of a process that was killed while it wrote
        accelerator.wait_for_everyone()
        try:
            accelerator.save_state(str(fresh))
            if position:
                files.write_json(fresh / f"position-{number}.json", asdict(position))
            accelerator.wait_for_everyone()
            if accelerator.is_main_process:
                kept = {**asdict(progress), "processes": accelerator.num_processes}
                files.write_json(fresh / "progress.json", kept)
                files.replace_folder(fresh, work / "state")
        except BaseException:
            shutil.rmtree(fresh, ignore_errors=True)  # it takes room, and the disk may be full
            raise
    accelerator.wait_for_everyone()


def restore(accelerator: "Accelerator", work: Path) -> tuple[Progress, Position]:
    """Puts everything back as it was kept; a fresh start where nothing is.

    Raises:
        InputError: the state is of another number of processes, whose random states and rows are not these.
    """
    state = work / "state"
    if not state.is_dir():
        return Progress(), Position()
    progress = files.read_json(state / "progress.json")
    processes = progress.pop("processes", accelerator.num_processes)
    if processes != accelerator.num_processes:
        raise InputError(
            f"{state}: kept by {processes} processes, not to be resumed by {accelerator.num_processes}; start as many"
        )
    accelerator.load_state(str(state))
    position = state / f"position-{accelerator.process_index}.json"
    return Progress(**progress), Position(**files.read_json(position)) if position.is_file() else Position()


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Makes one clear line of what the libraries that write weights raise when the disk is full or refuses.

    Raises:
        InputError: names the folder and the reason.
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
    reason = getattr(error, "strerror", None) or str(error).strip().splitlines()[0]
    return InputError(
        f"{folder}: cannot be written, {free:,.0f} MB are free ({reason}); finished epochs are kept: make room, then "
        "--resume goes on"
    )
