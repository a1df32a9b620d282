"""The removal test: without the first turn, a history contradiction has nothing left to contradict.

A detector that still calls it a contradiction goes by the looks of the reply. The test follows RCT of DECODE.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from contradiction.detector import ContradictionDetector
from contradiction.evaluation.evaluated_rows import EvaluatedRows, Records
from contradiction.labels import CATEGORIES, HISTORY, INTRA, LABELS, NON_CONTRADICTION, ROLE
from contradiction.rates import wilson

FIRST_TURN = ("u1", "b1")


def reads_first_turn(columns: Sequence[str]) -> bool:
    """Whether a detector that reads these columns reads anything of the first turn."""
    return bool(set(FIRST_TURN) & set(columns))


def judge_without_first_turn(
    detector: ContradictionDetector,
    rows: Sequence[Mapping[str, Any]],
    task: str,
    *,
    batch_size: int = 64,
    on_batch: Callable[[int], Any] | None = None,
) -> list[int]:
    """The class ids that a detector predicts when u1 and b1 are empty and only u2 and b2 are left.

    Args:
        detector: the detector.
        rows: with u1, b1, u2 and b2.
        task: whose labels are predicted; ``2-class`` also for a detector whose labels can be merged.
        batch_size: rows in a forward pass.
        on_batch: called with the number of rows done, after each forward pass.
    """
    emptied = [{**row, **dict.fromkeys(FIRST_TURN, "")} for row in rows]
    classifications = detector.classify(emptied, batch_size=batch_size, on_batch=on_batch)
    labels = [each.label if detector.task == task else str(each.binary_label) for each in classifications]
    return [LABELS[task].index(label) for label in labels]


def removal(evaluated: EvaluatedRows, without: Sequence[int]) -> Records:
    """How the verdicts change when the first turn is removed.

    A history contradiction loses what it contradicts, so its verdict should turn. An intra-sentence contradiction is in
    the reply itself, and a reply without contradiction stays one, so their verdicts should stay. Role confusion can
    often be told from the first turn alone, so it is not known what should happen to it.

    Args:
        evaluated: the evaluation.
        without: class ids with the first turn removed, from :func:`judge_without_first_turn`.

    Returns:
        A record for each category: label, should (``turn``, ``stay``, or None for not known), n, called (a
        contradiction, with all turns), called_without (a contradiction, without the first), asked (rows judged rightly
        with all turns: contradiction or not), right (those of them that did what they should), rate (right / asked),
        low, high (95 % Wilson interval). The rate is None where nothing was asked. It, right, low and high are None
        where it is not known what should happen.
    """
    before = evaluated.are_contradictions(evaluated.predictions)
    after = evaluated.are_contradictions(np.array(without))
    categories = np.array(evaluated.column("category"))
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
