"""The one way to train: a recipe and data in, a model folder with its card out."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from contradiction.data import labelled
from contradiction.data.splits import Data
from contradiction.reports.model_card import write_cards
from contradiction.training import trainers
from contradiction.training.accelerators import fast_precision, processes
from contradiction.training.recipe import Recipe, in_tables
from contradiction.training.recipe_files import load_recipe, require_folders
from contradiction.training.run import Run


def train(
    recipe: str | Path | Mapping[str, Any] | Recipe,
    data: Data = "cdconv",
    out: str | Path | None = None,
    *,
    resume: bool = False,
    save_steps: int | None = None,
    track: str | None = None,
    deterministic: bool = False,
    **changes: Any,
) -> Path:
    """Trains a detector, and writes it with its card.

    Args:
        recipe: a recipe, or what :func:`contradiction.training.recipe_files.load_recipe` reads: the name of a recipe, a
            TOML file, or a dictionary of options. The name of a dictionary is by default that of ``out``. A ``Recipe``
            is trained as it is; for the others, bf16 becomes fp32 on a CPU without instructions for it.
        data: the data repo, a folder or Hub id; a file of labelled chats; or rows in memory by split, such as a
            ``DatasetDict`` with ``train`` and ``validation``. Rows in memory count as Chinese.
        out: the model folder to write, by default ``runs/RECIPE-seedN``.
        resume: continue an unfinished run of the same recipe and data; a finished run stays as it is.
        save_steps: save the training state every so many steps; by default only after each epoch.
        track: an experiment tracker of accelerate, for instance ``tensorboard``.
        deterministic: see ``contradiction.training.accelerators``.
        changes: other values for options of the recipe, by their bare names, for instance ``backbone`` and ``epochs``;
            None does not change a value.

    Returns:
        ``out``.

    Raises:
        InputError: an option is unknown or has a wrong value, or see :func:`contradiction.training.trainers.train`.
    """
    chosen = _chosen(recipe, out, changes)
    out = Path("runs") / f"{chosen.name}-seed{chosen.seed}" if out is None else Path(out)
    if isinstance(data, str | Path) and Path(data).is_file():
        data = labelled.build(data).folder
    trainers.train(Run(chosen, data, out, resume, save_steps, track, deterministic))
    if processes().is_main_process:
        write_cards(out)
    return out


def _chosen(
    recipe: str | Path | Mapping[str, Any] | Recipe, out: str | Path | None, changes: Mapping[str, Any]
) -> Recipe:
    if isinstance(recipe, Recipe):
        return recipe.with_changes(**changes)
    if isinstance(recipe, Mapping):
        given = {name: value for name, value in changes.items() if value is not None}
        chosen = load_recipe(in_tables({"name": Path(out).name} if out else {}, recipe, given))
    else:
        chosen = load_recipe(recipe).with_changes(**changes)
    require_folders(chosen, chosen.name if isinstance(recipe, Mapping) else str(recipe))
    if changes.get("precision") is not None or (fast := fast_precision(chosen)) == chosen:
        return chosen
    if processes().is_main_process:
        logging.getLogger(__name__).warning(
            "this CPU has no instructions for bf16, so this run uses fp32; with the option precision it keeps bf16"
        )
    return fast
