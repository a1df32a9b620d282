"""Runs a grid: finds the finished cells, and trains and evaluates the others."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contradiction.errors import InputError
from contradiction.evaluation import results
from contradiction.io.files import LockedError, locked, write_json
from contradiction.training import record
from paper.cells import Cell

if TYPE_CHECKING:
    from contradiction.detector import ContradictionDetector

SPLITS = ("validation", "test")  # the test split last, because a test evaluation marks a finished cell


def finished(cells: Iterable[Cell], out: str | Path) -> dict[str, dict[str, Any]]:
    """The test evaluation of each finished cell, by the name of the cell.

    An evaluation belongs to a cell by the request of its run, whatever its name in ``out`` is.
    """
    evaluations = results.load(out, split="test", kind=results.DETECTOR)
    return {cell.name: result for cell in cells for result in evaluations if _is_of(result, cell)}


def _is_of(result: Mapping[str, Any], cell: Cell) -> bool:
    request = result.get("request") or (result.get("run") or {}).get("request")
    return (result["config"], result["data"]) == (cell.config, cell.test) and same_request(request, cell.request)


def same_request(request: Mapping[str, Any] | None, other: Mapping[str, Any] | None) -> bool:
    """Whether two requests are for the same run, whatever its name."""
    return bool(request and other) and _unnamed(request) == _unnamed(other)


def _unnamed(request: Mapping[str, Any] | None) -> dict[str, Any]:
    values = dict(request or {})
    if "recipe" in values:  # not zero-shot
        values["recipe"] = {**record.recipe(values).recorded(), "name": None}
    return values


def run(cell: Cell, *, data: str | Path, out: Path) -> str:
    """Trains a cell and evaluates it on validation and test; continues a killed run.

    Returns:
        A message where another process works on the cell or has finished it; else an empty text.

    Raises:
        InputError: among others, files of another run have the names of the cell.
    """
    from contradiction.detector import ContradictionDetector
    from contradiction.evaluation.evaluate import evaluate
    from contradiction.runs import train

    try:
        # The lock is beside the evaluations, because training locks the model folder itself.
        with locked(out / cell.name):
            if finished([cell], out):
                return "finished by another process"
            if cell.evaluation(out, "test").exists():
                raise InputError(
                    f"{cell.evaluation(out, 'test')}: belongs to another recipe or other data; remove it, or name "
                    "another --out"
                )
            if cell.trained:
                train(cell.recipe, data, out=cell.model(out), resume=True)
                detector = ContradictionDetector.from_pretrained(cell.model(out), precision="fp32")
            else:
                detector = zero_shot(str(cell.recipe.model.backbone), cell.recipe.data.view)
            for split in SPLITS:
                result = evaluate(detector, data=data, config=cell.config, split=split)
                if not cell.trained:  # the record of the weights is that of the NLI stage
                    result = {**result, "name": cell.name, "request": cell.request}
                write_json(cell.evaluation(out, split), result)
    except LockedError:
        return "skipped, another process works on it"
    return ""


def zero_shot(model: str, view: str) -> "ContradictionDetector":
    """An NLI checkpoint as a 2-class detector: a contradiction where its probability is above one half.

    Raises:
        InputError: there is no such checkpoint, or its labels are not those of NLI.
    """
    from contradiction.detector import ContradictionDetector
    from contradiction.inference.torch_backend import TorchBackend
    from contradiction.methods.checkpoint import CheckpointClassifier

    backend = TorchBackend.load(model)
    # Labels of public NLI checkpoints are often in capitals.
    labels = {index: label.lower() for index, label in backend.config["id2label"].items()}
    backend.config = {**backend.config, "id2label": labels}
    detector = ContradictionDetector(CheckpointClassifier(backend, view, model))
    if detector.task not in ("nli", "2-class"):
        raise InputError(f"{model}: its labels are {', '.join(detector.labels)}; an NLI checkpoint is needed")
    return detector
