"""Evidence and false alarms: figures counted by hand, and intervals compared with plain resampling."""

import numpy as np
import pytest

from contradiction.evaluation.evidence import false_alarms, score_evidence, table, turns_of

NONE, INTRA, ROLE, HISTORY = "non-contradiction", "intra-sentence", "role-confusion", "history"
# Reference, prediction, evidence, predicted evidence, inserted. The comments say what is right.
ROWS = [
    (HISTORY, HISTORY, [1], [1], 1),  # all
    (HISTORY, HISTORY, [1], [1, 3], 2),  # the label; one index too many
    (HISTORY, NONE, [0], [], 1),  # nothing
    (HISTORY, ROLE, [1], [5], 2),  # that it is a contradiction; the wrong index
    (NONE, NONE, [], [], 1),  # all
    (NONE, HISTORY, [], [3], 2),  # nothing; evidence although there is none
    (INTRA, HISTORY, [], [1], 1),  # that it is a contradiction; evidence although there is none
    (INTRA, ROLE, [], [], 2),  # that it is a contradiction, and no evidence
]
REFERENCES, PREDICTIONS, EVIDENCE, PREDICTED, INSERTED = map(list, zip(*ROWS, strict=True))


def scored(**more):
    return score_evidence(REFERENCES, PREDICTIONS, EVIDENCE, PREDICTED, **more)


def test_figures_counted_by_hand():
    scores = scored()
    assert (scores["n"], scores["history"]) == (8, 4)
    # In the four history rows, 2 of 4 named indices are right, and 2 of 4 real ones are named.
    assert scores["evidence"] == {"precision": 2 / 4, "recall": 2 / 4, "f1": 2 / 4}
    # In all rows, two more are named, and both are wrong.
    assert scores["evidence_everywhere"] == {"precision": 2 / 6, "recall": 2 / 4, "f1": 4 / 10}
    assert (scores["accuracy"], scores["strict_accuracy"]) == (3 / 8, 2 / 8)
    assert scores["two_class"] == {"accuracy": 6 / 8, "strict_accuracy": 3 / 8}
    assert "interval" not in scores
    assert "groups" not in scores


def test_each_group_scores_as_its_rows_do_alone():
    groups = scored(groups=INSERTED, bootstrap=50)["groups"]
    assert list(groups) == ["1", "2"]
    for inserted in (1, 2):
        rows = [row[:4] for row in ROWS if row[4] == inserted]
        assert groups[str(inserted)] == score_evidence(*map(list, zip(*rows, strict=True)), bootstrap=50)
    assert groups["1"]["evidence"] == {"precision": 1.0, "recall": 0.5, "f1": 2 / 3}
    assert groups["2"]["strict_accuracy"] == 0.0


def test_groups_are_in_numeric_order():
    assert list(scored(groups=[10, 9, 1, 2, 1, 2, 1, 2])["groups"]) == ["1", "2", "9", "10"]


def test_order_and_repetition_within_the_evidence_do_not_count():
    one = score_evidence([HISTORY], [HISTORY], [[1, 3]], [(3, 1, 1)])
    assert (one["strict_accuracy"], one["evidence"]["f1"]) == (1.0, 1.0)


def test_no_named_evidence_scores_zero_without_a_warning(recwarn):
    scores = score_evidence([NONE, HISTORY], [NONE, NONE], [[], [1]], [[], []], bootstrap=20)
    assert scores["evidence"] == {"precision": 0.0, "recall": 0.0, "f1": 0.0}
    assert not recwarn.list


def test_turn_scores_accept_the_user_message_of_the_right_turn():
    gold, named = [[0], [1], [1]], [[1], [3], [1]]
    assert turns_of(gold) == [{0}, {0}, {0}]
    by_message = score_evidence([HISTORY] * 3, [HISTORY] * 3, gold, named)
    by_turn = score_evidence([HISTORY] * 3, [HISTORY] * 3, turns_of(gold), turns_of(named))
    assert (by_message["strict_accuracy"], by_turn["strict_accuracy"]) == (1 / 3, 2 / 3)


def plain_bootstrap(draws, seed):
    """The same intervals from rows drawn one by one: {name: bounds}."""
    rng = np.random.default_rng(seed)
    samples = {"strict_accuracy": [], "evidence_f1": []}
    for chosen in draws(rng):
        rows = [ROWS[index % len(ROWS)] for index in chosen]
        pairs = [(set(row[2]), set(row[3])) for row in rows if row[0] == HISTORY]
        hits = 2 * sum(len(gold & named) for gold, named in pairs)
        samples["evidence_f1"].append(hits / max(1, sum(len(gold) + len(named) for gold, named in pairs)))
        samples["strict_accuracy"].append(np.mean([row[0] == row[1] and set(row[2]) == set(row[3]) for row in rows]))
    return {name: np.quantile(values, [0.025, 0.975]) for name, values in samples.items()}


def times(number):
    return [column * number for column in (REFERENCES, PREDICTIONS, EVIDENCE, PREDICTED)]


def test_intervals_equal_those_of_a_plain_bootstrap():
    columns = times(25)
    intervals = score_evidence(*columns, bootstrap=4000)["interval"]
    plain = plain_bootstrap(lambda rng: rng.integers(200, size=(4000, 200)), seed=1)
    for name, bounds in plain.items():
        assert intervals[name] == pytest.approx(bounds, abs=0.012)
    assert (intervals["resamples"], intervals["confidence_level"]) == (4000, 0.95)


def test_rows_with_the_same_id_are_resampled_together():
    """Four copies of a row add no information: the interval is that of the rows without the copies."""
    columns = times(25)
    alone = score_evidence(*columns, bootstrap=4000)["interval"]["strict_accuracy"]
    copied = [[cell for cell in column for _ in range(4)] for column in columns]
    ids = [index for index in range(200) for _ in range(4)]
    together = score_evidence(*copied, ids=ids, bootstrap=4000)["interval"]["strict_accuracy"]
    apart = score_evidence(*copied, bootstrap=4000)["interval"]["strict_accuracy"]
    assert together == pytest.approx(alone, abs=0.012)
    assert apart[1] - apart[0] == pytest.approx((together[1] - together[0]) / 2, rel=0.15)


def test_the_table_has_one_row_per_group_and_one_for_all():
    plain = table(scored(groups=INSERTED))
    assert plain.header == (
        "inserted", "rows", "precision", "recall", "F1", "accuracy", "strict", "2-class", "2-class strict",
    )  # fmt: skip
    assert plain.rows[-1] == ("all", "8", "50.0", "50.0", "50.0", "37.5", "25.0", "75.0", "37.5")
    assert [row[0] for row in plain.rows] == ["1", "2", "all"]
    low, high = scored(bootstrap=100)["interval"]["two_class_strict_accuracy"]
    cells = table(scored(bootstrap=100)).rows[0]
    assert cells[-1] == f"37.5 ({100 * low:.1f}–{100 * high:.1f})"


def test_the_table_omits_figures_that_a_detector_does_not_provide():
    scores = scored()
    assert table(scores, named=False).rows == [("all", "8", "37.5", "75.0")]
    assert table(scores, categories=False).rows == [("all", "8", "50.0", "50.0", "50.0", "75.0", "37.5")]
    assert table(scores, named=False, categories=False).header == ("inserted", "rows", "2-class")


def test_false_alarms_counted_by_hand():
    origins = [HISTORY, HISTORY, HISTORY, HISTORY, NONE, INTRA, HISTORY]
    predictions = [HISTORY, NONE, ROLE, HISTORY, HISTORY, HISTORY, NONE]
    forms = ["removed"] * 6 + ["replaced"]
    counts = false_alarms(origins, predictions, forms)
    assert list(counts) == ["removed", "replaced"]
    assert (counts["removed"]["n"], counts["removed"]["history"], counts["removed"]["contradiction"]) == (4, 0.5, 0.75)
    assert (counts["replaced"]["n"], counts["replaced"]["history"]) == (1, 0.0)
    # Wilson's formula at 2 of 4, z = 1.959964: 0.5 ± 0.349962.
    assert counts["removed"]["interval"]["history"] == pytest.approx([0.150039, 0.849961], abs=1e-5)
