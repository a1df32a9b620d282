"""Reads recipes from TOML files, by their names in the repository, and from the records of runs.

Files and records of earlier versions still load. Before version 1, recipes had no tables, other names, and options that
no longer exist.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import model_validator

from contradiction.errors import InputError
from contradiction.inputs.views import HIERARCHICAL
from contradiction.io.files import RECORD, read_json
from contradiction.paths import RECIPES
from contradiction.training.recipe import Recipe, full_names, is_recorded_folder, validated
from contradiction.training.recipe_options import TABLES


def recipe_files() -> dict[str, Path]:
    """The recipes of the repository: a dictionary from name to file."""
    return {file.stem: file for file in sorted(RECIPES.glob("*/*.toml"))}


def load_recipe(path: str | Path | Mapping[str, Any]) -> Recipe:
    """Reads a recipe.

    Args:
        path: a TOML file, the name of a recipe of the repository, a ``run.json``, or a model folder with one. A record
            names folders by their digest, see :func:`require_folders`. Or a dictionary of options, with their tables as
            in a TOML file, or all by their bare names.

    Raises:
        InputError: there is no such file, it is not TOML or not a record, or its recipe has an unknown key, a wrong
            value, or an option that no longer exists.
    """
    if isinstance(path, Mapping):
        where = f"recipe {path.get('name', '')}".rstrip()
        return validated(Recipe, _current(path, where), where)
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
    return {"name": file.stem, **_current(values, file)}


def _current(values: Mapping[str, Any], where: str | Path) -> dict[str, Any]:
    current, retired = upgraded(values)
    if retired:
        raise InputError(f"{where}: sets {', '.join(retired)}, which this version no longer has; remove it")
    return current


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


# The old names of options.
RENAMED: Mapping[str, str] = {
    "share": "train_fraction",
    "warmup": "warmup_ratio",
    "ngrams": "ngram_teacher_weight",
    "distill": "weight",
    "distill_temperature": "temperature",
    "transfer": "transfer_per_row",
    "nli_pairs": "nli_pairs_per_row",
    "replaced": "context_negatives",
}
# Options that no longer exist, each with the value that switched it off.
RETIRED: Mapping[str, Any] = {
    "mixed_views": [],
    "patience": None,
    "accumulate": 1,
    "layer_decay": 1.0,
    "focal": 0.0,
    "label_smoothing": 0.0,
    "r_drop": 0.0,
    "kernel": 0.0,
    "embedder": None,
    "fgm": 0.0,
    "ema": 0.0,
}
FROZEN = "frozen"  # its value true is now the method "kernel"


class RecordedRecipe(Recipe):
    """The recipe of a record.

    Attributes:
        retired: options that the record sets and that no longer exist; such a run cannot be trained again.
    """

    retired: dict[str, Any] = {}

    @model_validator(mode="after")
    def _options_have_an_effect(self) -> Self:
        return self  # earlier versions accepted options without an effect

    def options(self) -> dict[str, Any]:
        """All values by their bare names, with the retired options that were set."""
        values = super().options()
        return values | values.pop("retired")

    def recorded(self) -> dict[str, Any]:
        """The values that the record stores, with retired options only where they were set."""
        values = super().recorded()
        return values if self.retired else {key: value for key, value in values.items() if key != "retired"}


def recorded_recipe(values: object) -> RecordedRecipe:
    """The recipe of a record of any version.

    Raises:
        InputError: the values are not a recipe, or one of a later version.
    """
    if not isinstance(values, Mapping):
        raise InputError("the record of the run holds no recipe")
    current, retired = upgraded(values)
    where = f"the recipe in the record of {values.get('name', 'a run')}"
    return validated(RecordedRecipe, {**current, "retired": retired} if retired else current, where)


def upgraded(values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The values of a recipe of any version in their tables, and the retired options that were set.

    Unknown keys stay where they are, so that validation names them.
    """
    tables = {name: table for name, table in values.items() if name in TABLES and isinstance(table, Mapping)}
    options = [item for table in (values, *tables.values()) for item in table.items()]
    retired = {key: value for key, value in options if key in RETIRED and value != RETIRED[key]}
    if tables:
        kept = {name: {key: table[key] for key in table if key not in RETIRED} for name, table in tables.items()}
        return {**values, **kept}, retired
    known = full_names()
    current: dict[str, Any] = {}
    for key, value in values.items():
        name = RENAMED.get(key, key)
        table, _, option = known.get(name, "").rpartition(".")
        if table:
            current.setdefault(table, {})[option] = value
        elif key not in RETIRED and key != FROZEN:
            current[key] = value
    if values.get("view") == HIERARCHICAL:
        current["model"] = {"method": "hierarchical", **current.get("model", {})}
    elif values.get(FROZEN):
        current["model"] = {"method": "kernel", **current.get("model", {})}
    return current, retired
