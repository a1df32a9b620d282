"""Makes one detector of several: a soup averages their weights, an ensemble their predictions."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contradiction.data.splits import fingerprint, load_split, of_bot
from contradiction.errors import InputError
from contradiction.io import manifest
from contradiction.io.files import new_folder, read_json, write_json
from contradiction.io.weights import load_weights
from contradiction.methods.decision import KEY
from contradiction.methods.ensemble import EnsembleClassifier
from contradiction.methods.loading import method_of
from contradiction.training import leakage, record
from contradiction.training.export import WEIGHTS
from contradiction.training.run_folder import complete

if TYPE_CHECKING:
    import torch
    from datasets import Dataset

TOKENIZER = "tokenizer.json"
# What of a configuration does not say how weights are read.
INCIDENTAL = {"_name_or_path", "dtype", "transformers_version", KEY}


def soup(models: Sequence[str | Path], out: str | Path, *, data: str | Path) -> Path:
    """Averages the weights of detectors, and chooses the decision rule of the mean on validation.

    Runs of one start that differ in seed or settings mostly end in one valley of the loss, where their mean is better
    than they are, and costs no more to ask than one of them (Wortsman et al., 2022, *Model soups*, section 3.1: the
    uniform soup). Runs that ended in different valleys have a mean that knows little, so evaluate it on validation: of
    two seeds of the recipe e5-small-sentence-pair, a macro-F1 of 52 each, the mean has 27.

    Args:
        models: folders of detectors of one checkpoint each, which training wrote; at least two, of one shape, view and
            tokenizer, trained on the same data.
        out: the folder to write.
        data: the data repo that they were trained on.

    Returns:
        ``out``.

    Raises:
        InputError: the models do not fit together, the weights of one are damaged, ``data`` is not theirs, or
            ``out`` is taken.
    """
    from safetensors.torch import save_file

    folders, out = [Path(each) for each in models], Path(out)
    runs = _soup_runs(folders)
    for each in folders:
        manifest.check(each)
    with merged(folders, runs, data, out) as folder:
        save_file(_mean_weights(folders), folder / WEIGHTS, metadata={"format": "pt"})
        # An exported member says float16.
        config = read_json(folders[0] / "config.json") | {"dtype": "float32"}
        config.pop(KEY, None)  # the mean gets a decision rule of its own
        write_json(folder / "config.json", config)
        for file in folders[0].glob("*token*.json"):
            (folder / file.name).write_bytes(file.read_bytes())
        record.write_soup(folder, runs)
    return out


def _soup_runs(models: Sequence[Path]) -> list[dict[str, Any]]:
    """The records of detectors whose weights can be averaged.

    Raises:
        InputError: they cannot, and why.
    """
    if len(models) < 2 or len({each.resolve() for each in models}) < len(models):
        raise InputError("a soup is of two models at least, each named once")
    for model in models:
        if not all((model / file).is_file() for file in (WEIGHTS, TOKENIZER)) or "epochs" not in record.read(model):
            raise InputError(f"{model}: holds no trained detector of one checkpoint; `cdconv train` writes one")
    runs = [record.read(model) for model in models]
    first, run = models[0], runs[0]
    start = record.recipe(run["request"]).model.backbone
    if not start:
        raise InputError(f"{first}: started from random weights; the mean of runs that share no start knows nothing")
    for model, other in zip(models[1:], runs[1:], strict=True):
        if record.recipe(other["request"]).model.backbone != start:
            raise InputError(f"{model} and {first}: of different starts; a soup is of runs that share one")
        commits = [(each.get("revisions") or {}).get(start) for each in (run, other)]
        if None not in commits and commits[0] != commits[1]:
            raise InputError(
                f"{model} and {first}: {start} stood at {commits[1]} and at {commits[0]}; a soup is of runs that share "
                "one start"
            )
        if _shape(model) != _shape(first):
            raise InputError(f"{model} and {first}: of different shape, labels or view")
        if (model / TOKENIZER).read_bytes() != (first / TOKENIZER).read_bytes():
            raise InputError(f"{model} and {first}: with different tokenizers")
        if _max_tokens(model) != _max_tokens(first):
            raise InputError(
                f"{model} and {first}: read {_max_tokens(model)} and {_max_tokens(first)} tokens; a soup reads as many"
            )
    return runs


def _shape(model: Path) -> dict[str, Any]:
    return {key: value for key, value in read_json(model / "config.json").items() if key not in INCIDENTAL}


def _max_tokens(model: Path) -> int | None:
    """How many tokens a detector reads."""
    file = model / "tokenizer_config.json"
    return read_json(file).get("model_max_length") if file.is_file() else None


def _mean_weights(models: Sequence[Path]) -> dict[str, "torch.Tensor"]:
    """The mean of the models' weights by name, in float32."""
    import torch

    first, *others = (load_weights(model / WEIGHTS) for model in models)
    mean = {}
    for name, each in first.items():
        whole = torch.stack([each.float(), *(weights[name].float() for weights in others)]).mean(dim=0)
        mean[name] = whole if each.is_floating_point() else each
    return mean


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
    runs = _ensemble_runs(folders)
    with merged(folders, runs, data, out) as folder:
        names = [each.resolve().name for each in folders]
        for name, member in zip(names, folders, strict=True):
            shutil.copytree(member, folder / name)
        write_json(folder / EnsembleClassifier.MARKER, {"members": names, "calibrated": calibrate})
        EnsembleClassifier.load(folder)  # says which labels differ
        record.write_ensemble(folder, runs, leakage.ancestors(map(str, folders)))
    return out


def _ensemble_runs(models: Sequence[Path]) -> list[dict[str, Any]]:
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


@contextmanager
def merged(models: Sequence[Path], runs: Sequence[Mapping[str, Any]], data: str | Path, out: Path) -> Iterator[Path]:
    """A folder for weights and record of what is made of detectors; it then gets its decision rule.

    Args:
        models: folders of the detectors.
        runs: their records.
        data: the data repo, said to be theirs.
        out: where the folder comes to stand once it is whole.

    Raises:
        InputError: they were trained on different data, or on the replies of different bots, or ``data`` is not theirs,
            or ``out`` is taken.
    """
    if out.exists():
        raise InputError(f"{out}: exists already; remove it, or name another folder")
    validation = _own_validation(models, runs, data)
    with new_folder(out) as folder:
        yield folder
        complete(folder, validation)


def _own_validation(models: Sequence[Path], runs: Sequence[Mapping[str, Any]], data: str | Path) -> "Dataset":
    """The validation split of the data, or of the bot's replies, that all of them were trained on."""
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
