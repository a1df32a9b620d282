"""The metric, compared with scikit-learn, with counts by hand, and with a bootstrap that really resamples rows."""

import numpy as np
import pytest
from helpers.rules import noisy, sample
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve
from sklearn.metrics import (
    accuracy_score,
    confusion_matrix,
    label_ranking_average_precision_score,
    precision_recall_fscore_support,
    roc_auc_score,
    top_k_accuracy_score,
)

from contradiction.data.corpora.crossed import Quadruple, read
from evaluate_metric.evaluate_metric import (
    LABELS,
    MERGE,
    CDConvMetric,
    calibration_bins,
    calibration_error,
    compare,
    score,
    score_replies,
    score_rows,
)

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
def test_figures_equal_scikit_learns_for_every_task_also_merged_to_two_classes_and_from_names(
    rows: tuple[str, list[int], list[int]],
) -> None:
    task, references, predictions = rows
    result = score(references, predictions, task)
    assert_equals_scikit_learn(result, references, predictions, task)
    names = np.array([LABELS[task][label] for label in predictions])
    assert score(np.array(references), names, f"{task}-grouped") == result
    assert score(tuple(references), iter(names.tolist()), task) == result
    assert ("two_class" in result) == (task in MERGE)
    if task == "4-class":
        assert result["two_class"] == score(merged(references), merged(predictions), "2-class")
        assert_equals_scikit_learn(result["two_class"], merged(references), merged(predictions), "2-class")


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
    result = score(references, predictions, bootstrap=40_000, stratified=stratified)
    assert result["interval"]["macro_f1"] == pytest.approx(slow, abs=0.004)  # the interval is about 0.12 wide
    if not stratified:  # which keeps the sizes of four classes, and not of two
        merge = score(merged(references), merged(predictions), "2-class", bootstrap=40_000)["interval"]
        assert result["two_class"]["interval"]["macro_f1"] == pytest.approx(merge["macro_f1"], abs=0.004)


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
    merge = compare(merged(references), merged(predictions), merged(baseline), "2-class", bootstrap=40_000)
    assert result["two_class"]["p_value"] == pytest.approx(merge["p_value"], abs=0.02)
    for figure, bounds in merge["interval"].items():
        assert result["two_class"]["interval"][figure] == pytest.approx(bounds, abs=0.006)
    always_better = compare([0, 1] * 9, [0, 1] * 9, [1, 0] * 9, "2-class", bootstrap=99)
    assert always_better["p_value"] == 2 / (99 + 1)


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


# Replies, crossed chats and selection


def test_selection_figures_equal_scikit_learns():
    draw = np.random.default_rng(1)
    scores, rights = draw.random((200, 4)), draw.integers(4, size=200)
    figures = score_rows(rights, scores, "selection")
    for figure, place in (("r1", 1), ("r2", 2)):
        assert figures[figure] == pytest.approx(top_k_accuracy_score(rights, scores, k=place, labels=range(4)))
    assert figures["mrr"] == pytest.approx(label_ranking_average_precision_score(np.eye(4)[rights], scores))
    assert score_rows([0], [[1.0, 1.0, 0.0]], "selection") == {"n": 1, "r1": 0.5, "r2": 1.0, "mrr": 0.75}


def crossed_rows(count):
    """Some quadruples and pairs of the test split, the rows of the data set for them, and random probabilities."""
    items = [*read("test")[:count], *[item for item in read("test") if not isinstance(item, Quadruple)][:count]]
    rows = [{"id": row.id, "item": row.source, "label": row.label} for item in items for row in item.judged()]
    return items, rows, np.random.default_rng(4).integers(6, size=len(rows)) / 5  # with ties


def test_crossed_figures_are_those_of_replies_to_one_chat():
    items, rows, probabilities = crossed_rows(30)
    replies = [row for item in items for row in item.judged()]
    expected = score_replies(
        [row.label for row in replies], [3 * (p >= 0.4) for p in probabilities.tolist()], probabilities=probabilities,
        contexts=[str(row.messages) for row in replies], items=[row.source for row in replies], bootstrap=500,
    )  # fmt: skip
    order = np.random.default_rng(5).permutation(len(rows))  # the rows may come in any order
    figures = score_rows([rows[i] for i in order], probabilities[order], "crossed", threshold=0.4, bootstrap=500)
    names = ("in_order", "both_right", "all_right")
    assert figures["n"] == 60 and [figures[name] for name in names] == pytest.approx([expected[n] for n in names])
    for name in names:
        assert figures["interval"][name] == pytest.approx(expected["interval"][name], abs=0.03)


def test_replies_to_one_context_are_compared_in_pairs():
    # Two pairs in p, one in q, none in r.
    contexts, labels = "pppqqrr", [0, 3, 1, 0, 2, 3, 3]
    figures = score_replies(
        labels, [0, 3, 0, 0, 1, 0, 0], probabilities=[0.2, 0.9, 0.2, 0.5, 0.4, 0, 0], contexts=contexts, bootstrap=200
    )
    assert (figures["in_order"], figures["both_right"]) == (1.5 / 3, 2 / 3)
    assert np.isfinite(figures["interval"]["in_order"]).all()  # some resamples draw r alone, which has no pair
    by_context = [{"p": 0.9, "q": 0.2, "r": 0.5}[name] for name in contexts]
    assert score_replies(labels, labels, probabilities=by_context, contexts=contexts)["in_order"] == 0.5
    assert "in_order" not in score_replies([3, 3, 0], [3, 3, 0], probabilities=[1, 1, 0], contexts="rrs")


def test_many_replies_to_one_greeting_are_compared_without_a_list_of_their_pairs():
    labels, probabilities = [0, 3] * 100_000, [0.2, 0.4] * 100_000
    figures = score_replies(labels, labels, probabilities=probabilities, contexts=["你好"] * len(labels))
    assert (figures["pairs"], figures["in_order"], figures["both_right"]) == (10**10, 1.0, 1.0)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"probabilities": [0.2]}, "lengths differ: 2 references, 2 predictions, 1 probabilities"),
        ({"probabilities": [0.2, float("nan")]}, r"probabilities\[1\] is nan; allowed are probabilities from 0 to 1"),
        ({"contexts": ["a"], "items": "ab"}, "2 predictions, 1 contexts, 2 items"),
        ({"evidence": [[], [1]], "named_evidence": [[1]]}, "2 evidence, 1 named_evidence"),
        ({"evidence": [[], [1]]}, "named_evidence is None"),
    ],
)
def test_a_column_of_another_length_or_value_is_an_error(more, message):
    with pytest.raises(ValueError, match=message):
        score_replies([0, 3], [0, 0], **more)


def test_an_item_is_right_if_all_its_replies_are():
    items, labels, predictions = "aaaabbccd", [0, 3, 0, 3, 0, 1, 0, 0, 3], [0, 1, 0, 2, 0, 0, 0, 0, 3]
    figures = score_replies(labels, predictions, items=items)
    assert figures["all_right"] == 1 / 2  # c has no contradiction, and d nothing else
    assert "all_right" not in score_replies(labels, predictions)


def test_probabilities_are_scored_as_by_scikit_learn():
    draw = np.random.default_rng(8)
    probabilities = draw.random(500)
    truth = draw.random(500) < probabilities**2
    figures = score_replies(
        truth.astype(int), (probabilities > 0.5).astype(int), "2-class", probabilities=probabilities
    )
    assert figures["auc"] == pytest.approx(roc_auc_score(truth, probabilities))
    fractions, means = calibration_curve(truth, probabilities, n_bins=10, strategy="quantile")
    assert figures["calibration_error"] == pytest.approx(np.abs(fractions - means).mean())  # 50 rows in each bin
    assert calibration_error(np.array([True, False] * 5), np.full(10, 0.7)) == pytest.approx(0.2)  # one bin
    bins = calibration_bins(np.array([True, False, False]), np.array([0.9, 0.1, 0.5]))
    assert bins == [(1, 0.1, 0.0), (1, 0.5, 0.0), (1, 0.9, 1.0)], "a diagram joins them from left to right"
    for label in (0, 3):
        assert {"auc", "calibration_error"}.isdisjoint(score_replies([label] * 2, [0, 1], probabilities=[0, 1]))


# Reference, prediction, evidence, named evidence. The comments say what is right.
EVIDENCE = [
    (3, 3, [1], [1]),  # all
    (3, 3, [1], [1, 3]),  # the label; one index too many
    (3, 0, [0], []),  # nothing
    (3, 2, [1], [5]),  # the wrong kind and the wrong index
    (0, 0, [], []),  # all
    (0, 0, [5], [5]),  # all; evidence is counted of contradictions alone
    (0, 3, [], [3]),  # nothing; evidence although there is none
    (1, 1, None, [1]),  # the label; nobody marked the evidence
]


def test_evidence_is_counted_over_contradictions_whose_evidence_is_marked():
    references, predictions, gold, named = zip(*EVIDENCE, strict=True)
    figures = score_replies(references, predictions, evidence=gold, named_evidence=named)
    assert [figures[f"evidence_{name}"] for name in ("precision", "recall", "f1")] == [2 / 4, 2 / 4, 2 / 4]
    assert figures["strict_accuracy"] == 3 / 7
    unmarked = score_replies([3, 0], [3, 0], evidence=[None, []], named_evidence=[[1], []], bootstrap=10)
    for found in (unmarked, unmarked["interval"]):
        assert {"evidence_f1", "strict_accuracy"}.isdisjoint(found)


def test_evidence_is_scored_as_by_scikit_learn():
    draw = np.random.default_rng(0)
    truth, called = draw.integers(2, size=(2, 300))
    gold, named = draw.random((2, 300, 6)) < 0.3
    gold[:, 0] |= ~gold.any(axis=1)  # every contradiction has evidence
    gold, named = gold & (truth[:, None] == 1), named & (called[:, None] == 1)
    indices = [[np.flatnonzero(row).tolist() for row in mask] for mask in (gold, named)]
    figures = score_replies(truth, called, "2-class", evidence=indices[0], named_evidence=indices[1], bootstrap=50)
    expected = precision_recall_fscore_support(gold[truth == 1], named[truth == 1], average="micro")[:3]
    names = [f"evidence_{name}" for name in ("precision", "recall", "f1")]
    assert [figures[name] for name in names] == pytest.approx(expected)
    assert figures["strict_accuracy"] == pytest.approx(((truth == called) & (gold == named).all(axis=1)).mean())
    for name in (*names, "strict_accuracy"):
        low, high = figures["interval"][name]
        assert 0 <= low < figures[name] < high <= 1


def test_rows_of_one_item_are_resampled_together():
    """Four copies of a row add no information: the interval is that of the rows without the copies."""
    draw = np.random.default_rng(9)
    labels, predictions = draw.integers(2, size=(2, 200)).tolist()
    alone = score(labels, predictions, "2-class", bootstrap=4000)["interval"]["accuracy"]
    copied = [[value for value in values for _ in range(4)] for values in (labels, predictions)]
    items = [row for row in range(200) for _ in range(4)]
    together = score_replies(*copied, "2-class", items=items, bootstrap=4000)["interval"]["accuracy"]
    assert together == pytest.approx(alone, abs=0.012)


def test_intervals_are_as_wide_as_those_of_resampled_rows():
    draw = np.random.default_rng(2)
    scores, rights = draw.random((150, 4)), draw.integers(4, size=150)
    low, high = score_rows(rights, scores, "selection", bootstrap=2000)["interval"]["r1"]
    hits = scores.argmax(axis=1) == rights
    expected = np.quantile([hits[draw.integers(150, size=150)].mean() for _ in range(2000)], [0.025, 0.975])
    assert [low, high] == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize(
    ("task", "references", "predictions", "message"),
    [
        ("selection", [2], [[0.1, 0.2]], r"references\[0\] is 2; predictions\[0\] has 2 scores"),
        ("selection", [0], [[0.1, float("nan")]], r"predictions\[0\] is \[0.1, nan\]; allowed"),
        ("crossed", [{"id": "t-good", "item": "t", "label": 4}], [0.1], r"references\[0\]\['label'\] is 4"),
        ("crossed", [{"id": "t-good", "item": "t", "label": 0}], [1.1], r"predictions\[0\] is 1.1; allowed are prob"),
        ("crossed", [{"id": "t-good", "item": "t", "label": 0}], [0.1], "item 't' twice or not at all"),
        ("crossed", [{"id": f"t-{n}", "item": "t", "label": n // 2} for n in range(3)], [0.1] * 3, "item 't' twice"),
        ("nli", [0], [0], "the task is 'nli'; allowed are 'crossed', 'sel"),
    ],
)
def test_the_error_names_an_invalid_row(task, references, predictions, message):
    with pytest.raises(ValueError, match=message):
        score_rows(references, predictions, task)


def test_evaluate_loads_the_config_of_crossed_chats(tmp_path):
    _, rows, probabilities = crossed_rows(3)
    metric = CDConvMetric(config_name="crossed", cache_dir=str(tmp_path))
    expected = score_rows(rows, probabilities, "crossed", threshold=0.7)
    assert metric.compute(predictions=probabilities, references=rows, threshold=0.7) == expected
    for row, probability in zip(rows, probabilities, strict=True):
        metric.add(prediction=probability, reference=row)
    assert metric.compute() == score_rows(rows, probabilities, "crossed")
    assert score_rows(rows, probabilities, "crossed-long", threshold=0.7) == expected
    with pytest.raises(ValueError, match="threshold is 50; allowed are probabilities"):
        metric.compute(predictions=probabilities, references=rows, threshold=50)
    with pytest.raises(TypeError, match="threshold .*arguments are "):
        CDConvMetric(cache_dir=str(tmp_path)).compute(predictions=[0], references=[0], threshold=0.5)


def test_evaluate_loads_the_config_of_selection(tmp_path):
    ranked = CDConvMetric(config_name="selection", cache_dir=str(tmp_path))
    result = ranked.compute(predictions=[[0.5, 0.1], [0.2, 0.9]], references=[0, 0], bootstrap=10)
    assert (result["r1"], result["interval"]["resamples"]) == (0.5, 10)
    with pytest.raises(ValueError, match="compares no predictions"):
        ranked.compute(predictions=[[1.0, 0.0]], references=[0], baseline_predictions=[[1.0, 0.0]])
    with pytest.raises(TypeError, match="the arguments are predictions, references, bootstrap, "):
        ranked.compute(predictions=[[1.0, 0.0]], references=[0], average="macro")
    with pytest.raises(ValueError, match="no classes to stratify by"):
        ranked.compute(predictions=[[1.0, 0.0]], references=[0], bootstrap=10, stratified=True)
    with pytest.raises(ValueError, match=r"predictions\[0\] is \[1.0\]"):
        ranked.add_batch(predictions=[[1.0]], references=[0])
