"""What probabilities are worth: bins, calibration error and operating points, against cases worked out by hand."""

import numpy as np
import pytest
from sklearn.metrics import precision_recall_curve

from contradiction.evaluation.thresholds import calibration_error, operating_points, reliability, threshold_curve
from contradiction.rates import wilson


def test_calibration_error_of_two_bins_by_hand():
    truth = np.array([False, True, True, True])
    given = np.array([0.1, 0.3, 0.6, 0.8])
    bins = reliability(truth, given, bins=2)
    assert [(each["n"], each["mean_probability"], each["share"]) for each in bins] == [
        (2, pytest.approx(0.2), 0.5),
        (2, pytest.approx(0.7), 1.0),
    ]
    assert calibration_error(bins) == pytest.approx(0.5 * 0.3 + 0.5 * 0.3)


def test_bins_weigh_by_their_rows():
    # Five rows say 0.2 and two 0.9: the median is 0.2, so that the bins hold five rows and two.
    truth = np.array([True, False, False, False, False, True, False])
    bins = reliability(truth, np.array([0.2] * 5 + [0.9] * 2), bins=2)
    assert [each["n"] for each in bins] == [5, 2]
    assert calibration_error(bins) == pytest.approx(2 / 7 * abs(0.9 - 0.5))


def test_every_row_is_in_one_bin_with_its_equals():
    rng = np.random.default_rng(3)
    given = rng.random(500).round(2)  # with ties
    truth = rng.random(500) < given**2
    bins = reliability(truth, given)
    assert sum(each["n"] for each in bins) == 500
    assert sum(each["n"] * each["share"] for each in bins) == pytest.approx(truth.sum())
    assert sum(each["n"] * each["mean_probability"] for each in bins) == pytest.approx(given.sum())


# From the surest down: c c n c n n n n (c a contradiction): precision 1, 1, 2/3, 3/4, 3/5, ...
TRUTH = np.array([True, True, False, True, False, False, False, False])
GIVEN = np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2])


def test_the_operating_point_keeps_the_most_recall():
    low, middle, high = operating_points(threshold_curve(TRUTH, GIVEN), 8, 3 / 8, targets=(0.5, 0.7, 0.9))
    assert (low["threshold"], low["recall"]) == (0.6, 1)  # 3 of 6 is enough, but 3 of 4 has fewer false alarms
    assert (middle["threshold"], middle["precision"]) == (0.6, pytest.approx(0.75))
    assert (high["threshold"], high["recall"], high["precision"]) == (0.8, pytest.approx(2 / 3), 1)
    assert (middle["true_positives"], middle["false_positives"]) == (3, 1)
    assert middle["alarms_per_1000"] == pytest.approx(500)
    assert all(each["reached"] and each["low"] <= each["precision"] <= each["high"] for each in (low, middle, high))


def test_at_another_share_the_same_threshold_has_another_precision():
    (point,) = operating_points(threshold_curve(TRUTH, GIVEN), 8, 0.03, targets=(0.13,))
    # TPR 1 and FPR 1/5 at the threshold 0.6: 0.03 / (0.03 + 0.97 / 5) = 0.1339...
    assert point["threshold"] == 0.6
    assert point["precision"] == pytest.approx(0.03 / (0.03 + 0.97 / 5))
    assert point["alarms_per_1000"] == pytest.approx(30 + 970 / 5)
    # The worse end of both intervals, then the better.
    (recall, best), (fewest, alarms) = wilson(3, 3), wilson(1, 5)
    assert point["low"] == pytest.approx(0.03 * recall / (0.03 * recall + 0.97 * alarms))
    assert point["high"] == pytest.approx(0.03 * best / (0.03 * best + 0.97 * fewest))


def test_what_cannot_be_reached_is_said_with_the_best_there_is():
    truth = np.array([False, True, True, False])
    (point,) = operating_points(threshold_curve(truth, np.array([0.9, 0.8, 0.7, 0.6])), 4, 0.5, targets=(0.9,))
    assert not point["reached"]
    assert (point["threshold"], point["precision"]) == (0.7, pytest.approx(2 / 3))


def test_the_curve_is_that_of_scikit_learn():
    rng = np.random.default_rng(5)
    given = rng.random(200).round(2)
    truth = rng.random(200) < given
    points = {each["threshold"]: each for each in threshold_curve(truth, given)}
    precision, recall, thresholds = precision_recall_curve(truth, given)
    assert sorted(points) == thresholds.tolist()
    for index, threshold in enumerate(thresholds.tolist()):
        assert points[threshold]["precision"] == pytest.approx(precision[index])
        assert points[threshold]["recall"] == pytest.approx(recall[index])
