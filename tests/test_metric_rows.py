"""The figures of replies, DECODE and selection equal scikit-learn's or counts by hand."""

import numpy as np
import pytest
from sklearn.calibration import calibration_curve
from sklearn.metrics import (
    accuracy_score,
    label_ranking_average_precision_score,
    precision_recall_fscore_support,
    roc_auc_score,
    top_k_accuracy_score,
)

from contradiction.data.corpora.crossed import Quadruple, read
from evaluate_metric.evaluate_metric import CDConvMetric, calibration_error, score, score_replies, score_rows

MESSAGES = 6


def chats(draw, count):
    """Random labels and evidence. Contradictions have evidence in the references, but not always in the predictions."""
    truth, called = draw.integers(2, size=(2, count))
    gold, named = draw.random((2, count, MESSAGES)) < 0.3
    gold[:, 0] |= ~gold.any(axis=1)
    gold, named = gold & (truth[:, None] == 1), named & (called[:, None] == 1)
    rows = [
        [
            {"label": int(label), "evidence": np.flatnonzero(row).tolist()}
            for label, row in zip(labels, mask, strict=True)
        ]
        for labels, mask in ((truth, gold), (called, named))
    ]
    return rows, (truth, called, gold, named)


def test_decode_figures_equal_scikit_learns():
    (references, predictions), (truth, called, gold, named) = chats(np.random.default_rng(0), 300)
    figures = score_rows(references, predictions, "decode")
    assert figures["n"] == 300 and figures["accuracy"] == accuracy_score(truth, called)
    expected = precision_recall_fscore_support(truth, called, average="binary")[:3]
    assert (figures["precision"], figures["recall"], figures["f1"]) == pytest.approx(expected)
    marked = truth == 1
    expected = precision_recall_fscore_support(gold[marked], named[marked], average="micro")[:3]
    assert tuple(figures[f"evidence_{name}"] for name in ("precision", "recall", "f1")) == pytest.approx(expected)
    strict = (truth == called) & (gold == named).all(axis=1)
    assert figures["strict_accuracy"] == pytest.approx(strict.mean())


def test_a_contradiction_without_marked_evidence_counts_only_for_its_label():
    unmarked, marked = {"label": 1, "evidence": []}, {"label": 1, "evidence": [0]}
    scores = score_rows([unmarked, marked], [{"label": 1, "evidence": [3]}, marked], "decode")
    assert (scores["evidence_precision"], scores["strict_accuracy"], scores["accuracy"]) == (1.0, 1.0, 1.0)
    scores = score_rows([unmarked, {"label": 0, "evidence": []}], [marked, marked], "decode")
    assert (scores["evidence_f1"], scores["strict_accuracy"], scores["recall"]) == (None, None, 1.0)


def test_a_reference_without_marked_evidence_may_say_none_as_the_data_set_does(tmp_path):
    predictions = [{"label": 1, "evidence": [3]}, {"label": 1, "evidence": [0]}, {"label": 0, "evidence": []}]
    unmarked, empty = (
        [{"label": 1, "evidence": none}, {"label": 1, "evidence": [0]}, {"label": 0, "evidence": none}]
        for none in (None, [])
    )
    metric = CDConvMetric(config_name="decode", cache_dir=str(tmp_path))
    scores = metric.compute(predictions=predictions, references=unmarked)
    assert scores == score_rows(empty, predictions, "decode") and scores["strict_accuracy"] == 1
    with pytest.raises(ValueError, match=r"predictions\[0\]\['evidence'\] is None; allowed are lists"):
        metric.compute(predictions=unmarked, references=empty)


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
        labels, [0, 3, 0, 0, 1, 0, 0], probabilities=[0.2, 0.9, 0.2, 0.5, 0.4, 0, 0], contexts=contexts
    )
    assert (figures["in_order"], figures["both_right"]) == (1.5 / 3, 2 / 3)
    by_context = [{"p": 0.9, "q": 0.2, "r": 0.5}[name] for name in contexts]
    assert score_replies(labels, labels, probabilities=by_context, contexts=contexts)["in_order"] == 0.5
    assert "in_order" not in score_replies([3, 3, 0], [3, 3, 0], probabilities=[1, 1, 0], contexts="rrs")


def test_an_item_is_right_if_all_its_replies_are():
    items, labels, predictions = "aaaabbcc", [0, 3, 0, 3, 0, 1, 0, 0], [0, 1, 0, 2, 0, 0, 0, 0]
    figures = score_replies(labels, predictions, items=items)
    assert figures["all_right"] == 1 / 2  # c has no contradiction
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
    assert {"auc", "calibration_error"}.isdisjoint(score_replies([0, 0], [0, 1], probabilities=[0, 1]))


# Reference, prediction, evidence, named evidence. The comments say what is right.
EVIDENCE = [
    (3, 3, [1], [1]),  # all
    (3, 3, [1], [1, 3]),  # the label; one index too many
    (3, 0, [0], []),  # nothing
    (3, 2, [1], [5]),  # the wrong kind and the wrong index
    (0, 0, [], []),  # all
    (0, 3, [], [3]),  # nothing; evidence although there is none
    (1, 1, None, [1]),  # the label; nobody marked the evidence
]


def test_evidence_is_counted_over_contradictions_whose_evidence_is_marked():
    references, predictions, gold, named = zip(*EVIDENCE, strict=True)
    figures = score_replies(references, predictions, evidence=gold, named_evidence=named)
    assert [figures[f"evidence_{name}"] for name in ("precision", "recall", "f1")] == [2 / 4, 2 / 4, 2 / 4]
    assert figures["strict_accuracy"] == 2 / 6
    unmarked = score_replies([3, 0], [3, 0], evidence=[None, []], named_evidence=[[1], []])
    assert {"evidence_f1", "strict_accuracy"}.isdisjoint(unmarked)


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
    (references, predictions), _ = chats(draw, 100)
    interval = score_rows(references, predictions, "decode", bootstrap=200)["interval"]
    assert all(
        0 <= interval[name][0] <= interval[name][1] <= 1 for name in ("accuracy", "evidence_f1", "strict_accuracy")
    )


@pytest.mark.parametrize(
    ("task", "references", "predictions", "message"),
    [
        ("decode", [{"label": 1}], [{"label": 1, "evidence": []}], r"references\[0\] is \{'label': 1\}; allowed"),
        ("decode", [{"label": 2, "evidence": []}], [], r"references\[0\]\['label'\] is 2; allowed for 2-class"),
        ("selection", [4], [[0.1, 0.2]], r"references\[0\] is 4; predictions\[0\] has 2 scores"),
        ("selection", [0], [[0.1, float("nan")]], r"predictions\[0\] is \[0.1, nan\]; allowed"),
        ("selection", [0, 1], [[0.1, 0.2]], "lengths differ"),
        ("selection", [], [], "are empty"),
        ("crossed", [{"id": "t-good", "item": "t", "label": 4}], [0.1], r"references\[0\]\['label'\] is 4"),
        ("crossed", [{"id": "t-good", "item": "t", "label": 0}], [1.1], r"predictions\[0\] is 1.1; allowed are prob"),
        ("crossed", [{"id": "t-good", "item": "t", "label": 0}], [0.1], "lack a row of item 't'"),
        ("crossed", [{"id": "t-good", "item": "t", "label": 0}] * 2, [0.1] * 2, "second consistent reply .* 't-good'"),
        ("nli", [0], [0], "the task is 'nli'; allowed are 'crossed', 'decode', 'sel"),
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


def test_evaluate_loads_both_configs(tmp_path):
    (references, predictions), _ = chats(np.random.default_rng(3), 20)
    metric = CDConvMetric(config_name="decode", cache_dir=str(tmp_path))
    metric.add(prediction=predictions[0], reference=references[0])
    metric.add_batch(predictions=predictions[1:], references=references[1:])
    assert metric.compute() == score_rows(references, predictions, "decode")
    ranked = CDConvMetric(config_name="selection", cache_dir=str(tmp_path))
    result = ranked.compute(predictions=[[0.5, 0.1], [0.2, 0.9]], references=[0, 0], bootstrap=10)
    assert (result["r1"], result["interval"]["resamples"]) == (0.5, 10)
    with pytest.raises(ValueError, match="compares no predictions"):
        ranked.compute(predictions=[[1.0, 0.0]], references=[0], baseline_predictions=[[1.0, 0.0]])
    with pytest.raises(ValueError, match="no classes to stratify by"):
        ranked.compute(predictions=[[1.0, 0.0]], references=[0], bootstrap=10, stratified=True)
    with pytest.raises(ValueError, match=r"predictions\[0\] is \[1.0\]"):
        ranked.add_batch(predictions=[[1.0]], references=[0])
