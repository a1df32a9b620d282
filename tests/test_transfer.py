"""The transfer set: conversations made from training rows, which a student learns from its teachers alone."""

import pytest
import torch
from helpers.runs import TINY, train

from contradiction.io.files import read_json
from contradiction.reports.model_card import model_card
from contradiction.training.augmentation import training_rows, transfer_rows
from contradiction.training.losses import SOFT, UNLABELLED, divergence, objective
from contradiction.training.recipe import Recipe


def recipe(**values):
    return Recipe.of(
        **{"name": "student", "view": "flatten", "config": "4-class", "scratch": TINY, "epochs": 1} | values
    )


def test_a_first_turn_is_followed_by_a_new_second_turn_of_the_same_bot(rows):
    conversations = transfer_rows(rows, 2)
    assert conversations.features == rows.features and len(conversations) == 2 * len(rows)
    first = {(row["u1"], row["b1"], row["bot"]) for row in rows}
    second = {(row["u2"], row["b2"], row["bot"]) for row in rows}
    had = {(row["u1"], row["u2"]) for row in rows}
    by_id = {row["id"]: row for row in rows}
    for row in conversations:
        assert (row["u1"], row["b1"], row["bot"]) in first
        assert (row["u2"], row["b2"], row["bot"]) in second
        assert (row["u1"], row["u2"]) not in had
        assert row["label"] is None
        assert by_id[row["id"]]["u1"] == row["u1"]
    assert len({(row["u1"], row["b1"], row["u2"], row["b2"]) for row in conversations}) == len(conversations)
    assert conversations["id"] == transfer_rows(rows, 2)["id"]


def test_the_second_turn_matches_the_topic_of_the_first(rows):
    made = rows.select([0, 0, 0]).to_dict()
    made |= {
        "id": [0, 1, 2],
        "u1": ["你喜欢猫吗？", "你是哪里人？", "今天天气好吗？"],
        "b1": ["喜欢猫", "我是北京人", "天气很好"],
        "u2": ["今天天气怎么样？", "你养猫吗？", "你在哪里？"],
        "b2": ["下雨", "我不喜欢猫", "在北京"],
    }
    conversations = transfer_rows(type(rows).from_dict(made, features=rows.features), 1)
    assert conversations["b2"][:] == ["我不喜欢猫", "在北京", "下雨"]


def test_a_bot_with_too_few_turns_gives_all_it_has(rows):
    few = rows.select([number for number, bot in enumerate(rows["bot"]) if bot == rows["bot"][0]][:3])
    had = {(row["u1"], row["u2"]) for row in few}
    new = {(one["u1"], other["u2"]) for one in few for other in few} - had
    assert len(transfer_rows(few, 50)) == len(new) > 0


@pytest.mark.parametrize("options", [{}, {"class_weights": "balanced", "logit_adjustment": 1.0}])
def test_an_unlabelled_row_is_learnt_from_the_teachers_alone(options):
    logits, soft = torch.tensor([[1.0, 0.0, -1.0, 0.5]] * 2), torch.tensor([[0.1, 0.2, 0.3, 0.4]] * 2)

    def model(x):
        return type("Output", (), {"logits": x})

    loss_of = objective(recipe(teachers=["teacher"], weight=0.25, temperature=2.0, **options), [4, 3, 2, 1])
    loss = loss_of(model, {"x": logits, SOFT: soft}, torch.tensor([UNLABELLED, 3]))
    whole = divergence(logits, soft, 2.0)
    assert loss[0] == pytest.approx(whole[0].item())
    alone = objective(recipe(**options), [4, 3, 2, 1])(model, {"x": logits[1:]}, torch.tensor([3]))
    assert loss[1] == pytest.approx((0.75 * alone + 0.25 * whole[1]).item())


def test_training_reads_transfer_rows_last_and_excludes_them_from_class_weights(
    quick_model, sample_repo, rows, tmp_path, monkeypatch
):
    from contradiction.training import loop

    counted = {}
    make, encode = loop.objective, loop.encode_rows

    def objective_of(recipe, counts):
        counted["counts"] = counts
        return make(recipe, counts)

    def encode_rows(part, *arguments):
        examples = encode(part, *arguments)
        counted.setdefault("labels", [example["labels"] for example in examples])
        return examples

    monkeypatch.setattr(loop, "objective", objective_of)
    monkeypatch.setattr(loop, "encode_rows", encode_rows)
    run_recipe = recipe(teachers=[str(quick_model)], transfer_per_row=1)
    folder = train(run_recipe, data=sample_repo, out=tmp_path / "student")
    assert counted["labels"][: len(rows)] == rows["label"][:]
    assert set(counted["labels"][len(rows) :]) == {UNLABELLED}
    assert len(counted["labels"]) == len(training_rows(rows, run_recipe).rows) > len(rows)
    assert counted["counts"] == [rows["label"][:].count(label) for label in range(4)]
    run = read_json(folder / "run.json")
    assert run["request"]["recipe"]["distillation"]["transfer_per_row"] == 1
    card = model_card(folder).text
    assert "- transfer set: 1 unlabelled conversation for each training row" in card
