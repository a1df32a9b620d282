"""The metric, compared with scikit-learn and with a bootstrap that really resamples rows."""

import numpy as np
import pytest
from helpers.evaluations import noisy, sample
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom
from sklearn.metrics import accuracy_score, confusion_matrix, precision_recall_fscore_support

from evaluate_metric.evaluate_metric import LABELS, MERGE, compare, score

TASKS = sorted(LABELS)
FIGURES = ("accuracy", "macro_f1")
quick = settings(deadline=None, max_examples=60, database=None)


@st.composite
def scored_rows(draw: st.DrawFn) -> tuple[str, list[int], list[int]]:
    """A task with references and predictions. They are few, so that absent classes are common."""
    task = draw(st.sampled_from(TASKS))
    label = st.integers(0, len(LABELS[task]) - 1)
    rows = draw(st.lists(st.tuples(label, label), min_size=1, max_size=30))
    references, predictions = zip(*rows, strict=True)
    return task, list(references), list(predictions)


def merged(labels: list[int] | np.ndarray) -> list[int]:
    return [int(label != 0) for label in labels]


def assert_equals_scikit_learn(result: dict, references: list[int], predictions: list[int], task: str) -> None:
    ids = range(len(LABELS[task]))
    by_class = precision_recall_fscore_support(references, predictions, labels=ids, zero_division=0)
    assert result["accuracy"] == pytest.approx(accuracy_score(references, predictions))
    assert result["macro_f1"] == pytest.approx(by_class[2][sorted(set(references))].mean())
    assert result["confusion_matrix"] == confusion_matrix(references, predictions, labels=ids).tolist()
    assert (result["labels"], result["n"]) == (list(LABELS[task]), len(references))
    for index, label in enumerate(LABELS[task]):
        figures = result["per_class"][label]
        assert list(figures.values()) == pytest.approx([values[index] for values in by_class])
        assert list(figures) == ["precision", "recall", "f1", "support"]


@quick
@given(scored_rows())
def test_figures_equal_scikit_learns_for_every_task(rows: tuple[str, list[int], list[int]]) -> None:
    task, references, predictions = rows
    assert_equals_scikit_learn(score(references, predictions, task), references, predictions, task)


@quick
@given(scored_rows())
def test_two_class_scores_use_the_merged_labels(rows: tuple[str, list[int], list[int]]) -> None:
    task, references, predictions = rows
    result = score(references, predictions, task)
    assert ("two_class" in result) == (task in MERGE)
    if task == "4-class":
        assert result["two_class"] == score(merged(references), merged(predictions), "2-class")
        assert_equals_scikit_learn(result["two_class"], merged(references), merged(predictions), "2-class")


@quick
@given(scored_rows())
def test_names_and_ids_score_the_same(rows: tuple[str, list[int], list[int]]) -> None:
    task, references, predictions = rows
    names = [LABELS[task][label] for label in predictions]
    expected = score(references, predictions, task)
    assert score(references, names, task) == expected
    assert score(np.array(references), np.array(names), f"{task}-grouped") == expected
    assert score(tuple(references), iter(predictions), task) == expected


def macro_f1_of_resampled_rows(
    references: np.ndarray, predictions: np.ndarray, resamples: int, stratified: bool
) -> np.ndarray:
    """The slow way: it draws rows and scores them."""
    rng = np.random.default_rng(11)
    blocks = [np.flatnonzero(references == label) for label in range(4)] if stratified else [np.arange(len(references))]
    scores = []
    for _ in range(resamples):
        rows = np.concatenate([rng.choice(block, size=len(block)) for block in blocks])
        hits = np.bincount(references[rows][references[rows] == predictions[rows]], minlength=4)
        sizes = np.bincount(references[rows], minlength=4) + np.bincount(predictions[rows], minlength=4)
        scores.append(np.mean(2 * hits / np.maximum(sizes, 1)))
    return np.array(scores)


@pytest.mark.parametrize("stratified", [False, True])
def test_interval_equals_that_of_a_bootstrap_over_rows(stratified: bool) -> None:
    references = sample(400)
    predictions = noisy(references, 0.6, 1)
    slow = np.quantile(macro_f1_of_resampled_rows(references, predictions, 4000, stratified), [0.025, 0.975])
    fast = score(references, predictions, bootstrap=40_000, stratified=stratified)["interval"]["macro_f1"]
    assert fast == pytest.approx(slow, abs=0.004)  # the interval is about 0.12 wide


def test_accuracy_interval_is_the_binomial_one() -> None:
    references = np.repeat([0, 1], 500)
    predictions = np.where(np.arange(1000) % 10 < 7, references, 1 - references)  # 70 % right
    low, high = score(references, predictions, "2-class", bootstrap=50_000)["interval"]["accuracy"]
    assert [low, high] == pytest.approx(binom.ppf([0.025, 0.975], 1000, 0.7) / 1000, abs=0.0011)


def test_stratified_resamples_keep_the_references_of_each_class() -> None:
    # Only one of two classes is ever predicted. Accuracy is then the share of that class, which stratified draws fix.
    references, predictions = [0] * 30 + [1] * 70, [1] * 100
    fixed = score(references, predictions, "2-class", bootstrap=500, stratified=True)["interval"]
    free = score(references, predictions, "2-class", bootstrap=500)["interval"]
    assert fixed["accuracy"] == [0.7, 0.7] and fixed["stratified"] is True
    assert free["accuracy"][0] < 0.65 < 0.75 < free["accuracy"][1] and free["stratified"] is False


def test_seed_and_level_decide_the_interval() -> None:
    references = sample(300)
    predictions = noisy(references, 0.6, 1)

    def interval(**options: float) -> dict:
        return score(references, predictions, bootstrap=500, **options)["interval"]

    assert interval(seed=3) == interval(seed=3)
    assert interval(seed=3)["macro_f1"] != interval(seed=4)["macro_f1"]
    narrow, wide = interval(confidence_level=0.5), interval(confidence_level=0.99)
    assert wide["macro_f1"][0] < narrow["macro_f1"][0] < narrow["macro_f1"][1] < wide["macro_f1"][1]
    drawn = {"confidence_level": 0.99, "resamples": 500, "seed": 0, "stratified": False}
    assert {key: wide[key] for key in wide if key not in FIGURES} == drawn


def test_comparison_resamples_rows_in_pairs() -> None:
    references = sample(300)
    predictions, baseline = noisy(references, 0.65, 1), noisy(references, 0.55, 2)
    # the same resampled rows for both: one seed, two scores
    ours_drawn, baseline_drawn = (
        macro_f1_of_resampled_rows(references, p, 4000, False) for p in (predictions, baseline)
    )
    slow = ours_drawn - baseline_drawn
    result = compare(references, predictions, baseline, bootstrap=40_000)
    assert result["interval"]["macro_f1_difference"] == pytest.approx(np.quantile(slow, [0.025, 0.975]), abs=0.006)
    assert result["p_value"] == pytest.approx(2 * min((slow <= 0).mean(), (slow >= 0).mean()), abs=0.02)


@quick
@given(scored_rows(), st.integers(0, 2**32))
def test_differences_equal_those_of_two_scores(rows: tuple[str, list[int], list[int]], seed: int) -> None:
    task, references, predictions = rows
    baseline = np.random.default_rng(seed).integers(len(LABELS[task]), size=len(references))
    result = compare(references, predictions, baseline, task, bootstrap=3)
    scores, other = score(references, predictions, task), score(references, baseline, task)
    parts = [(result, scores, other)]
    if task == "4-class":
        parts.append((result["two_class"], scores["two_class"], other["two_class"]))
    for contrast, left, right in parts:
        for figure in FIGURES:
            assert contrast[f"{figure}_difference"] == pytest.approx(left[figure] - right[figure])
    rights = np.array(references) == np.array(predictions), np.array(references) == baseline
    assert result["mcnemar"]["only_predictions_right"] == (rights[0] & ~rights[1]).sum()
    assert result["mcnemar"]["only_baseline_right"] == (~rights[0] & rights[1]).sum()


def test_equal_predictions_have_p_value_one() -> None:
    references = sample(500)
    predictions = noisy(references, 0.5, 1)
    result = compare(references, predictions, predictions, bootstrap=200)
    for part in (result, result["two_class"]):
        assert (part["p_value"], part["macro_f1_difference"], part["mcnemar"]["p_value"]) == (1.0, 0.0, 1.0)
        assert part["interval"]["accuracy_difference"] == [0.0, 0.0]


def test_mcnemar_equals_the_binomial_computed_by_hand() -> None:
    # only ours is right on 7 rows, only the baseline on 1: 2 (C(8,0) + C(8,1)) / 2^8
    references = [1] * 10
    result = compare(references, [1] * 7 + [0] + [1, 0], [0] * 7 + [1] + [1, 0], "2-class", bootstrap=10)
    assert result["mcnemar"] == {
        "only_predictions_right": 7,
        "only_baseline_right": 1,
        "p_value": pytest.approx(2 * (1 + 8) / 2**8),
    }
