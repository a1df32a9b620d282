"""A model soup: the mean of the weights of several runs that started from one checkpoint."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contradiction.errors import InputError
from contradiction.io.files import read_json, write_json
from contradiction.io.weights import load_weights
from contradiction.methods.decision import KEY
from contradiction.training import record
from contradiction.training.export import WEIGHTS
from contradiction.training.members import merged

if TYPE_CHECKING:
    import torch

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
    runs = _runs(folders)
    with merged(folders, runs, data, out) as folder:
        save_file(_mean(folders), folder / WEIGHTS, metadata={"format": "pt"})
        # An exported member says float16.
        config = read_json(folders[0] / "config.json") | {"dtype": "float32"}
        config.pop(KEY, None)  # the mean gets a decision rule of its own
        write_json(folder / "config.json", config)
        for file in folders[0].glob("*token*.json"):
            (folder / file.name).write_bytes(file.read_bytes())
        record.write_soup(folder, runs)
    return out


def _runs(models: Sequence[Path]) -> list[dict[str, Any]]:
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
        if _limit(model) != _limit(first):
            raise InputError(
                f"{model} and {first}: read {_limit(model)} and {_limit(first)} tokens; a soup reads as many"
            )
    return runs


def _shape(model: Path) -> dict[str, Any]:
    return {key: value for key, value in read_json(model / "config.json").items() if key not in INCIDENTAL}


def _limit(model: Path) -> int | None:
    """How many tokens a detector reads."""
    file = model / "tokenizer_config.json"
    return read_json(file).get("model_max_length") if file.is_file() else None


def _mean(models: Sequence[Path]) -> dict[str, "torch.Tensor"]:
    """The mean of the models' weights by name, in float32."""
    import torch

    first, *others = (load_weights(model / WEIGHTS) for model in models)
    mean = {}
    for name, each in first.items():
        whole = torch.stack([each.float(), *(weights[name].float() for weights in others)]).mean(dim=0)
        mean[name] = whole if each.is_floating_point() else each
    return mean
