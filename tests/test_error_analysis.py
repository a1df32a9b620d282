"""Mistakes, slices, and the removal of the first turn, checked by hand."""

import pytest
from helpers.evaluations import FOUR, evaluated, row

from contradiction.data.splits import load_split
from contradiction.detector import ContradictionDetector
from contradiction.errors import InputError
from contradiction.evaluation import error_analysis
from contradiction.evaluation.error_analysis import (
    ALL,
    judge_without_first_turn,
    kinds,
    load_rows,
    mistakes,
    personas,
    quartiles,
    removal,
    slices,
)
from contradiction.evaluation.evaluate import evaluate
from contradiction.evaluation.results import read_evaluation
from contradiction.io.files import write_json
from contradiction.labels import LABELS


def test_errors_are_sorted_by_decreasing_confidence():
    probabilities = [[0.1, 0.0, 0.0, 0.9], [0.6, 0.1, 0.1, 0.2], [0.95, 0.0, 0.0, 0.05], [0.2, 0.0, 0.0, 0.8]]
    errors = mistakes(evaluated([0, 3, 3, 3], [3, 0, 0, 3], probabilities))
    assert [(row["id"], row["label"], row["predicted"], row["score"]) for row in errors] == [
        (2, "history", "non-contradiction", 0.95),
        (0, "non-contradiction", "history", 0.9),
        (1, "history", "non-contradiction", 0.6),
    ]
    assert errors[0]["b2"] == "b2 2"


def test_a_kind_is_described_by_its_counts(monkeypatch):
    monkeypatch.setattr(error_analysis, "WORST", 4)
    rows = [row(index, trigger="short" if index < 20 else "paraphrasing") for index in range(45)]
    predictions = [0] * 5 + [3] * 15 + [0] * 10 + [3] * 10 + [3] * 5
    one = evaluated([3] * 40 + [0] * 5, predictions, rows=rows)
    by_labels = {(kind["label"], kind["predicted"]): kind for kind in kinds(one, mistakes(one))}
    missed, alarms = by_labels["history", "non-contradiction"], by_labels["non-contradiction", "history"]
    assert (missed["errors"], missed["of"], missed["share"], missed["among_worst"]) == (15, 40, 0.375, 4)
    for figure in (
        "15 of 40 history rows",
        "37.5 %",
        "4 worst mistakes 4",
        "paraphrasing (10 of 20)",
        "short (5 of 20)",
    ):
        assert figure in missed["sentence"]
    for figure in ("5 of 5 non-contradiction rows", "100.0 %", "4 worst mistakes 0"):
        assert figure in alarms["sentence"]
    assert "trigger" not in alarms["sentence"], "too few rows for a rate by trigger"


def test_a_slice_is_scored_on_its_own_rows():
    rows = [row(index, bot=bot) for index, bot in enumerate(["eva"] * 4 + ["plato"] * 2)]
    groups = slices(evaluated([0, 0, 1, 1, 0, 1], [0, 1, 1, 1, 1, 0], rows=rows, config="2-class"))
    by_name = {(part["by"], part["slice"]): part for part in groups}
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
        row(index, trigger=trigger, b2="很" * length, seen_context=seen_context)
        for index, (trigger, length, seen_context) in enumerate(
            [
                ("perturb-negative", 3, "seen"),
                ("short", 9, "unseen"),
                ("short", 12, "seen"),
                ("paraphrasing", 5, "seen"),
            ]
        )
    ]
    by_slice = slices(evaluated([0, 1, 2, 3], [0, 1, 2, 0], rows=rows))
    groups = {part["by"]: [other["slice"] for other in by_slice if other["by"] == part["by"]] for part in by_slice}
    assert groups["trigger"] == ["short", "paraphrasing", "perturb-negative"]  # in the order of the paper
    assert groups["reply length, characters"] == ["3", "5", "9", "12"]
    assert groups["u1, b1, u2 in training"] == ["seen", "unseen"]
    for by in groups:
        assert sum(part["n"] for part in by_slice if part["by"] == by) == 4


def test_a_label_without_rows_is_named_because_its_f1_counts_as_zero():
    one, *_ = slices(evaluated([0, 0, 3], [0, 0, 3]))
    assert one["absent"] == "intra-sentence, role-confusion"
    assert one["macro_f1"] == 0.5
    assert one["merged_macro_f1"] == 1


def test_equal_lengths_fall_into_the_same_quarter():
    assert quartiles([2, 2, 2, 2, 2, 9]) == ["2"] * 5 + ["9"]
    assert quartiles([1, 2, 3, 4, 5, 6, 7, 8]) == ["1–2"] * 2 + ["3–4"] * 2 + ["5–6"] * 2 + ["7–8"] * 2


def test_personas_have_the_recall_of_history():
    rows = [row(index, persona=persona) for index, persona in enumerate(["opinions"] * 4 + ["attributes"] * 2 + [None])]
    recalls = personas(evaluated([3] * 6 + [0], [3, 3, 3, 2, 3, 0, 3], rows=rows))
    assert [(group["persona"], group["found"], group["n"]) for group in recalls] == [
        ("attributes", 1, 2),
        ("opinions", 3, 4),
    ]
    assert recalls[1]["recall"] == 0.75


def test_without_the_first_turn_only_history_should_change():
    references = [0, 0, 0, 1, 1, 2, 3, 3, 3, 3]
    predictions = [0, 0, 3, 1, 3, 2, 3, 2, 3, 0]
    without = [0, 3, 0, 2, 0, 0, 0, 0, 3, 0]
    by_label = {row["label"]: row for row in removal(evaluated(references, predictions), without)}
    history = by_label["history"]
    # Three of four are called a contradiction of some kind. Without the first turn two of these are not.
    assert (history["should"], history["called"], history["called_without"]) == ("turn", 3, 1)
    assert (history["asked"], history["right"], history["rate"]) == (3, 2, pytest.approx(2 / 3))
    # Both are called a contradiction, and one of them still is.
    assert (by_label["intra-sentence"]["asked"], by_label["intra-sentence"]["right"]) == (2, 1)
    # Two are rightly called consistent, and one of them still is.
    assert (by_label["non-contradiction"]["asked"], by_label["non-contradiction"]["right"]) == (2, 1)
    assert (by_label["role-confusion"]["should"], by_label["role-confusion"]["rate"]) == (None, None)
    assert (by_label["role-confusion"]["called"], by_label["role-confusion"]["called_without"]) == (1, 0)


def test_the_first_turn_is_not_read_when_removed(quick_model, sample_rows):
    detector = ContradictionDetector.from_pretrained(quick_model)
    other = [{**sample_row, "u1": "别的话", "b1": "另一句话"} for sample_row in sample_rows]
    read = []
    classify = detector.classify
    detector.classify = lambda rows, **options: read.append(rows) or classify(rows, **options)
    predictions = [judge_without_first_turn(detector, rows, "4-class") for rows in (sample_rows, other)]
    assert predictions[0] == predictions[1]
    assert {(row["u1"], row["b1"]) for row in read[0]} == {("", "")}
    assert [row["b2"] for row in read[0]] == [sample_row["b2"] for sample_row in sample_rows]
    merged = judge_without_first_turn(detector, sample_rows, "2-class")
    assert merged == [int(label > 0) for label in predictions[0]]


@pytest.fixture(scope="module")
def kept(quick_model, sample_repo):
    result = evaluate(ContradictionDetector.from_pretrained(quick_model), data=sample_repo, config="4-class")
    return {**result, "without_first_turn": result["predictions"]}


def test_rows_are_found_with_all_their_metadata(kept, sample_repo, sample_rows):
    by_id = {row["id"]: row for row in load_rows(kept, sample_repo).rows}
    raw = {sample_row["id"]: sample_row for sample_row in sample_rows}
    assert list(by_id) == kept["ids"]
    train = load_split(sample_repo, "4-class", "train")
    contexts = {(row["u1"], row["b1"], row["u2"]) for row in train}
    for number, loaded in by_id.items():
        assert loaded["category"] == FOUR[raw[number]["label"]]
        persona = raw[number]["persona"]
        assert loaded["persona"] == (None if persona is None else LABELS["persona"][persona])
        assert (loaded["trigger"], loaded["bot"], loaded["batch"]) == (
            raw[number]["trigger"],
            raw[number]["bot"],
            str(raw[number]["batch"]),
        )
        assert loaded["seen_context"] == (
            "seen" if (loaded["u1"], loaded["b1"], loaded["u2"]) in contexts else "unseen"
        )
        assert loaded["seen_u1"] == ("seen" if loaded["u1"] in set(train["u1"]) else "unseen")


def test_other_rows_are_rejected(kept, sample_repo):
    with pytest.raises(InputError, match="test split of '4-class'"):
        load_rows({**kept, "ids": [number + 1 for number in kept["ids"]]}, sample_repo)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"probabilities": None}, "has no probabilities"),
        ({"ids": None}, "not an evaluation, it has no ids"),
        ({"config": "persona"}, "has no labels of contradictions"),
        ({"config": "nli"}, "has no labels of contradictions"),
        ({"predictions": [0]}, "predictions must be a list with one value for each id"),
        ({"metrics": {}}, "metrics has no accuracy, macro_f1, per_class, n, interval; the file was changed"),
        ({"metrics": []}, "metrics has no accuracy"),
        ({"ids": 7}, "ids must be a list"),
        ({"predictions": lambda kept: [4, *kept["predictions"][1:]]}, "predictions has 4"),
        ({"without_first_turn": lambda kept: ["history"] * len(kept["ids"])}, "without_first_turn has 'history'"),
        ({"probabilities": lambda kept: [[0.5, 0.5]] * len(kept["ids"])}, r"probabilities has \[0.5, 0.5\]"),
        ({"probabilities": lambda kept: [[float("nan"), 0, 0, 1]] * len(kept["ids"])}, r"probabilities has \[nan"),
    ],
)
def test_a_file_that_cannot_be_analysed_is_rejected(kept, tmp_path, change, message):
    change = {key: value(kept) if callable(value) else value for key, value in change.items()}
    changed = {key: value for key, value in {**kept, **change}.items() if value is not None}
    write_json(tmp_path / "kept.json", changed)
    with pytest.raises(InputError, match=message):
        read_evaluation(tmp_path / "kept.json")
