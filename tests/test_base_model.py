"""A model card names the Hub id that a local backbone was made from. The id does not make two runs different."""

import json

import pytest
from helpers.runs import train

from contradiction.reports.model_card import model_card
from contradiction.training import record
from contradiction.training.recipe import Recipe, load_recipe, recipe_files
from contradiction.training.run import run_request
from paper.grid import same_request

E5 = "intfloat/multilingual-e5-small"
OTHER = "someone/encoder"


def recipe(backbone, **values):
    given = {"name": "any", "view": "flatten", "config": "4-class", "epochs": 1, "batch_size": 64}
    return Recipe.of(**given | values, backbone=str(backbone))


def recorded(folder, name, value):
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(json.dumps(value), encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("run.json", {"base_model": OTHER, "request": {"recipe": {"model": {"backbone": "copy@0123456789ab"}}}}, OTHER),
        ("run.json", {"request": {"recipe": {"model": {"backbone": "copy@0123456789ab"}}}}, E5),
        ("prune.json", {"backbone": OTHER}, OTHER),
        ("config.json", {}, E5),
    ],
)
def test_the_origin_in_a_folder_takes_precedence_over_the_recipe(name, value, expected, tmp_path):
    assert record.base_model_of_recipe(recipe(recorded(tmp_path, name, value), base_model=E5)) == expected


def test_a_hub_id_is_its_own_origin_and_random_weights_have_none():
    assert record.base_model_of_recipe(recipe(OTHER, base_model=E5)) == OTHER
    assert record.base_model_of_recipe(recipe(f"{OTHER}@v1")) == OTHER
    assert record.base_model_of_recipe(load_recipe("tiny")) is None


def test_recipes_that_start_from_an_nli_stage_name_its_backbone():
    starts = {name: load_recipe(name) for name in recipe_files()}
    after = [recipe for recipe in starts.values() if recipe.model.backbone == "runs/e5-small-nli"]
    assert after
    assert {path.model.base_model for path in after} == {starts["e5-small-nli"].model.backbone}


def test_a_chain_of_runs_passes_the_origin_on_and_resumes_whatever_it_is(random_model, sample_repo, tmp_path):
    first = recipe(random_model("4-class"), base_model=E5)
    one = train(first, data=sample_repo, out=tmp_path / "one")
    two = train(recipe(one).with_changes(method="hierarchical"), data=sample_repo, out=tmp_path / "two")
    assert [model_card(folder).data.base_model for folder in (one, two, two / "history")] == [E5] * 3
    assert "fine-tuned from one, which was made from intfloat/multilingual-e5-small" in model_card(two).text
    for other in (first.with_changes(base_model=OTHER), recipe(first.model.backbone)):
        assert train(other, data=sample_repo, out=one, resume=True) == one
        assert run_request(other, sample_repo) == record.recorded_request(one)
        assert same_request(record.read(one)["request"], run_request(other, sample_repo))
