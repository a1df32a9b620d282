"""The metric: held against scikit-learn, against a bootstrap that really resamples rows, and through `evaluate`."""

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom
from sklearn.metrics import accuracy_score, confusion_matrix, precision_recall_fscore_support

from evaluate_metric.evaluate_metric import LABELS, MERGE, CDConvMetric, compare, score

ROOT = Path(__file__).parents[1]
TASKS = sorted(LABELS)
FIGURES = ("accuracy", "macro_f1")
quick = settings(deadline=None, max_examples=60, database=None)


@st.composite
def scored_rows(draw: st.DrawFn) -> tuple[str, list[int], list[int]]:
    """A task with references and predictions; small, so that absent classes are common."""
    task = draw(st.sampled_from(TASKS))
    label = st.integers(0, len(LABELS[task]) - 1)
    rows = draw(st.lists(st.tuples(label, label), min_size=1, max_size=30))
    references, predictions = zip(*rows, strict=True)
    return task, list(references), list(predictions)


def noisy(references: np.ndarray, share_right: float, seed: int) -> np.ndarray:
    """Predictions that are right on about this share of rows and otherwise drawn from the references' own classes."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random(len(references)) < share_right, references, rng.permutation(references))


def sample(rows: int, seed: int = 0) -> np.ndarray:
    """4-class references in about the proportions of the data set."""
    return np.random.default_rng(seed).choice(4, size=rows, p=[0.627, 0.045, 0.066, 0.262])


def merged(labels: list[int] | np.ndarray) -> list[int]:
    return [int(label != 0) for label in labels]


def assert_is_what_scikit_learn_says(result: dict, references: list[int], predictions: list[int], task: str) -> None:
    ids = range(len(LABELS[task]))
    each = precision_recall_fscore_support(references, predictions, labels=ids, zero_division=0)
    assert result["accuracy"] == pytest.approx(accuracy_score(references, predictions))
    assert result["macro_f1"] == pytest.approx(each[2].mean())
    assert result["confusion_matrix"] == confusion_matrix(references, predictions, labels=ids).tolist()
    assert (result["labels"], result["n"]) == (list(LABELS[task]), len(references))
    for index, label in enumerate(LABELS[task]):
        figures = result["per_class"][label]
        assert list(figures.values()) == pytest.approx([values[index] for values in each])
        assert list(figures) == ["precision", "recall", "f1", "support"]


# ---- the figures


@quick
@given(scored_rows())
def test_figures_are_those_of_scikit_learn_for_every_task(rows: tuple[str, list[int], list[int]]) -> None:
    task, references, predictions = rows
    assert_is_what_scikit_learn_says(score(references, predictions, task), references, predictions, task)


@quick
@given(scored_rows())
def test_two_class_is_the_score_of_merged_labels(rows: tuple[str, list[int], list[int]]) -> None:
    task, references, predictions = rows
    result = score(references, predictions, task)
    assert ("two_class" in result) == (task == "4-class")
    if task == "4-class":
        assert result["two_class"] == score(merged(references), merged(predictions), "2-class")
        assert_is_what_scikit_learn_says(result["two_class"], merged(references), merged(predictions), "2-class")


@quick
@given(scored_rows())
def test_names_and_ids_score_the_same(rows: tuple[str, list[int], list[int]]) -> None:
    task, references, predictions = rows
    names = [LABELS[task][label] for label in predictions]
    expected = score(references, predictions, task)
    assert score(references, names, task) == expected
    assert score(np.array(references), np.array(names), f"{task}-grouped") == expected
    assert score(tuple(references), iter(predictions), task) == expected


def test_merge_rule_keeps_non_contradiction_apart() -> None:
    rule = dict(zip(LABELS["4-class"], MERGE.tolist(), strict=True))
    assert rule.pop("non-contradiction") == [1, 0]
    assert all(row == [0, 1] for row in rule.values()) and len(rule) == 3


def test_absent_class_counts_as_zero_in_the_macro_mean() -> None:
    result = score(["non-contradiction", "history"], ["non-contradiction", "history"])
    assert result["per_class"]["intra-sentence"] == {"precision": 0.0, "recall": 0.0, "f1": 0.0, "support": 0}
    assert (result["accuracy"], result["macro_f1"], result["two_class"]["macro_f1"]) == (1.0, 0.5, 1.0)


def test_wrong_kind_of_contradiction_is_right_in_two_classes() -> None:
    result = score([1, 2, 3, 0], [2, 3, 1, 0])
    assert (result["accuracy"], result["two_class"]["accuracy"]) == (0.25, 1.0)


def test_results_are_plain_json() -> None:
    references = sample(50)
    result = score(references, noisy(references, 0.7, 1), bootstrap=np.int64(20), confidence_level=np.float64(0.9))
    result["comparison"] = compare(references, references, noisy(references, 0.7, 2), bootstrap=20)
    assert json.loads(json.dumps(result)) == result


# ---- the bootstrap


def macro_f1_of_resampled_rows(
    references: np.ndarray, predictions: np.ndarray, resamples: int, stratified: bool
) -> np.ndarray:
    """The slow way: draw rows, score them."""
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
def test_interval_is_that_of_a_bootstrap_that_resamples_rows(stratified: bool) -> None:
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


def test_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    population = sample(200_000, seed=5)
    predicted = noisy(population, 0.6, 6)
    truth = score(population, predicted)["macro_f1"]
    rng = np.random.default_rng(7)
    covered = 0
    for _ in range(200):
        rows = rng.integers(len(population), size=800)
        low, high = score(population[rows], predicted[rows], bootstrap=400, confidence_level=0.9)["interval"][
            "macro_f1"
        ]
        covered += low <= truth <= high
    assert 0.84 <= covered / 200 <= 0.96


def test_interval_at_the_size_of_the_test_split_is_about_three_points_to_either_side() -> None:
    references = sample(2332)
    result = score(references, noisy(references, 0.5, 3), bootstrap=2000)
    for part, half_width in ((result, 3.1), (result["two_class"], 1.9)):
        low, high = part["interval"]["macro_f1"]
        assert low < part["macro_f1"] < high
        assert 50 * (high - low) == pytest.approx(half_width, abs=0.6)


def test_stratified_resamples_keep_the_references_of_each_class() -> None:
    # Of two classes only one is ever predicted: accuracy is then the share of that class, which stratified draws fix.
    references, predictions = [0] * 30 + [1] * 70, [1] * 100
    fixed = score(references, predictions, "2-class", bootstrap=500, stratified=True)["interval"]
    free = score(references, predictions, "2-class", bootstrap=500)["interval"]
    assert fixed["accuracy"] == [0.7, 0.7] and fixed["stratified"] is True
    assert free["accuracy"][0] < 0.65 < 0.75 < free["accuracy"][1] and free["stratified"] is False


def test_stratified_resampling_never_loses_a_rare_class() -> None:
    references = predictions = [0] * 99 + [1]
    fixed = score(references, predictions, "2-class", bootstrap=500, stratified=True)["interval"]
    free = score(references, predictions, "2-class", bootstrap=500)["interval"]
    assert fixed["macro_f1"] == [1.0, 1.0]
    assert free["macro_f1"] == [0.5, 1.0]


def test_seed_and_level_decide_the_interval() -> None:
    references = sample(300)
    predictions = noisy(references, 0.6, 1)

    def interval(**options: float) -> dict:
        return score(references, predictions, bootstrap=500, **options)["interval"]

    assert interval(seed=3) == interval(seed=3)
    assert interval(seed=3)["macro_f1"] != interval(seed=4)["macro_f1"]
    narrow, wide = interval(confidence_level=0.5), interval(confidence_level=0.99)
    assert wide["macro_f1"][0] < narrow["macro_f1"][0] < narrow["macro_f1"][1] < wide["macro_f1"][1]
    assert {key: wide[key] for key in wide if key not in FIGURES} == {
        "confidence_level": 0.99,
        "resamples": 500,
        "seed": 0,
        "stratified": False,
    }


def test_ten_thousand_resamples_take_well_under_a_second() -> None:
    references = sample(2332)
    predictions = noisy(references, 0.6, 1)
    started = time.perf_counter()
    score(references, predictions, bootstrap=10_000)
    assert time.perf_counter() - started < 1


# ---- the comparison


def test_comparison_is_that_of_rows_resampled_in_pairs() -> None:
    references = sample(300)
    ours, baseline = noisy(references, 0.65, 1), noisy(references, 0.55, 2)
    # the same rows for both: one generator seed, two scores
    ours_drawn, baseline_drawn = (macro_f1_of_resampled_rows(references, p, 4000, False) for p in (ours, baseline))
    slow = ours_drawn - baseline_drawn
    result = compare(references, ours, baseline, bootstrap=40_000)
    assert result["interval"]["macro_f1_difference"] == pytest.approx(np.quantile(slow, [0.025, 0.975]), abs=0.006)
    assert result["p_value"] == pytest.approx(2 * min((slow <= 0).mean(), (slow >= 0).mean()), abs=0.02)


@quick
@given(scored_rows(), st.integers(0, 2**32))
def test_differences_are_those_of_two_scores(rows: tuple[str, list[int], list[int]], seed: int) -> None:
    task, references, predictions = rows
    baseline = np.random.default_rng(seed).integers(len(LABELS[task]), size=len(references))
    result = compare(references, predictions, baseline, task, bootstrap=3)
    ours, other = score(references, predictions, task), score(references, baseline, task)
    parts = [(result, ours, other)]
    if task == "4-class":
        parts.append((result["two_class"], ours["two_class"], other["two_class"]))
    for contrast, left, right in parts:
        for figure in FIGURES:
            assert contrast[f"{figure}_difference"] == pytest.approx(left[figure] - right[figure])
    rights = np.array(references) == np.array(predictions), np.array(references) == baseline
    assert result["mcnemar"]["only_predictions_right"] == (rights[0] & ~rights[1]).sum()
    assert result["mcnemar"]["only_baseline_right"] == (~rights[0] & rights[1]).sum()


def test_clearly_better_has_the_smallest_p_value_but_not_zero() -> None:
    references = sample(500)
    result = compare(references, references, noisy(references, 0.5, 1), bootstrap=1000)
    assert result["p_value"] == pytest.approx(2 / 1001)
    assert result["interval"]["macro_f1_difference"][0] > 0


def test_equal_predictions_have_p_value_one() -> None:
    references = sample(500)
    predictions = noisy(references, 0.5, 1)
    result = compare(references, predictions, predictions, bootstrap=200)
    for part in (result, result["two_class"]):
        assert (part["p_value"], part["macro_f1_difference"], part["mcnemar"]["p_value"]) == (1.0, 0.0, 1.0)
        assert part["interval"]["accuracy_difference"] == [0.0, 0.0]


def test_swapping_the_two_detectors_turns_the_sign_only() -> None:
    references = sample(500)
    ours, baseline = noisy(references, 0.55, 1), noisy(references, 0.5, 2)
    one, other = compare(references, ours, baseline), compare(references, baseline, ours)
    assert one["macro_f1_difference"] == pytest.approx(-other["macro_f1_difference"])
    assert one["p_value"] == pytest.approx(other["p_value"], abs=0.06)
    assert one["mcnemar"]["p_value"] == other["mcnemar"]["p_value"]


def test_p_value_of_equally_good_detectors_is_seldom_small() -> None:
    p_values = []
    for seed in range(100):
        references = sample(400, seed=seed)
        ours, baseline = noisy(references, 0.6, 1000 + seed), noisy(references, 0.6, 2000 + seed)
        p_values.append(compare(references, ours, baseline, bootstrap=300)["p_value"])
    assert np.mean(np.array(p_values) < 0.1) <= 0.2 and 0.3 <= np.median(p_values) <= 0.7


def test_mcnemar_is_the_binomial_computed_by_hand() -> None:
    # 7 rows only ours has right, 1 only the baseline: 2 (C(8,0) + C(8,1)) / 2^8
    references = [1] * 10
    result = compare(references, [1] * 7 + [0] + [1, 0], [0] * 7 + [1] + [1, 0], "2-class", bootstrap=10)
    assert result["mcnemar"] == {
        "only_predictions_right": 7,
        "only_baseline_right": 1,
        "p_value": pytest.approx(2 * (1 + 8) / 2**8),
    }


# ---- errors

NAMES_4 = "0-3 or 'non-contradiction', 'intra-sentence', 'role-confusion', 'history'"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"predictions": [0, 1, 2, "hist"]}, f"predictions[3] is 'hist'; allowed for 4-class are {NAMES_4}"),
        ({"references": [0, 1, 2, 4]}, f"references[3] is 4; allowed for 4-class are {NAMES_4}"),
        ({"references": [0, -1, 2, 4]}, "references[1] is -1; allowed"),
        ({"predictions": [0, 1, "contradiction", 0]}, "predictions[2] is 'contradiction'; allowed"),
        ({"predictions": ["0", 1, 2, 3]}, "predictions[0] is '0'; allowed"),
        ({"predictions": [0, 1, True, 3]}, "predictions[2] is True; allowed"),
        ({"predictions": np.array([True, False, True, False])}, "predictions[0] is True; allowed"),
        ({"predictions": [0, 1, 2.0, 3]}, "predictions[2] is 2.0; allowed"),
        ({"predictions": np.array([0.0, 1.0, 2.0, 3.0])}, "predictions[0] is 0.0; allowed"),
        ({"predictions": [0, None, 2, 3]}, "predictions[1] is None; allowed"),
        ({"predictions": [[0, 1], [1, 2], [2, 3], [3, 0]]}, "predictions[0] is [0, 1]; allowed"),
        ({"predictions": "history"}, "predictions is 'history'; allowed are lists or arrays"),
        ({"predictions": {0, 1, 2, 3}}, "predictions is {0, 1, 2, 3}; allowed are lists or arrays"),
        ({"predictions": 3}, "predictions is 3; allowed are lists or arrays"),
        ({"references": None}, "references is None; allowed are lists or arrays"),
        ({"predictions": [0, 1]}, "lengths differ: 4 references, 2 predictions"),
        ({"references": [], "predictions": []}, "references and predictions are empty; at least one row is needed"),
        (
            {"task": "3-class"},
            "the task is '3-class'; allowed are '2-class', '4-class', 'persona', 'nli', each also with",
        ),
        ({"task": None}, "the task is None; allowed are"),
        ({"bootstrap": -1}, "bootstrap is -1; allowed are whole numbers from 0"),
        ({"bootstrap": 10.0}, "bootstrap is 10.0; allowed"),
        ({"bootstrap": True}, "bootstrap is True; allowed"),
        ({"seed": -3}, "seed is -3; allowed"),
        ({"seed": None}, "seed is None; allowed"),
        ({"confidence_level": 0.0}, "confidence_level is 0.0; allowed are fractions above 0 and below 1"),
        ({"confidence_level": 1.0}, "confidence_level is 1.0; allowed"),
        ({"confidence_level": 95}, "confidence_level is 95; allowed"),
        ({"confidence_level": float("nan")}, "confidence_level is nan; allowed"),
        ({"stratified": "yes"}, "stratified is 'yes'; allowed are True and False"),
    ],
)
def test_bad_input_is_named_with_what_is_allowed(arguments: dict, message: str) -> None:
    valid = {"references": [0, 1, 2, 3], "predictions": [0, 1, 2, 3]}
    with pytest.raises(ValueError, match=re.escape(message)):
        score(**{**valid, **arguments})
    with pytest.raises(ValueError, match=re.escape(message.split(" are empty")[0])):
        compare(**{**valid, "baseline_predictions": arguments.get("references", valid["references"]), **arguments})


def test_bad_baseline_is_named_and_a_comparison_needs_resamples() -> None:
    with pytest.raises(ValueError, match=r"lengths differ: 2 references, 2 predictions, 3 baseline_predictions"):
        compare([0, 1], [0, 1], [0, 1, 1])
    with pytest.raises(ValueError, match=r"baseline_predictions\[1\] is 'no'"):
        compare([0, 1], [0, 1], [0, "no"])
    with pytest.raises(ValueError, match="bootstrap is 0; a comparison needs at least 1 resample"):
        compare([0, 1], [0, 1], [0, 1], bootstrap=0)


# ---- through evaluate


@pytest.fixture
def metric(tmp_path: Path) -> CDConvMetric:
    return CDConvMetric(cache_dir=str(tmp_path))


def test_batches_and_single_rows_give_what_one_call_gives(metric: CDConvMetric) -> None:
    references = sample(60)
    predictions = noisy(references, 0.6, 1)
    names = [LABELS["4-class"][label] for label in predictions]
    expected = score(references, predictions, bootstrap=50)
    assert metric.compute(predictions=predictions, references=references, bootstrap=50) == expected
    for start in range(0, 60, 25):  # the kind of label may change from one batch to the next
        column = predictions if start else names
        metric.add_batch(predictions=column[start : start + 25], references=references[start : start + 25])
    assert metric.compute(bootstrap=50) == expected
    for name, reference in zip(names, references, strict=True):
        metric.add(prediction=name, reference=reference)
    assert metric.compute(bootstrap=50) == expected


def test_rows_added_before_count_with_those_given_to_compute(metric: CDConvMetric) -> None:
    metric.add_batch(predictions=[0, 1], references=["non-contradiction", "history"])
    assert metric.compute(predictions=["history"], references=[3]) == score([0, 3, 3], [0, 1, 3])


def test_comparison_comes_through_compute(metric: CDConvMetric) -> None:
    references = sample(80)
    ours, baseline = noisy(references, 0.7, 1), noisy(references, 0.5, 2)
    rows = {"predictions": ours, "references": references, "baseline_predictions": baseline}
    result = metric.compute(**rows, bootstrap=30, seed=2, confidence_level=0.8, stratified=True)
    options = {"bootstrap": 30, "seed": 2, "confidence_level": 0.8, "stratified": True}
    assert result.pop("comparison") == compare(references, ours, baseline, **options)
    assert result == score(references, ours, **options)
    unasked = metric.compute(**rows)
    assert "interval" not in unasked and unasked["comparison"] == compare(references, ours, baseline)


@pytest.mark.parametrize("bad", [1.7, True, "1", None, 4, "contradiction"])
def test_nothing_is_turned_into_a_class_id_in_silence(metric: CDConvMetric, bad: object) -> None:
    message = re.escape(f"is {bad!r}; allowed for 4-class are {NAMES_4}")
    with pytest.raises(ValueError, match=message):
        metric.compute(predictions=[0, bad], references=[0, 1])
    with pytest.raises(ValueError, match=message):
        metric.add_batch(predictions=[0, 1], references=[bad, 1])
    with pytest.raises(ValueError, match=message):
        metric.add(prediction=bad, reference=0)
    assert len(metric) == 0


def test_rows_survive_a_refused_call(metric: CDConvMetric) -> None:
    metric.add_batch(predictions=[0, 1], references=[0, 3])
    for refused in (
        {"bootstrap": -1},
        {"baseline_predictions": [0, 1, 2]},
        {"predictions": [0], "references": [9]},
        {"predictions": [0]},
    ):
        with pytest.raises(ValueError, match=r"-1|lengths differ|is 9|references is None"):
            metric.compute(**refused)
    with pytest.raises(TypeError, match="average"):
        metric.compute(average="macro")
    assert metric.compute() == score([0, 3], [0, 1])


def test_computing_nothing_says_what_is_missing(metric: CDConvMetric) -> None:
    with pytest.raises(ValueError, match="no rows to score: give predictions and references here, or add them before"):
        metric.compute()
    with pytest.raises(ValueError, match="predictions and references are empty"):
        metric.compute(predictions=[], references=[])


def test_metric_says_what_it_takes(metric: CDConvMetric) -> None:
    assert {tuple(value.dtype for value in kinds.values()) for kinds in metric.features} == {
        (p, r) for p in ("int64", "string") for r in ("int64", "string")
    }
    assert "Zheng, Chujie" in metric.citation and "baseline_predictions" in metric.inputs_description
    assert "bootstrap (int)" in metric.compute.__doc__


@pytest.mark.parametrize("config", [name + suffix for name in TASKS for suffix in ("", "-grouped")])
def test_every_config_of_the_data_set_is_one_of_the_metric(config: str, tmp_path: Path) -> None:
    named = CDConvMetric(config_name=config, cache_dir=str(tmp_path))
    assert named.compute(predictions=[0, 1], references=[1, 1]) == score([1, 1], [0, 1], config)


def test_unknown_config_is_refused_on_loading(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the task is '3-class'; allowed are"):
        CDConvMetric(config_name="3-class", cache_dir=str(tmp_path))


def offline(cache: Path) -> dict[str, str]:
    """An environment without network and with a cache of its own: an old build in the usual one would hide faults."""
    return {**os.environ, "HF_HOME": str(cache), "HF_HUB_OFFLINE": "1", "GRADIO_ANALYTICS_ENABLED": "False"}


def run_offline(cache: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=offline(cache), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


LOADING = """
import json
import evaluate

rows = {"predictions": ["unrelated", "attributes"], "references": [0, 2]}
plain = {"predictions": [0, 3, 1], "references": [0, 3, 3]}
results = {}
results["bare"] = evaluate.load("evaluate_metric").compute(**plain)
results["dotted"] = evaluate.load("./evaluate_metric", "persona").compute(**rows)
results["grouped"] = evaluate.load("./evaluate_metric/evaluate_metric.py", "persona-grouped").compute(**rows)
results["in_memory"] = evaluate.load("evaluate_metric", keep_in_memory=True).compute(**plain)

both = {"four": evaluate.load("evaluate_metric"), "two": evaluate.load("evaluate_metric", "2-class")}
combined = evaluate.combine(both, force_prefix=True)
results["combined"] = combined.compute(predictions=[0, 1], references=[0, 1])
combined.add(prediction=0, reference=0)
combined.add_batch(predictions=[1], references=[1])
results["combined_added"] = combined.compute()

first, second = (
    evaluate.load("evaluate_metric", num_process=2, process_id=i, experiment_id="shared") for i in range(2)
)
from threading import Thread
share = Thread(target=lambda: second.add_batch(predictions=[1], references=[3]))
share.start()
first.add_batch(predictions=[0, 3], references=[0, 3])
share.join()
second.compute()
results["distributed"] = first.compute()

evaluate.save(SAVED, **results["bare"])
print(json.dumps(results))
"""


def test_evaluate_loads_the_metric_offline_under_every_spelling(tmp_path: Path) -> None:
    saved = tmp_path / "saved.json"
    results = json.loads(run_offline(tmp_path, "-c", LOADING.replace("SAVED", repr(str(saved)))))
    plain, persona = score([0, 3, 3], [0, 3, 1]), score([0, 2], [0, 1], "persona")
    assert results["bare"] == results["in_memory"] == results["distributed"] == plain
    assert results["dotted"] == results["grouped"] == persona
    assert results["combined"] == results["combined_added"]
    assert (results["combined"]["four_macro_f1"], results["combined"]["two_macro_f1"]) == (0.5, 1.0)
    assert json.loads(saved.read_text(encoding="utf-8"))["macro_f1"] == plain["macro_f1"]


EXAMPLES = """
import doctest
from evaluate_metric import evaluate_metric

for results in (doctest.testmod(evaluate_metric), doctest.testfile("evaluate_metric/README.md", module_relative=False)):
    print(results.failed, results.attempted)
"""


def test_examples_in_the_text_are_true(tmp_path: Path) -> None:
    report = run_offline(tmp_path, "-c", EXAMPLES)
    assert [line.split()[0] for line in report.splitlines()] == ["0", "0"], report
    assert all(int(line.split()[1]) >= 10 for line in report.splitlines())


def test_file_imports_nothing_of_the_project_and_one_module_a_line() -> None:
    from evaluate.loading import get_imports

    file = ROOT / "evaluate_metric" / "evaluate_metric.py"
    needed = {name for kind, name, *_ in get_imports(str(file)) if kind == "library"}
    assert needed == {"collections", "dataclasses", "datasets", "evaluate", "numpy", "reprlib", "scipy", "typing"}
    assert not re.search(r"^import .*,", file.read_text(encoding="utf-8"), flags=re.MULTILINE)


# ---- the page


@contextlib.contextmanager
def served_page(cache: Path) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    env = {**offline(cache), "GRADIO_SERVER_NAME": "127.0.0.1", "GRADIO_SERVER_PORT": str(port)}
    log = cache / "page.log"
    with log.open("w", encoding="utf-8") as output:
        page = subprocess.Popen(
            [sys.executable, "evaluate_metric/app.py"], cwd=ROOT, env=env, stdout=output, stderr=output
        )
        try:
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline and page.poll() is None:
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                    break
                time.sleep(0.1)
            else:
                pytest.fail(f"the page did not start: {log.read_text(encoding='utf-8')}")
            yield f"http://127.0.0.1:{port}"
        finally:
            page.terminate()
            page.wait(timeout=10)


def test_page_scores_pasted_labels_and_explains_refusals(tmp_path: Path) -> None:
    from gradio_client import Client
    from gradio_client.exceptions import AppError

    with served_page(tmp_path) as address:
        client = Client(address, verbose=False)

        def ask(task: str, references: str, predictions: str, baseline: str = "") -> list[list[list]]:
            tables = client.predict(task, references, predictions, baseline, 200, api_name="/score")
            return [table["data"] for table in tables]

        summary, classes, confusion, comparison = ask("4-class", "0\nhistory\n\n3,2\n", "non-contradiction，3,0 , 2")
        assert [row[:3] for row in summary] == [
            ["4-class", "accuracy", 75.0],
            ["4-class", "macro-F1", 58.3],
            ["merged to 2-class", "accuracy", 75.0],
            ["merged to 2-class", "macro-F1", 73.3],
        ]
        assert all(low <= value <= high for _, _, value, low, high in summary)
        assert classes[3] == ["history", 100.0, 50.0, 66.7, 2]
        assert confusion[3] == ["history", 1, 0, 0, 1]
        assert comparison == []

        *_, comparison = ask("persona-grouped", "0,1,2,3", "0,1,2,3", "0,0,0,0")
        assert [row[:3] for row in comparison] == [["persona", "accuracy", 75.0], ["persona", "macro-F1", 90.0]]

        with pytest.raises(AppError, match=r"predictions\[1\] is 'hist'; allowed for 4-class are 0-3 or"):
            ask("4-class", "0,1", "0,hist")
        with pytest.raises(AppError, match=r"predictions\[1\] is ''"):
            ask("4-class", "0,1,2", "0,,2")
        with pytest.raises(AppError, match="references and predictions are empty"):
            ask("4-class", " \n", "")
        with pytest.raises(AppError, match="lengths differ: 2 references, 2 predictions, 3 baseline_predictions"):
            ask("2-class", "0,1", "0,1", "0,1,1")
