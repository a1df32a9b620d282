"""The devices of a run: precision, processes, and deterministic algorithms."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from accelerate import Accelerator, PartialState
from accelerate.utils import parse_flag_from_env

from contradiction.errors import InputError

if TYPE_CHECKING:
    from contradiction.training.recipe import Recipe

# How long a process waits for the main one, which alone asks teachers and chooses the decision rule. By default it
# would give up after half an hour, on GPUs after ten minutes.
PATIENCE = timedelta(hours=3)


def processes() -> PartialState:
    """The processes that share a run; it may be asked before there is an accelerator.

    Only an ``Accelerator`` looks at ``ACCELERATE_USE_CPU``. A ``PartialState`` made before it without a look would
    make of two processes on a CPU two runs that know nothing of each other.
    """
    return PartialState(cpu=parse_flag_from_env("ACCELERATE_USE_CPU"), timeout=PATIENCE)


def accelerator_for(recipe: "Recipe", **options: Any) -> Accelerator:
    """An accelerator whose steps are of the recipe's precision.

    Args:
        recipe: of the run.
        options: handed to accelerate.

    Raises:
        InputError: the precision cannot be had here.
    """
    processes()
    check_precision(recipe)
    try:
        return Accelerator(mixed_precision="no" if recipe.precision == "fp32" else recipe.precision, **options)
    except ValueError as error:  # accelerate allows one precision a process, and not every device has each
        raise InputError(f"precision {recipe.precision!r} cannot be used here: {error}") from error


def check_precision(recipe: "Recipe") -> None:
    """Makes sure that the device has the recipe's precision where accelerate itself would go on without it.

    Raises:
        InputError: fp16 on a CPU, where accelerate makes steps in fp32 and says nothing.
    """
    if recipe.precision == "fp16" and processes().device.type == "cpu":
        raise InputError("precision 'fp16' is for GPUs; on a CPU bf16 is the fast one, and fp32 the exact one")


@contextmanager
def deterministic(wanted: bool) -> Iterator[None]:
    """Inside the block torch uses deterministic algorithms only; without ``wanted`` nothing changes.

    - On a CPU equal requests give equal bytes with or without it, given the same kind of CPU, the same number of
      threads and the same versions.
    - On a GPU some kernels add up in an order that differs from run to run. With it they are replaced by slower ones
      that do not, and equal requests give equal bytes on the same kind of GPU; an operation that has no such kernel
      stops the run.
    - With another number of processes sums are taken in another order and dropout draws other masks: curves then agree
      in tendency, without dropout within rounding, and never in their bytes.
    """
    if not wanted:
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
