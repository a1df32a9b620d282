"""Makes an ensemble of trained detectors: a folder that holds them, with one decision rule."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from contradiction.errors import InputError
from contradiction.io.files import write_json
from contradiction.methods.ensemble import EnsembleClassifier
from contradiction.methods.loading import method_of
from contradiction.training import leakage, record
from contradiction.training.members import merged


def ensemble(models: Sequence[str | Path], out: str | Path, *, data: str | Path, calibrate: bool = True) -> Path:
    """Puts detectors into one folder, and chooses the decision rule of their mean on validation.

    Args:
        models: folders of detectors of one encoder each, trained, averaged or frozen; at least two, with the same
            labels, trained on the same data, in any views.
        out: the folder to write; it holds a copy of each.
        data: the data repo that they were trained on.
        calibrate: whether each is calibrated by its own rule before it is heard.

    Returns:
        ``out``.

    Raises:
        InputError: the models do not fit together, ``data`` is not theirs, or ``out`` is taken.
    """
    folders, out = [Path(each) for each in models], Path(out)
    runs = _runs(folders)
    with merged(folders, runs, data, out) as folder:
        names = [each.resolve().name for each in folders]
        for name, member in zip(names, folders, strict=True):
            shutil.copytree(member, folder / name)
        write_json(folder / EnsembleClassifier.MARKER, {"members": names, "calibrated": calibrate})
        EnsembleClassifier.load(folder)  # says which labels differ
        record.write_ensemble(folder, runs, leakage.ancestors(map(str, folders)))
    return out


def _runs(models: Sequence[Path]) -> list[dict[str, Any]]:
    """The records of detectors that can be asked together.

    Raises:
        InputError: they cannot, and why.
    """
    if len(models) < 2 or len({each.resolve().name for each in models}) < len(models):
        raise InputError("an ensemble is of two model folders at least, each of another name")
    for model in models:
        if not method_of(model).ENSEMBLE_MEMBER:
            raise InputError(f"{model}: of several checkpoints; an ensemble is of detectors of one checkpoint each")
        if "parameters" not in record.read(model):
            raise InputError(f"{model}: holds no detector that `cdconv train` or `cdconv soup` wrote")
    return [record.read(model) for model in models]
