"""Reads recipes: TOML files, those of the repository by their names, and the records of runs."""

import tomllib
from pathlib import Path
from typing import Any

from contradiction.errors import InputError
from contradiction.io.files import read_json
from contradiction.paths import RECIPES
from contradiction.training.recipe import Recipe, is_recorded_folder, validated
from contradiction.training.recipe_history import upgraded

RECORD = "run.json"


def recipe_files() -> dict[str, Path]:
    """The recipes of the repository: name -> file."""
    return {file.stem: file for file in sorted(RECIPES.glob("*/*.toml"))}


def load_recipe(path: str | Path) -> Recipe:
    """Reads a recipe.

    Args:
        path: a TOML file, the name of a recipe of the repository, a ``run.json``, or the model folder that holds one.
            A record names folders by their digest, see :func:`require_folders`.

    Raises:
        InputError: there is no such file, it is no TOML or no record, or its recipe has an unknown key, a wrong value,
            or an option that this version no longer has.
    """
    file = Path(path)
    if not file.is_file():
        file = recipe_files().get(str(path), file)
    if file.is_dir():
        file = file / RECORD
    if not file.is_file():
        known = ", ".join(recipe_files())
        raise InputError(f"{path}: no such recipe; give a TOML file, the run.json of a model, or one of {known}")
    values = _of_record(file) if file.suffix == ".json" else _of_toml(file)
    return validated(Recipe, values, str(file))


def require_folders(recipe: Recipe, where: str) -> None:
    """Raises InputError where a recipe names a folder by its digest, as records do: only the user knows where it is."""
    backbone, teachers, nli = recipe.model.backbone, recipe.distillation.teachers, recipe.augmentation.nli
    if is_recorded_folder(backbone):
        raise InputError(f"{where}: started from {backbone}, a folder's name and digest; name it by --backbone")
    if recorded := [teacher for teacher in teachers if is_recorded_folder(teacher)]:
        several = len(teachers) > 1
        remedy = f"name all {len(teachers)} by --teacher, in this order" if several else "name it by --teacher"
        raise InputError(f"{where}: learnt from {', '.join(recorded)}, a folder's name and digest; {remedy}")
    if is_recorded_folder(nli):
        raise InputError(f"{where}: read pairs of {nli}, a folder's name and digest; name it by --nli")


def _of_toml(file: Path) -> dict[str, Any]:
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{file}: not a TOML file in UTF-8 ({error})") from None
    current, retired = upgraded(values)
    if retired:
        raise InputError(f"{file}: sets {', '.join(retired)}, which this version no longer has; remove it")
    return {"name": file.stem, **current}


def _of_record(file: Path) -> dict[str, Any]:
    run = read_json(file)
    request = run.get("request")
    if not isinstance(request, dict) or not isinstance(request.get("recipe"), dict):
        raise InputError(f"{file}: not the record of a run, it holds no recipe; `cdconv train` writes one")
    for kind in ("ensemble", "soup"):
        if kind in request:
            raise InputError(f"{file}: of {len(request[kind])} runs; train each of them, then use `cdconv {kind}`")
    values, retired = upgraded(request["recipe"])
    if retired:
        raise InputError(
            f"{file}: set {', '.join(retired)}, which this version no longer has; commit {run.get('commit')} trains it"
        )
    model = values.get("model")
    if isinstance(model, dict):
        values["model"] = {**model, "base_model": run.get("base_model")}
    return values
