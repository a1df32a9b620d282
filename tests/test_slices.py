"""Scores on parts of a split: which rows are in a slice, and what is scored on them."""

import pytest
from evaluated_cases import evaluated, row

from contradiction.evaluation.error_analysis import ALL, personas, quartiles, slices


def test_a_slice_is_scored_on_its_rows_alone():
    rows = [row(index, bot=bot) for index, bot in enumerate(["eva"] * 4 + ["plato"] * 2)]
    found = slices(evaluated([0, 0, 1, 1, 0, 1], [0, 1, 1, 1, 1, 0], rows=rows, config="2-class"))
    by_name = {(each["by"], each["slice"]): each for each in found}
    # eva: non-contradiction has precision 1 and recall 1/2, F1 2/3; contradiction 2/3 and 1, F1 4/5.
    assert by_name["bot", "eva"]["macro_f1"] == pytest.approx((2 / 3 + 4 / 5) / 2)
    assert by_name["bot", "eva"]["n"] == 4
    assert by_name["bot", "eva"]["contradictions"] == 2
    assert by_name["bot", "plato"]["macro_f1"] == 0
    # All rows: F1 of 2·1/(2+3) ... one hit of 3 and 2, two hits of 3 and 4.
    assert by_name[ALL, ALL]["macro_f1"] == pytest.approx((2 * 1 / (3 + 2) + 2 * 2 / (3 + 4)) / 2)
    assert by_name["bot", "eva"]["low"] <= by_name["bot", "eva"]["macro_f1"] <= by_name["bot", "eva"]["high"]


def test_every_row_is_in_one_slice_of_each_kind():
    rows = [
        row(index, trigger=trigger, b2="很" * length, seen_context=seen)
        for index, (trigger, length, seen) in enumerate(
            [
                ("perturb-negative", 3, "seen"),
                ("short", 9, "unseen"),
                ("short", 12, "seen"),
                ("paraphrasing", 5, "seen"),
            ]
        )
    ]
    found = slices(evaluated([0, 1, 2, 3], [0, 1, 2, 0], rows=rows))
    groups = {each["by"]: [other["slice"] for other in found if other["by"] == each["by"]] for each in found}
    assert groups["trigger"] == ["short", "paraphrasing", "perturb-negative"]  # in the order of the paper
    assert groups["reply length, characters"] == ["3", "5", "9", "12"]
    assert groups["u1, b1, u2 in training"] == ["seen", "unseen"]
    for by in groups:
        assert sum(each["n"] for each in found if each["by"] == by) == 4


def test_a_label_without_rows_is_named_because_its_f1_counts_as_nothing():
    one, *_ = slices(evaluated([0, 0, 3], [0, 0, 3]))
    assert one["absent"] == "intra-sentence, role-confusion"
    assert one["macro_f1"] == 0.5
    assert one["merged_macro_f1"] == 1


def test_equal_lengths_share_a_quarter():
    assert quartiles([2, 2, 2, 2, 2, 9]) == ["2"] * 5 + ["9"]
    assert quartiles([1, 2, 3, 4, 5, 6, 7, 8]) == ["1–2"] * 2 + ["3–4"] * 2 + ["5–6"] * 2 + ["7–8"] * 2


def test_personas_have_the_recall_of_history():
    rows = [row(index, persona=persona) for index, persona in enumerate(["opinions"] * 4 + ["attributes"] * 2 + [None])]
    found = personas(evaluated([3] * 6 + [0], [3, 3, 3, 2, 3, 0, 3], rows=rows))
    assert [(each["persona"], each["found"], each["n"]) for each in found] == [("attributes", 1, 2), ("opinions", 3, 4)]
    assert found[1]["recall"] == 0.75
