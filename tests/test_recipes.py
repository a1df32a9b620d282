"""Recipes: those of the repository load by name, and a wrong one raises one clear line."""

import re
from functools import cache
from pathlib import Path

import pytest

from contradiction.errors import InputError
from contradiction.evaluation.results import load
from contradiction.inputs.views import VIEWS
from contradiction.io.files import write_json
from contradiction.io.tables import percent
from contradiction.paths import RECIPES, SHIPPED
from contradiction.training import record
from contradiction.training.recipe import FULL_NAMES, Recipe, load_recipe, recipe_files, require_folders

DATA = '[data]\nview = "flatten"\nconfig = "4-class"\n'
MODEL = '[model]\nbackbone = "some/encoder"\n'
GOOD = DATA + MODEL


@cache
def kept_evaluations():
    return load()


def write(folder, text, name="trial.toml"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("path", recipe_files().values(), ids=lambda path: path.stem)
def test_every_recipe_of_the_repository_loads_by_its_bare_name(path):
    recipe = load_recipe(path.stem)
    assert recipe == load_recipe(path)
    assert recipe.name == path.stem and len(recipe_files()) == len([*RECIPES.rglob("*.toml")])
    assert path.parent.name in ("paper", "shipped", "experiments", "relatives")


def test_a_recipe_finds_the_models_of_the_repository_from_any_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert (Path(load_recipe("e5-small-crossed-long").model.backbone) / "model.safetensors").is_file()


def test_no_two_options_share_a_name():
    names = [option for table in Recipe.model_json_schema()["$defs"].values() for option in table["properties"]]
    assert len(names) == len(set(names))
    assert set(FULL_NAMES) == set(load_recipe("tiny").options())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("epoch = 3\n" + GOOD, "epoch is not an option"),
        (GOOD + "[optimizer]\nepoch = 3", "optimizer.epoch is not an option; the options are epochs, batch_size"),
        (GOOD.replace("flatten", "layered"), "data.view is 'layered': allowed are"),
        (GOOD.replace('view = "flatten"\n', ""), "any other needs a view"),
        (DATA + "[model.scratch]\nheads = 3", "model.scratch: hidden_size 128"),
        (GOOD + 'method = "kernel"', "model.method is 'kernel': it should be 'checkpoint', 'hierarchical' or"),
    ],
)
def test_the_error_for_a_wrong_recipe_names_file_key_and_remedy(tmp_path, text, message):
    path = write(tmp_path, text)
    with pytest.raises(InputError) as error:
        load_recipe(path)
    assert str(error.value).startswith(f"{path}: ")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


CHAT = {"config": "chat-response", "view": "chat"}
STAGES = {"method": "hierarchical", "view": "hierarchical"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "decoder", "dropout": 0.1}, "model.dropout has no effect with the method 'decoder'"),
        ({"num_layers": 2}, "model.num_layers has no effect with the method 'checkpoint'"),
        ({"method": "decoder", "config": "2-class"}, "'decoder' needs the labels of 4-class"),
        ({"view": "nli"}, "does not read data.config '4-class'"),
        ({"config": "nli", "view": "nli", "bot": "eva"}, "data.bot is for conversations"),
        (STAGES | {"teachers": ["x"]}, "teachers is for one checkpoint"),
        ({"config": "2-class", "context_negatives": 1}, "context_negatives needs the labels of 4-class"),
        ({"method": "decoder", "backbone": "b", "context_negatives": 1}, "context_negatives has no effect without aug"),
        (CHAT | {"choice": True, "checkpoint": "last", "class_weights": "balanced"}, "is the whole loss"),
        ({"ngram_teacher_weight": 1.0, "teachers": ["x"]}, "below 1, because the other teachers have the rest"),
        ({"transfer_per_row": 1}, "transfer_per_row has no effect without teachers"),
    ],
)
def test_options_that_do_not_go_together_raise_one_line(options, message):
    values = {"config": "4-class", "view": "flatten", "backbone": "some/encoder"} | options
    with pytest.raises(InputError, match=message) as error:
        Recipe.of(name="trial", **values)
    assert "\n" not in str(error.value)


def test_a_hierarchical_recipe_needs_no_view_and_gives_one_recipe_per_stage(tmp_path):
    recipe = load_recipe(write(tmp_path, '[data]\nconfig = "4-class"\n' + MODEL + 'method = "hierarchical"'))
    assert recipe.data.view == "hierarchical"
    assert [(VIEWS[stage.data.view], stage.data.target, stage.model.method) for stage in recipe.stages()] == [
        (("u2", "b2"), "intra-sentence", "checkpoint"),
        (("b1", "u2", "b2"), "role-confusion", "checkpoint"),
        (("u1", "b1", "u2", "b2"), "history", "checkpoint"),
    ]


def test_options_may_stand_outside_their_tables(tmp_path):
    flat = 'view = "flatten"\nconfig = "4-class"\nbackbone = "some/encoder"\nepochs = 4\n[optimizer]\nbatch_size = 8\n'
    assert load_recipe(write(tmp_path, flat)) == Recipe.of(
        name="trial", view="flatten", config="4-class", backbone="some/encoder", epochs=4, batch_size=8
    )


def test_the_recipes_of_all_kept_evaluations_can_be_read():
    recorded = [run["request"] for result in kept_evaluations() if "request" in (run := result.get("run") or {})]
    assert recorded
    for request in recorded:
        assert record.recipe(request).recorded() == request["recipe"]


def test_changes_are_checked_and_none_keeps_a_value():
    tiny = load_recipe("tiny")
    assert tiny.with_changes(seed=None, backbone=None) == tiny
    changed = tiny.with_changes(seed=42, backbone="some/encoder")
    assert (changed.seed, changed.model.backbone, changed.model.scratch) == (42, "some/encoder", None)
    assert changed.changed() - tiny.changed() == {"model.backbone"}
    with pytest.raises(InputError, match="seed is -1"):
        tiny.with_changes(seed=-1)
    with pytest.raises(InputError, match="no-such-recipe.*tiny"):
        load_recipe("no-such-recipe")


@pytest.mark.parametrize("file", ["", "run.json"], ids=["folder", "file"])
def test_the_record_of_a_run_is_its_recipe_and_needs_the_paths_of_its_folders(file, tmp_path):
    own = load_recipe("e5-small-cdconv-nli")
    run = next(result["run"] for result in kept_evaluations() if result["name"] == own.name)
    write_json(tmp_path / "run.json", run)
    recipe = load_recipe(tmp_path / file)
    start, teachers = {"backbone": own.model.backbone}, {"teachers": own.distillation.teachers}
    for message, known in (
        ("e5-small-sentence-pair-seed42@63dcd1eea411, .* by --backbone", {}),
        ("e5-small-ensemble@.* by --teacher", start),
        ("nli@.* by --nli", start | teachers),
    ):
        with pytest.raises(InputError, match=message):
            require_folders(recipe.with_changes(**known), str(tmp_path))
    again = recipe.with_changes(**start, **teachers, base_model=own.model.base_model, nli=own.augmentation.nli)
    require_folders(again, str(tmp_path))
    assert again == own
    assert recipe.model.base_model == own.model.base_model


@pytest.mark.parametrize(
    ("run", "message"),
    [
        ('{"epochs": []}', "not the record of a run"),
        ('{"request": {"recipe": {"view": "flatten"}}}', "name: Field required"),
        ('{"request": {"recipe": {}, "soup": [{}, {}]}}', "of several runs; train each of them"),
    ],
)
def test_the_error_names_a_file_that_is_not_the_record_of_one_run(tmp_path, run, message):
    write(tmp_path, run, "run.json")
    with pytest.raises(InputError, match=f"run.json: .*{message}"):
        load_recipe(tmp_path)


# The results that a recipe promises, compared with its kept evaluations.
COMMENTS = {
    name: " ".join(re.findall(r"^# ?(.*)", path.read_text(encoding="utf-8"), flags=re.MULTILINE))
    for name, path in recipe_files().items()
}


@pytest.mark.parametrize("name", [name for name, text in COMMENTS.items() if "Expect" in text])
def test_the_results_that_recipes_promise_match_the_measurements(name):
    promise = COMMENTS[name].partition("Expect")[2]
    called = re.search(r"saved runs? (?:is|are) named ([\w-]+)", COMMENTS[name])
    own = [result for result in kept_evaluations() if result["name"].startswith(called[1] if called else name)]
    own = [result for result in own if called or result["name"] == name]
    assert own, "an expectation needs a kept evaluation"
    minutes = {f"{result['run']['minutes']:.0f}" for result in own}
    assert set(re.findall(r"\bTime: (\d+) minutes", promise)) <= minutes
    figures = {}
    for result in own:
        for metrics in filter(None, (result["metrics"], result.get("argmax", {}).get("metrics"))):
            figures.setdefault(result["split"], set()).add(percent(metrics["macro_f1"]))
    stated = {
        split: set(re.findall(rf"\b(\d\d\.\d) on {place}", promise))
        for split, place in (("validation", "(?:validation|OCNLI dev)"), ("test", "test"))
    }
    assert any(stated.values()), "an expectation states a figure"
    assert all(stated[split] <= figures.get(split, set()) for split in stated), stated


def test_the_record_of_a_causal_detector_is_its_recipe():
    recipe = load_recipe(str(SHIPPED.with_name("qwen-1.5b") / "run.json"))
    assert recipe.model.backbone == "Qwen/Qwen2.5-Coder-1.5B-Instruct" and recipe.model.num_layers == 20
