"""Paired comparisons of the saved detectors with n-grams, and with the paper's hierarchical method on our encoder."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from contradiction.evaluation import results
from contradiction.evaluation.figures import RESAMPLES
from contradiction.evaluation.judging import FEATURES
from contradiction.inputs.views import HIERARCHICAL
from contradiction.training import record
from paper.paired_tests import MethodRuns, Run, merged_run_of, paired_tests, run_of
from paper.saved_results import best_first

NGRAMS = FEATURES["flatten"]


def comparisons(
    evaluations: Sequence[dict[str, Any]], config: str, bootstrap: int = RESAMPLES, removed: int = 0
) -> Iterator[dict[str, Any]]:
    """The evaluations of a config of four classes on its test split, compared with n-grams and with hierarchical.

    Labels are those of the decision rule. The opponent among several hierarchical runs is the best on validation.
    Merged labels are compared with n-grams that were fitted to two classes, as on the page of results.

    Yields:
        A row for each opponent, task and detector: config, against, task, detector, difference (of macro-F1), low, high
        (95 % interval of the paired bootstrap), p, p_holm (corrected for the detectors of an opponent and task, and for
        ``removed`` more that were compared before).
    """
    tests = best_first(result for result in evaluations if result["split"] == "test")
    compared = [result for result in tests if result["config"] == config and _reads_all(result)]
    ngrams = {result["config"]: result for result in tests if (result["name"], result["kind"]) == (NGRAMS, "baseline")}
    opponents: list[tuple[dict[str, Any], Run, Run]] = []  # with its labels on four and on two classes
    if opponent := ngrams.get(config):
        fitted = ngrams.get(config.replace("4-class", "2-class"))
        two_classes = run_of(fitted) if fitted and fitted["ids"] == opponent["ids"] else merged_run_of(opponent)
        opponents.append((opponent, run_of(opponent), two_classes))
    if opponent := _best_hierarchical(compared, evaluations):
        opponents.append((opponent, run_of(opponent, rule=True), merged_run_of(opponent, rule=True)))
    for opponent, four_classes, two_classes in opponents:
        others = [result for result in compared if result is not opponent and result["ids"] == opponent["ids"]]
        for task, read, against in (("4-class", run_of, four_classes), ("2-class", merged_run_of, two_classes)):
            pairs = [
                (_method(result["name"], read(result, rule=True)), _method(opponent["name"], against))
                for result in others
            ]
            for test in paired_tests(pairs, task, bootstrap, removed):
                low, high = test.interval
                yield {
                    "config": config,
                    "against": test.against,
                    "task": task,
                    "detector": test.name,
                    "difference": round(test.difference, 5),
                    "low": round(low, 5),
                    "high": round(high, 5),
                    "p": round(test.p_value, 5),
                    "p_holm": round(test.adjusted, 5),
                }


def _method(name: str, run: Run) -> MethodRuns:
    """A run that is compared whatever its seed."""
    return MethodRuns(name, "", "", "trained", (replace(run, seed=None),), 1)


def _reads_all(result: Mapping[str, Any]) -> bool:
    """Whether a baseline reads all of the conversation, or a detector was not trained on one bot alone."""
    if result["kind"] == results.BASELINE:
        return result.get("view") == "flatten"
    request = (result.get("run") or {}).get("request")
    return not (request and record.recipe(request).data.bot)


def _best_hierarchical(
    compared: Sequence[dict[str, Any]], evaluations: Sequence[dict[str, Any]]
) -> dict[str, Any] | None:
    """The best hierarchical run on validation; None without any."""
    validation = {
        (result["name"], result["config"]): result["metrics"]["macro_f1"]
        for result in evaluations
        if result["split"] == "validation"
    }
    runs = [
        result
        for result in compared
        if (result["name"], result["config"]) in validation
        and (request := (result.get("run") or {}).get("request"))
        and record.recipe(request).data.view == HIERARCHICAL
    ]
    return max(runs, key=lambda result: validation[result["name"], result["config"]], default=None)
