"""Rows whose first turn is replaced: what contradicted the history contradicts nothing any more."""

import numpy as np
import pytest

from contradiction.data.splits import load_split
from contradiction.errors import InputError
from contradiction.reports.model_card import model_card
from contradiction.training.augmentation import replaced_rows, training_rows
from contradiction.training.loop import train
from contradiction.training.recipe import Recipe

SCRATCH = {"hidden_size": 32, "layers": 1, "heads": 2, "vocabulary": 600}
RECIPE = Recipe.of(name="quick", view="flatten", config="4-class", scratch=SCRATCH)


@pytest.fixture(scope="module")
def rows(sample_repo):
    return load_split(sample_repo, "4-class", "train")


def test_each_history_row_gets_the_first_turn_of_another_context_of_its_bot_and_no_contradiction(rows):
    names = rows.features["label"]
    history = [row for row in rows if names.int2str(row["label"]) == "history"]
    found = list(replaced_rows(rows, 2, 23))
    assert [row["id"] for row in found] == [row["id"] for row in history for _ in range(2)]
    first = {(row["u1"], row["b1"], row["bot"]) for row in rows}
    for row, made in zip([row for row in history for _ in range(2)], found, strict=True):
        assert (made["u2"], made["b2"], made["bot"]) == (row["u2"], row["b2"], row["bot"])
        assert made["u1"] != row["u1"] and (made["u1"], made["b1"], made["bot"]) in first
        assert names.int2str(made["label"]) == "non-contradiction"
    assert found == list(replaced_rows(rows, 2, 23)) != list(replaced_rows(rows, 2, 42))


def test_training_reads_them_after_what_teachers_are_asked_of(rows):
    both = RECIPE.with_changes(context_negatives=1, transfer_per_row=1, teachers=["some/teacher"])
    made_rows = training_rows(rows, both)
    made = replaced_rows(rows, 1, both.seed)
    assert made_rows.rows["id"][: len(rows)] == rows["id"][:]
    assert set(made_rows.rows["label"][len(rows) : made_rows.teacher_rows]) == {None}
    assert made_rows.rows["b1"][made_rows.teacher_rows :] == made["b1"][:]
    assert len(training_rows(rows, RECIPE.with_changes(context_negatives=1)).rows) == len(rows) + len(made)


def test_a_card_says_that_rows_were_made(sample_repo, tmp_path):
    folder = train(RECIPE.with_changes(context_negatives=2, epochs=1), data=sample_repo, out=tmp_path / "run")
    card = model_card(folder).text
    assert "- context negatives: each training row labelled history is repeated 2 times" in card


def test_where_a_bot_has_one_context_there_is_no_other_turn_to_take(rows):
    one = rows.filter(lambda row: row["u1"] == rows[int(np.argmax(np.asarray(rows["label"]) == 3))]["u1"])
    with pytest.raises(InputError, match="no row of another context"):
        replaced_rows(one, 1, 23)


@pytest.mark.parametrize("values", [{"config": "2-class"}, {"method": "hierarchical"}, {"config": "persona"}])
def test_it_needs_the_four_classes_and_one_checkpoint(values):
    with pytest.raises(InputError, match="context_negatives makes rows of those labelled history"):
        RECIPE.with_changes(context_negatives=1, **values)
