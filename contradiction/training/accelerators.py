"""The devices of a run: precision, processes, deterministic algorithms, and the trackers of its curves."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from accelerate import Accelerator, PartialState
from accelerate.tracking import get_available_trackers
from accelerate.utils import parse_flag_from_env

from contradiction.errors import InputError, first_line
from contradiction.inference.torch_backend import has_bf16

if TYPE_CHECKING:
    from contradiction.training.recipe import Recipe
    from contradiction.training.run import Run

# How long a process waits for the main process, which computes the teachers' probabilities and chooses the decision
# rule. The default is half an hour, on GPUs ten minutes.
WAIT_FOR_MAIN = timedelta(hours=3)


def processes() -> PartialState:
    """The processes that share a run. It can be called before an accelerator exists.

    ``Accelerator`` reads ``ACCELERATE_USE_CPU``, and ``PartialState`` does not. Without ``cpu``, two processes on a CPU
    would become two independent runs.
    """
    return PartialState(cpu=parse_flag_from_env("ACCELERATE_USE_CPU"), timeout=WAIT_FOR_MAIN)


def accelerator_for(recipe: "Recipe", **options: Any) -> Accelerator:
    """An accelerator with the precision of the recipe.

    Raises:
        InputError: the device does not support the precision.
    """
    device = processes().device
    if recipe.precision == "fp16" and device.type == "cpu":  # accelerate would silently train in fp32
        raise InputError("precision 'fp16' is for GPUs; on a CPU bf16 is the fast one, and fp32 the exact one")
    try:
        return Accelerator(mixed_precision="no" if recipe.precision == "fp32" else recipe.precision, **options)
    except ValueError as error:  # a process can have only one precision, and not every device supports all
        raise InputError(f"precision {recipe.precision!r} cannot be used here: {error}") from error


def fast_precision(recipe: "Recipe") -> "Recipe":
    """The recipe, with fp32 instead of bf16 on a CPU without instructions for bf16."""
    slow = recipe.precision == "bf16" and processes().device.type == "cpu" and not has_bf16()
    return recipe.with_changes(precision="fp32") if slow else recipe


@contextmanager
def deterministic(enabled: bool) -> Iterator[None]:
    """Inside the block, torch uses only deterministic algorithms; unless ``enabled``, nothing changes.

    - On a CPU, equal runs give equal weights with and without it, on the same kind of CPU and with the same number
      of threads and the same versions.
    - On a GPU, some kernels add numbers in an order that varies between runs. Deterministic algorithms replace them
      with slower ones. An operation without a deterministic kernel stops the run.
    - Another number of processes changes the order of sums and the dropout masks, so the weights always differ.
    """
    import torch

    before = torch.are_deterministic_algorithms_enabled()
    if enabled:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS reads it once, at its first use
        torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)


def check_tracker(name: str) -> None:
    """Raises InputError if accelerate knows no such tracker, or its package is not installed."""
    installed = [str(tracker) for tracker in get_available_trackers()]
    if name not in installed:
        raise InputError(f"--track {name}: no tracker of accelerate that is installed; {', '.join(installed)} are")


@contextmanager
def tracking(accelerator: Accelerator, run: "Run") -> Iterator[None]:
    """Starts the trackers of an accelerator, and closes them when the block ends, also after an error.

    A run is named as its folder. The curves of a resumed run continue, where the tracker can.

    Raises:
        InputError: a tracker cannot be started, for instance without a login.
    """
    if accelerator.log_with:
        # TensorBoard accepts no lists, no tables and no None.
        values = run.recipe.options().items()
        config = {name: value if isinstance(value, int | float) else str(value) for name, value in values}
        named = {"name": run.tracked.name.removesuffix(".tracking")}
        resume = "allow" if (run.work / "state").is_dir() else "never"
        options = {"wandb": named, "trackio": {**named, "resume": resume}}
        try:
            accelerator.init_trackers("cdconv", config=config, init_kwargs=options)
        except Exception as error:  # each tracker raises errors of its own
            raise InputError(f"--track {accelerator.log_with[0]}: cannot be started ({first_line(error)})") from error
    try:
        yield
    finally:
        # Not accelerator.end_training: it would also end the process group, which the next stage needs.
        for tracker in accelerator.trackers:
            tracker.finish()
