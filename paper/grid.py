"""Runs a grid: finds the finished cells, trains and evaluates a cell, and estimates the time of the others."""

import shutil
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from contradiction.errors import InputError, first_line
from contradiction.evaluation import results
from contradiction.io.cluster import cluster
from contradiction.io.files import LockedError, locked, write_json
from contradiction.training import record
from contradiction.training.recipe import Recipe
from paper.cells import Cell

if TYPE_CHECKING:
    from contradiction.detector import ContradictionDetector

TRIES = 3  # how often a cell whose process is killed is started on Ray
SPLITS = ("validation", "test")  # the test split last, because a test evaluation marks a finished cell


def finished(all_cells: Iterable[Cell], out: str | Path) -> dict[str, dict[str, Any]]:
    """The test evaluation of each finished cell, by the name of the cell.

    An evaluation belongs to a cell by the request of its run, whatever its name in ``out`` is.
    """
    evaluations = results.load(out, split="test", kind=results.DETECTOR)
    return {cell.name: result for cell in all_cells for result in evaluations if _is_of(result, cell)}


def _is_of(result: Mapping[str, Any], cell: Cell) -> bool:
    request = result.get("request") or (result.get("run") or {}).get("request")
    return (result["config"], result["data"]) == (cell.config, cell.test) and same_request(request, cell.request)


def same_request(request: Mapping[str, Any] | None, other: Mapping[str, Any] | None) -> bool:
    """Whether two requests are for the same run. Names do not matter, and missing options have their defaults."""
    return bool(request and other) and _comparable(request) == _comparable(other)


def _comparable(request: Mapping[str, Any] | None) -> dict[str, Any]:
    if not request or "recipe" not in request:  # zero-shot
        return dict(request or {})
    try:
        recipe = record.recipe(request).recorded()
    except InputError:  # a version with other options wrote it: it is another run
        return dict(request)
    return {**request, "recipe": {**recipe, "name": None}}


def check_free(all_cells: Iterable[Cell], out: Path, resume: bool) -> None:
    """Checks that the folders and files of unfinished cells do not belong to other runs.

    Raises:
        InputError: one of them belongs to another run, or one exists and ``resume`` is false.
    """
    places_of = {cell.name: _existing(cell, out) for cell in all_cells}
    # Afterwards, because another process may finish a cell in the meantime.
    done = finished(all_cells, out)
    for cell in all_cells:
        places = places_of[cell.name]
        if not resume and (places or cell.name in done):
            raise InputError(f"{out}: has {cell.name} already; --resume continues it, or name another --out")
        for place in places:
            if place == cell.evaluation(out, "test"):
                foreign = cell.name not in done
            else:
                foreign = not same_request(record.read(place).get("request"), cell.request)
            if foreign and place.exists():
                raise InputError(f"{place}: belongs to another recipe or other data; remove it, or name another --out")


def _existing(cell: Cell, out: Path) -> list[Path]:
    folder = cell.model(out)
    places = (folder, folder.with_name(f"{folder.name}.partial"), cell.evaluation(out, "test"))
    return [place for place in places if place.exists()]


def run(
    cell: Cell, *, data: str | Path, out: str | Path, drop_weights: bool = False, save_steps: int | None = None
) -> bool:
    """Trains a cell and evaluates it on validation and test; continues a killed run.

    Without its weights, a cell keeps its predictions. The training state is saved after each epoch, or every
    ``save_steps`` steps.

    Returns:
        False where another process has finished the cell.

    Raises:
        LockedError: another process works on the cell.
    """
    from contradiction.detector import ContradictionDetector
    from contradiction.evaluation.evaluate import evaluate
    from contradiction.reports.model_card import write_cards
    from contradiction.training import trainers

    out = Path(out)
    folder = cell.model(out)
    # The lock is beside the evaluations, because training locks the model folder itself.
    with locked(out / cell.name):
        if finished([cell], out):
            return False
        if cell.trained:
            trainers.train(cell.recipe, data=data, out=folder, resume=True, save_steps=save_steps)
            if not drop_weights:
                write_cards(folder)
            detector = ContradictionDetector.from_pretrained(folder)
        else:
            detector = zero_shot(str(cell.recipe.model.backbone), cell.recipe.data.view)
        for split in SPLITS:
            result = evaluate(detector, data=data, config=cell.config, split=split)
            if not cell.trained:  # the record of the weights is that of the NLI stage
                result = {**result, "name": cell.name, "request": cell.request}
            write_json(cell.evaluation(out, split), result)
        if drop_weights and cell.trained:
            shutil.rmtree(folder)
    return True


def attempt(cell: Cell, **options: Any) -> tuple[bool, str]:
    """Runs a cell, see :func:`run`; returns whether it failed, and a message. It raises no error.

    Any error, for instance a full disk or too little GPU memory, ends only this cell; the other cells go on.
    """
    try:
        ran = run(cell, **options)
        return False, "" if ran else f"{cell.name}: finished by another process"
    except LockedError:
        return False, f"{cell.name}: skipped, another process works on it"
    except Exception as error:
        reason = " ".join(str(error).split()) or "no reason given"
        kind = "" if isinstance(error, InputError) else f"{type(error).__name__}: "
        return True, f"cdconv: {cell.name} failed: {kind}{reason}"


def attempts_on_ray(
    cells: Sequence[Cell], address: str | None, **options: Any
) -> Iterator[tuple[Cell, tuple[bool, str]]]:
    """Runs cells as tasks of Ray, one for each core; yields each cell with the result of :func:`attempt` as it ends.

    A cell whose process is killed, for instance for memory, continues in another one; it has ``TRIES`` in all. Without
    the address of a cluster, Ray is started here. On a cluster, every machine must see ``data`` and ``out`` under these
    names.
    """
    if not cells:  # Ray would start for nothing
        return
    with cluster(address):
        import ray

        errors = ray.exceptions
        killed = (errors.WorkerCrashedError, errors.OutOfMemoryError, errors.NodeDiedError)
        # Ray itself would repeat a task without end that is killed for memory.
        remote: Any = ray.remote(num_cpus=1, max_retries=0)
        task = remote(attempt)
        running = {task.remote(cell, **options): cell for cell in cells}
        tries = Counter(cell.name for cell in cells)
        while running:
            [ended], _ = ray.wait(list(running), num_returns=1)
            cell = running.pop(ended)
            try:
                result = ray.get(ended)
            except killed as error:
                if tries[cell.name] < TRIES:
                    tries[cell.name] += 1
                    running[task.remote(cell, **options)] = cell
                    continue
                result = True, f"cdconv: {cell.name} failed: killed {TRIES} times ({first_line(error)})"
            yield cell, result


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


def bots_of(all_cells: Iterable[Cell], data: str | Path) -> dict[int, str]:
    """The bot of each test row of the configs of cells, by the id of the row."""
    from contradiction.data.splits import load_split

    bots: dict[int, str] = {}
    for config in dict.fromkeys(cell.config for cell in all_cells):
        rows = load_split(data, config, "test")
        bots |= zip(rows["id"][:], rows.features["bot"].int2str(rows["bot"][:]), strict=True)
    return bots


STEPS = 3


def checkpoints_to_train(cell: Cell) -> int:
    """The number of checkpoints to train for a cell."""
    return len(cell.recipe.stages()) if cell.trained else 0


def estimate(cells: Iterable[Cell], done: Mapping[str, Mapping[str, Any]]) -> dict[str, float] | None:
    """The training minutes of each cell, by its name, estimated from finished cells on the same hardware.

    The estimate is the mean time of the same method from the same starting checkpoint; without one, of the same method,
    and otherwise of all cells. None without finished cells on this hardware. Evaluation takes additional time.
    """
    cells = list(cells)
    here = hardware()
    minutes_of: dict[tuple[str, str], list[float]] = {}
    for cell in cells:
        run = done.get(cell.name, {}).get("run", {})
        if cell.trained and run.get("hardware") == here:
            minutes_of.setdefault((cell.method, cell.checkpoint), []).append(
                run["minutes"] / checkpoints_to_train(cell)
            )
    if not minutes_of:
        return None
    means = {key: fmean(minutes) for key, minutes in minutes_of.items()}

    def minutes_of_checkpoint(cell: Cell) -> float:
        if mean := means.get((cell.method, cell.checkpoint)):
            return mean
        return fmean([mean for (method, _), mean in means.items() if method == cell.method] or means.values())

    return {cell.name: checkpoints_to_train(cell) * minutes_of_checkpoint(cell) for cell in cells}


def measured_minutes(cells: Sequence[Cell], data: str | Path) -> dict[str, float]:
    """The training minutes of each cell, estimated from a few steps on this machine with its own backbone."""
    minutes: dict[tuple[str, str], float] = {}
    for cell in cells:
        if cell.trained and (cell.method, cell.checkpoint) not in minutes:
            minutes[cell.method, cell.checkpoint] = sum(measure(recipe, data) for recipe in cell.recipe.stages())
    return {cell.name: minutes.get((cell.method, cell.checkpoint), 0.0) if cell.trained else 0.0 for cell in cells}


def measure(recipe: Recipe, data: str | Path) -> float:
    """The training minutes of a recipe, estimated from a few steps on short, medium and long rows.

    Raises:
        InputError: the backbone cannot be loaded, or the device does not support the precision.
    """
    from transformers import DataCollatorWithPadding

    from contradiction.data.splits import load_split
    from contradiction.training.accelerators import accelerator_for
    from contradiction.training.augmentation import training_rows
    from contradiction.training.initialize import initialize_model
    from contradiction.training.loaders import encode_rows
    from contradiction.training.losses import objective
    from contradiction.training.optimizers import adamw

    rows = training_rows(load_split(data, recipe.data.config, "train"), recipe).rows
    model, tokenizer = initialize_model(recipe)
    # The teachers' probabilities do not change the time, and computing them is not part of training.
    uniform = np.full((len(rows), len(recipe.labels)), 1 / len(recipe.labels))
    soft = uniform if recipe.distillation.has_teachers else None
    examples = sorted(encode_rows(rows, recipe, tokenizer, soft=soft), key=lambda example: len(example["input_ids"]))
    accelerator = accelerator_for(recipe)
    loss_of = objective(recipe, [1] * len(recipe.labels))  # class weights do not change the time
    model, optimizer = accelerator.prepare(model, adamw(model, recipe))
    model.train()
    collate = DataCollatorWithPadding(tokenizer)
    seconds, batch_size = [], recipe.optimizer.batch_size
    for step in range(STEPS + 1):  # the first one is a warm-up
        # Rows of similar length, from the middle of the short, the medium and the long third.
        middle = int((max(step, 1) - 0.5) / STEPS * len(examples))
        first = max(0, min(middle - batch_size // 2, len(examples) - batch_size))
        chosen = examples[first : first + batch_size]
        batch = collate([{key: value for key, value in example.items() if key != "id"} for example in chosen])
        started = time.perf_counter()
        inputs = {key: value.to(accelerator.device) for key, value in batch.items()}
        targets = inputs.pop("labels")
        loss = loss_of(model, inputs, targets).mean()
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        loss.item()  # waits for the device
        seconds.append((time.perf_counter() - started) / len(chosen))
    return fmean(seconds[1:]) * len(examples) * recipe.optimizer.epochs / 60


def hardware() -> str:
    """The name of this machine's hardware in records."""
    from contradiction.inference.torch_backend import best_device

    return record.hardware(best_device())


def duration(minutes: float) -> str:
    """Minutes in words: 0.4 -> ``under a minute``, 59.6 -> ``about 60 min``, 135 -> ``about 2 h 15 min``."""
    total = round(minutes)
    if total < 1:
        return "under a minute"
    return f"about {total} min" if total < 61 else f"about {total // 60} h {total % 60:02} min"
