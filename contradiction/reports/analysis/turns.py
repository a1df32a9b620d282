"""The removal test: without the first turn, a contradiction of the history is none any more (after DECODE's RCT).

A detector that goes on calling it one has judged the reply by its looks, not by what it contradicts.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from contradiction.detector import ContradictionDetector
from contradiction.labels import CATEGORIES, HISTORY, INTRA, LABELS, NON_CONTRADICTION, ROLE
from contradiction.rates import wilson
from contradiction.reports.analysis.predictions import Material
from contradiction.reports.analysis.slices import Records

FIRST_TURN = ("u1", "b1")


def reads_first_turn(columns: Sequence[str]) -> bool:
    """Whether a detector of these columns reads anything of the first turn."""
    return bool(set(FIRST_TURN) & set(columns))


def judge_without_first_turn(
    detector: ContradictionDetector,
    rows: Sequence[Mapping[str, Any]],
    task: str,
    *,
    batch_size: int = 64,
    on_batch: Callable[[int], Any] | None = None,
) -> list[int]:
    """The class ids that a detector gives when u1 and b1 are empty and only u2 and b2 are left.

    Args:
        detector: what to test.
        rows: with u1, b1, u2 and b2.
        task: whose labels are decided on; ``2-class`` also for a detector whose labels can be merged.
        batch_size: rows a forward pass.
        on_batch: called with the number of rows done, after each forward pass.
    """
    emptied = [{**row, **dict.fromkeys(FIRST_TURN, "")} for row in rows]
    classifications = detector.classify(emptied, batch_size=batch_size, on_batch=on_batch)
    decided = [each.label if detector.task == task else str(each.binary_label) for each in classifications]
    return [LABELS[task].index(label) for label in decided]


def removal(material: Material, without: Sequence[int]) -> Records:
    """What becomes of the verdicts when the first turn is removed.

    Of a history contradiction the reason goes away, so the verdict should turn; intra-sentence contradictions lie in
    the reply, and what was none becomes none, so those should stay. Whose part a reply takes can often be told from the
    first turn alone, so nobody knows what should become of role confusion.

    Args:
        material: the evaluation.
        without: class ids with the first turn removed, as ``judge_without_first_turn`` gives them.

    Returns:
        A record a category: label, should (``turn``, ``stay``, None where nobody knows), n, called (a contradiction,
        with all turns), called_without (a contradiction, without the first), asked (rows judged rightly with all turns:
        contradiction or not), right (those of them that did what they should), rate (right / asked), low, high (95 %
        Wilson interval); rate is None where nothing was asked, and right, low and high too where nobody knows.
    """
    before, after = material.are_contradictions(material.predictions), material.are_contradictions(np.array(without))
    categories = np.array(material.values("category"))
    records = []
    for label in (NON_CONTRADICTION, *CATEGORIES):
        mask = categories == label
        if not mask.any():
            continue
        asked = mask & (before == (label != NON_CONTRADICTION))
        right = asked & (after == (label == INTRA))
        low, high = wilson(int(right.sum()), int(asked.sum()))
        known = label != ROLE
        records.append(
            {
                "label": label,
                "should": ("turn" if label == HISTORY else "stay") if known else None,
                "n": int(mask.sum()),
                "called": int((mask & before).sum()),
                "called_without": int((mask & after).sum()),
                "asked": int(asked.sum()),
                "right": int(right.sum()) if known else None,
                "rate": float(right.sum() / asked.sum()) if known and asked.any() else None,
                "low": low if known else None,
                "high": high if known else None,
            }
        )
    return records
