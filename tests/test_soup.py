"""Soups: the mean of runs from one start is a detector like any other. Incompatible runs are rejected."""

import shutil

import pytest
import torch
from helpers.runs import train
from safetensors.torch import load_file, save_file

from contradiction.errors import InputError
from contradiction.evaluation.model_card import model_card
from contradiction.io.files import read_json, write_json
from contradiction.training import record
from contradiction.training.recipe import Recipe
from paper.soup import soup


@pytest.fixture(scope="module")
def runs(quick_model, sample_repo, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    start = {"backbone": str(quick_model), "view": "flatten", "config": "4-class"}
    recipe = Recipe.of(name="run", epochs=1, train_fraction=0.3, **start)
    seeded = {seed: recipe.with_changes(seed=seed) for seed in (1, 2, 3)}
    return [train(one, data=sample_repo, out=folder / f"seed-{seed}") for seed, one in seeded.items()]


@pytest.fixture(scope="module")
def mean(runs, sample_repo, tmp_path_factory):
    return soup(runs, tmp_path_factory.mktemp("soup") / "mean", data=sample_repo)


def weights(folder):
    return load_file(folder / "model.safetensors")


def test_each_weight_is_the_mean_of_the_runs(mean, runs):
    ones = [weights(run) for run in runs]
    mean_weights = weights(mean)
    assert mean_weights.keys() == ones[0].keys()
    for name, tensor in mean_weights.items():
        torch.testing.assert_close(tensor, sum(one[name] for one in ones) / 3)
    assert any(not torch.equal(mean_weights[name], ones[0][name]) for name in mean_weights)


def test_the_record_and_the_card_name_the_members(mean, runs):
    mean_record = record.read(mean)
    assert [member["seed"] for member in mean_record["request"]["soup"]] == [1, 2, 3]
    assert mean_record["soup"] == [record.read(run) for run in runs]
    assert mean_record["minutes"] == pytest.approx(sum(record.read(run)["minutes"] for run in runs), abs=0.1)
    assert "- a model soup: the mean of the weights of 3 runs from this one start\n" in model_card(mean).text


def test_a_model_made_from_a_soup_credits_the_corpora_of_its_members(tmp_path):
    members = [{"corpora": ["OCNLI"]}, {}, {"corpora": ["OCNLI", "CMNLI"]}]
    write_json(tmp_path / "run.json", {"soup": members})
    recipe = Recipe.of(name="next", backbone=str(tmp_path), view="flatten", config="4-class")
    assert record.corpora_of_recipe(recipe) == {"corpora": ["OCNLI", "CMNLI"]}


def test_incompatible_runs_are_rejected(runs, mean, quick_model, sample_repo, tmp_path):
    changed = shutil.copytree(runs[1], tmp_path / "changed")
    write_json(changed / "tokenizer.json", read_json(changed / "tokenizer.json") | {"version": "2.0"})
    other = shutil.copytree(runs[1], tmp_path / "other")
    run = read_json(other / "run.json")
    run["request"]["recipe"]["model"]["backbone"] = "other@0123456789ab"
    write_json(other / "run.json", run)
    cut = shutil.copytree(runs[1], tmp_path / "cut")
    save_file({name: weight[:1] for name, weight in weights(cut).items()}, cut / "model.safetensors")
    (cut / "SHA256SUMS").unlink()
    for models, message in (
        ([runs[0], cut], "same names and shapes"),
        ([runs[0], tmp_path], "no config.json"),
        ([*runs, runs[0]], "each named once"),
        ([runs[0], mean], "a soup needs single runs"),
        ([quick_model, runs[0]], f"{quick_model}: started from random weights"),
        ([runs[0], other], f"{other} and {runs[0]}: a soup needs runs that started from the same checkpoint"),
        ([runs[0], changed], "views or tokenizers"),
    ):
        with pytest.raises(InputError, match=message):
            soup(models, tmp_path / "out", data=sample_repo)
    with pytest.raises(InputError, match="exists already"):
        soup(runs, runs[0], data=sample_repo)
    assert not (tmp_path / "out").exists()
