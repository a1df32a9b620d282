"""NLI pairs that training reads beside the rows, as conversations."""

import json

import numpy as np
import pytest
from helpers.runs import TINY, train
from transformers import AutoTokenizer

from contradiction.data import nli
from contradiction.data.splits import load_split
from contradiction.errors import InputError
from contradiction.reports.model_card import model_card
from contradiction.training import record
from contradiction.training.augmentation import nli_rows, training_rows
from contradiction.training.loaders import encode_rows
from contradiction.training.losses import ALLOWED, SOFT, UNLABELLED
from contradiction.training.recipe import Recipe, load_recipe, require_folders

RECIPE = Recipe.of(name="quick", view="flatten", config="4-class", scratch=TINY)
KINDS = ("entailment", "neutral", "contradiction")


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """An NLI data repo, as `cdconv data nli` writes it, with more pairs than the sample has rows."""
    folder = tmp_path_factory.mktemp("nli")
    corpus = folder / "corpus.tsv"
    lines = [f"前提{number}\t假设{number}\t{KINDS[number % 3]}" for number in range(900)]
    corpus.write_text("\n".join(["premise\thypo\tlabel", *lines]) + "\n", encoding="utf-8")
    held_out = folder / "held_out.tsv"
    held_out.write_text("premise\thypo\tlabel\n他在跑\t他在动\tentailment\n", encoding="utf-8")
    nli.build([corpus], [held_out], folder / "nli")
    return folder / "nli"


def test_a_pair_becomes_the_two_replies_of_a_row_and_only_a_contradiction_is_history(rows, pairs):
    read = load_split(pairs, "nli", "train")
    conversations = nli_rows(rows, read, 2, 23)
    names = rows.features["label"]
    kind = {(pair["premise"], pair["hypothesis"]): read.features["label"].int2str(pair["label"]) for pair in read}
    assert len(conversations) == len({(row["b1"], row["b2"]) for row in conversations}) == 2 * len(rows)
    for row in conversations:
        expected = "history" if kind[row["b1"], row["b2"]] == "contradiction" else "non-contradiction"
        assert names.int2str(row["label"]) == expected
    # The user turns are those of the rows, each repeated the requested number of times.
    assert sorted(conversations["id"]) == sorted([*rows["id"]] * 2)
    user_turns = {row["id"]: (row["u1"], row["u2"]) for row in rows}
    assert all(user_turns[row["id"]] == (row["u1"], row["u2"]) for row in conversations)
    assert conversations["b2"][:] == nli_rows(rows, read, 2, 23)["b2"][:] != nli_rows(rows, read, 2, 42)["b2"][:]


def test_with_two_labels_a_contradictory_pair_is_a_contradiction(sample_repo, pairs):
    two = load_split(sample_repo, "2-class", "train")
    conversations = nli_rows(two, load_split(pairs, "nli", "train"), 1, 23)
    assert {two.features["label"].int2str(label) for label in conversations["label"]} == {
        "non-contradiction",
        "contradiction",
    }


def test_teachers_do_not_judge_rows_with_a_certain_label(rows, pairs):
    recipe = RECIPE.with_changes(nli=str(pairs), context_negatives=1, transfer_per_row=1, teachers=["some/teacher"])
    made_rows = training_rows(rows, recipe)
    assert made_rows.rows["id"][: len(rows)] == rows["id"]
    assert set(made_rows.rows["label"][len(rows) : made_rows.teacher_rows]) == {None}
    assert None not in made_rows.rows["label"][made_rows.teacher_rows :]
    assert made_rows.rows["b2"][-len(rows) :] == nli_rows(rows, load_split(pairs, "nli", "train"), 1, 23)["b2"]


def test_a_certain_label_is_the_only_target_of_the_student(rows, quick_model):
    heard = [[0.25, 0.25, 0.25, 0.25]]
    examples = encode_rows(
        rows.select(range(3)), RECIPE, AutoTokenizer.from_pretrained(quick_model), soft=np.array(heard)
    )
    assert examples[0][SOFT] == heard[0]
    for example in examples[1:]:
        assert example[SOFT] == [float(label == example["labels"]) for label in range(4)]


def test_training_reads_nli_pairs_and_the_record_and_card_name_them(sample_repo, pairs, tmp_path):
    recipe = RECIPE.with_changes(nli=str(pairs), epochs=1)
    folder = train(recipe, data=sample_repo, out=tmp_path / "run")
    kept = record.read(folder)["request"]["recipe"]["augmentation"]
    assert kept["nli"].startswith("nli@") and kept["nli_pairs_per_row"] == 1
    card = model_card(folder).text
    assert "1 pair of `nli` for each training row" in card
    assert "cdconv train run.json --nli FOLDER" in card
    again = load_recipe(folder)
    with pytest.raises(InputError, match="read pairs of nli@.*; name it by --nli"):
        require_folders(again, "run.json")
    require_folders(again.with_changes(nli=str(pairs)), "run.json")


def test_too_few_pairs_are_reported(rows, pairs):
    few = load_split(pairs, "nli", "train").select(range(5))
    with pytest.raises(InputError, match="nli_pairs_per_row: 1 for each of .* and there are 5 pairs; 0 is the most"):
        nli_rows(rows, few, 1, 23)


def test_a_pair_known_only_to_contradict_is_learnt_as_any_contradiction(rows, tmp_path, encoder):
    lines = [{"earlier": f"I have {n} cats.", "last": f"I have no cats at all, {n}.", "label": n % 2} for n in range(6)]
    (tmp_path / "pairs.train.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    (tmp_path / "held_out.tsv").write_text("premise\thypo\tlabel\n他在跑\t他在动\tentailment\n", encoding="utf-8")
    nli.build([tmp_path / "pairs.train.jsonl"], [tmp_path / "held_out.tsv"], tmp_path / "nli")
    pairs = load_split(tmp_path / "nli", "nli", "train")
    recipe = Recipe.of(name="trial", view="nli", config="nli", backbone=str(encoder))
    examples = encode_rows(pairs, recipe, AutoTokenizer.from_pretrained(encoder))
    contradicts = [line["label"] == 1 for line in lines]
    assert [example["labels"] for example in examples] == [2 if flag else UNLABELLED for flag in contradicts]
    assert [example[ALLOWED] for example in examples] == [[not flag, not flag, flag] for flag in contradicts]
    conversations = nli_rows(rows.select(range(6)), pairs, 1, 23)
    history = rows.features["label"].str2int("history")
    by_text = {line["last"]: line["label"] == 1 for line in lines}
    assert all((row["label"] == history) == by_text[row["b2"]] for row in conversations)
