"""The removal test: what is read, and which verdicts should turn."""

import pytest
from evaluated_cases import evaluated

from contradiction.detector import ContradictionDetector
from contradiction.evaluation.error_analysis import judge_without_first_turn, removal


def test_history_should_turn_and_the_rest_stay():
    references = [0, 0, 0, 1, 1, 2, 3, 3, 3, 3]
    predictions = [0, 0, 3, 1, 3, 2, 3, 2, 3, 0]
    without = [0, 3, 0, 2, 0, 0, 0, 0, 3, 0]
    found = {each["label"]: each for each in removal(evaluated(references, predictions), without)}
    history = found["history"]
    # Three of four are called a contradiction, of whatever kind; without the first turn two of these are none.
    assert (history["should"], history["called"], history["called_without"]) == ("turn", 3, 1)
    assert (history["asked"], history["right"], history["rate"]) == (3, 2, pytest.approx(2 / 3))
    # Both are called one; one of them still is.
    assert (found["intra-sentence"]["asked"], found["intra-sentence"]["right"]) == (2, 1)
    # Two are rightly called none; one of them still is.
    assert (found["non-contradiction"]["asked"], found["non-contradiction"]["right"]) == (2, 1)
    assert (found["role-confusion"]["should"], found["role-confusion"]["rate"]) == (None, None)
    assert (found["role-confusion"]["called"], found["role-confusion"]["called_without"]) == (1, 0)


def test_the_first_turn_is_not_read_when_removed(quick_model, sample_rows):
    detector = ContradictionDetector.from_pretrained(quick_model)
    other = [{**each, "u1": "别的话", "b1": "另一句话"} for each in sample_rows]
    read = []
    classify = detector.classify
    detector.classify = lambda rows, **options: read.append(rows) or classify(rows, **options)
    found = [judge_without_first_turn(detector, rows, "4-class") for rows in (sample_rows, other)]
    assert found[0] == found[1]
    assert {(each["u1"], each["b1"]) for each in read[0]} == {("", "")}
    assert [each["b2"] for each in read[0]] == [each["b2"] for each in sample_rows]
    merged = judge_without_first_turn(detector, sample_rows, "2-class")
    assert set(merged) <= {0, 1}
