"""A model folder in half the bytes: weights in fp16, which every loader here widens to float32 again."""

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
    """Copies a model folder with its weights in fp16; of one with several checkpoints, those of all.

    Args:
        model: a folder that training wrote; its record and decision rule go along.
        out: the folder to write.

    Returns:
        ``out``.

    Raises:
        InputError: the folder holds no finished model in safetensors, or a damaged one, ``out`` is taken, or a weight
            does not fit fp16.
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
        shutil.copytree(model, folder, dirs_exist_ok=True)
        for file in files:
            place = folder / file.parent.relative_to(model)
            narrow = {
                name: each.half() if each.is_floating_point() else each for name, each in load_weights(file).items()
            }
            if broken := [name for name, each in narrow.items() if not each.isfinite().all()]:
                raise InputError(f"{file}: {broken[0]} does not fit fp16")
            save_file(narrow, place / file.name, metadata={"format": "pt"})
            if file.name == WEIGHTS:
                write_json(place / "config.json", read_json(place / "config.json") | {"dtype": "float16"})
                manifest.update(place, "config.json")
            manifest.update(place, file.name)
    return out
