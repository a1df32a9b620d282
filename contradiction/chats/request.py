"""What a run of ``cdconv detect`` was asked for, so that ``--resume`` continues only the same run."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from contradiction.errors import InputError
from contradiction.io.hub import fetch_file
from contradiction.methods.loading import METHODS

# The files of a model folder that bear on its verdicts; the card and the record of the training do not.
MODEL_FILES = (".bin", ".json", ".model", ".onnx", ".safetensors", ".txt")
RECORD = "run.json"


def request(model: str, file: Path | None, **options: Any) -> dict[str, Any]:
    """What a run is asked for. The model and the input are named by their content, wherever they are.

    Args:
        model: a folder or Hub id.
        file: the input file; None if the input is no file.
        options: everything else that bears on the verdicts.
    """
    return {"model": _model_digest(model), "input": _digest([file]) if file else None, **options}


def check_same_request(path: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raises InputError if the verdicts in ``path`` were made with another request."""
    for name in now:
        if before.get(name) == now[name]:
            continue
        what = (
            f"another {name}"
            if name in ("model", "input")
            else f"{name} {_show(before.get(name))}, not {_show(now[name])}"
        )
        raise InputError(
            f"{path}: was made with {what}; --resume continues only the same run, another name starts a new one"
        )


def _show(value: object) -> str:
    return "unset" if value is None else json.dumps(value, ensure_ascii=False)


def _model_digest(model: str) -> str:
    folder = Path(model)
    if not folder.is_dir():
        # All files of a model that is loaded are in one folder of the cache.
        cached = next(filter(None, (fetch_file(model, method.MARKER) for method in METHODS)), None)
        folder = cached.parent if cached else folder
    files = (file for file in folder.rglob("*") if file.suffix in MODEL_FILES and file.name != RECORD)
    return _digest(sorted(files))


def _digest(files: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in files:
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()
