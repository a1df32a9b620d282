"""Combines detectors into one: an ensemble averages predictions, a cascade asks a judge."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contradiction.data.splits import fingerprint, load_split, of_bot
from contradiction.errors import InputError
from contradiction.io.files import RECORD, check_new, new_folder, write_json
from contradiction.methods.composite import CascadeClassifier, EnsembleClassifier
from contradiction.methods.loading import method_of
from contradiction.training import leakage, record
from contradiction.training.run_folder import finalize

if TYPE_CHECKING:
    from datasets import Dataset


def ensemble(models: Sequence[str | Path], out: str | Path, *, data: str | Path, calibrate: bool = True) -> Path:
    """Copies detectors into one folder, and chooses the decision rule of their mean prediction on validation.

    Each detector has one encoder: a single run or a soup. Their views may differ. Unless
    ``calibrate`` is false, the rule of each detector calibrates its probabilities before they are averaged.

    Raises:
        InputError: the models do not fit together, they were trained on other data, or ``out`` exists.
    """
    folders, out = [Path(model) for model in models], Path(out)
    runs = _ensemble_runs(folders)
    with merged(folders, runs, data, out) as folder:
        names = [member.resolve().name for member in folders]
        for name, member in zip(names, folders, strict=True):
            shutil.copytree(member, folder / name)
        write_json(folder / EnsembleClassifier.MARKER, {"members": names, "calibrated": calibrate})
        EnsembleClassifier.load(folder)  # raises InputError where labels differ
        record.write_ensemble(folder, runs, leakage.ancestors(map(str, folders)))
    return out


def _ensemble_runs(models: Sequence[Path]) -> list[dict[str, Any]]:
    """The records of detectors that can form an ensemble.

    Raises:
        InputError: they cannot form one; the message says why.
    """
    if len(models) < 2 or len({model.resolve().name for model in models}) < len(models):
        raise InputError("an ensemble needs at least two model folders with different names")
    for model in models:
        if method_of(model).PARTS:
            raise InputError(f"{model}: has several checkpoints; an ensemble needs detectors with one checkpoint each")
        if "parameters" not in record.read(model):
            raise InputError(f"{model}: holds no detector that `cdconv train` or `python -m paper.soup` wrote")
    return [record.read(model) for model in models]


def cascade(detector: str | Path, judge: str | Path, low: float, high: float, out: str | Path, rows: "Dataset") -> Path:
    """Copies a detector and a judge into one folder, and chooses the decision rule of the cascade on validation.

    The judge is asked where the detector's probability of a contradiction is from ``low`` to ``high``. Answers that it
    has saved are not requested again. ``rows`` is the validation split.

    Raises:
        InputError: ``out`` exists or is inside a part, a part is not a folder, or the parts do not fit together.
    """
    parts, out = {"detector": Path(detector), "judge": Path(judge)}, Path(out)
    for part in parts.values():
        if not part.is_dir():
            raise InputError(
                f"{part}: no such folder; `hf download USER/NAME --local-dir FOLDER` makes one of a Hub model"
            )
    check_new(out, parts.values())
    with new_folder(out) as folder:
        for name, part in parts.items():
            shutil.copytree(part, folder / name)
        marker = {"parts": list(parts), "low": round(low, 6), "high": round(high, 6)}
        write_json(folder / CascadeClassifier.MARKER, marker)
        # With this record, evaluations on rows that a part was trained or calibrated on report the leakage.
        calibrated = [name for part in parts.values() for name in leakage.calibrations(record.read(part))]
        ancestors = leakage.ancestors(map(str, parts.values()))
        write_json(folder / RECORD, {"ancestors": ancestors, "calibrated_parts": list(dict.fromkeys(calibrated))})
        finalize(folder, rows)
    return out


@contextmanager
def merged(models: Sequence[Path], runs: Sequence[Mapping[str, Any]], data: str | Path, out: Path) -> Iterator[Path]:
    """A new model folder for a combination of detectors; when the block ends, it gets its decision rule.

    Raises:
        InputError: the detectors were trained on different data, on the replies of different bots, or on other data
            than ``data``; or ``out`` exists, or is inside the folder of a detector.
    """
    check_new(out, models)
    validation = _common_validation(models, runs, data)
    with new_folder(out) as folder:
        yield folder
        finalize(folder, validation)


def _common_validation(models: Sequence[Path], runs: Sequence[Mapping[str, Any]], data: str | Path) -> "Dataset":
    """The validation split of the data that all detectors were trained on, or of the replies of their bot."""
    rows = runs[0]["request"]["data"]
    recipes = [record.recipe(run["request"]) for run in runs]
    config, bot = recipes[0].data.config, recipes[0].data.bot
    for model, run, recipe in zip(models, runs, recipes, strict=True):
        if run["request"]["data"] != rows:
            raise InputError(f"{model} and {models[0]}: trained on different data")
        if recipe.data.bot != bot:
            raise InputError(f"{model} and {models[0]}: trained on the replies of different bots")
    train, validation = (load_split(data, config, split) for split in ("train", "validation"))
    if fingerprint(train, validation) != rows:
        raise InputError(f"{data}: not the data that {models[0]} was trained on")
    return of_bot(validation, bot)
