"""Distillation: the student learns the mean probabilities of the teachers beside the labels."""

import numpy as np
import pytest
import torch
from helpers.runs import TINY, train
from numpy.testing import assert_allclose
from scipy.special import softmax

from contradiction.errors import InputError
from contradiction.evaluation.model_card import model_card
from contradiction.inputs.views import CONVERSATION
from contradiction.methods.checkpoint import CheckpointClassifier
from contradiction.methods.ngrams import LinearModel
from contradiction.training import loop, losses, record
from contradiction.training.augmentation import labelled_rows, training_rows, transfer_rows
from contradiction.training.losses import SOFT, UNLABELLED, divergence, objective, soft_labels
from contradiction.training.recipe import Recipe


def recipe(**values):
    student = {"name": "student", "view": "flatten", "config": "4-class", "scratch": TINY, "epochs": 1}
    return Recipe.of(**student | values)


def quick_recipe(**values):
    return recipe(train_fraction=0.2, **values)


def test_soft_labels_are_the_mean_of_the_teachers_probabilities(quick_model, random_model, rows):
    teachers = [str(quick_model), str(random_model("4-class"))]
    labels = soft_labels(recipe(teachers=teachers), rows)
    ones = [softmax(CheckpointClassifier.load(teacher).score(list(rows)).logits, axis=1) for teacher in teachers]
    np.testing.assert_allclose(labels, (ones[0] + ones[1]) / 2, atol=1e-6)


def test_a_teacher_with_other_labels_is_rejected(random_model, rows):
    with pytest.raises(
        InputError, match=r"teacher .*2-class: predicts .*; the student learns non-contradiction, intra"
    ):
        soft_labels(recipe(teachers=[str(random_model("2-class"))]), rows)


def test_a_teacher_trained_on_other_rows_is_rejected(quick_model, other_repo, tmp_path):
    with pytest.raises(InputError, match="trained on other rows than the student's"):
        train(recipe(teachers=[str(quick_model)]), data=other_repo, out=tmp_path / "student")
    assert not any(tmp_path.iterdir())


def test_the_divergence_is_zero_at_the_teacher_and_equals_scipys_elsewhere():
    from scipy.stats import entropy

    logits = torch.tensor([[2.0, -1.0, 0.5], [0.0, 0.0, 0.0]])
    assert divergence(logits, logits.softmax(-1), 3.0).tolist() == pytest.approx([0, 0], abs=1e-6)
    soft = torch.tensor([[0.2, 0.5, 0.3], [0.9, 0.05, 0.05]])
    expected = [entropy(one, other) for one, other in zip(soft.numpy(), logits.softmax(-1).numpy(), strict=True)]
    assert divergence(logits, soft).tolist() == pytest.approx(expected, abs=1e-6)
    cooled = [
        4 * entropy(np.sqrt(one), softmax(other / 2))  # entropy scales to a sum of one
        for one, other in zip(soft.numpy(), logits.numpy(), strict=True)
    ]
    assert divergence(logits, soft, 2.0).tolist() == pytest.approx(cooled, abs=1e-6)


def test_teachers_run_once_even_if_the_run_is_killed_before_its_first_epoch(
    quick_model, sample_repo, tmp_path, monkeypatch
):
    taught = quick_recipe(teachers=[str(quick_model)])
    whole = train(taught, data=sample_repo, out=tmp_path / "whole")

    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(loop, "_train", stop)
        train(taught, data=sample_repo, out=tmp_path / "again")
    with pytest.raises(InputError, match="an unfinished run; --resume continues it"):
        train(taught, data=sample_repo, out=tmp_path / "again")
    monkeypatch.setattr(loop, "soft_labels", stop)
    again = train(taught, data=sample_repo, out=tmp_path / "again", resume=True)
    assert (again / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    assert {path.name for path in again.iterdir()} == {path.name for path in whole.iterdir()}


def test_a_student_learns_from_its_teacher_and_names_it(quick_model, sample_repo, tmp_path):
    alone = train(quick_recipe(), data=sample_repo, out=tmp_path / "alone")
    taught = quick_recipe(teachers=[str(quick_model)], weight=1.0)
    first = train(taught, data=sample_repo, out=tmp_path / "first")
    assert (alone / "model.safetensors").read_bytes() != (first / "model.safetensors").read_bytes()
    card = model_card(first).text
    assert "100 % of the loss is the divergence from the probabilities of 1 trained detector: quick" in card
    [teacher] = record.read(first)["request"]["recipe"]["distillation"]["teachers"]
    assert teacher.startswith("quick@"), "a teacher is recorded by its content, not its path"


# Linear n-gram models as teachers, which judge only rows that they were not trained on.


def lexical(**values):
    return recipe(**{"ngram_teacher_weight": 1.0} | values)


def rows_with(rows, **columns):
    """Rows with these columns. The other columns are those of the first row."""
    count = len(next(iter(columns.values())))
    made = rows.select([0] * count).to_dict() | {"id": list(range(count))} | columns
    return type(rows).from_dict(made, features=rows.features)


def test_the_speaker_of_an_utterance_matters():
    texts = [{"u2": "是", "b2": "不"}, {"u2": "不", "b2": "是"}] * 4
    model = LinearModel(("u2", "b2")).fit(texts, [0, 1] * 4)
    assert model.predict_proba(texts[:2]).argmax(axis=1).tolist() == [0, 1]


def test_a_column_that_is_blank_in_all_rows_is_skipped():
    texts = [{"b1": " ", "b2": "不"}, {"b1": "", "b2": "是"}] * 4
    blank, alone = (LinearModel(columns).fit(texts, [0, 1] * 4) for columns in (("b1", "b2"), ("b2",)))
    assert_allclose(blank.predict_proba(texts), alone.predict_proba(texts))
    with pytest.raises(InputError, match="2 rows have only one label"):
        LinearModel(("b1",)).fit([{"b1": "你好"}] * 2, [1, 1])
    with pytest.raises(InputError, match="all 8 rows are blank in b1"):
        LinearModel(("b1",)).fit(texts, [0, 1] * 4)


def test_a_row_is_judged_by_models_not_trained_on_it(rows):
    # The labels are random, so that a model can only memorise them. A model that was trained on the rows knows
    # them all.
    generator = np.random.default_rng(0)
    texts = ["".join(map(chr, generator.integers(0x4E00, 0x9000, 12))) for _ in range(160)]
    labels = generator.integers(0, 2, 160).tolist()
    drawn = rows_with(rows, b2=texts, u1=texts, label=labels)
    known = LinearModel(("b2",)).fit(list(drawn), labels)
    assert np.mean(known.predict_proba(list(drawn)).argmax(axis=1) == labels) == 1
    for config in ("4-class", "4-class-grouped"):
        soft = losses.ngram_probabilities(lexical(config=config, view="reply-only"), drawn)
        assert np.mean(soft.argmax(axis=1) == labels) < 0.65
        assert_allclose(soft.sum(axis=1), 1)
        assert_allclose(soft[:, 2:], 0)  # the labels that no row has


def record_fits(recipe, rows):
    """For each judged row, the row and the rows that its model was fitted to."""
    looked = []

    class Looked:
        def __init__(self, columns):
            assert columns == CONVERSATION

        def fit(self, rows, labels):
            self.rows = rows
            self.classes_ = np.unique(labels)
            return self

        def predict_proba(self, judged_rows):
            looked.extend((row, self.rows) for row in judged_rows)
            return np.full((len(judged_rows), len(self.classes_)), 1 / len(self.classes_))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(losses, "LinearModel", Looked)
        losses.ngram_probabilities(recipe, rows)
    return looked


def test_a_made_row_is_judged_by_models_trained_on_neither_of_its_sources(rows):
    made = transfer_rows(rows, 1)
    both = made.from_dict({name: [*rows[name], *made[name]] for name in rows.features})
    read = record_fits(lexical(transfer_per_row=1), both)
    assert len(read) == len(rows) + len(made)
    kinds, sources = set(), {}
    for row in rows.to_list():
        sources.setdefault(losses._turn(row), row["id"])
    for row, others in read:
        kinds.add(row["label"] is None)
        fitted = {other["id"] for other in others}
        assert row["id"] not in fitted
        if row["label"] is None:
            assert sources[losses._turn(row)] not in fitted
        assert len(others) > len(rows) / 2
    assert kinds == {True, False}


@pytest.mark.parametrize("grouped", [False, True])
def test_in_a_grouped_split_no_model_is_trained_on_the_context_of_its_rows(rows, grouped):
    judged = rows_with(rows, u1=[f"第{number // 4}句" for number in range(160)], label=[0, 1] * 80)
    looked = record_fits(lexical(config="4-class-grouped" if grouped else "4-class"), judged)
    knew = [row["u1"] in {other["u1"] for other in others} for row, others in looked]
    assert len(knew) == 160
    assert any(knew) != grouped


@pytest.mark.parametrize("missing", [None, -1])
def test_rows_without_a_label_are_no_class_and_get_probabilities(rows, missing):
    texts = [f"我养了{number}只猫" for number in range(40)]
    drawn = rows_with(rows, b2=texts, u1=texts, label=[number % 2 for number in range(39)] + [missing])
    soft = losses.ngram_probabilities(lexical(view="reply-only"), drawn)
    assert_allclose(soft.sum(axis=1), 1)
    assert (soft[:, 2:] == 0).all()


@pytest.mark.parametrize(
    ("labels", "message"), [([0, 1] * 2, "cannot be split into 8 folds"), ([0] * 30, "have only one label")]
)
def test_too_few_rows_raise_one_line(rows, labels, message):
    with pytest.raises(InputError, match=message):
        losses.soft_labels(lexical(), rows_with(rows, label=labels))


def test_the_weight_of_the_n_gram_teacher(rows, quick_model):
    few = rows.select(range(64))
    detectors = {"teachers": [str(quick_model)], "ngram_teacher_weight": 0.0}
    alone, ngrams = losses.soft_labels(lexical(**detectors), few), losses.soft_labels(lexical(), few)
    assert np.abs(alone - ngrams).max() > 0.01
    both = losses.soft_labels(lexical(**detectors | {"ngram_teacher_weight": 0.25}), few)
    assert_allclose(both, 0.75 * alone + 0.25 * ngrams)


# The transfer set: conversations made from training rows, which a student learns from its teachers alone.


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


def test_training_reads_transfer_rows_and_excludes_them_from_class_weights(
    quick_model, sample_repo, rows, tmp_path, monkeypatch
):
    counted = []
    monkeypatch.setattr(loop, "objective", lambda recipe, counts: counted.append(counts) or objective(recipe, counts))
    run_recipe = quick_recipe(teachers=[str(quick_model)], transfer_per_row=1)
    folder = train(run_recipe, data=sample_repo, out=tmp_path / "student")
    read = labelled_rows(rows, run_recipe)
    assert counted == [[read["label"][:].count(label) for label in range(4)]]
    assert len(training_rows(rows, run_recipe).rows) > len(read)
    assert "- transfer set: 1 unlabelled conversation for each training row" in model_card(folder).text
