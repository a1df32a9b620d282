"""Averages the weights of runs: ``python -m paper.soup runs/one runs/other --out runs/mean``."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from contradiction import cli
from contradiction.commands.common import DATA, DataOption, data_option
from contradiction.decision import KEY
from contradiction.errors import InputError
from contradiction.io import manifest
from contradiction.io.files import RECORD, read_json, write_json
from contradiction.io.pretrained import WEIGHTS, load_weights
from contradiction.methods.checkpoint import CheckpointClassifier
from contradiction.runs import merged
from contradiction.training import leakage, record

if TYPE_CHECKING:
    import torch

TOKENIZER = "tokenizer.json"
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
        others = shutil.ignore_patterns("onnx", WEIGHTS, RECORD, manifest.NAME, "README.md")
        shutil.copytree(folders[0], folder, dirs_exist_ok=True, ignore=others)
        config = read_json(folders[0] / "config.json") | {"dtype": "float32"}  # an exported model has float16
        config.pop(KEY, None)  # the mean gets a decision rule of its own
        write_json(folder / "config.json", config)
        _write_record(folder, folders, runs)
    return out


def _write_record(folder: Path, models: Sequence[Path], runs: Sequence[dict[str, Any]]) -> None:
    """Writes the record of a soup: the request of the first member, plus the recipes of all members."""
    first = runs[0]
    request = {**first["request"], "soup": [run["request"]["recipe"] for run in runs]}
    result = {"soup": list(runs), **{key: first.get(key) for key in ("base_model", "revisions")}}
    result["ancestors"] = leakage.ancestors(map(str, models))
    sums = record.sums(runs) | {"parameters": first["parameters"]}
    record.write(folder, request=request, result=result, hardware=first["hardware"], **sums)


def _soup_runs(models: Sequence[Path]) -> list[dict[str, Any]]:
    """The records of detectors whose weights can be averaged."""
    if len(models) < 2 or len({model.resolve() for model in models}) < len(models):
        raise InputError("a soup needs at least two models, each named once")
    for model in models:
        CheckpointClassifier.check_folder(model)
        if not (model / WEIGHTS).is_file() or not {"epochs", "request"} <= record.read(model).keys():
            raise InputError(f"{model}: a soup needs single runs of one checkpoint, as `cdconv train` writes them")
    runs = [record.finished(model) for model in models]
    backbones = [record.recipe(run["request"]).model.backbone for run in runs]
    for model, backbone in zip(models, backbones, strict=True):
        if not backbone:
            raise InputError(f"{model}: started from random weights; a soup needs runs that share a checkpoint")
        if backbone != backbones[0]:
            raise InputError(f"{model} and {models[0]}: a soup needs runs that started from the same checkpoint")
        if _shape(model) != _shape(models[0]):
            raise InputError(f"{model} and {models[0]}: have different shapes, labels, views or tokenizers")
    return runs


def _shape(model: Path) -> tuple[dict[str, Any], bytes, int | None]:
    """The configuration, the tokenizer, and the maximum number of tokens that a detector reads."""
    config = {key: value for key, value in read_json(model / "config.json").items() if key not in INCIDENTAL}
    limit, file = read_json(model / "tokenizer_config.json").get("model_max_length"), model / TOKENIZER
    return config, file.read_bytes() if file.is_file() else b"", limit


def _mean_weights(models: Sequence[Path]) -> dict[str, "torch.Tensor"]:
    """The mean of the models' weights by name, in float32."""
    import torch

    first, *others = (load_weights(model / WEIGHTS) for model in models)
    mean = {}
    if len({tuple(sorted((name, weight.shape) for name, weight in each.items())) for each in (first, *others)}) > 1:
        raise InputError(f"{models[0]}: a soup needs weights of the same names and shapes; the others have other ones")
    for name, weight in first.items():
        average = torch.stack([weight.float(), *(weights[name].float() for weights in others)]).mean(dim=0)
        mean[name] = average if weight.is_floating_point() else weight
    return mean


def main(
    models: Annotated[list[Path], typer.Argument(help="At least two model folders that `cdconv train` wrote.")],
    out: Annotated[Path, typer.Option(help="The model folder to write.")],
    data: DataOption = DATA,
) -> None:
    """Averages the weights of runs that started from the same checkpoint. The result is as fast as one model."""
    from contradiction.evaluation.model_card import write_cards

    write_cards(soup(models, out, data=data))
    print(f"{out}: the mean of {len(models)} models; next: cdconv evaluate {out} --split validation{data_option(data)}")


if __name__ == "__main__":
    cli.main(cli.script(main))
