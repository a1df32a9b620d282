"""The training function of each method.

To add a method, add an entry to :data:`TRAINERS`. A package of its own names its function in the group of entry points
``contradiction.trainers``, by the name of the method.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from contradiction.data.splits import CHINESE, Data, labelled, languages_of, load_split, of_bot, place_of
from contradiction.errors import InputError
from contradiction.inference.embedding import Embedder
from contradiction.inputs.views import VIEWS
from contradiction.io import files
from contradiction.io.files import new_folder
from contradiction.labels import STAGES
from contradiction.methods.hierarchical import HierarchicalClassifier
from contradiction.methods.kernel import KernelClassifier, KernelRegression
from contradiction.training import loop, record, run_folder, tracking
from contradiction.training.accelerators import check_fp16_device, processes
from contradiction.training.augmentation import training_rows
from contradiction.training.recipe import Recipe
from contradiction.training.run_folder import explain_write_errors


def train_hierarchical(
    recipe: Recipe,
    *,
    data: Data,
    out: str | Path,
    resume: bool = False,
    save_steps: int | None = None,
    track: str | None = None,
    deterministic: bool = False,
) -> Path:
    """Trains the stages of the hierarchical method, one after the other.

    The arguments are those of :func:`contradiction.training.loop.train`.

    The folder holds a checkpoint for each stage, ``stages.json`` with their order, and ``run.json`` with their records.
    """
    out = Path(out)
    work = run_folder.partial_folder(out)
    check_fp16_device(recipe)
    state = processes()  # only the main process writes
    request = run_folder.run_request(recipe, data)
    with run_folder.claimed(out, request, resume, state) as finished:
        if finished:
            return out
        if state.is_main_process:
            run_folder.open_run(work, request, resume, run_folder.provenance(recipe, deterministic))
        state.wait_for_everyone()
        for stage in recipe.stages():
            loop.train(
                stage, data=data, out=work / stage.data.view, resume=True, save_steps=save_steps, track=track,
                logs=tracking.folder_of(out) / stage.data.view, tracked_as=f"{out.name}-{stage.data.view}",
                deterministic=deterministic,
            )  # fmt: skip
        if state.is_main_process:
            with explain_write_errors(work):
                files.write_json(work / HierarchicalClassifier.MARKER, {"stages": list(STAGES)})
                record.write_stages(work, request)
                run_folder.finalize(work, of_bot(load_split(data, recipe.data.config, "validation"), recipe.data.bot))
                work.rename(out)
    return out


@dataclass(frozen=True)
class Fitted:
    """A model that was fitted in one step.

    Attributes:
        save: writes it into a folder.
        parameters: the number of its weights.
        device: where it was fitted.
    """

    save: Callable[[Path], object]
    parameters: int
    device: str = "cpu"


def train_at_once(
    recipe: Recipe,
    fit: Callable[[Sequence[dict[str, Any]]], Fitted],
    *,
    data: Data,
    out: str | Path,
    resume: bool = False,
) -> Path:
    """Trains a method without training steps: ``fit`` fits a model to the labelled training rows.

    The folder also gets the record of the run, the decision rule, and the manifest. An unfinished run has no state, so
    ``resume`` only accepts a finished run of the same recipe and data.

    Raises:
        InputError: ``out`` exists or has no name, another process works there, or the encoder was trained on CDConv.
    """
    out = Path(out)
    run_folder.partial_folder(out)  # raises an error for a path without a name
    check_fp16_device(recipe)
    state = processes()  # only the main process works
    rows, languages = run_folder.load_splits(recipe, data), languages_of(data)
    request, conditions = run_folder.run_request(recipe, data, rows), run_folder.provenance(recipe)
    with run_folder.claimed(out, request, resume, state) as finished:
        if not finished and state.is_main_process:
            start_time = time.perf_counter()
            chosen = list(labelled(training_rows(rows["train"], recipe).rows))
            if not chosen:
                raise InputError(f"{place_of(data)}: no row of the training split has a label; name another data repo")
            fitted = fit(chosen)
            minutes = (time.perf_counter() - start_time) / 60
            with new_folder(out) as folder:
                fitted.save(folder)
                result = {**conditions, **run_folder.origin(recipe, languages)}
                record.write(
                    folder, request=request, result=result, minutes=minutes,
                    parameters=fitted.parameters, hardware=record.hardware(fitted.device),
                )  # fmt: skip
                run_folder.finalize(folder, of_bot(rows["validation"], recipe.data.bot))
    return out


def train_kernel(recipe: Recipe, *, data: Data, out: str | Path, resume: bool = False) -> Path:
    """Embeds the training rows, and fits kernel ridge regression to them; see :func:`train_at_once`."""

    def fit(rows: Sequence[dict[str, Any]]) -> Fitted:
        columns = VIEWS[recipe.data.view]
        embed = Embedder(str(recipe.model.backbone), recipe.precision)
        embed(row[column] for column in columns for row in rows)  # all texts in one progress bar
        model = KernelRegression(columns, embed).fit(rows, [row["label"] for row in rows])
        fitted = KernelClassifier(model, embed, recipe.labels, Path(out).name)
        fitted.chinese_only = languages_of(data) == [CHINESE]
        return Fitted(fitted.save, embed.parameters, embed.device)

    return train_at_once(recipe, fit, data=data, out=out, resume=resume)


# The name of a method -> a function that trains a recipe and writes a model folder. Its arguments are those of
# ``contradiction.training.loop.train``; a method without training steps has only ``data``, ``out`` and ``resume``.
TRAINERS: dict[str, Callable[..., Path]] = {
    "checkpoint": loop.train,
    "hierarchical": train_hierarchical,
    "kernel": train_kernel,
}
COMMON_OPTIONS = ("data", "out", "resume")


def train(recipe: Recipe, **options: object) -> Path:
    """Trains a detector by the method of its recipe, with the options of :data:`TRAINERS`; returns the model folder.

    Raises:
        InputError: an option is about training steps and the method has none, or the training function raises it.
    """
    if not recipe.model.fine_tunes:
        if unfit := [name for name, value in options.items() if value and name not in COMMON_OPTIONS]:
            option = unfit[0].replace("_", "-")
            raise InputError(f"{recipe.name}: its method has no training steps; leave --{option} out")
        options = {name: value for name, value in options.items() if name in COMMON_OPTIONS}
    return _trainer_of(recipe.model.method)(recipe, **options)


def _trainer_of(method: str) -> Callable[..., Path]:
    if method in TRAINERS:
        return TRAINERS[method]
    # Looked up here, because a module that is imported for its method cannot import this one yet.
    plugins = entry_points(group="contradiction.trainers", name=method)
    if not plugins:
        raise InputError(
            f"method {method!r} has no training function; add it to {__name__}.TRAINERS, or name it as an entry point "
            "of contradiction.trainers"
        )
    trainer: Callable[..., Path] = next(iter(plugins)).load()
    return trainer
