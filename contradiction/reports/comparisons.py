"""What detectors have over what they are to beat: n-grams of all utterances, and hierarchical on the same encoder."""

from collections.abc import Mapping, Sequence
from typing import Any

from contradiction.evaluation.baselines import FEATURES
from contradiction.evaluation.paired_tests import Contrast, Line, contrasts, line_of, merged_run_of, run_of
from contradiction.evaluation.results import RESAMPLES, best_first
from contradiction.inputs.views import HIERARCHICAL
from contradiction.io.tables import Table, percent, signed, signed_interval

NGRAMS = FEATURES["flatten"]
AGAINST = ("difference", "95 % interval", "p", "p, Holm")


def leads(kept: Sequence[dict[str, Any]], config: str, bootstrap: int = RESAMPLES) -> list[Table]:
    """The evaluations of a config beside n-grams, and beside the paper's method: a table each, where one is kept.

    Labels are those that a detector gives, with its decision rule, on the test split. Of several runs of hierarchical
    the best on validation is held against the others. Labels merged to two are held against n-grams that were
    fitted to two, or against their labels merged, whichever are the stronger.

    Args:
        kept: evaluations, of detectors and of artefact baselines.
        config: of four classes.
        bootstrap: resamples of the paired tests.
    """
    tests = best_first(each for each in kept if each["split"] == "test")
    lines = [each for each in tests if each["config"] == config and _reads_all(each)]
    ngrams = {each["config"]: each for each in tests if (each["name"], each["kind"]) == (NGRAMS, "baseline")}
    found = []
    if fine := ngrams.get(config):
        coarse = ngrams.get(config.replace("4-class", "2-class"))
        fitted = [run_of(coarse)] if coarse and coarse["ids"] == fine["ids"] else []
        two = max([merged_run_of(fine), *fitted], key=lambda run: run.metrics["macro_f1"])
        found.append(_table((line_of(fine, run_of(fine)), line_of(fine, two)), _without(fine, lines), bootstrap))
    if staged := _hierarchical(lines, kept):
        found.append(_table(_lines(staged), _without(staged, lines), bootstrap))
    return found


def _reads_all(kept: Mapping[str, Any]) -> bool:
    """Whether it is no baseline on a part of the conversation, and none that has learnt from one bot alone."""
    if kept["kind"] == "baseline":
        return kept.get("view") == "flatten"
    return not _recipe(kept).get("bot")


def _without(one: dict[str, Any], lines: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [each for each in lines if each is not one]


def _hierarchical(lines: Sequence[dict[str, Any]], kept: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """The run of hierarchical that is the best on validation; None where none was evaluated there."""
    validation = {(each["name"], each["config"]): each for each in kept if each["split"] == "validation"}
    staged = [each for each in lines if _recipe(each).get("view") == HIERARCHICAL]
    runs = [each for each in staged if (each["name"], each["config"]) in validation]
    return max(runs, key=lambda each: validation[each["name"], each["config"]]["metrics"]["macro_f1"], default=None)


def _recipe(kept: Mapping[str, Any]) -> Mapping[str, Any]:
    request = (kept.get("run") or {}).get("request") or {}
    return request.get("recipe") or {}


def _lines(kept: Mapping[str, Any]) -> tuple[Line, Line]:
    """On four classes, and merged to two."""
    return line_of(kept, run_of(kept, rule=True)), line_of(kept, merged_run_of(kept, rule=True))


def _table(against: tuple[Line, Line], beside: Sequence[Mapping[str, Any]], bootstrap: int) -> Table:
    ids = list(against[0].runs[0].ids)
    others = [_lines(each) for each in beside if each["ids"] == ids]
    tests = [
        contrasts([(lines[place], against[place]) for lines in others], task, bootstrap)
        for place, task in enumerate(("4-class", "2-class"))
    ]
    body = []
    for (fine, coarse), (one, two) in zip([against, *others], [(None, None), *zip(*tests, strict=True)], strict=True):
        merged = percent(coarse.mean("macro_f1"))
        body.append([fine.name, percent(fine.mean("macro_f1")), *_cells(one), merged, *_cells(two)])
    return Table(against[0].name, ("detector", "macro-F1", *AGAINST, "merged to 2-class", *AGAINST), body)


def _cells(contrast: Contrast | None) -> list[str]:
    if not contrast:
        return [""] * len(AGAINST)
    return [
        signed(contrast.difference),
        signed_interval(contrast.interval),
        f"{contrast.p_value:.3f}",
        f"{contrast.adjusted:.3f}",
    ]
