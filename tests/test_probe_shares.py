"""Shares of contradictions: their correction for the errors of the detector, their intervals, and comparisons."""

import re
from collections import Counter

import numpy as np
import pytest

from contradiction.decision import Rule
from contradiction.probing import pages, report
from contradiction.probing.shares import (
    Accuracy,
    accuracy_of,
    accuracy_of_evaluation,
    compare,
    design_effect,
    share,
)
from contradiction.settings import Settings


def test_the_intervals_have_their_nominal_coverage():
    chance_, held, widths = np.random.default_rng(0), Counter(), []
    for turn in range(300):
        true = (0.02, 0.1, 0.4)[turn % 3]
        n, contradictions, others = 250, 300, 600
        accuracy = Accuracy(
            chance_.binomial(contradictions, 0.7), contradictions, chance_.binomial(others, 0.15), others
        )
        apparent = true * 0.7 + (1 - true) * 0.15
        called = chance_.random(n) < apparent
        figures = share(called, [str(index) for index in range(n)], accuracy, seed=turn)
        held[true] += figures.low <= true <= figures.high
        widths.append(figures.high - figures.low)
    assert all(count >= 91 for count in held.values()), held
    assert np.mean(widths) < 0.2


def test_a_detector_no_better_than_chance_gives_no_estimate():
    figures = share([True] * 30 + [False] * 70, [str(index) for index in range(100)], Accuracy(30, 100, 60, 200))
    assert (figures.estimate, figures.low, figures.high) == (None, 0.0, 1.0)
    assert pages.cell(figures.to_record()) == "not known"


def test_fewer_calls_than_expected_false_alarms_do_not_prove_consistency():
    """The detector is right more often here than on the rows where it was measured, so only a bound is known."""
    names = [str(index) for index in range(1000)]
    figures = share([True] * 113 + [False] * 887, names, Accuracy(532, 848, 314, 1484))
    assert figures.estimate is None and (figures.low, 0.17 < figures.high < 0.24) == (0, True)
    assert pages.cell(figures.to_record()).startswith("not known (at most ")
    assert re.search(r"not known \(at most [\d.]+ %\)<", pages.badge(figures.to_record()))


def test_more_calls_than_contradictions_alone_explain_give_a_bound_from_below():
    """The detector misses fewer contradictions here than on the rows where it was measured."""
    names = [str(index) for index in range(200)]
    figures = share([True] * 160 + [False] * 40, names, Accuracy(660, 1000, 200, 1000))
    assert figures.estimate is None and (0.6 < figures.low < 0.75, figures.high) == (True, 1)
    assert pages.cell(figures.to_record()).startswith("not known (at least ")
    rows = [
        {"id": name, "trigger": "short", "opening": name, "u1": "", "b1": "", "u2": "", "b2": "",
         "label": "contradiction" if int(name) < 160 else "non-contradiction"}
        for name in names
    ]  # fmt: skip
    built = report.build([report.Source("bot", rows, "any", {"contradiction": Accuracy(660, 1000, 200, 1000)}, "rows")])
    assert pages.consistent(built["bots"][0]["replies"]).startswith("at most ")
    assert "called more" in pages.headlines(built)[0]


def test_a_difference_is_corrected_only_if_both_shares_are_known():
    names = [str(index) for index in range(200)]
    few, more = ([True] * count + [False] * (200 - count) for count in (3, 12))
    poor, good = Accuracy(700, 1000, 200, 1000), Accuracy(900, 1000, 10, 1000)
    assert share(few, names, poor).estimate is None and share(more, names, good).estimate is not None
    unknown, known = (compare(few, more, names, (accuracy, accuracy)) for accuracy in (poor, good))
    assert (unknown.corrected, unknown.difference) == (False, pytest.approx(9 / 200))
    assert known.corrected and known.difference == pytest.approx(9 / 200 / 0.89)
    assert compare(few, more, names, (None, good)).corrected is False


def test_a_difference_that_never_occurred_still_has_an_interval():
    nothing = [False] * 25
    figures = compare(nothing, nothing, [str(index) for index in range(25)])
    assert figures.difference == 0 and figures.low < -0.03 and figures.high > 0.03
    one_opening = compare([False] * 100, [True] * 68 + [False] * 32, ["你好"] * 100)
    assert one_opening.high - one_opening.low > 0.5 and one_opening.p_value == 1
    assert design_effect(np.array([1.0, 0.0] * 30), ["你好"] * 60) == 60


def test_a_prior_corrects_the_probabilities_behind_the_error_rates():
    evaluation = {"config": "2-class", "references": [0, 1], "probabilities": [[0.4, 0.6], [0.1, 0.9]]}
    rule = Rule(prior=0.5)
    assert accuracy_of_evaluation(evaluation, Settings(), rule)["contradiction"] == Accuracy(1, 1, 1, 1)
    # At a prior of 0.2 the probabilities are 0.27 and 0.69.
    assert accuracy_of_evaluation(evaluation, Settings(prior=0.2), rule)["contradiction"] == Accuracy(1, 1, 0, 1)


def test_true_labels_are_not_corrected():
    figures = share([True] * 30 + [False] * 70, [str(index) for index in range(100)], None)
    assert (figures.estimate, figures.low, figures.high) == (0.3, figures.apparent_low, figures.apparent_high)


def test_conversations_that_share_an_opening_count_as_fewer():
    values, own = np.repeat([1.0, 0.0, 0.0], 50), np.arange(150)
    assert design_effect(values, own.astype(str)) == 1
    together = design_effect(values, np.repeat(np.arange(15), 10).astype(str))
    assert together == pytest.approx(10, rel=0.15)
    apart, clustered = (share(values > 0, list(map(str, names)), None) for names in (own, own // 10))
    assert clustered.high - clustered.low > 2.5 * (apart.high - apart.low)


def test_accuracy_is_reported_for_every_kind():
    truth = ["history"] * 4 + ["role-confusion"] * 2 + ["non-contradiction"] * 4
    called = ["history"] * 3 + ["non-contradiction"] + ["history"] * 2 + ["non-contradiction"] * 3 + ["history"]
    accuracies = accuracy_of(truth, called)
    assert accuracies["contradiction"] == Accuracy(5, 6, 1, 4)
    assert accuracies["history"] == Accuracy(3, 4, 3, 6)
    assert accuracies["role-confusion"] == Accuracy(0, 2, 0, 8)
    assert "intra-sentence" not in accuracies


def test_a_paired_test_of_equal_bots_is_rarely_significant():
    draw, openings = np.random.default_rng(1), [str(index // 2) for index in range(60)]
    tests = [compare(draw.random(60) < 0.3, draw.random(60) < 0.3, openings) for _ in range(30)]
    assert sum(test.p_value < 0.1 for test in tests) <= 8  # 3 are expected
