"""Which function trains each method. A new method that recipes can train is one more entry in :data:`TRAINERS`."""

from collections.abc import Callable
from pathlib import Path

from contradiction.errors import InputError
from contradiction.training import hierarchical, kernel, loop
from contradiction.training.recipe import Recipe

# The name of a method -> a function of a recipe that writes a model folder. It takes the arguments of
# ``contradiction.training.loop.train``; one that makes no steps takes ``data``, ``out`` and ``resume`` alone.
TRAINERS: dict[str, Callable[..., Path]] = {
    "checkpoint": loop.train,
    "hierarchical": hierarchical.train,
    "kernel": kernel.train,
}
OF_ALL = ("data", "out", "resume")


def train(recipe: Recipe, **options: object) -> Path:
    """Trains a detector by the method of its recipe.

    Args:
        recipe: the experiment.
        options: of the method's function, see :data:`TRAINERS`.

    Returns:
        The model folder.

    Raises:
        InputError: the method makes no steps and an option is about steps, or whatever its function raises.
    """
    if not recipe.model.fine_tunes:
        if unfit := [name for name, value in options.items() if value and name not in OF_ALL]:
            option = unfit[0].replace("_", "-")
            raise InputError(f"{recipe.name}: its method makes no training steps; --{option} has no place here")
        options = {name: value for name, value in options.items() if name in OF_ALL}
    return TRAINERS[recipe.model.method](recipe, **options)
