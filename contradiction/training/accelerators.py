"""The devices of a run: precision, processes, and deterministic algorithms."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from accelerate import Accelerator, PartialState
from accelerate.utils import parse_flag_from_env

from contradiction.errors import InputError
from contradiction.inference.torch_backend import has_bf16

if TYPE_CHECKING:
    from contradiction.training.recipe import Recipe

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
    processes()
    check_fp16_device(recipe)
    try:
        return Accelerator(mixed_precision="no" if recipe.precision == "fp32" else recipe.precision, **options)
    except ValueError as error:  # a process can have only one precision, and not every device supports all
        raise InputError(f"precision {recipe.precision!r} cannot be used here: {error}") from error


def check_fp16_device(recipe: "Recipe") -> None:
    """Checks the precision where accelerate itself would silently use another one.

    Raises:
        InputError: fp16 on a CPU, where accelerate trains in fp32 without a warning.
    """
    if recipe.precision == "fp16" and processes().device.type == "cpu":
        raise InputError("precision 'fp16' is for GPUs; on a CPU bf16 is the fast one, and fp32 the exact one")


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
      with slower ones, and equal runs give equal weights on the same kind of GPU. An operation without a
      deterministic kernel stops the run.
    - Another number of processes changes the order of sums and the dropout masks, so the weights always differ. Without
      dropout, the curves agree up to rounding.
    """
    if not enabled:
        yield
        return
    import torch

    algorithms = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    cudnn = torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark
    # cuBLAS reads it once, at its first use in the process.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = True, False
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(algorithms, warn_only=warn_only)
        torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = cudnn
