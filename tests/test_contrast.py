"""Contrast pairs: the properties of the file, and the counts of the verdicts of a detector."""

import json
from collections import Counter

import numpy as np
import pytest
from datasets import ClassLabel, Dataset, Features, Value
from helpers.chats import chat

from contradiction import cdconv
from contradiction.detector import ContradictionDetector
from contradiction.evaluation.contrast import JudgedPair, count, in_order, judge_pairs, pairs_of, read_pairs, table
from contradiction.labels import CATEGORIES, LABELS
from contradiction.paths import SAMPLE
from contradiction.reports.tables import contrast_table
from contradiction.verdict import Verdict

PAIRS = read_pairs()


def verdict(label, chance):
    return Verdict(label, None, {"non-contradiction": 1 - chance, "history": chance}, chance)


def answer(contradicting, fitting, pair=PAIRS[0]):
    return JudgedPair(pair, verdict(*contradicting), verdict(*fitting))


def test_the_pairs_are_complete_cover_all_kinds_and_are_unique():
    assert len(PAIRS) == 84
    assert set(Counter(pair.phenomenon for pair in PAIRS).values()) == {6, 12}
    assert {pair.label for pair in PAIRS} == set(CATEGORIES)
    texts = [" ".join((*pair.turns, reply)) for pair in PAIRS for reply in (pair.contradicts, pair.fits)]
    assert len(set(texts)) == len(texts)
    assert all(text.strip() == text and text for pair in PAIRS for text in (*pair.turns, pair.contradicts, pair.fits))
    assert not {pair.turns[:2] for pair in PAIRS} & {(row["u1"], row["b1"]) for row in cdconv.read_rows(SAMPLE)}


def test_neither_length_nor_overlap_with_the_first_reply_reveals_the_contradiction():
    def share(measure):
        ranks = [(measure(pair, pair.contradicts), measure(pair, pair.fits)) for pair in PAIRS]
        return sum((one > other) + (one == other) / 2 for one, other in ranks) / len(ranks)

    assert share(lambda pair, reply: len(reply)) == pytest.approx(0.5, abs=0.05)
    assert share(lambda pair, reply: len(set(reply) & set(pair.turns[1]))) == pytest.approx(0.5, abs=0.05)


def test_the_pairs_are_not_conversations_of_the_benchmark(release):
    rows = cdconv.read_rows(release)
    read = {row[names[0]] + row[names[1]] for row in rows for names in (("u1", "b1"), ("b1", "b2"))}
    for pair in PAIRS:
        first_reply = pair.turns[1]
        assert not {pair.turns[0] + first_reply, first_reply + pair.contradicts, first_reply + pair.fits} & read


def test_both_replies_of_a_pair_follow_the_same_turns():
    one, other = PAIRS[0].chats()
    assert one == chat(*PAIRS[0].turns, PAIRS[0].contradicts)
    assert other == chat(*PAIRS[0].turns, PAIRS[0].fits)


@pytest.mark.parametrize(
    ("contradicting", "fitting", "right", "ordered"),
    [
        (("history", 0.9), ("non-contradiction", 0.1), 1, 1),
        (("history", 0.9), ("history", 0.8), 0, 1),
        (("non-contradiction", 0.2), ("non-contradiction", 0.3), 0, 0),
        (("history", 0.4), ("non-contradiction", 0.4), 1, 0),  # a tie is not in order
        ((None, 0.0), ("non-contradiction", 0.1), 0, 0),
    ],
)
def test_a_pair_is_right_if_both_replies_are_and_ordered_by_probability(contradicting, fitting, right, ordered):
    counts = count([answer(contradicting, fitting)])
    assert counts["all"] == counts[PAIRS[0].phenomenon] == {"pairs": 1, "right": right, "order": ordered}


def test_a_detector_judges_each_reply_and_the_table_counts_the_verdicts(quick_model):
    detector = ContradictionDetector.from_pretrained(quick_model)
    done = []
    answers = judge_pairs(detector, PAIRS, on_batch=done.append)
    assert sum(done) == 2 * len(PAIRS)
    for pair, pair_answer in zip(PAIRS[:3], answers, strict=False):
        assert pair_answer.contradicting.scores == pytest.approx(detector(pair.chats()[0]).scores, abs=1e-4)
        assert pair_answer.fitting.label == detector(pair.chats()[1]).label
    table = contrast_table("quick", count(answers))
    assert [row[0] for row in table.rows] == [*dict.fromkeys(pair.phenomenon for pair in PAIRS), "all", "%"]
    assert sum(int(row[2]) for row in table.rows[:-2]) == int(table.rows[-2][2])


def test_the_command_prints_the_errors_and_saves_the_counts(quick_model, run, tmp_path):
    code, out, _ = run("contrast", str(quick_model), "--wrong", "--json", str(tmp_path / "found.json"))
    assert code == 0
    counts = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))["contrast"]["all"]
    wrong = [line for line in out.splitlines() if " -> " in line]
    assert len(wrong) >= counts["pairs"] - counts["right"] > 0
    assert wrong[0].split(":")[0] in {pair.phenomenon for pair in PAIRS}


NAMES = LABELS["4-class"]
# Two contexts have both kinds of replies, and one has only one kind.
ROWS = [("p", 0), ("p", 3), ("p", 1), ("q", 0), ("q", 2), ("r", 3), ("r", 3)]
ROW_PAIRS = [[(1, 0), (2, 0)], [(4, 3)]]


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


def test_a_pair_is_a_contradiction_and_another_reply_to_the_same_context(rows):
    assert pairs_of(rows) == ROW_PAIRS


@pytest.mark.parametrize(
    ("probabilities", "share"),
    [([0, 1, 1, 0, 1, 0, 0], 1), ([1, 0, 0, 1, 0, 0, 0], 0), ([0, 1, 0, 0, 1, 0, 0], 2.5 / 3), ([0] * 7, 0.5)],
)
def test_the_share_in_order_counts_a_tie_as_half(probabilities, share):
    value, (low, high) = in_order(np.array(probabilities, dtype=float), ROW_PAIRS)
    assert value == pytest.approx(share)
    assert low <= value <= high


def test_a_score_from_the_context_alone_orders_half_of_the_pairs(rows):
    by_context = {"p": 0.9, "q": 0.2, "r": 0.5}
    assert in_order(np.array([by_context[name] for name in rows["u1"]]), pairs_of(rows))[0] == 0.5


def test_the_table_lists_evaluations_with_probabilities_of_these_rows(rows):
    probabilities = [[0.9, 0, 0, 0.1] if label == 0 else [0.2, 0, 0, 0.8] for _, label in ROWS]
    result = {"name": "sharp", "config": "4-class", "ids": list(rows["id"]), "probabilities": probabilities}
    others = [result | {"name": "labels only", "probabilities": None}, result | {"name": "other rows", "ids": [9]}]
    [line] = table([result, *others], rows).rows
    assert line[:3] == ("sharp", "100.0", "100.0")
    assert table(others, rows) is None


def test_rows_without_both_kinds_of_reply_to_a_context_give_no_table(rows):
    one_kind = rows.select([0, 4, 5])
    result = {"name": "sharp", "config": "4-class", "ids": list(one_kind["id"]), "probabilities": [[1, 0, 0, 0]] * 3}
    assert table([result], one_kind) is None
