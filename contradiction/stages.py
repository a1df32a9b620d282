"""Trains the hierarchical method: one run a stage, each resumable, put together as one model folder."""

from pathlib import Path

from contradiction import files, record, training
from contradiction.errors import InputError
from contradiction.hierarchy import FILE
from contradiction.labels import STAGES
from contradiction.model_cards import model_card
from contradiction.recipes import Recipe


def train(recipe: Recipe, *, data: str | Path, out: str | Path, resume: bool = False) -> Path:
    """Trains the stages one after the other; see :func:`contradiction.training.train`, whose arguments it takes.

    The folder holds a plain checkpoint a stage, ``stages.json`` with their order, and ``run.json`` with their records.
    """
    out = Path(out)
    work = out.with_name(f"{out.name}.partial")
    asked = training.request(recipe, data)
    if out.exists():
        if resume and record.read(out).get("request") == asked:
            return out
        raise InputError(f"{out}: exists already; remove it, or name another folder")
    training.claim(work, asked, resume)
    for stage in recipe.stages():
        training.train(stage, data=data, out=work / stage.view, resume=True)
    files.write_json(work / FILE, {"stages": list(STAGES)})
    record.write_stages(work, request=asked, stages=tuple(STAGES))
    model_card(work, name=out.name).save(work / "README.md")
    work.rename(out)
    return out
