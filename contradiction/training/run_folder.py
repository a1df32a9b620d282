"""The folder of a run: its request, its saved state, and whether the run is new, unfinished or finished.

The subfolder ``state`` holds what ``accelerate`` saves (weights, optimizer, schedule, random states),
``progress.json``, and, inside an epoch, a ``position-N.json`` for each process. A run continues from it as if it had
never stopped.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError

from contradiction.decision import FEWEST, NO_RULE, Rule
from contradiction.errors import InputError, first_line
from contradiction.io import files
from contradiction.labels import CONTRADICTIONS, WITHOUT_RULE, is_contradiction, task_of_labels
from contradiction.methods.base import Classifier
from contradiction.methods.loading import calibrate, load_classifier, save_rule, write_manifests
from contradiction.training import record

if TYPE_CHECKING:
    from accelerate import Accelerator, PartialState
    from datasets import Dataset

TEACHER_PROBABILITIES = "teachers.npy"  # the cache in the working folder of a run


@contextmanager
def claimed(out: Path, work: Path, request: dict[str, Any], resume: bool, processes: "PartialState") -> Iterator[bool]:
    """Locks a model folder inside the block, and gives whether its run is finished, see :func:`is_finished`.

    All processes of a run begin and end the block together.
    """
    with files.locked(out, processes.is_main_process):
        processes.wait_for_everyone()
        finished = is_finished(out, work, request, resume, processes.is_main_process)
        processes.wait_for_everyone()
        yield finished
        processes.wait_for_everyone()


def is_finished(out: Path, work: Path, request: dict[str, Any], resume: bool, is_main_process: bool) -> bool:
    """Whether the run is finished, so that there is nothing to resume.

    The main process removes a working folder that a killed process left behind after the run was finished.

    Raises:
        InputError: ``out`` exists, and ``resume`` is false or ``out`` is another run.
    """
    if not out.exists():
        return False
    if not resume or record.recorded_request(out) != request:
        raise InputError(f"{out}: exists already; remove it, or name another folder")
    if is_main_process and record.recorded_request(work) == request:
        shutil.rmtree(work, ignore_errors=True)  # the run is finished even if this fails
    return True


def open_run(work: Path, request: dict[str, Any], resume: bool, provenance: dict[str, Any]) -> None:
    """Creates the working folder of a run, or checks that an existing one belongs to this run.

    Raises:
        InputError: the folder holds an unfinished run, and ``resume`` is false, or the run has another request or other
            conditions.
    """
    files.restore_folders(work)
    if has_progress(work):
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
    begun = record.read(work)
    if begun.get("deterministic", provenance["deterministic"]) != provenance["deterministic"]:
        began = "with" if begun["deterministic"] else "without"
        raise InputError(f"{work}: the unfinished run began {began} --deterministic; resume it so, or remove it")
    for name, now in provenance["revisions"].items():
        if (was := begun.get("revisions", {}).get(name, now)) != now:
            raise InputError(
                f"{work}: the unfinished run began with {name} at commit {was[:12]}, and the Hub has {now[:12]} now; "
                "remove the run, or fetch that commit into a folder and train from there"
            )


def has_progress(work: Path) -> bool:
    """Whether a working folder holds anything to resume from: a state, a finished stage, or teacher probabilities."""
    return any(any(work.glob(pattern)) for pattern in ("**/state", f"*/{files.RECORD}", TEACHER_PROBABILITIES))


def finalize(folder: Path, validation: "Dataset", start: str | None = None) -> str | None:
    """Adds the decision rule and the manifest to a model folder; only a detector gets a rule.

    The rule is chosen on validation. With fewer than ``FEWEST`` contradictions or other rows it would be a guess. The
    model then keeps the rule of ``start``, the folder that training started from. If that is no detector with the same
    labels, it gets one that changes nothing. Only the main process calls this function. A run that is killed here
    repeats it after a resume.

    Returns:
        Why the rule was not chosen on validation, in words that follow the name of the model; None if it was.
    """
    labels = validation.features["label"].names
    task, reason = task_of_labels(labels), None
    if task not in WITHOUT_RULE:
        contradictions = sum(is_contradiction(labels[label]) for label in validation["label"][:])
        others = len(validation) - contradictions
        if task in CONTRADICTIONS and min(contradictions, others) < FEWEST:
            rule = _rule_of(start, load_classifier(folder))
            save_rule(folder, rule)
            kept = "no fitted decision rule" if rule == NO_RULE else f"the decision rule of {Path(str(start)).name}"
            reason = (
                f"has {kept}, because validation has only {contradictions} contradictions and {others} other rows, and "
                f"a rule of its own needs {FEWEST} of each"
            )
        else:
            calibrate(folder, validation)
    write_manifests(folder)
    return reason


def _rule_of(start: str | None, trained: Classifier) -> Rule:
    """The rule of the folder that training started from, if that is a detector of the same kind; else none."""
    if start and Path(start).is_dir():
        with suppress(InputError):  # an encoder is no detector
            before = load_classifier(start)
            if type(before) is type(trained) and set(before.labels) == set(trained.labels):
                return before.rule
    return NO_RULE


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
