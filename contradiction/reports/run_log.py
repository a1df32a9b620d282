"""How training went: validation macro-F1 after each epoch of the kept runs."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from contradiction.io.tables import Table, percent
from contradiction.labels import task_of
from contradiction.training import record

COLLAPSED = "†"


def table(kept: Sequence[Mapping[str, Any]]) -> Table:
    """A row a run, or a stage of a hierarchical one: its epochs in order, the kept one in bold; of a mean each run."""
    body = {}
    for each in kept:
        if each.get("run") and not each.get(
            "request"
        ):  # else the record is of what a zero-shot evaluation started from
            for part, labels, run in _runs(each["run"]):
                body[each["name"], part] = (f"{each['name']}{part}", labels, _epochs(run))
    return Table("Run log", ("detector", "labels", "validation macro-F1 after each epoch"), list(body.values()), 3)


def _runs(run: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """The runs with epochs that a record is of: which part each is, what it tells apart, and its own record."""
    labels = task_of(run["request"]["recipe"]["config"])
    if "stages" in run:
        yield from ((f", {stage}", f"{stage} or not", each) for stage, each in run["stages"].items())
    elif several := record.members(run):
        for number, each in enumerate(several, start=1):
            yield from ((f", run {number}{part}", names, own) for part, names, own in _runs(each))
    elif "epochs" in run:
        yield "", labels, run


def _epochs(run: Mapping[str, Any]) -> str:
    cells = []
    for number, epoch in enumerate(run["epochs"], start=1):
        scores = epoch["validation"]
        cell = percent(scores["macro_f1"]) + (COLLAPSED if scores["collapsed"] else "")
        cells.append(f"**{cell}**" if number == run["best_epoch"] else cell)
    return " · ".join(cells)
