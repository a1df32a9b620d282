"""Settings of an operator on test: chosen on validation, counted from kept probabilities, told in the card."""

import shutil

import numpy as np
import pytest

from contradiction.detector import ContradictionDetector
from contradiction.evaluation.evaluate import evaluate
from contradiction.evaluation.thresholds import NOT_REACHED, outcomes, table, why_not
from contradiction.labels import NON_CONTRADICTION
from contradiction.methods.decision import Point, Rule
from contradiction.methods.loading import load_rule, save_rule
from contradiction.rates import wilson

# At 0.6: precision 0.8 at a prior of one half; at 0.4: 2/3.
RULE = Rule(temperature=2.0, prior=0.5, curve=(Point(0.6, 0.4, 0.1), Point(0.4, 0.8, 0.4)))
# Probability of a contradiction, and whether it is one.
ROWS = [(0.9, 1), (0.7, 1), (0.65, 0), (0.5, 1), (0.45, 0), (0.41, 0), (0.3, 1), (0.1, 0), (0.05, 0)]
RESULT = {
    "name": "case",
    "config": "2-class",
    "split": "test",
    "rule": RULE.without_curve(),
    "references": [label for _, label in ROWS],
    "probabilities": [[1 - probability, probability] for probability, _ in ROWS],
}


def test_outcomes_counted_by_hand():
    half, half_reached, eighty, ninety, *in_use = outcomes(RESULT, RULE)
    assert [each.setting for each in (half, half_reached, eighty, ninety)] == [
        "0.5", "precision>=0.5", "precision>=0.8", "precision>=0.9",
    ]  # fmt: skip
    assert (half.threshold, half.hits, half.contradictions, half.alarms, half.others) == (0.5, 3, 4, 1, 5)
    assert (half_reached.threshold, half_reached.hits, half_reached.alarms) == (0.4, 3, 3)
    assert (eighty.threshold, eighty.hits, eighty.alarms) == (0.6, 2, 1)
    assert eighty.precision == pytest.approx(0.5 * 2 / 4 / (0.5 * 2 / 4 + 0.5 * 1 / 5))
    assert ninety.threshold is None
    # At a prior of 3 % a probability of 0.9 has odds of 9 · 3/97, below one half: nothing is called.
    assert (in_use[0].threshold, in_use[0].hits, in_use[0].alarms) == (0.5, 0, 0)
    assert np.isnan(in_use[0].precision)
    assert [each.threshold for each in in_use[1:]] == [None] * 3


def test_the_interval_of_precision_takes_those_of_both_rates():
    eighty = outcomes(RESULT, RULE)[2]
    (low, high), (few, many) = wilson(2, 4), wilson(1, 5)
    assert eighty.precision_interval == pytest.approx((low / (low + many), high / (high + few)))
    assert eighty.precision_interval[0] < eighty.precision < eighty.precision_interval[1]


def test_the_table_says_what_was_not_reached_and_what_calls_nothing():
    rows = table(RESULT, RULE).rows
    assert rows[3] == ("precision>=0.9", "50.0 %, validation's", NOT_REACHED, "", "", "")
    assert rows[4][:4] == ("0.5", "3.0 %", "0.500", "nothing called")
    assert rows[2][2:5] == ("0.600", "71.4 (19.4–95.9)", "50.0 (15.0–85.0)")


@pytest.mark.parametrize(
    ("change", "rule", "said"),
    [
        ({"split": "validation"}, RULE, "settings are chosen on validation and measured on test"),
        ({"config": "persona"}, RULE, "config 'persona' has no contradictions"),
        ({"config": "nli-2-class"}, RULE, "config 'nli-2-class' has no contradictions"),
        ({}, Rule(temperature=2.0, prior=0.5), "case: its rule has no precisions"),
        ({"rule": Rule().without_curve()}, RULE, "case was evaluated with an older decision rule"),
        ({"references": [0] * 9}, RULE, "are all contradictions, or none is one"),
    ],
)
def test_where_outcomes_cannot_be_had_it_is_said(change, rule, said):
    assert said in str(why_not({**RESULT, **change}, rule))


def test_outcomes_are_what_the_facade_calls(quick_model, sample_repo):
    from contradiction.data.splits import load_split

    detector = ContradictionDetector.from_pretrained(quick_model)
    result = evaluate(detector, data=sample_repo, config="4-class")
    rows = load_split(sample_repo, "4-class", "test")
    speakers = {"u1": "user", "b1": "assistant", "u2": "user", "b2": "assistant"}
    chats = [[{"role": role, "content": row[column]} for column, role in speakers.items()] for row in rows]
    reached = 0
    for each in outcomes(result, detector.classifier.rule):
        if each.threshold is None:
            continue
        reached += 1
        verdicts = detector.with_settings(threshold=each.setting, prior=each.prior).batch(chats)
        called = [bool(verdict.is_contradiction) for verdict in verdicts]
        truth = [rows.features["label"].int2str(label) != NON_CONTRADICTION for label in rows["label"]]
        assert each.hits == sum(a and b for a, b in zip(called, truth, strict=True))
        assert each.alarms == sum(a and not b for a, b in zip(called, truth, strict=True))
    assert reached


def test_a_kept_evaluation_is_not_scored_again_and_another_rule_is(run, quick_model, sample_repo, tmp_path):
    model, kept = shutil.copytree(quick_model, tmp_path / "quick"), tmp_path / "kept"
    asked = ["evaluate", model, "--data", sample_repo, "--settings", "--results", kept]
    code, first, err = run(*asked, "--json", kept / "quick.json")
    assert (code, err) == (0, "")
    code, second, err = run(*asked)
    assert (code, second) == (0, first)
    assert err == f"cdconv: {kept} contains this evaluation, so the detector is not run again\n"
    assert "Settings chosen on validation, on 4-class, test split" in second
    save_rule(model, Rule(temperature=3.0, cut=0.4, prior=0.4, curve=(Point(0.5, 0.5, 0.5),)))
    code, _, err = run(*asked)
    assert (code, err) == (0, "")


def test_a_card_names_the_rule_and_holds_the_settings(run, quick_model, sample_repo, tmp_path):
    model, kept = shutil.copytree(quick_model, tmp_path / "quick"), tmp_path / "kept"
    rule = load_rule(model)
    run("evaluate", model, "--data", sample_repo, "--json", kept / "quick.json")
    run("card", model, "--results", kept)
    card = (model / "README.md").read_text(encoding="utf-8")
    assert f"logits are divided by {rule.temperature:.2f}" in card
    assert f"contradictions together is at least {rule.cut:.2f}" in card
    for label, each in rule.offsets.items():
        assert (f"`{label}` gets {each:+.1f}" in card) == bool(each)
    assert card.count("\n| precision>=0.8 |") == 2
    assert "used another decision rule" not in card
    save_rule(model, Rule())
    run("card", model, "--results", kept)
    card = (model / "README.md").read_text(encoding="utf-8")
    assert "None was chosen: the most probable label is taken" in card
    assert "used another decision rule" in card
    assert "precision>=0.5 |" not in card


def test_settings_need_a_calibrated_detector(run, random_model, sample_repo):
    code, out, err = run("evaluate", random_model("4-class"), "--data", sample_repo, "--settings")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "its rule has no precisions of thresholds on validation; `cdconv calibrate` measures them" in err
