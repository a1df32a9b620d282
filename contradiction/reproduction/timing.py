"""How long the cells of a grid take: from the records of finished ones on this hardware, else from a few steps."""

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from contradiction.inputs.views import HIERARCHICAL
from contradiction.reproduction.cells import Cell
from contradiction.training import record
from contradiction.training.recipe import Recipe

STEPS = 3


def trainings(cell: Cell) -> int:
    """How many checkpoints are trained for a cell."""
    if not cell.trained:
        return 0
    return len(cell.recipe.stages()) if cell.recipe.data.view == HIERARCHICAL else 1


def estimate(cells: Iterable[Cell], done: Mapping[str, Mapping[str, Any]]) -> dict[str, float] | None:
    """The minutes of training of each cell, by its name, from the records of finished ones on this hardware.

    A cell is taken to train a checkpoint in the time of those of its method and start; where none of them is finished,
    of its method from other starts, and else of all. None where no cell that is finished was trained on such hardware.
    Evaluation comes on top.
    """
    cells = list(cells)
    here = hardware()
    known: dict[tuple[str, str], list[float]] = {}
    for cell in cells:
        run = done.get(cell.name, {}).get("run", {})
        if cell.trained and run.get("hardware") == here:
            known.setdefault((cell.method, cell.start), []).append(run["minutes"] / trainings(cell))
    if not known:
        return None
    means = {key: fmean(minutes) for key, minutes in known.items()}

    def one(cell: Cell) -> float:
        if found := means.get((cell.method, cell.start)):
            return found
        return fmean([mean for (method, _), mean in means.items() if method == cell.method] or means.values())

    return {cell.name: trainings(cell) * one(cell) for cell in cells}


def measured(cells: Sequence[Cell], data: str | Path) -> dict[str, float]:
    """The same from a few steps on this machine with each cell's own backbone, where nothing was recorded."""
    found: dict[tuple[str, str], float] = {}
    for cell in cells:
        if cell.trained and (cell.method, cell.start) not in found:
            recipes = cell.recipe.stages() if cell.recipe.data.view == HIERARCHICAL else [cell.recipe]
            found[cell.method, cell.start] = sum(measure(each, data) for each in recipes)
    return {cell.name: found.get((cell.method, cell.start), 0.0) if cell.trained else 0.0 for cell in cells}


def measure(recipe: Recipe, data: str | Path) -> float:
    """The minutes that a recipe's training steps would take here, from a few of its steps on rows of short to long.

    Raises:
        InputError: the backbone cannot be loaded, or the device has not the recipe's precision.
    """
    from transformers import DataCollatorWithPadding

    from contradiction.data.splits import load_split
    from contradiction.training.accelerators import accelerator_for
    from contradiction.training.augmentation import training_rows
    from contradiction.training.initialize import start
    from contradiction.training.loaders import encode_rows
    from contradiction.training.losses import objective
    from contradiction.training.optimizers import adamw

    rows = training_rows(load_split(data, recipe.data.config, "train"), recipe).rows
    model, tokenizer = start(recipe, recipe.labels, [])
    # What teachers say makes no difference here, and to ask them is no part of training.
    uniform = np.full((len(rows), len(recipe.labels)), 1 / len(recipe.labels))
    soft = uniform if recipe.distillation.has_teachers else None
    examples = sorted(encode_rows(rows, recipe, tokenizer, soft=soft), key=lambda each: len(each["input_ids"]))
    accelerator = accelerator_for(recipe)
    loss_of = objective(recipe, [1] * len(recipe.labels))  # how the classes weigh takes no time
    model, optimizer = accelerator.prepare(model, adamw(model, recipe))
    model.train()
    collate = DataCollatorWithPadding(tokenizer)
    seconds, batch_size = [], recipe.optimizer.batch_size
    for step in range(STEPS + 1):  # the first warms up
        # Batches hold rows of like length: one from the middle of each part of them.
        middle = int((max(step, 1) - 0.5) / STEPS * len(examples))
        first = max(0, min(middle - batch_size // 2, len(examples) - batch_size))
        chosen = examples[first : first + batch_size]
        batch = collate([{key: value for key, value in each.items() if key != "id"} for each in chosen])
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
    """What a run on this machine records as its hardware."""
    from contradiction.inference.torch_backend import best_device

    return record.hardware(best_device())


def duration(minutes: float) -> str:
    """Minutes in words: 0.4 -> ``under a minute``, 59.6 -> ``about 60 min``, 135 -> ``about 2 h 15 min``."""
    whole = round(minutes)
    if whole < 1:
        return "under a minute"
    return f"about {whole} min" if whole < 61 else f"about {whole // 60} h {whole % 60:02} min"
