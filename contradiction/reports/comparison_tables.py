"""Paired comparisons of every detector with the two methods to beat: n-grams, and the paper's hierarchical method."""

from collections.abc import Mapping, Sequence
from typing import Any

from contradiction.evaluation import results
from contradiction.evaluation.baselines import FEATURES
from contradiction.evaluation.figures import RESAMPLES
from contradiction.evaluation.paired_tests import (
    MethodRuns,
    PairedTest,
    merged_run_of,
    paired_tests,
    run_of,
    single_run,
)
from contradiction.inputs.views import HIERARCHICAL
from contradiction.io.tables import Table, percent, signed, signed_interval
from contradiction.labels import merged_config
from contradiction.training import record
from contradiction.training.recipe_files import RecordedRecipe

NGRAMS = FEATURES["flatten"]
COMPARISON = ("difference", "95 % interval", "p", "p, Holm")


def comparison_tables(evaluations: Sequence[dict[str, Any]], config: str, bootstrap: int = RESAMPLES) -> list[Table]:
    """The evaluations of a config compared with n-grams, and with the paper's method: one table each.

    Labels are those that a detector gives, with its decision rule, on the test split. Of several hierarchical runs the
    best on validation is compared with the others. Labels that are merged to two classes are compared with the n-grams
    fitted to two classes, or with those fitted to four and merged, whichever score higher.

    Args:
        evaluations: of detectors and of baselines.
        config: of four classes.
        bootstrap: resamples of the paired tests.

    Returns:
        The tables; none where neither method is kept.
    """
    tests = results.best_first(result for result in evaluations if result["split"] == "test")
    compared = [result for result in tests if result["config"] == config and _reads_all(result)]
    ngrams = {result["config"]: result for result in tests if (result["name"], result["kind"]) == (NGRAMS, "baseline")}
    tables = []
    if opponent := ngrams.get(config):
        two = merged_run_of(opponent)
        fitted = ngrams.get(merged_config(config))
        if fitted and fitted["ids"] == opponent["ids"]:
            two = max(two, run_of(fitted), key=lambda run: run.metrics["macro_f1"])
        methods = single_run(opponent, run_of(opponent)), single_run(opponent, two)
        tables.append(_table(methods, _without(opponent, compared), bootstrap))
    if opponent := _best_hierarchical(compared, evaluations):
        tables.append(_table(_methods(opponent), _without(opponent, compared), bootstrap))
    return tables


def _reads_all(result: Mapping[str, Any]) -> bool:
    """Whether the evaluation is no baseline on a part of the conversation, and of no detector trained on one bot."""
    if result["kind"] == results.BASELINE:
        return result.get("view") == "flatten"
    return not ((recipe := _recipe(result)) and recipe.data.bot)


def _without(opponent: dict[str, Any], evaluations: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [result for result in evaluations if result is not opponent]


def _best_hierarchical(
    compared: Sequence[dict[str, Any]], evaluations: Sequence[dict[str, Any]]
) -> dict[str, Any] | None:
    """The hierarchical run that is the best on validation; None where none was evaluated there."""
    validation = {
        (result["name"], result["config"]): result["metrics"]["macro_f1"]
        for result in evaluations
        if result["split"] == "validation"
    }
    runs = [
        result
        for result in compared
        if (result["name"], result["config"]) in validation
        and (recipe := _recipe(result))
        and recipe.data.view == HIERARCHICAL
    ]
    return max(runs, key=lambda result: validation[result["name"], result["config"]], default=None)


def _recipe(result: Mapping[str, Any]) -> RecordedRecipe | None:
    request = (result.get("run") or {}).get("request")
    return record.recipe(request) if request else None


def _methods(result: Mapping[str, Any]) -> tuple[MethodRuns, MethodRuns]:
    """An evaluation on four classes, and merged to two."""
    return single_run(result, run_of(result, rule=True)), single_run(result, merged_run_of(result, rule=True))


def _table(opponent: tuple[MethodRuns, MethodRuns], evaluations: Sequence[Mapping[str, Any]], bootstrap: int) -> Table:
    ids = list(opponent[0].runs[0].ids)
    methods = [_methods(result) for result in evaluations if result["ids"] == ids]
    four, two = (
        paired_tests([(method[place], opponent[place]) for method in methods], task, bootstrap)
        for place, task in enumerate(("4-class", "2-class"))
    )
    body = [
        [
            *(fine.name, percent(fine.mean("macro_f1")), *comparison_cells(four_test)),
            *(percent(coarse.mean("macro_f1")), *comparison_cells(two_test)),
        ]
        for (fine, coarse), four_test, two_test in zip([opponent, *methods], [None, *four], [None, *two], strict=True)
    ]
    return Table(opponent[0].name, ("detector", "macro-F1", *COMPARISON, "merged to 2-class", *COMPARISON), body)


def comparison_cells(test: PairedTest | None) -> list[str]:
    """What ``COMPARISON`` names; empty cells for None."""
    if not test:
        return [""] * len(COMPARISON)
    return [signed(test.difference), signed_interval(test.interval), f"{test.p_value:.3f}", f"{test.adjusted:.3f}"]
