"""What an unfinished run keeps, so that it can go on from there as if it had never stopped.

The folder ``state`` holds what ``accelerate`` saves (weights, optimizer, schedule, random states, averaged weights),
``progress.json``, and, inside an epoch, a ``position-N.json`` for each process.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError

from contradiction.errors import InputError
from contradiction.io import files

if TYPE_CHECKING:
    from accelerate import Accelerator

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
