"""Trains a recipe: one frame for every method, and the trainer of each method.

A trainer is a function from a :class:`contradiction.training.run.Run` to a
:class:`contradiction.training.run.Trained`; it writes the model and nothing else. To add a method, add an entry to
:data:`TRAINERS`. A package of its own names its function in the group of entry points ``contradiction.trainers``, by
the name of the method.
"""

import logging
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import entry_points
from pathlib import Path

from contradiction.data.splits import CHINESE
from contradiction.errors import InputError
from contradiction.inference.embedding import Embedder
from contradiction.inputs.views import VIEWS
from contradiction.io.files import new_folder, replace_folder, write_json
from contradiction.labels import STAGES
from contradiction.methods.hierarchical import HierarchicalClassifier
from contradiction.methods.kernel import KernelClassifier, KernelRegression
from contradiction.training import loop, record, run_folder, tracking
from contradiction.training.accelerators import accelerator_for, check_fp16_device, processes
from contradiction.training.distillation import check_teachers
from contradiction.training.run import Run, Trained, origin, provenance, run_request

Trainer = Callable[[Run], Trained]


def train(run: Run) -> Path:
    """Trains a detector, and writes it as a model folder with its decision rule, its record and its manifest.

    While the run goes on, everything lies in ``<out>.partial``. Only a finished run is renamed to ``out``, so a folder
    of that name is always a whole model. The test split is not read.

    Raises:
        InputError: ``out`` exists or has no name, another process trains there, the unfinished run has another recipe,
            the backbone or a teacher was trained on test rows, the method has no training steps and an option is about
            them, the tracker or the precision is not available, or the trainer raises it.
    """
    recipe, out, work = run.recipe, run.out, run.work
    trainer = _trainer_of(recipe.model.method)
    _check_options(run)
    state = processes()  # only the main process writes
    request = run_request(recipe, run.data, run.splits)
    conditions = provenance(recipe, run.deterministic)
    check_teachers(recipe, request["data"])
    with run_folder.claimed(out, work, request, run.resume, state) as finished:
        if finished:
            return out
        if state.is_main_process:
            run_folder.open_run(work, request, run.resume, conditions)
        state.wait_for_everyone()
        started = time.perf_counter()
        if not recipe.model.fine_tunes and not state.is_main_process:
            return out
        try:
            trained = trainer(run)
        except BaseException:
            if state.is_main_process and not run_folder.has_progress(work):
                shutil.rmtree(work, ignore_errors=True)
            raise
        if state.is_main_process:
            minutes = (time.perf_counter() - started) / 60 if trained.minutes is None else trained.minutes
            model = trained.folder or run.model
            begun = record.read(work)  # since then, a Hub repo may have changed
            result = {key: begun.get(key) or value for key, value in conditions.items()}
            result |= {"processes": state.num_processes, **origin(recipe, run.languages), **trained.result}
            with run_folder.explain_write_errors(work):
                if reason := run_folder.finalize(model, run.validation, recipe.model.backbone):
                    logging.getLogger(__name__).warning("%s %s", out, reason)
                    result[record.RULE_KEPT] = reason
                record.write(
                    model, request=request, result=result, minutes=minutes,
                    parameters=trained.parameters, hardware=record.hardware(trained.device),
                )  # fmt: skip
                replace_folder(model, out)
            if model != work:
                shutil.rmtree(work)
    return out


def _check_options(run: Run) -> None:
    """Checks, before anything is written, what a run needs of this machine."""
    if run.recipe.model.fine_tunes:
        if run.track:
            tracking.check(run.track)
        accelerator_for(run.recipe)
        return
    check_fp16_device(run.recipe)
    for option in ("save_steps", "track", "deterministic"):
        if getattr(run, option):
            name = option.replace("_", "-")
            raise InputError(f"{run.recipe.name}: its method has no training steps; leave --{name} out")


def train_stages(run: Run) -> Trained:
    """Trains the stages of the hierarchical method, one after the other.

    The folder holds a checkpoint for each stage, ``stages.json`` with their order, and ``run.json`` with their records.
    """
    logs = run.logs or tracking.folder_of(run.out)
    for stage in run.recipe.stages():
        view = stage.data.view
        name = f"{run.out.name}-{view}"
        train(replace(run, recipe=stage, out=run.work / view, resume=True, logs=logs / view, tracked_as=name))
    runs = {stage: record.read(run.work / stage) for stage in STAGES}
    if processes().is_main_process:
        write_json(run.work / HierarchicalClassifier.MARKER, {"stages": list(STAGES)})
    minutes, parameters = (sum(of_stage[key] for of_stage in runs.values()) for key in ("minutes", "parameters"))
    return Trained(parameters, minutes=minutes, result={"stages": runs}, folder=run.work)


def train_kernel(run: Run) -> Trained:
    """Embeds the training rows, and fits kernel ridge regression to them."""
    recipe, rows = run.recipe, run.labelled_rows
    columns = VIEWS[recipe.data.view]
    embed = Embedder(str(recipe.model.backbone), recipe.precision)
    embed(row[column] for column in columns for row in rows)  # all texts in one progress bar
    model = KernelRegression(columns, embed).fit(rows, [row["label"] for row in rows])
    fitted = KernelClassifier(model, embed, recipe.labels, run.out.name)
    fitted.chinese_only = run.languages == [CHINESE]
    with new_folder(run.model) as folder:
        fitted.save(folder)
    return Trained(embed.parameters, embed.device)


TRAINERS: dict[str, Trainer] = {
    "checkpoint": loop.train_checkpoint,
    "hierarchical": train_stages,
    "kernel": train_kernel,
}


def _trainer_of(method: str) -> Trainer:
    if method in TRAINERS:
        return TRAINERS[method]
    # Looked up here, because a module that is imported for its method cannot import this one yet.
    plugins = entry_points(group="contradiction.trainers", name=method)
    if not plugins:
        raise InputError(
            f"method {method!r} has no training function; add it to {__name__}.TRAINERS, or name it as an entry point "
            "of contradiction.trainers"
        )
    trainer: Trainer = next(iter(plugins)).load()
    return trainer
