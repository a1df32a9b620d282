"""Mistakes: their order, and the sentence on each kind."""

from evaluated_cases import evaluated, row

from contradiction.evaluation.error_analysis import kinds, mistakes


def test_errors_stand_surest_first():
    probabilities = [[0.1, 0.0, 0.0, 0.9], [0.6, 0.1, 0.1, 0.2], [0.95, 0.0, 0.0, 0.05], [0.2, 0.0, 0.0, 0.8]]
    found = mistakes(evaluated([0, 3, 3, 3], [3, 0, 0, 3], probabilities))
    assert [(each["id"], each["label"], each["predicted"], each["score"]) for each in found] == [
        (2, "history", "non-contradiction", 0.95),
        (0, "non-contradiction", "history", 0.9),
        (1, "history", "non-contradiction", 0.6),
    ]
    assert found[0]["b2"] == "b2 2"


def test_a_kind_is_described_by_its_counts():
    rows = [row(index, trigger="short" if index < 20 else "paraphrasing") for index in range(45)]
    predictions = [0] * 5 + [3] * 15 + [0] * 10 + [3] * 10 + [3] * 5
    one = evaluated([3] * 40 + [0] * 5, predictions, rows=rows)
    found = {(each["label"], each["predicted"]): each for each in kinds(one, mistakes(one), worst=4)}
    missed, alarms = found["history", "non-contradiction"], found["non-contradiction", "history"]
    assert (missed["errors"], missed["of"], missed["share"], missed["among_worst"]) == (15, 40, 0.375, 4)
    assert missed["sentence"] == (
        "15 of 40 history rows (37.5 %) are called non-contradiction. Of the 4 worst mistakes 4 are of this kind. They "
        "are most frequent after the trigger paraphrasing (10 of 20) and least frequent after short (5 of 20)."
    )
    # Too few rows for a rate by trigger.
    assert alarms["sentence"] == (
        "5 of 5 non-contradiction rows (100.0 %) are called history. Of the 4 worst mistakes 0 are of this kind."
    )
