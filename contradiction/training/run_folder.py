"""The folder of a run: what the run was asked to do, and whether the folder is free, begun, finished or complete."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contradiction.data.splits import fingerprint, load_split, name_of
from contradiction.errors import InputError
from contradiction.io import files
from contradiction.io.hub import revision
from contradiction.labels import task_with
from contradiction.methods.calibration import calibrate
from contradiction.methods.loading import name_with_digest
from contradiction.training import leakage, record
from contradiction.training.recipe import Recipe

if TYPE_CHECKING:
    from datasets import Dataset

# In the working folder of a run: what its teachers say of its rows.
TAUGHT = "teachers.npy"


def request(recipe: Recipe, data: str | Path, rows: "Mapping[str, Dataset] | None" = None) -> dict[str, Any]:
    """What a run is asked to do, as its record keeps it.

    Two runs with equal requests end with equal weights, if :func:`conditions` are equal too, and as far as
    ``contradiction.training.accelerators`` promises.

    Args:
        recipe: of the run.
        data: its data repo.
        rows: what :func:`read` gives, where that has been read.

    Raises:
        InputError: the backbone or a teacher has seen rows that the run is to be tested on.
    """
    rows = rows or read(recipe, data)
    values = recipe.recorded()
    values["model"]["backbone"] = name_with_digest(recipe.model.backbone)
    values["distillation"]["teachers"] = [name_with_digest(teacher) for teacher in recipe.distillation.teachers]
    nli, beside = recipe.augmentation.nli, {}
    if nli:
        pairs = fingerprint(load_split(nli, "nli", "train"))
        if (folder := Path(nli)).is_dir():
            values["augmentation"]["nli"] = f"{folder.resolve().name}@{pairs[:12]}"
        else:  # what lies under a Hub id may change, so its content stands beside the name
            beside = {"nli": pairs}
    name = name_of(data)
    leakage.check_sources(recipe, name)
    return {"recipe": values, "data": fingerprint(*rows.values()), "data_name": name, **beside}


def conditions(recipe: Recipe, deterministic: bool = False) -> dict[str, Any]:
    """What else the weights of a run depend on: it is not asked for in a recipe, and stands beside the request.

    Args:
        recipe: names the backbone and the teachers; of those on the Hub the commits count, where they are known.
        deterministic: see ``contradiction.training.accelerators``.
    """
    names = [each for each in leakage.sources(recipe) if not Path(each).is_dir()]
    found = {name: revision(name) for name in names}
    return {"deterministic": deterministic, "revisions": {name: each for name, each in found.items() if each}}


def read(recipe: Recipe, data: str | Path) -> dict[str, "Dataset"]:
    """The whole training and validation split of a recipe's config."""
    return {split: load_split(data, recipe.data.config, split) for split in ("train", "validation")}


def partial_of(out: Path) -> Path:
    """The working folder of a run, beside the one that it becomes.

    Raises:
        InputError: ``out`` has no name, as ``.`` or ``/``.
    """
    if not out.name:
        raise InputError(f"{out}: names no new folder; name one inside it, for instance {out / 'run'}")
    return out.with_name(f"{out.name}.partial")


def finished(out: Path, request: dict[str, Any], resume: bool) -> bool:
    """Whether the run is over already, so that nothing is left to resume.

    What a kill in its last moment left of the working folder goes.

    Raises:
        InputError: ``out`` is there, and it is not to be resumed or is another run.
    """
    if not out.exists():
        return False
    if resume and record.request(out) == request:
        work = partial_of(out)
        if record.request(work) == request:
            shutil.rmtree(work, ignore_errors=True)  # another process of the run may be at it too
        return True
    raise InputError(f"{out}: exists already; remove it, or name another folder")


def claim(work: Path, request: dict[str, Any], resume: bool, conditions: dict[str, Any]) -> None:
    """Makes the working folder of a run, or checks that the one there belongs to this run.

    Raises:
        InputError: the folder holds an unfinished run, and it is not to be resumed, is another, or began under other
            conditions.
    """
    files.restore_folders(work)
    # Without the state of an epoch, a finished stage, or the answers of teachers there is nothing to lose.
    if any(any(work.glob(each)) for each in ("**/state", f"*/{record.NAME}", TAUGHT)):
        if not resume:
            raise InputError(f"{work}: an unfinished run; --resume continues it, or remove it")
        if record.request(work) != request:
            raise InputError(
                f"{work}: the unfinished run is of another recipe or other data; remove it, or name another folder"
            )
        _check_conditions(work, conditions)
        return
    with files.new_folder(work) as folder:
        files.write_json(folder / record.NAME, {"request": request, **conditions})


def _check_conditions(work: Path, conditions: dict[str, Any]) -> None:
    """Raises InputError where an unfinished run began under others; what it does not record may be anything."""
    begun = record.read(work)
    if (was := begun.get("deterministic", conditions["deterministic"])) != conditions["deterministic"]:
        raise InputError(
            f"{work}: the unfinished run began {'with' if was else 'without'} --deterministic; resume it so, or "
            "remove it"
        )
    for name, now in conditions["revisions"].items():
        if (was := begun.get("revisions", {}).get(name, now)) != now:
            raise InputError(
                f"{work}: the unfinished run began with {name} at commit {was[:12]}, and it stands at {now[:12]} now; "
                "remove the run, or fetch that commit into a folder and train from there"
            )


def complete(folder: Path, validation: "Dataset") -> None:
    """Adds to a model folder its decision rule, chosen on validation; an NLI model gets none.

    Of several processes only the main one is here. A run that is killed here comes here again on resume.

    Args:
        folder: with the final weights and their record.
        validation: the rows that its checkpoints were chosen on.
    """
    if task_with(validation.features["label"].names) != "nli":  # an NLI model is a start, not a detector
        calibrate(folder, validation)
