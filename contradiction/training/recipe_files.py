"""Reads recipes from TOML files, by their names in the repository, and from the records of runs."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from contradiction.errors import InputError
from contradiction.io.files import RECORD, read_json
from contradiction.paths import CHECKOUT, RECIPES
from contradiction.training.recipe import Recipe, in_tables, is_recorded_folder, validated


def recipe_files() -> dict[str, Path]:
    """The recipes of the repository: a dictionary from name to file."""
    return {file.stem: file for file in sorted(RECIPES.glob("*/*.toml"))}


def load_recipe(path: str | Path | Mapping[str, Any]) -> Recipe:
    """Reads a recipe.

    Args:
        path: a TOML file, the name of a recipe of the repository, a ``run.json``, or a model folder with one. A record
            names folders by their digest, see :func:`require_folders`. Or a dictionary of options. In a dictionary and
            in a file, options have their tables or stand by their bare names.

    Raises:
        InputError: there is no such file, it is not TOML or not a record, or its recipe has an unknown key or a wrong
            value.
    """
    if isinstance(path, Mapping):
        where = f"recipe {path.get('name', '')}".rstrip()
        return validated(in_tables(path), where)
    file = Path(path)
    if not file.is_file():
        file = recipe_files().get(str(path), file)
    if file.is_dir():
        file = file / RECORD
    if not file.is_file():
        known = ", ".join(recipe_files())
        raise InputError(f"{path}: no such recipe; give a TOML file, the run.json of a model, or one of {known}")
    values = _of_record(file) if file.suffix == ".json" else _of_toml(file)
    return validated(values, str(file))


def require_folders(recipe: Recipe, where: str) -> None:
    """Raises InputError where a recipe names a folder by its digest: only the user knows where that folder is."""
    backbone, teachers, nli = recipe.model.backbone, recipe.distillation.teachers, recipe.augmentation.nli
    if is_recorded_folder(backbone):
        raise InputError(f"{where}: started from {backbone}, a folder's name and digest; name it by --backbone")
    if recorded := [teacher for teacher in teachers if is_recorded_folder(teacher)]:
        several = len(teachers) > 1
        remedy = f"name all {len(teachers)} by --teacher, in this order" if several else "name it by --teacher"
        raise InputError(f"{where}: distilled from {', '.join(recorded)}, a folder's name and digest; {remedy}")
    if is_recorded_folder(nli):
        raise InputError(f"{where}: read pairs of {nli}, a folder's name and digest; name it by --nli")


def _of_toml(file: Path) -> dict[str, Any]:
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{file}: not a TOML file in UTF-8 ({error})") from None
    values = {"name": file.stem, **in_tables(values)}
    model, distillation = values.get("model"), values.get("distillation")
    if isinstance(model, dict) and "backbone" in model:
        model["backbone"] = _in_checkout(model["backbone"])
    if isinstance(distillation, dict) and isinstance(teachers := distillation.get("teachers"), list):
        distillation["teachers"] = [_in_checkout(teacher) for teacher in teachers]
    return values


def _in_checkout(model: Any) -> Any:
    """A folder such as ``models/NAME`` of the checkout, where the current folder has none of that name."""
    if not isinstance(model, str) or not CHECKOUT or Path(model).exists() or not (CHECKOUT / model).is_dir():
        return model
    return str(CHECKOUT / model)


def _of_record(file: Path) -> dict[str, Any]:
    run = read_json(file)
    request = run.get("request")
    if not isinstance(request, dict) or not isinstance(request.get("recipe"), dict):
        raise InputError(f"{file}: not the record of a run, it holds no recipe; `cdconv train` writes one")
    for kind, command in {"ensemble": "cdconv ensemble", "soup": "python -m paper.soup"}.items():
        if kind in request:
            raise InputError(f"{file}: of {len(request[kind])} runs; train each of them, then use `{command}`")
    values: dict[str, Any] = request["recipe"]
    if isinstance(model := values.get("model"), dict):
        values = {**values, "model": {**model, "base_model": run.get("base_model")}}
    return values
