"""Distillation: the student learns the mean probabilities of the teachers beside the labels."""

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from helpers.runs import TINY, train
from scipy.special import softmax

from contradiction.errors import InputError
from contradiction.methods.checkpoint import CheckpointClassifier
from contradiction.reports.model_card import model_card
from contradiction.training import loop, record
from contradiction.training.distillation import soft_labels
from contradiction.training.losses import divergence
from contradiction.training.recipe import Recipe
from contradiction.training.run import Run
from contradiction.training.run_folder import TEACHER_PROBABILITIES


def recipe(**values):
    return Recipe.of(name="student", view="flatten", config="4-class", scratch=TINY, epochs=1, **values)


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
    taught = recipe(teachers=[str(quick_model)])
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


def test_distillation_is_reproducible(quick_model, sample_repo, tmp_path):
    alone = train(recipe(), data=sample_repo, out=tmp_path / "alone")
    taught = recipe(teachers=[str(quick_model)], weight=1.0)
    first, again = (train(taught, data=sample_repo, out=tmp_path / name) for name in ("first", "again"))
    weights = [(folder / "model.safetensors").read_bytes() for folder in (alone, first, again)]
    assert weights[0] != weights[1] == weights[2]
    card = model_card(first).text
    assert "100 % of the loss is the divergence from the probabilities of 1 trained detector: quick" in card
    [teacher] = record.read(first)["request"]["recipe"]["distillation"]["teachers"]
    assert teacher.startswith("quick@"), "a teacher is recorded by its content, not its path"


def test_soft_labels_of_other_rows_are_rejected(rows, tmp_path):
    run = Run(recipe(teachers=["some/teacher"]), {"train": rows.select(range(5)), "validation": rows}, tmp_path / "run")
    run.work.mkdir()
    np.save(run.work / TEACHER_PROBABILITIES, np.full((3, 4), 0.25))
    with pytest.raises(InputError, match=f"{TEACHER_PROBABILITIES}: .*3 rows.* 5"):
        loop._teacher_probabilities(Accelerator(cpu=True), run)
