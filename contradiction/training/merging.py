"""Combines detectors into one: a soup averages weights, an ensemble averages predictions, a cascade asks a judge."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contradiction.data.splits import fingerprint, load_split, of_bot
from contradiction.decision import KEY
from contradiction.errors import InputError
from contradiction.io import manifest
from contradiction.io.files import RECORD, check_new, new_folder, read_json, write_json
from contradiction.io.pretrained import WEIGHTS, load_weights
from contradiction.methods.cascade import CascadeClassifier
from contradiction.methods.ensemble import EnsembleClassifier
from contradiction.methods.loading import method_of
from contradiction.training import leakage, record
from contradiction.training.run_folder import finalize

if TYPE_CHECKING:
    import torch
    from datasets import Dataset

TOKENIZER = "tokenizer.json"
# The keys of a record, and of its request, that the record of a soup is made of.
RUN_KEYS, REQUEST_KEYS = ("request", "epochs", "minutes", "parameters", "hardware"), ("recipe", "data")
# Keys of a configuration in which the members of a soup may differ.
INCIDENTAL = {"_name_or_path", "dtype", "transformers_version", KEY}


def soup(models: Sequence[str | Path], out: str | Path, *, data: str | Path) -> Path:
    """Averages the weights of detectors, and chooses the decision rule of the mean on validation.

    Runs from one checkpoint that differ in seed or settings often end in the same basin of the loss. Their mean is then
    better than each of them, and as fast as one of them (Wortsman et al., 2022, *Model soups*, section 3.1: the uniform
    soup). The mean of runs in different basins is useless, so evaluate it on validation: two seeds of the recipe
    e5-small-sentence-pair have a macro-F1 of 52 each, and their mean has 27.

    Raises:
        InputError: the models do not fit together, the weights of one are damaged, they were trained on other data, or
            ``out`` exists.
    """
    from safetensors.torch import save_file

    folders, out = [Path(model) for model in models], Path(out)
    runs = _soup_runs(folders)
    for folder in folders:
        manifest.check(folder)
    with merged(folders, runs, data, out) as folder:
        save_file(_mean_weights(folders), folder / WEIGHTS, metadata={"format": "pt"})
        config = read_json(folders[0] / "config.json") | {"dtype": "float32"}  # an exported model has float16
        config.pop(KEY, None)  # the mean gets a decision rule of its own
        write_json(folder / "config.json", config)
        for file in folders[0].glob("*token*.json"):
            (folder / file.name).write_bytes(file.read_bytes())
        record.write_soup(folder, runs)
    return out


def _soup_runs(models: Sequence[Path]) -> list[dict[str, Any]]:
    """The records of detectors whose weights can be averaged.

    Raises:
        InputError: they cannot be averaged; the message says why.
    """
    if len(models) < 2 or len({model.resolve() for model in models}) < len(models):
        raise InputError("a soup needs at least two models, each named once")
    runs = [_single_run(model) for model in models]
    backbones = [record.recipe(run["request"]).model.backbone for run in runs]
    first, backbone = models[0], backbones[0]
    if not backbone:
        raise InputError(f"{first}: started from random weights; a soup needs runs of the same checkpoint")
    commits = [(run.get("revisions") or {}).get(backbone) for run in runs]
    shapes, limits = [_shape(model) for model in models], [_max_tokens(model) for model in models]
    for model, other, commit, shape, limit in zip(models, backbones, commits, shapes, limits, strict=True):
        both = f"{model} and {first}"
        if other != backbone:
            raise InputError(f"{both}: started from different checkpoints; a soup needs runs of the same one")
        if commit and commits[0] and commit != commits[0]:
            raise InputError(
                f"{both}: started from {backbone} at the commits {commit} and {commits[0]}; a soup needs runs of the "
                "same checkpoint"
            )
        if shape != shapes[0]:
            raise InputError(f"{both}: have different shapes, labels or views")
        if (model / TOKENIZER).read_bytes() != (first / TOKENIZER).read_bytes():
            raise InputError(f"{both}: have different tokenizers")
        if limit != limits[0]:
            raise InputError(f"{both}: read {limit} and {limits[0]} tokens; a soup needs equal limits")
    return runs


def _single_run(model: Path) -> dict[str, Any]:
    """The record of a folder that one run wrote.

    Raises:
        InputError: it is not such a folder; the message says what is missing.
    """
    single = "a soup needs single runs of one checkpoint, as `cdconv train` writes them"
    if missing := [file for file in (WEIGHTS, TOKENIZER) if not (model / file).is_file()]:
        raise InputError(f"{model}: has no {missing[0]}; {single}")
    if not (run := record.read(model)):
        raise InputError(f"{model}: has no record of its training, {RECORD}; {single}")
    if members := record.members(run):
        raise InputError(
            f"{model}: is a soup itself, the mean of {len(members)} runs; name single runs, or combine detectors with "
            "`cdconv ensemble`"
        )
    for keys, values in ((RUN_KEYS, run), (REQUEST_KEYS, run.get("request", {}))):
        if unrecorded := [key for key in keys if key not in values]:
            raise InputError(f"{model / RECORD}: has no {unrecorded[0]!r}; {single}")
    return run


def _shape(model: Path) -> dict[str, Any]:
    return {key: value for key, value in read_json(model / "config.json").items() if key not in INCIDENTAL}


def _max_tokens(model: Path) -> int | None:
    """The maximum number of tokens that a detector reads."""
    file = model / "tokenizer_config.json"
    return read_json(file).get("model_max_length") if file.is_file() else None


def _mean_weights(models: Sequence[Path]) -> dict[str, "torch.Tensor"]:
    """The mean of the models' weights by name, in float32."""
    import torch

    first, *others = (load_weights(model / WEIGHTS) for model in models)
    mean = {}
    for name, weight in first.items():
        average = torch.stack([weight.float(), *(weights[name].float() for weights in others)]).mean(dim=0)
        mean[name] = average if weight.is_floating_point() else weight
    return mean


def ensemble(models: Sequence[str | Path], out: str | Path, *, data: str | Path, calibrate: bool = True) -> Path:
    """Copies detectors into one folder, and chooses the decision rule of their mean prediction on validation.

    Each detector has one encoder: a single run, a soup, or a kernel detector. Their views may differ. Unless
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
        if not method_of(model).ENSEMBLE_MEMBER:
            raise InputError(f"{model}: has several checkpoints; an ensemble needs detectors with one checkpoint each")
        if "parameters" not in record.read(model):
            raise InputError(f"{model}: holds no detector that `cdconv train` or `cdconv soup` wrote")
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
