"""Rows that a detector has seen are reported in scores, never published, and not accepted from a start or a teacher."""

import shutil
from pathlib import Path

import pytest
from helpers.runs import TINY, train, with_options
from huggingface_hub import DatasetCard, constants

from contradiction.data.splits import UNNAMED, name_if_known, name_of
from contradiction.errors import InputError
from contradiction.evaluation import results
from contradiction.evaluation.evaluate import trained_config
from contradiction.io.files import read_json, write_json
from contradiction.training import leakage, record
from contradiction.training.recipe import Recipe
from contradiction.training.run import open_run, provenance, run_request

SHA = "0123456789abcdef0123456789abcdef01234567"
HUB_ID = "user/seen"


def trained(config, *before, data_name="CDConv"):
    """The record of a model trained on a config and made from models that were trained on other configs."""
    ancestors = [{"config": path, "data_name": data_name, "model": f"the {path} one"} for path in before]
    return {"request": {"recipe": {"data": {"config": config}}, "data_name": data_name}, "ancestors": ancestors}


@pytest.mark.parametrize(
    ("record", "config", "split", "why"),
    [
        (trained("4-class"), "4-class", "test", None),
        (trained("4-class"), "4-class-a2t", "test", None),
        (trained("4-class-grouped"), "persona-grouped", "validation", None),
        (trained("nli"), "4-class-grouped", "test", None),
        (trained("4-class"), "nli", "validation", None),
        ({}, "4-class", "train", None),
        (trained("4-class", data_name="CDConv sample"), "4-class-grouped", "test", None),
        (trained("4-class"), "2-class", "train", "was trained on 4-class, whose training rows these are"),
        (
            trained("4-class"), "4-class-grouped", "test",
            "was trained on 4-class, whose training split holds rows of the test split of 4-class-grouped",
        ),
        (trained("4-class"), "4-class-rct-grouped", "test", "was trained on 4-class, whose"),
        (
            trained("4-class-grouped", "nli", "2-class"), "4-class-grouped", "test",
            "was made from the 2-class one, which was trained on 2-class, whose training split holds rows of the test ",
        ),
    ],
)  # fmt: skip
def test_rows_are_seen_by_the_other_split_and_in_training(record, config, split, why):
    leak = leakage.describe_leakage(record, config, split, "CDConv")
    assert leak == why if why is None else leak.startswith(why)


@pytest.fixture
def unnamed(sample_repo, tmp_path):
    """The data repo of the sample with a card that does not name it."""
    folder = shutil.copytree(sample_repo, tmp_path / "unnamed")
    card = DatasetCard.load(folder / "README.md")
    del card.data.pretty_name
    card.save(folder / "README.md")
    return folder


def test_a_card_that_cannot_be_read_is_an_error_that_names_the_repo(tmp_path):
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    (damaged / "README.md").write_text("---\npretty_name: [a\nx: :\n---\n", encoding="utf-8")
    for data in ("some/data", tmp_path, damaged):
        with pytest.raises(InputError, match=f"{data}: the card"):
            name_of(data)


def test_a_data_set_without_a_name_could_be_any_data_set(quick_model, unnamed, sample_repo, tmp_path):
    moved = shutil.copytree(unnamed, tmp_path / "moved")
    assert name_of(unnamed) == name_of(moved) == UNNAMED
    assert run_request(recipe(), unnamed) == run_request(recipe(), moved)
    for name, data in (("CDConv sample", unnamed), (UNNAMED, sample_repo), (UNNAMED, moved)):
        own = trained("4-class", data_name=name)
        leak = leakage.describe_leakage(own, "4-class-grouped", "test", name_if_known(data))
        assert leak.startswith("was trained on 4-class, whose training split holds rows of the test ")
    with pytest.raises(InputError, match=r"backbone .*quick: trained on 4-class, whose training split holds test rows"):
        run_request(recipe(backbone=str(quick_model)), unnamed)


def test_a_model_folder_whose_record_is_something_else_counts_as_without_one(tmp_path):
    for odd in (
        {"request": []},
        {"request": {"recipe": "x"}},
        {"soup": 3},
        {"ensemble": [3]},
        {"soup": [{"request": None}]},
    ):
        write_json(tmp_path / "run.json", odd)
        assert record.read(tmp_path) == record.of_model(tmp_path) == {}
        assert list(leakage.trainings({**odd, "ancestors": [3]})) == []
    # An invalid value does not hide what a model was trained on.
    ancestor = {"config": "4-class", "data_name": [], "crossed": "yes"}
    assert list(leakage.trainings({"ancestors": [ancestor]})) == [leakage.Training(config="4-class")]


def test_a_figure_on_seen_rows_is_reported_marked_and_never_published(run, quick_model, sample_repo, tmp_path):
    folder = tmp_path / "results"
    for name, *options in (
        ("fair",),
        ("grouped", "--config", "2-class-grouped"),
        ("train", "--split", "train"),
    ):
        kept = folder / f"{name}.json"
        code, out, err = run("evaluate", quick_model, "--data", sample_repo, "--json", kept, *options)
        why = read_json(kept)["leakage"]
        assert code == 0
        assert "macro-F1" in out
        if name == "fair":
            assert (why, err) == (None, "")
        else:
            assert why.startswith("was trained on 4-class, whose training")
            assert err.startswith(f"cdconv: quick {why}: ") and err.count("\n") == 1
    [fair] = results.load(folder)
    assert (fair["config"], fair["split"]) == ("4-class", "test")
    assert results.evaluations_of(quick_model, folder) == [fair]


def recipe(config="4-class-grouped", **values):
    values = values or {"scratch": TINY}
    return Recipe.of(name="next", view=values.pop("view", "flatten"), config=config, epochs=1, **values)


@pytest.fixture
def on_the_hub(quick_model):
    """The quick model in the cache, as downloaded from the Hub."""
    folder = f"{constants.HF_HUB_CACHE}/models--{HUB_ID.replace('/', '--')}"
    shutil.copytree(quick_model, f"{folder}/snapshots/{SHA}")
    (ref := Path(folder) / "refs" / "main").parent.mkdir()
    ref.write_text(SHA, encoding="utf-8")
    yield HUB_ID
    shutil.rmtree(folder)


@pytest.mark.parametrize("kind", ["backbone", "teacher"])
@pytest.mark.parametrize("place", ["folder", "hub"])
def test_a_start_or_a_teacher_that_has_seen_test_rows_is_rejected(
    kind, place, quick_model, on_the_hub, sample_repo, tmp_path
):
    name = on_the_hub if place == "hub" else str(quick_model)
    run_recipe = recipe(backbone=name) if kind == "backbone" else recipe().with_changes(teachers=[name])
    with pytest.raises(InputError) as error:
        train(run_recipe, data=sample_repo, out=tmp_path / "next")
    assert str(error.value).startswith(f"{kind} {name}: trained on 4-class, ")
    assert "test rows of 4-class-grouped; take one that was trained on the same split" in str(error.value)
    assert not any(tmp_path.iterdir())


def test_the_origin_of_a_start_is_recorded_and_checked(quick_model, sample_repo, tmp_path):
    start = shutil.copytree(quick_model, tmp_path / "start")
    one = train(recipe("4-class", backbone=str(start)), data=sample_repo, out=tmp_path / "one")
    before = {"config": "4-class", "data_name": "CDConv sample", "model": "start", "crossed": False}
    assert record.read(one)["ancestors"] == [before]
    # As if it were an NLI stage, which by itself is a valid start for either split.
    later = record.read(one)
    later["request"] = with_options(later["request"], config="nli", view="nli")
    write_json(one / "run.json", later)
    with pytest.raises(InputError, match=r"backbone .*one: made from start, which was trained on 4-class, whose"):
        run_request(recipe(backbone=str(one)), sample_repo)
    write_json(one / "run.json", {**later, "ancestors": []})
    request = run_request(recipe(backbone=str(one)), sample_repo)
    assert request["recipe"]["model"]["backbone"].startswith("one@")
    # The record of a pruned model has no request.
    write_json(one / "run.json", {"backbone": "start", "ancestors": [before]})
    with pytest.raises(InputError, match="from start, .*4-class"):
        run_request(recipe(backbone=str(one)), sample_repo)


def test_a_model_on_the_hub_is_checked_by_its_record(run, on_the_hub, sample_repo, tmp_path):
    assert trained_config(on_the_hub) == "4-class"
    options = ("--data", sample_repo, "--config", "4-class-grouped", "--json", tmp_path / "kept.json")
    code, _, err = run("evaluate", on_the_hub, *options)
    assert code == 0
    assert f"cdconv: {HUB_ID} was trained on 4-class, whose training split holds rows" in err
    run_recipe = recipe("4-class", backbone=on_the_hub)
    assert provenance(run_recipe, True) == {"deterministic": True, "revisions": {HUB_ID: SHA}}
    assert provenance(recipe(backbone="user/unknown"), False) == {"deterministic": False, "revisions": {}}


def test_a_state_that_was_being_replaced_is_restored(tmp_path):
    work, request = tmp_path / "run.partial", {"recipe": {}}
    conditions = {"deterministic": False, "revisions": {HUB_ID: SHA}}
    open_run(work, request, False, conditions)
    (work / "state").mkdir()
    open_run(work, request, True, conditions)
    (work / "state").rename(work / ".state.host-7.old")  # as left by a process killed while replacing it
    with pytest.raises(InputError, match="an unfinished run"):
        open_run(work, request, False, conditions)
    assert (work / "state").is_dir()


def test_other_rows_are_refused_of_a_teacher_alone_and_only_where_they_are_recorded(tmp_path):
    for name, request in (("others", {"data": "other rows"}), ("unknown", {})):
        write_json(tmp_path / name / "run.json", {"request": request})
    backbone, teacher = str(tmp_path / "others"), str(tmp_path / "unknown")
    leakage.check_sources(recipe(backbone=backbone).with_changes(teachers=[teacher]), "CDConv", "these rows")


def test_chats_of_training_and_of_the_rules_of_members_and_parts_are_seen():
    own = trained("4-class", data_name="chats")
    seen = [leakage.describe_chats(own, "chats", split) is not None for split in ("train", "all", "validation", "test")]
    assert seen == [True, True, False, False]
    members = {kind: [{record.CALIBRATED_ON: [kind]}] for kind in record.MERGED}
    fitted = {record.CALIBRATED_ON: ["own", 3], "calibrated_parts": ["part", "own"], **members}
    assert leakage.calibrations(fitted) == ["own", "part", "ensemble"]  # the rule of a soup is chosen anew
