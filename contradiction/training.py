"""Trains a detector from a recipe on `accelerate`: the loop, from rows to a model folder.

While a run goes on, everything lies in ``<out>.partial``: the best checkpoint so far, and the state after the last full
epoch to resume from. Only a finished run is renamed to ``<out>``, so a folder of that name is always a whole model.
"""

import hashlib
import math
import shutil
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from accelerate import Accelerator, DataLoaderConfiguration
from accelerate.utils import set_seed, tqdm
from transformers import get_linear_schedule_with_warmup

from contradiction import files, record
from contradiction.backbones import start
from contradiction.data import fingerprint, load_split, name_of
from contradiction.errors import InputError
from contradiction.labels import task_of
from contradiction.loaders import encode_rows, evaluation_loader, train_loader
from contradiction.losses import Loss, loss_function
from contradiction.model_cards import model_card
from contradiction.quiet import no_model_bars
from contradiction.recipes import Recipe
from contradiction.views import VIEWS
from evaluate_metric.evaluate_metric import score

if TYPE_CHECKING:
    from datasets import Dataset
    from torch.utils.data import DataLoader
    from transformers import PreTrainedModel


@dataclass
class Progress:
    """What a run has reached: one entry an epoch, and the best validation macro-F1 with its epoch (from 1)."""

    epochs: list[dict[str, Any]] = field(default_factory=list)
    best_epoch: int = 0
    best_macro_f1: float = -1.0


def train(recipe: Recipe, *, data: str | Path, out: str | Path, resume: bool = False) -> Path:
    """Trains a detector and writes it as a model folder.

    The checkpoint kept is the one with the best macro-F1 on the validation split; the test split is not read.

    Args:
        recipe: the experiment.
        data: the data repo, a folder or Hub id.
        out: the model folder to write: checkpoint, tokenizer, and ``run.json``, the record of the run.
        resume: continue an unfinished run of the same recipe and data; a finished one is left as it is.

    Returns:
        ``out``.

    Raises:
        InputError: ``out`` is taken, the run to resume is another, or the loss stopped being finite.
    """
    out = Path(out)
    work = out.with_name(f"{out.name}.partial")
    accelerator = Accelerator(
        mixed_precision="no" if recipe.precision == "fp32" else recipe.precision,
        # One batch of the recipe is one step, whatever the number of processes.
        dataloader_config=DataLoaderConfiguration(split_batches=True),
    )
    if recipe.batch_size % accelerator.num_processes:
        raise InputError(
            f"batch_size {recipe.batch_size} cannot be shared by {accelerator.num_processes} processes alike"
        )
    rows = _read(recipe, data)
    asked = _request(recipe, data, rows)
    if out.exists():
        if resume and record.read(out).get("request") == asked:
            return out
        raise InputError(f"{out}: exists already; remove it, or name another folder")
    if accelerator.is_main_process:
        claim(work, asked, resume)
    accelerator.wait_for_everyone()

    set_seed(recipe.seed)
    texts = (row[column] for row in rows["train"] for column in VIEWS[recipe.view])
    model, tokenizer = start(recipe, recipe.labels, texts)
    examples = {split: encode_rows(part, recipe, tokenizer) for split, part in rows.items()}
    batches = train_loader(examples["train"], tokenizer, recipe.batch_size, recipe.seed)
    checks = evaluation_loader(examples["validation"], tokenizer, recipe.batch_size)
    optimizer = torch.optim.AdamW(_parameter_groups(model, recipe.weight_decay), lr=recipe.learning_rate)
    loss_of = loss_function(
        recipe, np.bincount([each["labels"] for each in examples["train"]], minlength=len(recipe.labels)).tolist()
    )
    steps = recipe.epochs * len(batches)
    schedule = get_linear_schedule_with_warmup(optimizer, math.ceil(recipe.warmup * steps), steps)
    model, optimizer, batches, checks, schedule = accelerator.prepare(model, optimizer, batches, checks, schedule)
    progress = _restore(accelerator, work)

    bar = tqdm(
        total=recipe.epochs * len(examples["train"]),
        initial=len(progress.epochs) * len(examples["train"]),
        desc=f"training {recipe.name}",
        unit="row",
        dynamic_ncols=True,
        mininterval=1,
    )
    with bar:
        for epoch in range(len(progress.epochs), recipe.epochs):
            # Of the prepared loader, which counts the passes itself, from 0 after a resume, and tells the sampler.
            batches.set_epoch(epoch)
            started = time.perf_counter()
            loss = _one_epoch(accelerator, model, optimizer, schedule, batches, loss_of, bar)
            seconds = time.perf_counter() - started
            scores = evaluate_epoch(accelerator, model, checks, "2-class" if recipe.target else task_of(recipe.config))
            progress.epochs.append({"train_loss": loss, "seconds": round(seconds, 1), "validation": scores})
            bar.write(_summary(epoch, recipe.epochs, loss, scores))
            if scores["macro_f1"] > progress.best_macro_f1:
                progress.best_macro_f1, progress.best_epoch = scores["macro_f1"], epoch + 1
                if accelerator.is_main_process:
                    with files.new_folder(work / "best") as folder, no_model_bars():
                        accelerator.unwrap_model(model).save_pretrained(folder)
                        tokenizer.save_pretrained(folder)
            _keep_state(accelerator, work, progress)

    if accelerator.is_main_process:
        record.write(work / "best", request=asked, progress=asdict(progress), model=accelerator.unwrap_model(model))
        model_card(work / "best", name=out.name).save(work / "best" / "README.md")
        files.replace_folder(work / "best", out)
        shutil.rmtree(work)
    accelerator.wait_for_everyone()
    return out


def request(recipe: Recipe, data: str | Path) -> dict[str, Any]:
    """What a run is asked to do, as its record keeps it: two runs with equal requests end with equal weights."""
    return _request(recipe, data, _read(recipe, data))


def _request(recipe: Recipe, data: str | Path, rows: dict[str, "Dataset"]) -> dict[str, Any]:
    values = recipe.model_dump()
    backbone = Path(recipe.backbone or "")
    if recipe.backbone and backbone.is_dir():
        # By what it is, not by where it lies on one machine.
        weights = b"".join(
            sorted(hashlib.sha256(file.read_bytes()).digest() for file in backbone.glob("*.safetensors"))
        )
        values["backbone"] = f"{backbone.resolve().name}@{hashlib.sha256(weights).hexdigest()[:12]}"
    return {"recipe": values, "data": fingerprint(*rows.values()), "data_name": name_of(data)}


def _read(recipe: Recipe, data: str | Path) -> dict[str, "Dataset"]:
    return {split: load_split(data, recipe.config, split) for split in ("train", "validation")}


def _one_epoch(
    accelerator: Accelerator,
    model: "PreTrainedModel",
    optimizer: torch.optim.Optimizer,
    schedule: Any,
    batches: "DataLoader",
    loss_of: Loss,
    bar: tqdm,
) -> float:
    """One pass over the training split; the mean loss a row."""
    model.train()
    total = torch.zeros(2, device=accelerator.device)
    for batch in batches:
        numbers, targets = batch.pop("id"), batch.pop("labels")
        logits = model(**batch).logits
        loss = loss_of(logits, targets)
        if not torch.isfinite(loss):
            raise InputError(
                f"the loss is {loss.item()} on the rows {numbers.tolist()}; a lower learning_rate may help"
            )
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        total += torch.stack([loss.detach() * len(targets), torch.tensor(float(len(targets)), device=loss.device)])
        bar.set_postfix(loss=f"{loss.item():.3f}", lr=f"{schedule.get_last_lr()[0]:.1e}", refresh=False)
        bar.update(len(targets) * accelerator.num_processes)
    summed, rows = accelerator.reduce(total, reduction="sum").tolist()
    return summed / rows


def evaluate_epoch(
    accelerator: Accelerator, model: "PreTrainedModel", checks: "DataLoader", task: str
) -> dict[str, Any]:
    """The metric on the validation split, and whether all predictions fell on one class."""
    model.eval()
    predictions: list[np.ndarray] = []
    references: list[np.ndarray] = []
    for batch in checks:
        batch.pop("id")
        targets = batch.pop("labels")
        with torch.inference_mode():
            logits = model(**batch).logits
        chosen, targets = accelerator.gather_for_metrics((logits.argmax(-1), targets))
        predictions.append(chosen.cpu().numpy())
        references.append(targets.cpu().numpy())
    chosen = np.concatenate(predictions)
    return {
        **score(np.concatenate(references).tolist(), chosen.tolist(), task),
        "collapsed": len(np.unique(chosen)) == 1,
    }


def _parameter_groups(model: "PreTrainedModel", weight_decay: float) -> list[dict[str, Any]]:
    # Vectors are biases and normalisation weights; decay is for matrices.
    weights = [each for each in model.parameters() if each.ndim > 1]
    vectors = [each for each in model.parameters() if each.ndim <= 1]
    return [{"params": weights, "weight_decay": weight_decay}, {"params": vectors, "weight_decay": 0.0}]


def claim(work: Path, request: dict[str, Any], resume: bool) -> None:
    """Makes the working folder of a run, or checks that the one there belongs to this run.

    Raises:
        InputError: the folder holds an unfinished run, and it is not to be resumed or is another.
    """
    # Without the state of an epoch, or a finished stage, there is nothing to lose.
    if any(work.glob("**/state")) or any(work.glob(f"*/{record.NAME}")):
        if not resume:
            raise InputError(f"{work}: an unfinished run; --resume continues it, or remove it")
        if record.read(work).get("request") != request:
            raise InputError(
                f"{work}: the unfinished run is of another recipe or other data; remove it, or name another folder"
            )
        return
    with files.new_folder(work) as folder:
        files.write_json(folder / record.NAME, {"request": request})


def _keep_state(accelerator: Accelerator, work: Path, progress: Progress) -> None:
    """Saves all that the next epoch depends on, under a temporary name, then renames it."""
    fresh = work / ".state.partial"
    accelerator.save_state(str(fresh))
    accelerator.wait_for_everyone()  # each process has written its random state
    if accelerator.is_main_process:
        files.write_json(fresh / "progress.json", asdict(progress))
        files.replace_folder(fresh, work / "state")
    accelerator.wait_for_everyone()


def _restore(accelerator: Accelerator, work: Path) -> Progress:
    state = work / "state"
    if not state.is_dir():
        return Progress()
    accelerator.load_state(str(state))
    return Progress(**files.read_json(state / "progress.json"))


def _summary(epoch: int, epochs: int, loss: float, scores: dict[str, Any]) -> str:
    line = f"epoch {epoch + 1}/{epochs}: loss {loss:.3f}, validation macro-F1 {100 * scores['macro_f1']:.1f}"
    if scores["collapsed"]:
        line += " (every row got the same label: the model has collapsed onto one class)"
    return line
