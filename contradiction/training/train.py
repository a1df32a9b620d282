"""Trains a run: one frame for all methods, which writes the model folder with its decision rule and its record."""

import logging
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from contradiction.data.splits import CHINESE
from contradiction.io.files import replace_folder, write_json
from contradiction.labels import STAGES
from contradiction.methods.composite import HierarchicalClassifier
from contradiction.training import leakage, record
from contradiction.training.accelerators import accelerator_for, check_tracker, processes, tracking_folder
from contradiction.training.decoder_trainer import train_decoder
from contradiction.training.loop import train_checkpoint
from contradiction.training.run import (
    Run,
    Trained,
    claimed,
    explain_write_errors,
    finalize,
    has_progress,
    languages_read,
    open_run,
    provenance,
    run_request,
)


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
    with claimed(run, request, state) as finished:
        if finished:
            return out
        if state.is_main_process:
            open_run(work, request, run.resume, conditions)
        state.wait_for_everyone()
        try:
            trained = TRAINERS[recipe.model.method](run)
        except BaseException:
            if state.is_main_process and not has_progress(work):
                shutil.rmtree(work, ignore_errors=True)
            raise
        if state.is_main_process:
            begun = record.read(work)  # since then, a Hub repo may have changed
            result = {key: begun.get(key) or value for key, value in conditions.items()}
            languages = languages_read(recipe, run.data)
            result |= {} if languages == [CHINESE] else {"languages": languages}
            result |= {
                "processes": state.num_processes,
                "base_model": record.base_model_of_recipe(recipe),
                "ancestors": leakage.ancestors(leakage.sources(recipe)),
                **trained.result,
            }
            with explain_write_errors(work):
                if reason := finalize(run.model, run.validation, recipe.model.backbone):
                    logging.getLogger(__name__).warning("%s %s", out, reason)
                    result[record.RULE_KEPT] = reason
                record.write(
                    run.model, request=request, result=result, minutes=trained.minutes,
                    parameters=trained.parameters, hardware=record.hardware(trained.device),
                )  # fmt: skip
                replace_folder(run.model, out)
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
        train_run(replace(run, recipe=stage, out=run.model / view, resume=True, logs=logs / view, tracked_as=name))
    runs = {stage: record.read(run.model / stage) for stage in STAGES}
    if processes().is_main_process:
        write_json(run.model / HierarchicalClassifier.MARKER, {"stages": list(STAGES)})
    return Trained(**record.sums(runs.values()), device=str(processes().device), result={"stages": runs})


TRAINERS: dict[str, Callable[[Run], Trained]] = {
    "checkpoint": train_checkpoint,
    "hierarchical": _train_stages,
    "decoder": train_decoder,
}
