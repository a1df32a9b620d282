"""Makes an ensemble of trained detectors: a folder that holds them, with one decision rule."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from contradiction import record, seen
from contradiction.calibration import calibrate
from contradiction.data import fingerprint, load_split
from contradiction.ensemble import FILE, EnsembleClassifier
from contradiction.errors import InputError
from contradiction.files import new_folder, write_json
from contradiction.loading import composite
from contradiction.model_cards import model_card


def ensemble(models: Sequence[str | Path], out: str | Path, *, data: str | Path) -> Path:
    """Puts detectors into one folder, and chooses the decision rule of their mean on validation.

    Args:
        models: folders of detectors of one checkpoint each, which training wrote; at least two, with the same labels,
            trained on the same data, in any views.
        out: the folder to write; it holds a copy of each.
        data: the data repo that they were trained on.

    Returns:
        ``out``.

    Raises:
        InputError: the models do not fit together, ``data`` is not theirs, or ``out`` is taken.
    """
    folders, out = [Path(each) for each in models], Path(out)
    runs = _runs(folders)
    if out.exists():
        raise InputError(f"{out}: exists already; remove it, or name another folder")
    asked = runs[0]["request"]
    parts = {split: load_split(data, asked["recipe"]["config"], split) for split in ("train", "validation")}
    if fingerprint(*parts.values()) != asked["data"]:
        raise InputError(f"{data}: not the data that {folders[0]} was trained on")
    with new_folder(out) as folder:
        names = [each.resolve().name for each in folders]
        for name, member in zip(names, folders, strict=True):
            shutil.copytree(member, folder / name)
        write_json(folder / FILE, {"members": names})
        EnsembleClassifier.load(folder)  # says which labels differ
        record.write_ensemble(folder, runs, seen.ancestors(map(str, folders)))
        calibrate(folder, parts["validation"])
        model_card(folder, name=out.name).save(folder / "README.md")
    return out


def _runs(models: Sequence[Path]) -> list[dict[str, Any]]:
    """The records of detectors that can be asked together.

    Raises:
        InputError: they cannot, and why.
    """
    if len(models) < 2 or len({each.resolve().name for each in models}) < len(models):
        raise InputError("an ensemble is of two model folders at least, each of another name")
    for model in models:
        if composite(model):
            raise InputError(f"{model}: of several checkpoints; an ensemble is of detectors of one checkpoint each")
        if "epochs" not in record.read(model):
            raise InputError(f"{model}: holds no trained detector; `cdconv train` writes one")
    runs = [record.read(model) for model in models]
    for model, run in zip(models[1:], runs[1:], strict=True):
        if run["request"]["data"] != runs[0]["request"]["data"]:
            raise InputError(f"{model} and {models[0]}: trained on different data")
    return runs
