"""Parts of the training rows, and rows made by replacing the first turn."""

from collections import Counter

import pytest
from helpers.runs import TINY, train

from contradiction.data.splits import load_split, of_bot
from contradiction.errors import InputError
from contradiction.io.files import read_json
from contradiction.reports.model_card import model_card
from contradiction.training.augmentation import context_negative_rows, fraction_of, training_rows
from contradiction.training.recipe import Recipe
from contradiction.training.run import run_request

QUICK = Recipe.of(name="quick", view="flatten", config="4-class", scratch=TINY, epochs=1)


def test_each_share_contains_the_smaller_ones_and_rows_keep_their_order(rows):
    shares = [0.01, 0.1, 0.25, 0.5, 0.9, 1.0]
    ids = [fraction_of(rows, share, 23)["id"][:] for share in shares]
    assert ids[-1] == rows["id"][:]
    for less, more in zip(ids, ids[1:], strict=False):
        kept = set(less)
        assert kept < set(more)
        assert [number for number in more if number in kept] == less


def test_a_share_keeps_the_label_proportions_and_every_label(rows):
    whole = Counter(rows["label"])
    for share in (0.1, 0.5):
        counts = Counter(fraction_of(rows, share, 23)["label"])
        assert counts == {label: max(1, round(share * count)) for label, count in whole.items()}
    assert set(fraction_of(rows, 1e-9, 23)["label"]) == set(whole)


def test_training_uses_the_share_and_validates_on_all_rows(sample_repo, rows, tmp_path, monkeypatch):
    from contradiction.training import loop

    read = {}
    make = loop.encode_rows

    def encode_rows(part, *arguments):
        examples = make(part, *arguments)
        read[len(read)] = [example["id"] for example in examples]
        return examples

    monkeypatch.setattr(loop, "encode_rows", encode_rows)
    half = QUICK.with_changes(train_fraction=0.5)
    folder = train(half, data=sample_repo, out=tmp_path / "half")
    assert read[0] == list(fraction_of(rows, 0.5, half.seed)["id"])
    assert read[1] == list(load_split(sample_repo, "4-class", "validation")["id"])
    run = read_json(folder / "run.json")
    assert run["request"]["recipe"]["data"]["train_fraction"] == 0.5
    # The data is the same, and only the recipe says that fewer rows were used.
    assert run["request"]["data"] == run_request(QUICK, sample_repo)["data"]
    assert "- data: 50 % of the training split of CDConv sample" in model_card(folder).text


def test_an_unknown_bot_is_named_and_no_run_starts(sample_repo, rows, tmp_path, monkeypatch):
    assert {*of_bot(rows, "plato")["bot"]} == {rows.features["bot"].str2int("plato")}
    alone = of_bot(rows, "eva")
    with pytest.raises(InputError, match=rf" {len(alone)} rows of the train split .*plato; name the other bot"):
        of_bot(alone, "plato")
    data = {split: of_bot(load_split(sample_repo, "4-class", split), "eva") for split in ("train", "validation")}
    with pytest.raises(InputError, match="train split .*plato; name the other bot"):
        train(QUICK.with_changes(bot="plato"), data=data, out=tmp_path / "run")
    assert not any(tmp_path.iterdir())


def test_each_history_row_gets_another_first_turn_of_its_bot_and_becomes_consistent(rows):
    names = rows.features["label"]
    history = [row for row in rows if names.int2str(row["label"]) == "history"]
    made_rows = list(context_negative_rows(rows, 2, 23))
    assert [row["id"] for row in made_rows] == [row["id"] for row in history for _ in range(2)]
    first = {(row["u1"], row["b1"], row["bot"]) for row in rows}
    for row, made in zip([row for row in history for _ in range(2)], made_rows, strict=True):
        assert (made["u2"], made["b2"], made["bot"]) == (row["u2"], row["b2"], row["bot"])
        assert made["u1"] != row["u1"] and (made["u1"], made["b1"], made["bot"]) in first
        assert names.int2str(made["label"]) == "non-contradiction"
    assert made_rows == list(context_negative_rows(rows, 2, 23)) != list(context_negative_rows(rows, 2, 42))


def test_training_reads_made_rows_after_the_rows_that_teachers_judge(rows):
    both = QUICK.with_changes(context_negatives=1, transfer_per_row=1, teachers=["some/teacher"])
    made_rows = training_rows(rows, both)
    made = context_negative_rows(rows, 1, both.seed)
    assert made_rows.rows["id"][: len(rows)] == rows["id"][:]
    assert set(made_rows.rows["label"][len(rows) : made_rows.teacher_rows]) == {None}
    assert made_rows.rows["b1"][made_rows.teacher_rows :] == made["b1"][:]
    assert len(training_rows(rows, QUICK.with_changes(context_negatives=1)).rows) == len(rows) + len(made)


def test_rows_without_a_bot_count_as_one_bot(rows):
    unnamed, alone = rows.remove_columns("bot"), of_bot(rows, "eva")
    both = QUICK.with_changes(context_negatives=1, transfer_per_row=1, teachers=["some/teacher"])
    named, made = (training_rows(part, both).rows for part in (alone, alone.remove_columns("bot")))
    for column in ("id", "u1", "b1", "u2", "b2", "label"):
        assert list(named[column]) == list(made[column])
    with pytest.raises(InputError, match=r"^data\.bot is 'eva', .*train split .*; remove"):
        of_bot(unnamed, "eva")


def test_a_bot_with_one_context_has_no_other_first_turn(rows):
    first = rows[rows["label"][:].index(3)]["u1"]
    one = rows.filter(lambda row: row["u1"] == first)
    with pytest.raises(InputError, match="no row of another context"):
        context_negative_rows(one, 1, 23)
