"""A run: trains a recipe on data, and writes the card of the model."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from contradiction.data.splits import Data
from contradiction.reports.model_card import write_cards
from contradiction.training.accelerators import fast_precision, processes
from contradiction.training.recipe import Recipe
from contradiction.training.recipe_files import load_recipe, require_folders
from contradiction.training.trainers import train as train_recipe


def train(
    recipe: str | Path | Mapping[str, Any] | Recipe,
    data: Data = "cdconv",
    *,
    out: str | Path,
    resume: bool = False,
    save_steps: int | None = None,
    track: str | None = None,
    deterministic: bool = False,
    **changes: Any,
) -> Path:
    """Trains a detector and writes it with its card, as ``cdconv train`` does.

    Args:
        recipe: a recipe, or what :func:`contradiction.training.recipe_files.load_recipe` reads: the name of a recipe, a
            TOML file, or a dictionary of options. The name of a dictionary is by default that of ``out``. A ``Recipe``
            is trained as it is; for the others, bf16 becomes fp32 on a CPU without instructions for it.
        data: the data repo, a folder or Hub id; or rows in memory by split, such as a ``DatasetDict`` with ``train``
            and ``validation``. Rows in memory count as Chinese.
        out: the model folder to write.
        resume: continue an unfinished run of the same recipe and data.
        save_steps: save the training state every so many steps; by default only after each epoch.
        track: an experiment tracker of accelerate, for instance ``tensorboard``.
        deterministic: see ``contradiction.training.accelerators``.
        changes: other values for options of the recipe, by their bare names, for instance ``backbone`` and ``epochs``.

    Returns:
        ``out``.

    Raises:
        InputError: an option is unknown or has a wrong value, or see :func:`contradiction.training.loop.train`.
    """
    if not isinstance(recipe, Recipe):
        named = {"name": Path(out).name, **recipe} if isinstance(recipe, Mapping) else recipe
        recipe = load_recipe(named).with_changes(**changes)
        require_folders(recipe, recipe.name)
        recipe = recipe if "precision" in changes else fast_precision(recipe)
    else:
        recipe = recipe.with_changes(**changes)
    options = {"resume": resume, "save_steps": save_steps, "track": track, "deterministic": deterministic}
    folder = train_recipe(recipe, data=data, out=out, **options)
    if processes().is_main_process:
        write_cards(folder)
    return folder
