"""Training rows with other endings and longer replies."""

import numpy as np
import pytest
from datasets import ClassLabel, Dataset
from helpers.runs import FAST, train

from contradiction.data.corpora.crossed import FOLDERS, batches, read
from contradiction.inputs.views import CONVERSATION
from contradiction.labels import CROSSED_LONG, LABELS
from contradiction.methods.loading import load_classifier
from contradiction.training import record
from contradiction.training.augmentation import (
    LONG,
    PUNCTUATION,
    crossed_rows,
    neutral_sentences,
    rewritten_rows,
    statements,
)
from contradiction.training.losses import GROUP
from contradiction.training.recipe import Recipe
from contradiction.training.run import run_request


@pytest.fixture(scope="module")
def rows():
    made = [
        {"id": i, "u1": f"问{i}？", "b1": f"养了{i}只猫", "u2": f"再问{i}", "b2": f"没养过{i}。", "label": i % 2}
        for i in range(400)
    ]
    return Dataset.from_list(made)


def test_a_share_of_the_messages_gets_another_ending(rows):
    made = rewritten_rows(rows, endings=0.25, long_replies=0, seed=1)
    changed = {
        name: np.mean([old != new for old, new in zip(rows[name], made[name], strict=True)]) for name in CONVERSATION
    }
    assert changed["u1"] == 0  # a question mark stays
    assert all(0.18 < changed[name] < 0.32 for name in ("b1", "u2", "b2"))
    for name in CONVERSATION:
        for old, new in zip(rows[name], made[name], strict=True):
            assert new in {old, f"{old}。", old.removesuffix("。")}


def test_a_share_of_the_rows_gets_longer_replies(rows):
    made = rewritten_rows(rows, endings=0, long_replies=0.5, seed=1)
    longer = [[len(new[name]) > len(old[name]) for name in CONVERSATION] for old, new in zip(rows, made, strict=True)]
    assert 0.42 < np.mean([any(row) for row in longer]) < 0.58
    assert {tuple(row) for row in longer} == {
        (False, first, False, second) for first in (False, True) for second in (False, True)
    }
    known = {*neutral_sentences(), *statements()}
    for old, new in zip(rows, made, strict=True):
        before, reply, after = new["b2"].partition(old["b2"].removesuffix("。"))
        assert reply
        for part in (before, after.removeprefix("。")):
            assert not part or part in known or any(part.startswith(sentence) for sentence in known)


def test_the_rows_of_a_group_are_lengthened_together(rows):
    grouped = rows.add_column(GROUP, [number // 4 for number in range(len(rows))])
    made = rewritten_rows(grouped, endings=0, long_replies=0.5, seed=1)
    longer = np.array([new["b1"] + new["b2"] != old["b1"] + old["b2"] for old, new in zip(rows, made, strict=True)])
    shares = longer.reshape(-1, 4).mean(1)
    assert set(shares) == {0.0, 1.0} and 0.35 < shares.mean() < 0.65


def test_a_long_reply_stays_as_it_is(rows):
    replies = ["猫" * (LONG - 1), "猫" * LONG] * 50
    made = rewritten_rows(rows.select(range(100)).remove_columns("b2").add_column("b2", replies), 0, 1, seed=1)
    changed = [new != old for new, old in zip(made["b2"], replies, strict=True)]
    assert not any(changed[1::2]) and 0.5 < np.mean(changed[::2]) < 0.8


def test_labels_and_all_other_columns_stay(rows):
    made = rewritten_rows(rows, endings=1, long_replies=1, seed=1)
    assert made.column_names == rows.column_names and made.features == rows.features
    assert made["id"] == rows["id"] and made["label"] == rows["label"]


def test_absent_messages_stay_absent():
    opening = Dataset.from_list([{"u1": "", "b1": "", "u2": "你好？", "b2": "我养了一只猫"}] * 50)
    made = rewritten_rows(opening, endings=1, long_replies=1, seed=1)
    assert set(made["u1"]) == set(made["b1"]) == {""} and len(set(made["b2"])) > 10
    made = rewritten_rows(opening.select_columns(["u2", "b2"]), endings=1, long_replies=1, seed=1)
    assert made.column_names == ["u2", "b2"] and len(set(made["b2"])) > 10


def test_the_rewriting_depends_on_the_seed_alone(rows):
    first, again, other = (rewritten_rows(rows, 0.5, 0.5, seed)["b2"] for seed in (1, 1, 2))
    assert list(first) == list(again) != list(other)


def test_the_added_sentences_say_nothing_about_speaker_or_user():
    for sentence in (*neutral_sentences(), *statements()):
        assert sentence[-1] in "。！？" and not set(sentence) & set("我")
    assert len(set(neutral_sentences())) >= 300 and len(statements()) > 1000
    evaluated = {
        message["content"]
        for split in ("validation", "test")
        for item in read(split)
        for message in item.judged().__next__().messages
    }
    assert not evaluated & set(statements())


def test_a_reply_ends_with_punctuation_before_an_added_sentence(rows):
    for reply in rewritten_rows(rows, 0, 1, 3)["b1"]:
        before, _, after = reply.partition("只猫")
        assert not after or after[0] in PUNCTUATION


def recipe(backbone="x", **options):
    return Recipe.of(name="it", config="4-class", view="flatten", backbone=backbone, **options)


def test_batches_of_both_crossed_corpora_can_be_chosen(rows):
    [name, *_] = [batch.name for batch in batches(FOLDERS[CROSSED_LONG]).values() if batch.split == "train"]
    labelled = rows.cast_column("label", ClassLabel(names=list(LABELS["4-class"])))
    made = crossed_rows(labelled.add_column(GROUP, [0] * len(rows)), 1, 23, batches=[name, "a1"])
    assert any(len(row["b2"]) >= 60 for row in made) and any(len(row["b2"]) < 60 for row in made)


def test_an_encoder_that_also_read_english_chats_judges_english(sample_repo, tmp_path):
    english = {"crossed": True, "crossed_batches": ["en5"], "train_fraction": 0.1, "max_length": 64}
    made = Recipe.of(name="both", view="flatten", epochs=1, **FAST, **english)
    folder = train(made, sample_repo, tmp_path / "both")
    assert record.read(folder)["languages"] == ["zh", "en"] and not load_classifier(folder).chinese_only


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [({}, set()), ({"crossed": True}, {"crossed"}), ({"crossed": True, "crossed_batches": ["a1"]}, {"crossed"}),
     ({"crossed": True, "crossed_batches": ["a1", "lr1"]}, {"crossed", "crossed-long"})],
)  # fmt: skip
def test_a_request_has_the_fingerprints_of_the_corpora_that_the_run_reads(quick_model, sample_repo, chosen, expected):
    request = run_request(recipe(str(quick_model), **chosen), sample_repo)
    assert {key for key in request if key.startswith("crossed")} == expected
