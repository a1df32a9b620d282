"""The quality of probabilities: bins and operating points by hand, and operator settings on test."""

import shutil

import numpy as np
import pytest
from helpers.chats import chat
from sklearn.metrics import precision_recall_curve

from contradiction.data.splits import load_split
from contradiction.decision import Point, Rule
from contradiction.detector import ContradictionDetector
from contradiction.evaluation.evaluate import evaluate
from contradiction.evaluation.figures import has_outcomes, outcomes, wilson
from contradiction.inputs.views import CONVERSATION
from contradiction.labels import NON_CONTRADICTION
from contradiction.methods.loading import save_rule
from experiments.operating_points import operating_points, threshold_curve


def test_the_curve_equals_scikit_learns():
    rng = np.random.default_rng(5)
    given = rng.random(200).round(2)
    truth = rng.random(200) < given
    points = {point["threshold"]: point for point in threshold_curve(truth, given)}
    precision, recall, thresholds = precision_recall_curve(truth, given)
    assert sorted(points) == thresholds.tolist()
    for index, threshold in enumerate(thresholds.tolist()):
        assert points[threshold]["precision"] == pytest.approx(precision[index])
        assert points[threshold]["recall"] == pytest.approx(recall[index])
    [best] = operating_points(threshold_curve(truth, given), len(given), truth.mean(), targets=(0.7,))
    assert best["precision"] >= 0.7 and best["recall"] == pytest.approx(max(recall[precision >= 0.7]))


# At 0.6: precision 0.8 at a prior of one half; at 0.4: 2/3.
RULE = Rule(temperature=2.0, prior=0.5, curve=(Point(0.6, 0.4, 0.1), Point(0.4, 0.8, 0.4)))
# The probability of a contradiction, and whether it is one.
CASES = [(0.9, 1), (0.7, 1), (0.65, 0), (0.5, 1), (0.45, 0), (0.41, 0), (0.3, 1), (0.1, 0), (0.05, 0)]
RESULT = {
    "name": "case",
    "config": "2-class",
    "split": "test",
    "rule": RULE.without_curve(),
    "references": [label for _, label in CASES],
    "probabilities": [[1 - probability, probability] for probability, _ in CASES],
}


def test_outcomes_counted_by_hand():
    half, half_reached, eighty, ninety, *in_use = outcomes(RESULT, RULE)
    assert [outcome.setting for outcome in (half, half_reached, eighty, ninety)] == [
        "0.5", "precision>=0.5", "precision>=0.8", "precision>=0.9",
    ]  # fmt: skip
    assert (half.threshold, half.hits, half.contradictions, half.alarms, half.others) == (0.5, 3, 4, 1, 5)
    assert (half_reached.threshold, half_reached.hits, half_reached.alarms) == (0.4, 3, 3)
    assert (eighty.threshold, eighty.hits, eighty.alarms) == (0.6, 2, 1)
    assert eighty.precision == pytest.approx(0.5 * 2 / 4 / (0.5 * 2 / 4 + 0.5 * 1 / 5))
    assert ninety.threshold is None
    # At a prior of 3 %, a probability of 0.9 has odds of 9 · 3/97. It is below one half, so nothing is called.
    assert (in_use[0].threshold, in_use[0].hits, in_use[0].alarms) == (0.5, 0, 0)
    assert np.isnan(in_use[0].precision)
    assert [outcome.threshold for outcome in in_use[1:]] == [None] * 3
    (low, high), (few, many) = wilson(2, 4), wilson(1, 5)
    assert eighty.precision_interval == pytest.approx((low / (low + many), high / (high + few)))


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"split": "validation"}, RULE),  # on which the settings were chosen
        ({"config": "persona"}, RULE),
        ({}, Rule(temperature=2.0, prior=0.5)),  # without a curve
        ({"rule": Rule().without_curve()}, RULE),  # another rule
        ({"references": [1] * len(CASES)}, RULE),
    ],
)
def test_only_evaluations_by_the_rule_on_test_rows_of_both_kinds_have_outcomes(change, rule):
    assert has_outcomes(RESULT, RULE) and not has_outcomes({**RESULT, **change}, rule)


def test_outcomes_match_the_verdicts_of_the_facade(quick_model, sample_repo):
    detector = ContradictionDetector.from_pretrained(quick_model)
    result = evaluate(detector, data=sample_repo, config="4-class")
    rows = load_split(sample_repo, "4-class", "test")
    chats = [chat(*(row[column] for column in CONVERSATION)) for row in rows]
    truth = [rows.features["label"].int2str(label) != NON_CONTRADICTION for label in rows["label"]]
    reached = 0
    for outcome in outcomes(result, detector.classifier.rule):
        if outcome.threshold is None:
            continue
        reached += 1
        verdicts = detector.with_settings(threshold=outcome.setting, prior=outcome.prior).batch(chats)
        called = [bool(verdict.contradiction) for verdict in verdicts]
        assert outcome.hits == sum(a and b for a, b in zip(called, truth, strict=True))
        assert outcome.alarms == sum(a and not b for a, b in zip(called, truth, strict=True))
    assert reached


def test_a_card_names_the_rule_and_lists_the_settings(run, quick_model, sample_repo, tmp_path):
    model, kept = shutil.copytree(quick_model, tmp_path / "quick"), tmp_path / "kept"
    run("evaluate", model, "--data", sample_repo, "--json", kept / "quick.json")
    run("card", model, "--results", kept)
    card = (model / "README.md").read_text(encoding="utf-8")
    assert card.count("\n| precision>=0.8 |") == 2
    assert "earlier decision rule" not in card
    save_rule(model, Rule())
    run("card", model, "--results", kept)
    card = (model / "README.md").read_text(encoding="utf-8")
    assert "earlier decision rule" in card
    assert "precision>=0.5 |" not in card
