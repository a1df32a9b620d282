"""The one way to train: a recipe and data in, a model folder with its decision rule, record and card out."""

import logging
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from contradiction.data import labelled
from contradiction.data.splits import Data
from contradiction.io.files import replace_folder, write_json
from contradiction.labels import STAGES
from contradiction.methods.hierarchical import HierarchicalClassifier
from contradiction.reports.model_card import write_cards
from contradiction.training import record, run_folder
from contradiction.training.accelerators import (
    accelerator_for,
    check_tracker,
    fast_precision,
    processes,
    tracking_folder,
)
from contradiction.training.decoder_trainer import train_decoder
from contradiction.training.distillation import check_teachers
from contradiction.training.loop import train_checkpoint
from contradiction.training.recipe import Recipe, in_tables, load_recipe, require_folders
from contradiction.training.run import Run, Trained, origin, provenance, run_request


def train(
    recipe: str | Path | Mapping[str, Any] | Recipe,
    data: Data = "cdconv",
    out: str | Path | None = None,
    *,
    resume: bool = False,
    save_steps: int | None = None,
    track: str | None = None,
    deterministic: bool = False,
    **changes: Any,
) -> Path:
    """Trains a detector, and writes it with its card.

    Args:
        recipe: a recipe, or what :func:`contradiction.training.recipe.load_recipe` reads: the name of a recipe, a TOML
            file, or a dictionary of options. The name of a dictionary is by default that of ``out``. A ``Recipe`` is
            trained as it is; for the others, bf16 becomes fp32 on a CPU without instructions for it.
        data: the data repo, a folder or Hub id; a file of labelled chats; or rows in memory by split, such as a
            ``DatasetDict`` with ``train`` and ``validation``. Rows in memory count as Chinese.
        out: the model folder to write, by default ``runs/RECIPE-seedN``.
        resume: continue an unfinished run of the same recipe and data; a finished run stays as it is.
        save_steps: save the training state every so many steps; by default only after each epoch.
        track: an experiment tracker of accelerate, for instance ``tensorboard``.
        deterministic: see ``contradiction.training.accelerators``.
        changes: other values for options of the recipe, by their bare names, for instance ``backbone`` and ``epochs``;
            None does not change a value.

    Returns:
        ``out``.

    Raises:
        InputError: an option is unknown or has a wrong value, or see :func:`train_run`.
    """
    chosen = _chosen(recipe, out, changes)
    out = Path("runs") / f"{chosen.name}-seed{chosen.seed}" if out is None else Path(out)
    if isinstance(data, str | Path) and Path(data).is_file():
        data = labelled.build(data).folder
    train_run(Run(chosen, data, out, resume, save_steps, track, deterministic))
    if processes().is_main_process:
        write_cards(out)
    return out


def _chosen(
    recipe: str | Path | Mapping[str, Any] | Recipe, out: str | Path | None, changes: Mapping[str, Any]
) -> Recipe:
    if isinstance(recipe, Recipe):
        return recipe.with_changes(**changes)
    if isinstance(recipe, Mapping):
        given = {name: value for name, value in changes.items() if value is not None}
        chosen = load_recipe(in_tables({"name": Path(out).name} if out else {}, recipe, given))
    else:
        chosen = load_recipe(recipe).with_changes(**changes)
    require_folders(chosen, chosen.name if isinstance(recipe, Mapping) else str(recipe))
    if changes.get("precision") is not None or (fast := fast_precision(chosen)) == chosen:
        return chosen
    if processes().is_main_process:
        logging.getLogger(__name__).warning(
            "this CPU has no instructions for bf16, so this run uses fp32; with the option precision it keeps bf16"
        )
    return fast


def train_run(run: Run) -> Path:
    """Trains a run, and writes the model folder with its decision rule, its record and its manifest.

    While the run goes on, everything lies in ``<out>.partial``. Only a finished run is renamed to ``out``, so a folder
    of that name is always a whole model. The test split is not read.

    Raises:
        InputError: ``out`` exists or has no name, another process trains there, the unfinished run has another recipe,
            the backbone or a teacher was trained on test rows, the tracker or the precision is not available, or the
            trainer of the method raises it.
    """
    recipe, out, work = run.recipe, run.out, run.work
    if run.track:
        check_tracker(run.track)
    accelerator_for(recipe)  # checks the precision before anything is written
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
        try:
            trained = TRAINERS[recipe.model.method](run)
        except BaseException:
            if state.is_main_process and not run_folder.has_progress(work):
                shutil.rmtree(work, ignore_errors=True)
            raise
        if state.is_main_process:
            model = trained.folder or run.model
            begun = record.read(work)  # since then, a Hub repo may have changed
            result = {key: begun.get(key) or value for key, value in conditions.items()}
            result |= {"processes": state.num_processes, **origin(recipe, run.languages), **trained.result}
            with run_folder.explain_write_errors(work):
                if reason := run_folder.finalize(model, run.validation, recipe.model.backbone):
                    logging.getLogger(__name__).warning("%s %s", out, reason)
                    result[record.RULE_KEPT] = reason
                record.write(
                    model, request=request, result=result, minutes=trained.minutes,
                    parameters=trained.parameters, hardware=record.hardware(trained.device),
                )  # fmt: skip
                replace_folder(model, out)
            if model != work:
                shutil.rmtree(work)
    return out


def _train_stages(run: Run) -> Trained:
    """Trains the stages of the hierarchical method, one after the other.

    The folder holds a checkpoint for each stage, ``stages.json`` with their order, and ``run.json`` with their records.
    """
    logs = run.logs or tracking_folder(run.out)
    for stage in run.recipe.stages():
        view = stage.data.view
        name = f"{run.out.name}-{view}"
        train_run(replace(run, recipe=stage, out=run.work / view, resume=True, logs=logs / view, tracked_as=name))
    runs = {stage: record.read(run.work / stage) for stage in STAGES}
    if processes().is_main_process:
        write_json(run.work / HierarchicalClassifier.MARKER, {"stages": list(STAGES)})
    minutes, parameters = (sum(of_stage[key] for of_stage in runs.values()) for key in ("minutes", "parameters"))
    return Trained(parameters, minutes, result={"stages": runs}, folder=run.work)


TRAINERS: dict[str, Callable[[Run], Trained]] = {
    "checkpoint": train_checkpoint,
    "hierarchical": _train_stages,
    "decoder": train_decoder,
}
