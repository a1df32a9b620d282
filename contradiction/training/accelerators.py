"""The accelerator of a run, at the precision that its recipe asks for."""

from typing import TYPE_CHECKING, Any

from accelerate import Accelerator, PartialState

from contradiction.errors import InputError

if TYPE_CHECKING:
    from contradiction.recipes import Recipe


def accelerator_for(recipe: "Recipe", **options: Any) -> Accelerator:
    """An accelerator whose steps are of the recipe's precision.

    Args:
        recipe: of the run.
        options: handed to accelerate.

    Raises:
        InputError: the precision cannot be had here.
    """
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
    if recipe.precision == "fp16" and PartialState().device.type == "cpu":
        raise InputError("precision 'fp16' is for GPUs; on a CPU bf16 is the fast one, and fp32 the exact one")
