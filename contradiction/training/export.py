"""Exports a model folder with weights in fp16, which take half the space; loading converts them to float32."""

import shutil
from pathlib import Path

from contradiction.errors import InputError
from contradiction.io import manifest
from contradiction.io.files import new_folder, read_json, write_json
from contradiction.io.weights import load_weights
from contradiction.methods.loading import method_of, parts_of
from contradiction.training import record

WEIGHTS = "model.safetensors"


def export(model: str | Path, out: str | Path) -> Path:
    """Copies a model folder and converts the weights of all its checkpoints to fp16.

    Args:
        model: a folder that training wrote; the copy has its record and decision rule.
        out: the folder to write.

    Returns:
        ``out``.

    Raises:
        InputError: the folder holds no finished model in safetensors, or a damaged one, ``out`` exists, or a weight is
            out of the range of fp16.
    """
    from safetensors.torch import save_file

    model, out = Path(model), Path(out)
    files = [part / name for part in parts_of(model) for name in method_of(part).WEIGHTS if (part / name).is_file()]
    if not files or not record.read(model).get("parameters"):
        raise InputError(f"{model}: holds no finished model; `cdconv train` writes one")
    if out.exists():
        raise InputError(f"{out}: exists already; remove it, or name another folder")
    for part in parts_of(model):
        manifest.check(part)  # the copy gets a manifest of its own
    with new_folder(out) as folder:
        # Exported files are of the weights before.
        shutil.copytree(model, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("onnx"))
        for part in folder.rglob(manifest.NAME):
            manifest.forget(part.parent, "onnx/")
        for file in files:
            place = folder / file.parent.relative_to(model)
            weights = {
                name: weight.half() if weight.is_floating_point() else weight
                for name, weight in load_weights(file).items()
            }
            if infinite := [name for name, weight in weights.items() if not weight.isfinite().all()]:
                raise InputError(f"{file}: {infinite[0]} does not fit fp16")
            save_file(weights, place / file.name, metadata={"format": "pt"})
            if file.name == WEIGHTS:
                write_json(place / "config.json", read_json(place / "config.json") | {"dtype": "float16"})
                manifest.update(place, "config.json")
            manifest.update(place, file.name)
    return out
