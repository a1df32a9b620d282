"""The figures of a probe: shares with their intervals, estimates of the true rate, comparisons of two bots."""

from collections import Counter

import numpy as np
import pytest

from contradiction.probing.report import MISFIT, ONE_SIDED, TOO_WIDE, compare, design_effect, estimate, share
from contradiction.probing.run import Accuracy


def names(count):
    return [str(index) for index in range(count)]


def calls(called, n):
    return [True] * called + [False] * (n - called)


@pytest.mark.parametrize("own", [False, True])
def test_the_intervals_of_an_estimate_have_their_nominal_coverage(own):
    draw, held, widths, n = np.random.default_rng(0), Counter(), [], 250
    for turn in range(150):
        true = (0.02, 0.1, 0.4)[turn % 3]
        contradicts = draw.random(n) < true
        called = np.where(contradicts, draw.random(n) < 0.7, draw.random(n) < 0.15)
        if own:
            sample = draw.choice(n, 100, replace=False)
            truth, given = contradicts[sample], called[sample]
            accuracy = Accuracy(*map(int, (sum(truth & given), sum(truth), sum(~truth & given), sum(~truth))))
        else:
            accuracy = Accuracy(draw.binomial(300, 0.7), 300, draw.binomial(600, 0.15), 600)
        figures = estimate(list(called), names(n), accuracy, own=own)
        if figures["share"] is not None:
            held[true] += figures["low"] <= true <= figures["high"]
            widths.append(figures["high"] - figures["low"])
    assert len(widths) > 145 and all(count >= 44 for count in held.values()), held
    assert np.mean(widths) < 0.2


@pytest.mark.parametrize(
    ("called", "n", "accuracy", "why"),
    [
        (30, 100, Accuracy(30, 100, 60, 200), TOO_WIDE),
        (113, 1000, Accuracy(532, 848, 314, 1484), MISFIT),
        (160, 200, Accuracy(660, 1000, 200, 1000), MISFIT),
        (90, 100, Accuracy(30, 100, 60, 200), MISFIT),
        (6, 400, Accuracy(6, 106, 20, 2226), TOO_WIDE),
    ],
)
def test_there_is_no_estimate_where_the_measured_errors_do_not_fit(called, n, accuracy, why):
    assert estimate(calls(called, n), names(n), accuracy, own=False)["why"] == why


def test_labels_of_one_kind_give_an_estimate_if_they_cover_both_verdicts():
    """Twenty labelled conversations, none of them a contradiction; five of them had been called."""
    figures = estimate(calls(25, 100), names(100), Accuracy(0, 0, 5, 20), own=True)
    assert figures["share"] == 0 and 0.1 < figures["high"] < 0.25
    assert estimate(calls(25, 100), names(100), Accuracy(0, 0, 0, 20), own=True)["why"] == ONE_SIDED


def test_of_fewer_than_twenty_conversations_there_are_counts_and_no_share():
    assert share(calls(3, 19), names(19)) == {"called": 3, "n": 19, "share": None, "low": None, "high": None}
    assert share(calls(3, 20), names(20))["share"] == 0.15
    for n, why in ((19, "there are fewer than 20 conversations"), (20, None)):
        assert estimate(calls(3, n), names(n), Accuracy(9, 10, 1, 10), own=False)["why"] == why
    few = compare(calls(3, 19), calls(5, 19), names(19))
    assert (few["n"], few["only_second"], few["share"], few["p_value"]) == (19, 2, None, None)


def test_conversations_that_share_an_opening_count_as_fewer():
    values, own = np.repeat([1.0, 0.0, 0.0], 50), np.arange(150)
    assert design_effect(values, own.astype(str)) == 1
    assert design_effect(values, np.repeat(np.arange(15), 10).astype(str)) == pytest.approx(10 * 15 / 14)
    assert design_effect(np.array([1.0, 0.0] * 30), ["你好"] * 60) == 60
    assert design_effect(np.zeros(60), names(30) * 2) == 1  # none was called
    assert design_effect(np.array([1.0, 0.0] * 30), np.repeat(names(30), 2)) == 1  # each opening has one of each
    apart, clustered = (share(list(values > 0), list(map(str, ids))) for ids in (own, own // 10))
    assert clustered["high"] - clustered["low"] > 2.5 * (apart["high"] - apart["low"])


def test_a_comparison_of_two_bots():
    some = compare(calls(3, 200), calls(12, 200), names(200))
    assert (some["share"], some["only_first"], some["only_second"]) == (0.045, 0, 9)
    assert 0 < some["low"] < some["share"] < some["high"] and some["p_value"] == pytest.approx(2 * 0.5**9, abs=1e-5)
    nothing = compare(calls(0, 25), calls(0, 25), names(25))
    assert nothing["low"] < -0.03 and nothing["high"] > 0.03 and nothing["p_value"] == 1
    one_opening = compare(calls(0, 100), calls(68, 100), ["你好"] * 100)
    assert one_opening["high"] - one_opening["low"] > 0.5 and one_opening["p_value"] == 1
