"""The training function of each method. To add a method, add an entry to :data:`TRAINERS`."""

from collections.abc import Callable
from pathlib import Path

from contradiction.errors import InputError
from contradiction.training import hierarchical, kernel, loop
from contradiction.training.recipe import Recipe

# The name of a method -> a function that trains a recipe and writes a model folder. Its arguments are those of
# ``contradiction.training.loop.train``; a method without training steps has only ``data``, ``out`` and ``resume``.
TRAINERS: dict[str, Callable[..., Path]] = {
    "checkpoint": loop.train,
    "hierarchical": hierarchical.train,
    "kernel": kernel.train,
}
COMMON_OPTIONS = ("data", "out", "resume")


def train(recipe: Recipe, **options: object) -> Path:
    """Trains a detector by the method of its recipe.

    Args:
        recipe: the experiment.
        options: the options of the training function, see :data:`TRAINERS`.

    Returns:
        The model folder.

    Raises:
        InputError: an option is about training steps and the method has none, or the training function raises it.
    """
    if not recipe.model.fine_tunes:
        if unfit := [name for name, value in options.items() if value and name not in COMMON_OPTIONS]:
            option = unfit[0].replace("_", "-")
            raise InputError(f"{recipe.name}: its method has no training steps; leave --{option} out")
        options = {name: value for name, value in options.items() if name in COMMON_OPTIONS}
    return TRAINERS[recipe.model.method](recipe, **options)
