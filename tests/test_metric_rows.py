"""The figures of DECODE, selection and retrieval equal scikit-learn's, and those of crossed chats the library's."""

import numpy as np
import pytest
from sklearn.metrics import (
    accuracy_score,
    label_ranking_average_precision_score,
    precision_recall_fscore_support,
    top_k_accuracy_score,
)

from contradiction.data.corpora.crossed import Quadruple, read
from contradiction.evaluation.crossed import JudgedItem, summary
from contradiction.verdict import Verdict
from evaluate_metric.evaluate_metric import CDConvMetric, score_rows

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


def test_retrieval_figures_equal_scikit_learns():
    draw = np.random.default_rng(6)
    scores, rights = draw.random((200, 30)), draw.integers(30, size=200)
    ranked = np.argsort(-scores, axis=1)
    figures = score_rows(rights[:, None], ranked, "retrieval")
    for depth in (1, 5, 10):
        expected = top_k_accuracy_score(rights, scores, k=depth, labels=range(30))
        assert figures[f"recall@{depth}"] == pytest.approx(expected)
    assert figures["mrr"] == pytest.approx(label_ranking_average_precision_score(np.eye(30)[rights], scores))
    cut = score_rows(rights[:, None], ranked[:, :10], "retrieval")
    assert cut["recall@10"] == figures["recall@10"] and 0 < figures["mrr"] - cut["mrr"] < 1 / 11


def test_the_first_relevant_passage_counts():
    searches = {"found second": ([3, 9], [1, 9, 3]), "not found": ([0], [1, 2]), "no passage found": ([0], [])}
    figures = score_rows(*zip(*searches.values(), strict=True), "retrieval", bootstrap=50)
    assert (figures["n"], figures["recall@1"], figures["recall@5"], figures["mrr"]) == pytest.approx(
        (3, 0, 1 / 3, 1 / 6)
    )
    assert figures["interval"]["recall@1"] == [0, 0]


def crossed_rows(count):
    """Some quadruples and pairs of the test split, the rows of the data set for them, and random probabilities."""
    items = [*read("test")[:count], *[item for item in read("test") if not isinstance(item, Quadruple)][:count]]
    rows = [{"id": row.id, "item": row.source, "label": row.label} for item in items for row in item.judged()]
    return items, rows, np.random.default_rng(4).integers(6, size=len(rows)) / 5  # with ties


def test_crossed_figures_equal_the_librarys():
    items, rows, probabilities = crossed_rows(30)
    verdicts = iter(Verdict("history" if p >= 0.4 else "non-contradiction", p, {}, p) for p in probabilities.tolist())
    expected = summary([JudgedItem(item, tuple(next(verdicts) for _ in item.judged())) for item in items])["all"]
    order = np.random.default_rng(5).permutation(len(rows))  # the rows may come in any order
    figures = score_rows([rows[i] for i in order], probabilities[order], "crossed", threshold=0.4, bootstrap=500)
    names = ("in_order", "both_right", "all_right")
    assert figures["n"] == 60 and [figures[name] for name in names] == pytest.approx([expected[n] for n in names])
    for name in names:
        assert figures["interval"][name] == pytest.approx(expected["interval"][name], abs=0.03)


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
        ("decode", [{"label": 1, "evidence": [-1]}], [], r"references\[0\]\['evidence'\] is \[-1\]; allowed"),
        ("selection", [4], [[0.1, 0.2]], r"references\[0\] is 4; predictions\[0\] has 2 scores"),
        ("selection", [0], [[0.1, float("nan")]], r"predictions\[0\] is \[0.1, nan\]; allowed"),
        ("selection", [0], [0.1], r"predictions\[0\] is 0.1; allowed"),
        ("selection", [0, 1], [[0.1, 0.2]], "lengths differ"),
        ("selection", [], [], "are empty"),
        ("retrieval", [[]], [[1]], r"references\[0\] is \[\]; allowed are lists of at least one"),
        ("retrieval", [[1]], [["1"]], r"predictions\[0\] is \['1'\]; allowed are lists of indices"),
        ("crossed", [{"id": "t-good", "label": 0}], [0.1], r"references\[0\] is .*; allowed are dicts with 'id'"),
        ("crossed", [{"id": "t-good", "item": "t", "label": 4}], [0.1], r"references\[0\]\['label'\] is 4"),
        ("crossed", [{"id": "t-good", "item": "t", "label": 0}], [1.1], r"predictions\[0\] is 1.1; allowed are prob"),
        ("crossed", [{"id": "t-good", "item": "t", "label": 0}], [0.1], "lack a row of item 't'"),
        ("crossed", [{"id": "t-good", "item": "t", "label": 0}] * 2, [0.1] * 2, "second consistent reply .* 't-good'"),
        ("nli", [0], [0], "the task is 'nli'; allowed are 'crossed', 'decode', 'selection', 'retr"),
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
    longer = CDConvMetric(config_name="crossed-long", cache_dir=str(tmp_path))
    assert longer.compute(predictions=probabilities, references=rows, threshold=0.7) == expected
    assert score_rows(rows, probabilities, "crossed-long", threshold=0.7) == expected
    with pytest.raises(ValueError, match="threshold is 50; allowed are probabilities"):
        metric.compute(predictions=probabilities, references=rows, threshold=50)
    with pytest.raises(TypeError, match="threshold .*arguments are "):
        CDConvMetric(cache_dir=str(tmp_path)).compute(predictions=[0], references=[0], threshold=0.5)


def test_evaluate_loads_both_configs(tmp_path):
    (references, predictions), _ = chats(np.random.default_rng(3), 20)
    metric = CDConvMetric(config_name="decode", cache_dir=str(tmp_path))
    assert metric.compute(predictions=predictions, references=references) == score_rows(
        references, predictions, "decode"
    )
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
