"""Fine-tunes one encoder on `accelerate`: the loop of steps and epochs, which resumes from its saved state."""

import math
import shutil
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from accelerate import Accelerator, DataLoaderConfiguration
from accelerate.utils import ProjectConfiguration, gather_object, set_seed, tqdm
from transformers import get_linear_schedule_with_warmup

from contradiction.data.splits import CHINESE
from contradiction.errors import InputError
from contradiction.inputs.views import CHINESE_ONLY_KEY, VIEWS
from contradiction.io import files
from contradiction.io.environment import no_model_bars
from contradiction.labels import task_of
from contradiction.training.accelerators import accelerator_for, tracking
from contradiction.training.accelerators import deterministic as only_deterministic
from contradiction.training.augmentation import rewritten_rows
from contradiction.training.initialize import initialize_model
from contradiction.training.loaders import check_batches, encode_rows, loader
from contradiction.training.losses import GROUP, UNLABELLED, Objective, objective, soft_labels
from contradiction.training.recipe import Recipe
from contradiction.training.run import TEACHER_PROBABILITIES, Run, Trained, explain_write_errors, languages_read
from evaluate_metric.evaluate_metric import score

if TYPE_CHECKING:
    from torch.utils.data import DataLoader
    from transformers import PreTrainedModel


def train_checkpoint(run: Run) -> Trained:
    """Fine-tunes one encoder.

    The model is the checkpoint with the best macro-F1 on the validation split, or the last one if the recipe says so.

    Raises:
        InputError: a batch cannot be shared, the loss is not finite, the disk is full, or the tracker cannot be
            started.
    """
    recipe, training = run.recipe, run.training
    accelerator = accelerator_for(
        recipe,
        # One batch of the recipe is one step, whatever the number of processes.
        dataloader_config=DataLoaderConfiguration(split_batches=True),
        log_with=run.track,
        project_config=ProjectConfiguration(logging_dir=str(run.tracked)),
    )
    groups = training.rows[GROUP] if recipe.loss.choice else ()
    check_batches(recipe.optimizer.batch_size, accelerator.num_processes, groups)
    with only_deterministic(run.deterministic), tracking(accelerator, run):
        set_seed(recipe.seed)
        steps = _prepare(accelerator, run)
        progress = _train(steps, run)
    model = accelerator.unwrap_model(steps.model)
    minutes = sum(epoch["seconds"] for epoch in progress.epochs) / 60
    result = {key: getattr(progress, key) for key in ("epochs", "best_epoch", "best_macro_f1")}
    return Trained(model.num_parameters(), minutes, str(model.device), result)


@dataclass
class Progress:
    """The progress of a run, as its state holds it.

    Attributes:
        epochs: one entry for each finished epoch.
        best_epoch, best_macro_f1: the best validation macro-F1, with its epoch (from 1).
        steps, loss, rows, seconds: of the unfinished epoch: its finished steps, the summed loss of their rows, the
            number of these rows, and the time.
    """

    epochs: list[dict[str, Any]] = field(default_factory=list)
    best_epoch: int = 0
    best_macro_f1: float = -1.0
    steps: int = 0
    loss: float = 0.0
    rows: int = 0
    seconds: float = 0.0


def save_state(accelerator: Accelerator, work: Path, progress: Progress) -> None:
    """Saves the training state under a temporary name, then renames it.

    The folder ``state`` holds what accelerate saves (weights, optimizer, schedule, random states) and
    ``progress.json``. A run goes on from it as if it had never stopped. If it cannot be written, the old one stays.
    """
    fresh = work / ".state.partial"
    loss, rows = _over_processes(progress)
    with explain_write_errors(work):
        if accelerator.is_main_process:
            shutil.rmtree(fresh, ignore_errors=True)  # a killed process may have left it
        accelerator.wait_for_everyone()
        try:
            accelerator.save_state(str(fresh))
            accelerator.wait_for_everyone()
            if accelerator.is_main_process:
                values = {**asdict(progress), "loss": loss, "rows": rows, "processes": accelerator.num_processes}
                files.write_json(fresh / "progress.json", values)
                files.replace_folder(fresh, work / "state")
        except BaseException:
            shutil.rmtree(fresh, ignore_errors=True)  # the disk may be full
            raise
    accelerator.wait_for_everyone()


def _over_processes(progress: Progress) -> tuple[float, int]:
    """The summed loss of the unfinished epoch and the number of its rows over all processes, as Python numbers."""
    losses, rows = zip(*gather_object([(progress.loss, progress.rows)]), strict=True)
    return sum(losses), sum(rows)


def load_state(accelerator: Accelerator, work: Path) -> Progress:
    """Loads the saved training state; without one, the run starts from the beginning.

    Raises:
        InputError: another number of processes saved the state.
    """
    state, number = work / "state", accelerator.num_processes
    if not state.is_dir():
        return Progress()
    progress = files.read_json(state / "progress.json")
    if (processes := progress.pop("processes")) != number:
        raise InputError(f"{state}: saved by {processes} processes, and {number} cannot resume it; start {processes}")
    accelerator.load_state(str(state))
    # The sums over all processes are those of the main process from here on.
    return Progress(**progress if accelerator.is_main_process else {**progress, "loss": 0.0, "rows": 0})


@dataclass
class _Steps:
    """The objects of the training loop, which the accelerator has prepared."""

    accelerator: Accelerator
    model: "PreTrainedModel"
    optimizer: torch.optim.Optimizer
    schedule: Any
    batches: Any
    validation_batches: "DataLoader"
    loss_of: Objective
    tokenizer: Any


def _prepare(accelerator: Accelerator, run: Run) -> _Steps:
    recipe, rows = run.recipe, run.training.rows
    model, tokenizer = initialize_model(
        recipe, (row[column] for row in rows.to_list() for column in VIEWS[recipe.data.view])
    )
    if languages_read(recipe, run.data) != [CHINESE]:
        setattr(model.config, CHINESE_ONLY_KEY, False)
    soft = _teacher_probabilities(accelerator, run) if recipe.distillation.has_teachers else None
    options = recipe.augmentation
    read = rewritten_rows(rows, options.other_endings, options.long_replies, recipe.seed)
    examples = encode_rows(read, recipe, tokenizer, soft)
    batches = loader(examples, tokenizer, recipe.optimizer.batch_size, recipe.seed)
    validation_batches = loader(encode_rows(run.validation, recipe, tokenizer), tokenizer, recipe.optimizer.batch_size)
    optimizer = adamw(model, recipe)
    labels = [example["labels"] for example in examples if example["labels"] != UNLABELLED]
    counts = np.bincount(labels, minlength=len(recipe.labels)).tolist()
    steps = recipe.optimizer.epochs * math.ceil(len(rows) / recipe.optimizer.batch_size)
    schedule = get_linear_schedule_with_warmup(optimizer, math.ceil(recipe.optimizer.warmup_ratio * steps), steps)
    model, optimizer, schedule, batches, validation_batches = accelerator.prepare(
        model, optimizer, schedule, batches, validation_batches
    )
    loss_of = objective(recipe, counts)
    return _Steps(accelerator, model, optimizer, schedule, batches, validation_batches, loss_of, tokenizer)


def _teacher_probabilities(accelerator: Accelerator, run: Run) -> np.ndarray:
    """The probabilities of the teachers. The main process computes them once and caches them in the run folder."""
    cache, training = run.work / TEACHER_PROBABILITIES, run.training
    if accelerator.is_main_process and not cache.is_file():
        computed = soft_labels(run.recipe, training.rows.select(range(training.teacher_rows)))
        with explain_write_errors(run.work), files.new_file(cache) as partial, partial.open("wb") as stream:
            np.save(stream, computed)
    accelerator.wait_for_everyone()
    probabilities: np.ndarray = np.load(cache)
    return probabilities


def adamw(model: "PreTrainedModel", recipe: Recipe) -> torch.optim.AdamW:
    """The optimizer of a run.

    Matrices have weight decay; vectors (biases and normalisation weights) have none. The pooler and the head have
    another learning rate where the recipe sets one.
    """
    options = recipe.optimizer
    groups: dict[tuple[float, float], list[torch.nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            in_encoder = name.startswith(f"{model.base_model_prefix}.") and ".pooler." not in name
            rate = options.learning_rate if in_encoder else options.head_learning_rate or options.learning_rate
            decay = options.weight_decay if parameter.ndim > 1 else 0.0
            groups.setdefault((rate, decay), []).append(parameter)
    return torch.optim.AdamW(
        [{"params": part, "lr": rate, "weight_decay": decay} for (rate, decay), part in groups.items()],
        # The fused kernel is faster. With the gradient scaler of fp16, accelerate could not see that it skipped a step.
        fused=recipe.precision != "fp16",
    )


def _train(steps: _Steps, run: Run) -> Progress:
    """Trains, validates and saves the remaining epochs; returns the progress of the whole run."""
    recipe, work, accelerator, in_epoch = run.recipe, run.work, steps.accelerator, len(steps.batches)
    progress = load_state(accelerator, work)
    bar = tqdm(
        total=recipe.optimizer.epochs * in_epoch, initial=len(progress.epochs) * in_epoch + progress.steps,
        desc=f"training {recipe.name}", unit="step", dynamic_ncols=True, mininterval=1,
    )  # fmt: skip
    with bar:
        while len(progress.epochs) < recipe.optimizer.epochs:
            epoch = len(progress.epochs)
            loss = _one_epoch(steps, run, progress, bar)
            # With few training rows, validation takes longer than the epoch, and the bar stands still.
            bar.set_description(f"validating {recipe.name}")
            scores = evaluate_epoch(accelerator, steps.model, steps.validation_batches, recipe)
            bar.set_description(f"training {recipe.name}", refresh=False)
            progress.epochs.append({"train_loss": loss, "seconds": round(progress.seconds, 1), "validation": scores})
            if accelerator.is_main_process:
                bar.write(_summary(epoch, recipe.optimizer.epochs, loss, scores))
            values = {f"validation/{name}": scores[name] for name in ("macro_f1", "accuracy")}
            accelerator.log({"train/epoch_loss": loss, **values}, step=(epoch + 1) * in_epoch)
            if scores["macro_f1"] > progress.best_macro_f1 or recipe.optimizer.checkpoint == "last":
                progress.best_macro_f1, progress.best_epoch = scores["macro_f1"], epoch + 1
                if accelerator.is_main_process:
                    with explain_write_errors(work), files.new_folder(run.model) as folder, no_model_bars():
                        accelerator.unwrap_model(steps.model).save_pretrained(folder)
                        steps.tokenizer.save_pretrained(folder)
            progress = replace(progress, steps=0, loss=0.0, rows=0, seconds=0.0)
            save_state(accelerator, work, progress)
    return progress


def _one_epoch(steps: _Steps, run: Run, progress: Progress, bar: tqdm) -> float:
    """Trains on the rest of the unfinished epoch; returns the mean loss of a row."""
    accelerator, in_epoch, epoch = steps.accelerator, len(steps.batches), len(progress.epochs)
    steps.model.train()
    # The prepared loader counts epochs from 0, also after a resume, so it needs the number of the epoch; it passes the
    # number to the sampler, which the loader of skip_first_batches shares.
    steps.batches.set_epoch(epoch)
    batches = accelerator.skip_first_batches(steps.batches, progress.steps) if progress.steps else steps.batches
    before = time.perf_counter() - progress.seconds
    for batch in batches:
        ids, labels = batch.pop("id"), batch.pop("labels")
        loss = steps.loss_of(steps.model, batch, labels).mean()
        value = loss.item()
        if not math.isfinite(value):
            raise InputError(
                f"step {progress.steps + 1} of epoch {epoch + 1}: the loss is {value} on the rows {ids.tolist()}; a "
                "lower learning_rate may help"
            )
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(steps.model.parameters(), 1.0)
        steps.optimizer.step()
        steps.schedule.step()
        steps.optimizer.zero_grad()
        bar.update()
        progress.steps, progress.seconds = progress.steps + 1, time.perf_counter() - before
        progress.loss, progress.rows = progress.loss + value * len(labels), progress.rows + len(labels)
        rate = steps.schedule.get_last_lr()[0]
        bar.set_postfix(loss=f"{value:.3f}", lr=f"{rate:.1e}", refresh=False)
        number = epoch * in_epoch + progress.steps
        accelerator.log({"train/loss": value, "train/learning_rate": rate}, step=number)
        # The last step of an epoch is saved after validation.
        if run.save_steps and progress.steps % run.save_steps == 0 and progress.steps < in_epoch:
            save_state(accelerator, run.work, progress)
    total, rows = _over_processes(progress)
    return total / rows


def evaluate_epoch(
    accelerator: Accelerator, model: "PreTrainedModel", batches: "DataLoader", recipe: Recipe
) -> dict[str, Any]:
    """The scores on the validation split."""
    model.eval()
    predictions: list[int] = []
    references: list[int] = []
    for batch in batches:
        batch.pop("id")
        targets = batch.pop("labels")
        with torch.inference_mode():
            logits = model(**batch).logits
        chosen, targets = accelerator.gather_for_metrics((logits.argmax(-1), targets))
        predictions += chosen.tolist()
        references += targets.tolist()
    # A stage is scored as a 2-class detector; its two labels have other names.
    task = "2-class" if recipe.data.target else task_of(recipe.data.config)
    scores = score(references, predictions, task)
    names = dict(zip(scores["labels"], recipe.labels, strict=True))
    return {
        **scores,
        "labels": list(recipe.labels),
        "per_class": {names[label]: values for label, values in scores["per_class"].items()},
    }


def _summary(epoch: int, epochs: int, loss: float, scores: dict[str, Any]) -> str:
    line = f"epoch {epoch + 1}/{epochs}: loss {loss:.3f}, validation macro-F1 {100 * scores['macro_f1']:.1f}"
    predicted = np.sum(scores["confusion_matrix"], axis=0)  # rows are references, columns are predictions
    missing = [label for label, count in zip(scores["labels"], predicted, strict=True) if not count]
    return f"{line} (never predicted: {', '.join(missing)})" if missing else line
