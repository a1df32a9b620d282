"""Trains the hierarchical method: one resumable run for each stage, combined in one model folder."""

from pathlib import Path

from contradiction.data.splits import load_split, of_bot
from contradiction.io import files
from contradiction.io.files import locked
from contradiction.labels import STAGES
from contradiction.methods.hierarchical import HierarchicalClassifier
from contradiction.training import loop as training
from contradiction.training import record, run_folder, tracking
from contradiction.training.accelerators import check_precision, processes
from contradiction.training.recipe import Recipe
from contradiction.training.run_folder import writing


def train(
    recipe: Recipe,
    *,
    data: str | Path,
    out: str | Path,
    resume: bool = False,
    save_steps: int | None = None,
    track: str | None = None,
    deterministic: bool = False,
) -> Path:
    """Trains the stages one after the other; the arguments are those of :func:`contradiction.training.loop.train`.

    The folder holds a checkpoint for each stage, ``stages.json`` with their order, and ``run.json`` with their records.
    """
    out = Path(out)
    work = run_folder.partial_of(out)
    check_precision(recipe)
    sharing = processes()  # only the main process writes
    request = run_folder.request(recipe, data)
    with locked(out, sharing.is_main_process):
        sharing.wait_for_everyone()
        if run_folder.finished(out, request, resume):
            return out
        if sharing.is_main_process:
            run_folder.claim(work, request, resume, run_folder.conditions(recipe, deterministic))
        sharing.wait_for_everyone()
        for stage in recipe.stages():
            training.train(
                stage, data=data, out=work / stage.data.view, resume=True, save_steps=save_steps, track=track,
                logs=tracking.folder_of(out) / stage.data.view, tracked_as=f"{out.name}-{stage.data.view}",
                deterministic=deterministic,
            )  # fmt: skip
        if sharing.is_main_process:
            with writing(work):
                files.write_json(work / HierarchicalClassifier.MARKER, {"stages": list(STAGES)})
                record.write_stages(work, request=request, stages=tuple(STAGES))
                run_folder.complete(work, of_bot(load_split(data, recipe.data.config, "validation"), recipe.data.bot))
                work.rename(out)
        sharing.wait_for_everyone()
    return out
