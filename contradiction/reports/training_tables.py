"""Tables on training: what each run cost, and its validation macro-F1 after each epoch."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from contradiction.io.tables import Table, percent
from contradiction.labels import task_of
from contradiction.training import record
from contradiction.training.recipe import Recipe

COLLAPSED = "†"


def backbone_name(backbone: str | None) -> str | None:
    """The short name of a recorded backbone; None where the run started from random weights."""
    return Path(backbone).name.partition("@")[0] if backbone else None


def run_table(evaluations: Sequence[Mapping[str, Any]]) -> Table:
    """How each detector was trained, and what it costs, from the record of its run.

    The columns are what it reads, its backbone, forward passes for a reply, parameters, seed, best epoch, minutes and
    hardware.
    """
    body = {}
    for result in evaluations:
        if run := _own_run(result):
            body[result["name"]] = (
                result["name"],
                _of_all(run, lambda recipe: recipe.data.view),
                _of_all(run, lambda recipe: backbone_name(recipe.model.backbone) or "none, from scratch"),
                str(len(run.get("stages") or run.get("ensemble") or [run])),
                f"{run['parameters'] / 1e6:.1f} M",
                _of_all(run, lambda recipe: str(recipe.seed)),
                _best_epoch(run),
                f"{run['minutes']:.0f}",
                run["hardware"],
            )
    header = ("detector", "reads", "backbone", "passes", "parameters", "seed", "best epoch", "minutes", "hardware")
    return Table("Runs", header, list(body.values()), texts=3)


def _own_run(result: Mapping[str, Any]) -> Mapping[str, Any]:
    """The record of an evaluation; empty for a zero-shot one, whose record is that of the NLI stage that it asked."""
    return {} if result.get("request") else result.get("run") or {}


def _of_all(run: Mapping[str, Any], say: Callable[[Recipe], str]) -> str:
    """A part of the recipe of a run, or of the recipes of its members, each value once."""
    runs = record.members(run) or [dict(run)]
    return " / ".join(dict.fromkeys(say(record.recipe(member["request"])) for member in runs))


def _best_epoch(run: Mapping[str, Any]) -> str:
    if "epochs" in run:
        return f"{run['best_epoch']} of {record.recipe(run['request']).optimizer.epochs}"
    return "see the log" if run.get("stages") or record.members(run) else "none"


def training_log(evaluations: Sequence[Mapping[str, Any]]) -> Table:
    """Validation macro-F1 after each epoch, the kept epoch in bold: a row for each run, stage, or member of a mean."""
    body = {}
    for result in evaluations:
        for part, labels, run in _runs(_own_run(result)):
            body[result["name"], part] = (f"{result['name']}{part}", labels, _epochs(run))
    return Table("Training log", ("detector", "labels", "validation macro-F1 after each epoch"), list(body.values()), 3)


def _runs(run: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Every run with epochs in a record: which part it is, its labels, and its own record."""
    if "stages" in run:
        yield from ((f", {stage}", f"{stage} or not", own) for stage, own in run["stages"].items())
    elif members := record.members(run):
        for number, member in enumerate(members, start=1):
            yield from ((f", run {number}{part}", labels, own) for part, labels, own in _runs(member))
    elif "epochs" in run:
        yield "", task_of(record.recipe(run["request"]).data.config), run


def _epochs(run: Mapping[str, Any]) -> str:
    cells = []
    for number, epoch in enumerate(run["epochs"], start=1):
        scores = epoch["validation"]
        cell = percent(scores["macro_f1"]) + (COLLAPSED if scores["collapsed"] else "")
        cells.append(f"**{cell}**" if number == run["best_epoch"] else cell)
    return " · ".join(cells)
