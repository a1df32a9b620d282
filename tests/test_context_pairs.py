"""Pairs of replies to one context."""

import numpy as np
import pytest
from datasets import ClassLabel, Dataset, Features, Value

from contradiction.evaluation.contrast import in_order, pairs_of, table
from contradiction.labels import LABELS

NAMES = LABELS["4-class"]
# Two contexts with both kinds of replies, one with one kind only.
ROWS = [("p", 0), ("p", 3), ("p", 1), ("q", 0), ("q", 2), ("r", 3), ("r", 3)]
PAIRS = [[(1, 0), (2, 0)], [(4, 3)]]


@pytest.fixture
def rows():
    text = Value("string")
    features = Features(id=Value("int32"), u1=text, b1=text, u2=text, b2=text, label=ClassLabel(names=list(NAMES)))
    return Dataset.from_list(
        [
            {"id": number, "u1": context, "b1": context, "u2": context, "b2": str(number), "label": label}
            for number, (context, label) in enumerate(ROWS)
        ],
        features=features,
    )


def test_a_pair_is_a_contradiction_and_another_reply_to_one_context(rows):
    assert pairs_of(rows) == PAIRS


@pytest.mark.parametrize(
    ("probabilities", "share"),
    [([0, 1, 1, 0, 1, 0, 0], 1), ([1, 0, 0, 1, 0, 0, 0], 0), ([0, 1, 0, 0, 1, 0, 0], 2.5 / 3), ([0] * 7, 0.5)],
)
def test_the_share_in_order_counts_a_tie_as_half(probabilities, share):
    value, (low, high) = in_order(np.array(probabilities, dtype=float), PAIRS)
    assert value == pytest.approx(share)
    assert low <= value <= high


def test_a_score_of_the_context_alone_orders_half(rows):
    by_context = {"p": 0.9, "q": 0.2, "r": 0.5}
    assert in_order(np.array([by_context[name] for name in rows["u1"]]), pairs_of(rows))[0] == 0.5


def test_the_table_holds_what_keeps_probabilities_of_these_rows(rows):
    probabilities = [[0.9, 0, 0, 0.1] if label == 0 else [0.2, 0, 0, 0.8] for _, label in ROWS]
    result = {"name": "sharp", "config": "4-class", "ids": list(rows["id"]), "probabilities": probabilities}
    others = [result | {"name": "labels only", "probabilities": None}, result | {"name": "other rows", "ids": [9]}]
    [line] = table([result, *others], rows).rows
    assert line[:3] == ("sharp", "100.0", "100.0")
    assert table(others, rows) is None
