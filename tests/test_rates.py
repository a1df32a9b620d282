"""Rates: the Wilson interval, and precision at another share of contradictions."""

import numpy as np
import pytest

from contradiction.rates import precision_at, wilson


def test_the_wilson_interval_is_wilsons():
    z, n, share = 1.959963984540054, 10, 0.8
    middle = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    assert wilson(8, 10) == pytest.approx((middle - half, middle + half))
    assert wilson(0, 0) == (0, 1)


def test_precision_follows_the_share_of_contradictions():
    # TPR 0.8, FPR 0.1: 0.4 / 0.45 at one half; 0.024 / 0.121 at 3 %.
    found = [float(precision_at(prior, np.array([0.8]), np.array([0.1]))[0]) for prior in (0.5, 0.03)]
    assert found == pytest.approx([0.4 / 0.45, 0.024 / 0.121])
    assert np.isnan(precision_at(0.5, np.array([0.0]), np.array([0.0]))[0])
