"""``run.json``: the request of a run, its results, and the hardware and versions that it used.

Keys, of which some depend on the method:
    request: ``recipe``; ``data``, the fingerprint of the rows; ``data_name``, the name of their data repo; for some
        recipes the fingerprints ``nli``, ``crossed``, ``crossed-long``, ``crossed-en``; of a soup or an ensemble also
        the recipes of the members.
    epochs: for each epoch ``train_loss``, ``seconds``, and the ``validation`` scores.
    best_epoch, best_macro_f1: the saved epoch, from 1, and its validation macro-F1.
    stages: of the hierarchical method: the name of each stage -> the record of its run.
    soup, ensemble: the records of the members.
    deterministic: whether only deterministic operations were allowed on a GPU.
    revisions: the Hub id of the backbone and of each teacher -> its commit.
    processes: the number of processes that trained together.
    languages: the codes of the languages of the data, unless it is Chinese alone.
    base_folder: the folder that a causal detector's base was read from, if ``CDCONV_BASE`` names it, and its digest.
    base_model: the Hub id of the model that the backbone was made from; None where it is unknown.
    ancestors: the training data of the models that it was made from, see ``contradiction.training.leakage``.
    rule_kept: why the decision rule was not chosen on validation, in words that follow the name of the model.
    calibrated_on: the names of the labelled chats that the decision rule was fitted to.
    calibrated_parts: the same for the parts of a cascade.
    cascade: of a cascade, how it was measured: ``parts``, their names and digests; ``config``, ``data_name`` and the
        number of the ``rows``; ``share``, that of the rows which the judge reads; ``curve``, the steps of
        :mod:`contradiction.evaluation.cascades`.
    minutes, parameters: the time of the training and the number of weights, summed over stages or members.
    hardware, versions, commit: the device, the versions of Python and the libraries, and the commit of the code.
    note: a remark, written by hand for published models.
    corpora: the titles of the corpora of an NLI stage, written by hand for the stage; models made from it inherit them.
"""

import logging
import os
import platform
import subprocess
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from contradiction.errors import InputError
from contradiction.io.files import RECORD, check_form, read_json, write_json
from contradiction.io.hub import HubUnavailableError, fetch_file, split_revision
from contradiction.training.recipe import Recipe, validated

CALIBRATED_ON, RULE_KEPT, CASCADE = "calibrated_on", "rule_kept", "cascade"
MERGED = ("soup", "ensemble")  # keys with the records of the members, and in a request with their recipes
# The types of what cards and combinations of models read, see `check_form`; other entries may hold anything.
_REQUEST = {"recipe": (dict, ...), "data_name": (str | None, None)}
_FINISHED = {
    "request": (dict, ...), "minutes": (float, ...), "parameters": (int, ...), "hardware": (str, ...),
    "best_epoch": (int, 1), "best_macro_f1": (float, 0), "base_model": (str | None, None), "ancestors": (list, []),
    "languages": (list[str], []), "corpora": (list[str], []), "stages": (dict[str, dict], {}),
    CALIBRATED_ON: (list[str], []),
}  # fmt: skip
_MEASURED = {
    "parts": (list[str], ...), "config": (str, ...), "data_name": (str | None, ...), "rows": (int, ...),
    "share": (float, ...), "curve": (list[dict], ...),
}  # fmt: skip
PACKAGES = ("torch", "transformers", "datasets", "accelerate", "tokenizers")


def read(folder: str | Path) -> dict[str, Any]:
    """The record of a model folder; empty without one, and if its file holds something else."""
    file = Path(folder) / RECORD
    values = read_json(file) if file.is_file() else {}
    return values if is_record(values) else {}


def of_model(model: str | Path) -> dict[str, Any]:
    """The record of a model, a folder or a Hub id; empty without one, and where the Hub cannot be reached.

    A warning says that the Hub could not be reached.
    """
    if Path(model).is_dir():
        return read(model)
    try:
        file = fetch_file(str(model), RECORD)
        return read(file.parent) if file else {}
    except HubUnavailableError:
        _warn_once(str(model))
    except InputError:  # a file of that name that is no record
        pass
    return {}


def finished(folder: str | Path) -> dict[str, Any]:
    """The record of a finished run; raises InputError, which names the entry, if one is missing or damaged."""
    run, where = read(folder), str(Path(folder) / RECORD)
    if not run:
        raise InputError(f"{where}: holds no record of a finished run")
    _check_finished(run, where)
    return run


def of_cascade(folder: str | Path) -> dict[str, Any]:
    """The record of a measured cascade; raises InputError, which names the entry, if one is missing or damaged."""
    run, where = read(folder), str(Path(folder) / RECORD)
    if CASCADE not in run:
        raise InputError(f"{where}: has no {CASCADE!r}; `cdconv cascade` writes it: make it again")
    check_form(run, {CASCADE: (dict, ...)}, where)
    check_form(run[CASCADE], _MEASURED, f"{where}: {CASCADE}")
    return run


def _check_finished(run: Mapping[str, Any], where: str) -> None:
    check_form(run, _FINISHED, where)
    check_form(run["request"], _REQUEST, f"{where}: request")
    for part in (*run.get("stages", {}).values(), *members(run)):
        _check_finished(part, where)


def is_record(values: object) -> bool:
    """Whether a value has the form of a record."""
    if not isinstance(values, dict) or not isinstance(request := values.get("request", {}), dict):
        return False
    lists = [values.get(kind, []) for kind in MERGED]
    return isinstance(request.get("recipe", {}), dict) and all(
        isinstance(runs, list) and all(map(is_record, runs)) for runs in lists
    )


@cache
def _warn_once(model: str) -> None:
    logging.getLogger(__name__).warning(
        "%s: its record cannot be fetched from the Hub, so its training data is unknown; `hf download %s` fetches it",
        model, model,
    )  # fmt: skip


def write_calibrated_on(folder: str | Path, data_name: str | None) -> None:
    """Records to which labelled chats the decision rule of a model folder has been fitted.

    A rule for labelled chats starts from the previous rule, so names from before stay. A rule that was chosen on a
    validation split replaces them; its ``data_name`` is None.
    """
    run = read(folder)
    changed = {key: value for key, value in run.items() if key not in (CALIBRATED_ON, RULE_KEPT)}
    if data_name:
        changed[CALIBRATED_ON] = list(dict.fromkeys([*run.get(CALIBRATED_ON, []), data_name]))
    if changed != run:
        write_json(Path(folder) / RECORD, changed)


def recipe(request: Mapping[str, Any]) -> Recipe:
    """The recipe of a recorded request.

    Raises:
        InputError: the request holds no recipe, or one of another version.
    """
    values = request.get("recipe")
    if not isinstance(values, Mapping):
        raise InputError("the record of the run holds no recipe")
    return validated(values, f"the recipe in the record of {values.get('name', 'a run')}")


def options_of(recipe: object, table: str) -> dict[str, Any]:
    """A table of a recorded recipe, or an empty one: a record from the Hub may hold anything."""
    options = recipe.get(table) if isinstance(recipe, Mapping) else None
    return dict(options) if isinstance(options, Mapping) else {}


def write(
    folder: str | Path, *, request: Mapping[str, Any], result: Mapping[str, Any], minutes: float, parameters: int,
    hardware: str,
) -> None:  # fmt: skip
    """Writes the record of a run; ``result`` has the keys that depend on the method."""
    write_json(
        Path(folder) / RECORD,
        {
            "request": request,
            **result,
            "minutes": round(minutes, 1),
            "parameters": parameters,
            "hardware": hardware,
            "versions": {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}},
            "commit": commit(),
        },
    )


def sums(runs: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The time and the number of weights of several runs together."""
    return {key: sum(run[key] for run in runs) for key in ("minutes", "parameters")}


def members(run: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The records of the members of a soup or an ensemble; none for a single run."""
    return [member for kind in MERGED for member in run.get(kind, [])]


def hardware(device: str) -> str:
    """The name of the hardware."""
    import torch

    if not device.startswith("cpu"):
        return torch.cuda.get_device_name() if device.startswith("cuda") else device
    threads, cores = torch.get_num_threads(), os.cpu_count() or 1
    return f"CPU, {threads} of {cores} cores" if threads < cores else f"CPU, {cores} cores"


def commit() -> str | None:
    """The commit of the code, with a + for uncommitted changes; None outside a checkout."""
    folder = Path(__file__).resolve().parents[2]
    if not (folder / ".git").exists():  # the package is installed, maybe inside another repository
        return None
    try:
        result = subprocess.run(
            ["git", "describe", "--always", "--abbrev=12", "--dirty=+", "--exclude=*"],
            cwd=folder, capture_output=True, text=True, timeout=10,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    return result.stdout.strip() or None


def base_model_of_recipe(recipe: Recipe) -> str | None:
    """The Hub id of a recipe's backbone, or of the model that the backbone was made from; None where it is unknown.

    A folder that training or pruning wrote has a record, which names its base model; for other folders, the recipe can.
    """
    if not recipe.model.backbone:
        return None
    folder = Path(recipe.model.backbone)
    if not folder.is_dir():
        return _hub_id(recipe.model.backbone)
    return base_model_of_run(read(folder)) or recipe.model.base_model


def corpora_of_recipe(recipe: Recipe) -> dict[str, list[str]]:
    """The entry ``corpora`` of a run: that of its backbone; empty without one."""
    named = names_of_backbone(recipe, "corpora")
    return {"corpora": named} if named else {}


def names_of_backbone(recipe: Recipe, key: str) -> list[str]:
    """The names under a key of the record of a recipe's backbone and of its members, which may hold anything."""
    run = of_model(recipe.model.backbone) if recipe.model.backbone else {}
    lists = (part.get(key) for part in (run, *members(run)))
    names = (name for found in lists if isinstance(found, list) for name in found if isinstance(name, str))
    return list(dict.fromkeys(names))


def base_model_of_run(run: Mapping[str, Any]) -> str | None:
    """The Hub id of the base model of a recorded run; None where it is unknown."""
    backbone = options_of(run.get("request", {}).get("recipe"), "model").get("backbone")
    return run.get("base_model") or _hub_id(backbone)


def _hub_id(backbone: str | None) -> str | None:
    # A record names a folder by its name and digest.
    if backbone and backbone.count("/") == 1 and not backbone.startswith(".") and not Path(backbone).exists():
        return split_revision(backbone)[0]
    return None
