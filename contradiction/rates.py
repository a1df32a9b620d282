"""Rates that are counted: how sure a share is, and what recall and false alarms make of a precision elsewhere."""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

# The share of contradictions to reckon with in real use: the paper counts about one in a 30-turn chat.
IN_USE = 0.03


def wilson(part: int, whole: int) -> tuple[float, float]:
    """The 95 % Wilson interval of a share; 0 to 1 where there is nothing to count."""
    from scipy.stats import binomtest

    if not whole:
        return 0.0, 1.0
    found = binomtest(part, whole).proportion_ci(method="wilson")
    return float(found.low), float(found.high)


def precision_at(prior: float, recall: "ArrayLike", false_alarms: "ArrayLike") -> np.ndarray:
    """The precision where a share ``prior`` of replies are contradictions: π·TPR / (π·TPR + (1 - π)·FPR).

    Recall and false-alarm rate say nothing of how frequent contradictions are, so they carry over to another share as
    long as the replies of each kind stay as they are. Not a number where there is no alarm.
    """
    hits = prior * np.asarray(recall, dtype=float)
    alarms = hits + (1 - prior) * np.asarray(false_alarms, dtype=float)
    return np.divide(hits, alarms, out=np.full(hits.shape, np.nan), where=alarms > 0)
