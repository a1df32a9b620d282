"""The rows of an evaluation: what is known of each, and which files and rows are refused."""

import pytest
from evaluated_cases import FOUR

from contradiction.data.splits import load_split
from contradiction.detector import ContradictionDetector
from contradiction.errors import InputError
from contradiction.evaluation.evaluate import evaluate
from contradiction.evaluation.evaluated_rows import load_rows, read_evaluation
from contradiction.io.files import write_json
from contradiction.labels import LABELS


@pytest.fixture(scope="module")
def kept(quick_model, sample_repo):
    result = evaluate(ContradictionDetector.from_pretrained(quick_model), data=sample_repo, config="4-class")
    return {**result, "without_first_turn": result["predictions"]}


def test_rows_are_found_with_all_that_is_known_of_them(kept, sample_repo, sample_rows):
    found = {row["id"]: row for row in load_rows(kept, sample_repo).rows}
    raw = {sample_row["id"]: sample_row for sample_row in sample_rows}
    assert list(found) == kept["ids"]
    train = load_split(sample_repo, "4-class", "train")
    contexts = {(row["u1"], row["b1"], row["u2"]) for row in train}
    for number, row in found.items():
        assert row["category"] == FOUR[raw[number]["label"]]
        persona = raw[number]["persona"]
        assert row["persona"] == (None if persona is None else LABELS["persona"][persona])
        assert (row["trigger"], row["bot"], row["batch"]) == (
            raw[number]["trigger"],
            raw[number]["bot"],
            str(raw[number]["batch"]),
        )
        assert row["seen_context"] == ("seen" if (row["u1"], row["b1"], row["u2"]) in contexts else "unseen")
        assert row["seen_u1"] == ("seen" if row["u1"] in set(train["u1"]) else "unseen")


def test_other_rows_are_refused(kept, sample_repo):
    with pytest.raises(InputError, match="was evaluated on other rows than the test split of '4-class'"):
        load_rows({**kept, "ids": [number + 1 for number in kept["ids"]]}, sample_repo)


@pytest.mark.parametrize(
    ("change", "said"),
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
def test_a_file_that_cannot_be_analysed_is_refused(kept, tmp_path, change, said):
    change = {key: value(kept) if callable(value) else value for key, value in change.items()}
    changed = {key: value for key, value in {**kept, **change}.items() if value is not None}
    write_json(tmp_path / "kept.json", changed)
    with pytest.raises(InputError, match=said):
        read_evaluation(tmp_path / "kept.json")
