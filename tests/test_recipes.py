"""Recipes: every one in the repository loads, and a wrong one is refused in one clear sentence."""

import json
import re
from functools import cache

import pytest

from contradiction.errors import InputError
from contradiction.evaluation.results import load
from contradiction.io.tables import percent
from contradiction.paths import RECIPES
from contradiction.training import record
from contradiction.training.recipe import Recipe
from contradiction.training.recipe_history import without_retired

GOOD = 'view = "flatten"\nconfig = "4-class"\nbackbone = "some/encoder"\n'


def write(folder, text, name="trial.toml"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("path", sorted(RECIPES.glob("*.toml")), ids=lambda path: path.stem)
def test_every_recipe_of_the_repository_loads_by_its_name(path):
    recipe = Recipe.load(path.stem)
    assert recipe == Recipe.load(path)
    assert recipe.name == path.stem


def test_the_defaults_are_the_papers_setup(tmp_path):
    recipe = Recipe.load(write(tmp_path, GOOD))
    assert (recipe.epochs, recipe.batch_size, recipe.warmup, recipe.learning_rate) == (5, 32, 0.1, 5e-5)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (GOOD + "epoch = 3", "'epoch'"),
        (GOOD + "epochs = 0", "'epochs' is 0"),
        (GOOD + "epochs = 2.5", "'epochs' is 2.5"),
        (GOOD + "epochs = true", "'epochs' is True"),
        (GOOD + 'learning_rate = "fast"', "'learning_rate' is 'fast'"),
        (GOOD + "learning_rate = nan", "'learning_rate' is nan"),
        (GOOD + "learning_rate = -1e-4", "'learning_rate' is -0.0001"),
        (GOOD + "warmup = 1.0", "'warmup' is 1.0"),
        (GOOD + "ema = 1.0", "'ema' is 1.0"),
        (GOOD + 'precision = "int8"', "'precision' is 'int8'"),
        (GOOD.replace("flatten", "layered"), "sentence-pair"),
        (GOOD.replace("4-class", "5-class"), "4-class-grouped"),
        (GOOD.replace('view = "flatten"\n', ""), "'view'"),
        (GOOD + "[scratch]\nlayers = 2", "either the key 'backbone' or the table [scratch]"),
        ('view = "flatten"\nconfig = "4-class"\n', "either the key 'backbone' or the table [scratch]"),
        ('view = "flatten"\nconfig = "4-class"\n[scratch]\nheads = 3', "multiple of heads 3"),
        ('view = "flatten"\nconfig = "4-class"\n[scratch]\ndepth = 3', "'scratch.depth'"),
        ("view = flatten", "not a TOML file"),
        (GOOD.replace("flatten", "hierarchical") + 'target = "history"\n', "targets each category in turn"),
        (GOOD.replace("flatten", "nli"), "the view nli goes with nli configs"),
        (GOOD.replace("4-class", "nli"), "the view nli goes with nli configs"),
    ],
)
def test_a_wrong_recipe_is_refused_by_file_key_and_value(tmp_path, text, said):
    path = write(tmp_path, text)
    with pytest.raises(InputError) as error:
        Recipe.load(path)
    assert str(path) in str(error.value)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


@cache
def kept():
    return load(with_rows=False)


def test_the_recipes_of_all_kept_evaluations_can_still_be_read():
    recorded = [each["run"]["request"]["recipe"] for each in kept() if each.get("run")]
    assert recorded
    for values in recorded:
        current, _ = without_retired(values)
        read = Recipe.model_validate(current).model_dump()
        assert {key: read[key] for key in current} == current


def test_a_record_that_set_a_retired_option_loads_and_shows_and_is_not_trained_again(tmp_path):
    run = next(each["run"] for each in kept() if each["name"] == "e5-small-distilled")
    (tmp_path / "run.json").write_text(json.dumps(run), encoding="utf-8")
    assert record.request(tmp_path)["recipe"]["mixed_views"] == ["sentence-pair"]
    assert record.recipe(run["request"])["mixed_views"] == ["sentence-pair"]
    with pytest.raises(InputError, match="set mixed_views, which this version no longer has") as error:
        Recipe.load(tmp_path)
    assert "\n" not in str(error.value)


def test_an_unknown_name_lists_the_recipes_there_are():
    with pytest.raises(InputError, match="no-such-recipe.*tiny"):
        Recipe.load("no-such-recipe")


def test_changes_are_checked_and_none_leaves_a_value_as_it_is():
    tiny = Recipe.load("tiny")
    assert tiny.with_changes(seed=None, backbone=None) == tiny
    changed = tiny.with_changes(seed=42, backbone="some/encoder")
    assert (changed.seed, changed.backbone, changed.scratch) == (42, "some/encoder", None)
    with pytest.raises(InputError, match="'seed' is -1"):
        tiny.with_changes(seed=-1)


def recorded(folder, **request):
    (folder / "run.json").write_text(json.dumps({"base_model": "some/encoder", "request": request}), encoding="utf-8")
    return folder


@pytest.mark.parametrize("file", ["", "run.json"], ids=["folder", "file"])
def test_the_record_of_a_run_is_its_recipe_and_asks_where_its_folders_lie(file, tmp_path):
    own = Recipe.load("e5-small-cdconv-nli")
    run = next(each["run"] for each in kept() if each["name"] == own.name)
    (tmp_path / "run.json").write_text(json.dumps(run), encoding="utf-8")
    recipe = Recipe.load(tmp_path / file)
    for said, known in (
        ("started from e5-small-sentence-pair-seed42@63dcd1eea411, .*name it by --backbone", {}),
        ("learnt from e5-small-ensemble@.*name it by --teacher", {"backbone": own.backbone}),
        ("read pairs of nli@.*name it by --nli", {"backbone": own.backbone, "teachers": own.teachers}),
    ):
        with pytest.raises(InputError, match=said):
            recipe.with_changes(**known).demand_folders(str(tmp_path))
    again = recipe.with_changes(backbone=own.backbone, base_model=own.base_model, teachers=own.teachers, nli=own.nli)
    again.demand_folders(str(tmp_path))
    assert again == own
    assert recipe.base_model == own.base_model


def test_a_record_that_names_a_hub_id_needs_nothing_more(tmp_path):
    values = {"name": "any", "view": "hierarchical", "config": "4-class", "backbone": "some/encoder"}
    recipe = Recipe.load(recorded(tmp_path, recipe=values))
    recipe.demand_folders("")
    assert (recipe.view, recipe.backbone) == ("hierarchical", "some/encoder")


def test_teachers_that_a_record_names_by_digest_are_asked_for(tmp_path):
    values = {
        "name": "any", "view": "flatten", "config": "4-class", "backbone": "some/encoder",
        "teachers": ["some/teacher", "one@0123456789ab"],
    }  # fmt: skip
    recipe = Recipe.load(recorded(tmp_path, recipe=values))
    with pytest.raises(InputError, match="learnt from one@0123456789ab, .*name all 2 by --teacher"):
        recipe.demand_folders("")
    recipe.with_changes(teachers=["some/teacher", "runs/one"]).demand_folders("")


@pytest.mark.parametrize(
    ("run", "said"),
    [
        ("{", "not JSON"),
        ('{"epochs": []}', "not the record of a run"),
        ('{"request": {"recipe": {"view": "flatten"}}}', "'name': Field required"),
        ('{"request": {"recipe": {}, "soup": [{}, {}]}}', "of 2 runs; train each of them, then use `cdconv soup`"),
    ],
)
def test_what_is_no_record_of_one_run_is_refused_by_its_name(tmp_path, run, said):
    (tmp_path / "run.json").write_text(run, encoding="utf-8")
    with pytest.raises(InputError) as error:
        Recipe.load(tmp_path)
    assert str(tmp_path / "run.json") in str(error.value)
    assert said in str(error.value)


# What a recipe says to expect, against the kept evaluations of it.
COMMENTS = {
    path.stem: " ".join(re.findall(r"^# ?(.*)", path.read_text(encoding="utf-8"), flags=re.MULTILINE))
    for path in sorted(RECIPES.glob("*.toml"))
}


@pytest.mark.parametrize("name", [name for name, text in COMMENTS.items() if "Expect" in text])
def test_what_a_recipe_says_to_expect_is_what_was_measured(name):
    said = COMMENTS[name].partition("Expect")[2]
    called = re.search(r"kept runs? of it (?:is|are) called ([\w-]+)", COMMENTS[name])
    own = [each for each in kept() if each["name"].startswith(called[1] if called else name)]
    own = [each for each in own if called or each["name"] == name]
    assert own, "an expectation needs a kept evaluation"
    minutes = {f"{each['run']['minutes']:.0f}" for each in own}
    assert set(re.findall(r"\b(\d+) minutes", said)) <= minutes
    figures = {}
    for each in own:
        for metrics in filter(None, (each["metrics"], each.get("argmax", {}).get("metrics"))):
            figures.setdefault(each["split"], set()).add(percent(metrics["macro_f1"]))
    for split in ("validation", "test"):
        stated = set(re.findall(rf"\b{split}(?: macro-F1)? (\d\d\.\d)", said))
        assert stated <= figures.get(split, set()), split
