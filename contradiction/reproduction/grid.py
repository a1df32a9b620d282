"""The run of a grid: which cells are finished, what is in their way, and how one is trained and evaluated."""

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contradiction.errors import InputError
from contradiction.evaluation import results
from contradiction.inputs.views import HIERARCHICAL
from contradiction.io.locking import locked
from contradiction.reproduction.cells import Cell
from contradiction.training import record

if TYPE_CHECKING:
    from contradiction.detector import ContradictionDetector

SPLITS = ("validation", "test")  # the test split last: its evaluation tells that a cell is finished


def finished(all_cells: Iterable[Cell], out: str | Path) -> dict[str, dict[str, Any]]:
    """The test evaluation of each finished cell, by the cell's name.

    A cell is found by what its run was asked to do, whatever its file or its name in ``out`` is.
    """
    found = results.load(out, split="test", kind=results.DETECTOR)
    return {cell.name: result for cell in all_cells for result in found if _is_of(result, cell)}


def _is_of(result: Mapping[str, Any], cell: Cell) -> bool:
    asked = result.get("request") or (result.get("run") or {}).get("request")
    return (result["config"], result["data"]) == (cell.config, cell.test) and same_request(asked, cell.request)


def same_request(one: Mapping[str, Any] | None, other: Mapping[str, Any] | None) -> bool:
    """Whether two records ask for the same run. Names do not matter, and a missing option has its default."""
    return bool(one and other) and _essence(one) == _essence(other)


def _essence(request: Mapping[str, Any] | None) -> dict[str, Any]:
    if not request or "recipe" not in request:  # zero-shot
        return dict(request or {})
    return {**request, "recipe": {**record.recipe(request).recorded(), "name": None}}


def check_free(all_cells: Iterable[Cell], out: Path, resume: bool) -> None:
    """Makes sure that nothing of another run is in the way of cells that are not finished.

    Raises:
        InputError: there is, or there is anything of theirs although ``resume`` is false.
    """
    places_of = {cell.name: _existing(cell, out) for cell in all_cells}
    # After that look, so that what another process finishes meanwhile counts as finished.
    done = finished(all_cells, out)
    for cell in all_cells:
        places = places_of[cell.name]
        if not resume and (places or cell.name in done):
            raise InputError(f"{out}: holds {cell.name} already; --resume goes on with it, or name another --out")
        for place in places:
            if place == cell.evaluation(out, "test"):
                other = cell.name not in done
            else:
                other = not same_request(record.read(place).get("request"), cell.request)
            if other and place.exists():
                raise InputError(f"{place}: of another recipe or other data; remove it, or name another --out")


def _existing(cell: Cell, out: Path) -> list[Path]:
    folder = cell.model(out)
    places = (folder, folder.with_name(f"{folder.name}.partial"), cell.evaluation(out, "test"))
    return [place for place in places if place.exists()]


def run(
    cell: Cell, *, data: str | Path, out: str | Path, drop_weights: bool = False, save_steps: int | None = None
) -> bool:
    """Trains a cell and evaluates it on validation and test. A killed run goes on where it stopped.

    Args:
        cell: what to run.
        data: the data repo.
        out: the folder of the table.
        drop_weights: remove the trained weights at the end; the predictions stay.
        save_steps: also keep the state inside an epoch, every so many steps.

    Returns:
        False where another process has finished the cell already.

    Raises:
        TakenError: another process is at it.
    """
    # The lock is beside the evaluations, because training locks the model folder itself.
    with locked(Path(out) / cell.name):
        if finished([cell], out):
            return False
        _run(cell, data, Path(out), drop_weights, save_steps)
    return True


def _run(cell: Cell, data: str | Path, out: Path, drop_weights: bool, save_steps: int | None) -> None:
    from contradiction.detector import ContradictionDetector
    from contradiction.evaluation.evaluate import evaluate
    from contradiction.reports.model_card import write_cards
    from contradiction.training import hierarchical
    from contradiction.training import loop as training

    folder = cell.model(out)
    if cell.trained:
        train = hierarchical.train if cell.recipe.data.view == HIERARCHICAL else training.train
        train(cell.recipe, data=data, out=folder, resume=True, save_steps=save_steps)
        if not drop_weights:
            write_cards(folder)
        detector = ContradictionDetector.from_pretrained(folder)
    else:
        detector = zero_shot(str(cell.recipe.model.backbone), cell.recipe.data.view)
    for split in SPLITS:
        result = evaluate(detector, data=data, config=cell.config, split=split)
        if not cell.trained:  # the record beside the weights is that of the NLI stage
            result = {**result, "name": cell.name, "request": cell.request}
        results.save(result, cell.evaluation(out, split))
    if drop_weights and cell.trained:
        shutil.rmtree(folder)


def zero_shot(model: str, view: str) -> "ContradictionDetector":
    """An NLI checkpoint as a detector of two classes: a contradiction where its probability is above one half.

    Raises:
        InputError: there is no such checkpoint, or its labels are not those of NLI.
    """
    from contradiction.detector import ContradictionDetector
    from contradiction.inference.torch_backend import TorchBackend
    from contradiction.methods.checkpoint import CheckpointClassifier

    backend = TorchBackend.load(model)
    # Public NLI checkpoints often write their labels in capitals.
    labels = {index: label.lower() for index, label in backend.config["id2label"].items()}
    backend.config = {**backend.config, "id2label": labels}
    detector = ContradictionDetector(CheckpointClassifier(backend, view, model))
    if detector.task not in ("nli", "2-class"):
        raise InputError(f"{model}: its labels are {', '.join(detector.labels)}; an NLI checkpoint is needed")
    return detector


def bots_of(all_cells: Iterable[Cell], data: str | Path) -> dict[int, str]:
    """The bot that wrote the reply of each test row of the cells' configs, by the id of the row."""
    from contradiction.data.splits import load_split

    bots: dict[int, str] = {}
    for config in dict.fromkeys(cell.config for cell in all_cells):
        rows = load_split(data, config, "test")
        name = rows.features["bot"].int2str
        bots |= {number: name(bot) for number, bot in zip(rows["id"], rows["bot"], strict=True)}
    return bots
