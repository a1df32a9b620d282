"""A model card is true of the model in the folder: its example, its command, and its sources."""

import ast
import contextlib
import io
import re
import shutil

import pytest
from helpers.runs import train, with_options

from contradiction import paths
from contradiction.errors import InputError
from contradiction.evaluation import card_use, licences, model_card, results
from contradiction.io.files import RECORD, write_json
from contradiction.methods.loading import load_rule
from contradiction.training import record
from contradiction.training.recipe import Recipe
from contradiction.training.run import run_request
from paper.grid import same_request

E5 = "intfloat/multilingual-e5-small"
CARD = (paths.SHIPPED / "README.md").read_text(encoding="utf-8")
WHOLE = results.evaluation(
    name="any", config="4-class", split="test", data="rows", ids=[0, 1], references=[0, 1], predictions=[0, 1]
)


def code(card):
    return re.findall(r"```python\n(.*?)```", card, flags=re.DOTALL)


def changed(folder, out, **entries):
    """A copy of a model folder with changed entries in its record."""
    copy = shutil.copytree(folder, out)
    write_json(copy / RECORD, {**record.read(copy), **entries})
    return copy


@pytest.mark.parametrize(
    ("key", "value"),
    [("minutes", None), ("parameters", "x"), ("base_model", [1]), ("best_macro_f1", {}), ("stages", {"history": 5})],
)
def test_a_damaged_record_is_one_line_that_names_the_file_and_the_key(key, value, quick_model, tmp_path):
    folder = changed(quick_model, tmp_path / "model", **{key: value})
    with pytest.raises(InputError, match=f"^{folder / RECORD}: {key}[.a-z]* is .*; it should be .*$"):
        model_card.model_card(folder)
    without_recipe = changed(quick_model, tmp_path / "other", request={})
    with pytest.raises(InputError, match=f"^{without_recipe / RECORD}: request: recipe is missing"):
        model_card.model_card(without_recipe)


@pytest.mark.parametrize(("key", "value"), [("rows", "x"), ("curve", 5), ("parts", [1]), ("share", None)])
def test_a_damaged_record_of_a_cascade_is_one_line_too(key, value, tmp_path):
    whole = {"parts": ["a", "b"], "config": "4-class", "data_name": None, "rows": 9, "share": 0.2, "curve": []}
    write_json(tmp_path / RECORD, {"cascade": whole})
    assert record.of_cascade(tmp_path)["cascade"] == whole
    write_json(tmp_path / RECORD, {"cascade": whole | {key: value}})
    with pytest.raises(InputError, match=f"^{tmp_path / RECORD}: cascade: {key}[.0-9]* is .*; it should be .*$"):
        record.of_cascade(tmp_path)


def assert_output_matches_comments(card, monkeypatch, place):
    monkeypatch.chdir(place)
    comments = [re.search(r"^# (.+)$", block, flags=re.MULTILINE)[1] for block in code(card)]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for block in code(card):
            exec(block, {})
    assert printed.getvalue().splitlines() == comments


def test_the_examples_on_the_shipped_card_print_what_it_says_and_the_verdict_is_right(monkeypatch):
    assert_output_matches_comments(CARD, monkeypatch, paths.SHIPPED.parent)
    assert re.search(r"^# history [01]\.\d+ \(1,\)$", CARD, flags=re.MULTILINE)
    assert "mistaken" not in CARD


def test_the_examples_on_the_card_of_any_model_print_what_it_says(quick_model, monkeypatch):
    card = (quick_model / "README.md").read_text(encoding="utf-8")
    assert_output_matches_comments(card, monkeypatch, quick_model.parent)
    label = re.search(r"^# (\S+) [01]\.\d+ \(", card, flags=re.MULTILINE)[1]
    assert ("This verdict is wrong" in card) == (label != "history")


def test_the_widget_of_the_hub_shows_the_scores_of_the_text_that_it_sends():
    from huggingface_hub import ModelCard
    from transformers import pipeline

    classify = pipeline("text-classification", model=str(paths.SHIPPED), top_k=None)
    contradiction, consistent = ModelCard(CARD).data.widget
    for example in (contradiction, consistent):
        [scores] = classify([example["text"]], truncation=True)
        assert example["output"] == [{"label": row["label"], "score": round(row["score"], 2)} for row in scores]
    [comment] = re.findall(r"^# (\{.+\})$", CARD, flags=re.MULTILINE)  # the scores of the pair
    assert {row["label"]: row["score"] for row in contradiction["output"]} == ast.literal_eval(comment)
    assert [example["output"][0]["label"] for example in (contradiction, consistent)] == [
        "history",
        "non-contradiction",
    ]


def test_a_card_shows_only_what_can_be_loaded(quick_model, tmp_path):
    request = with_options(record.read(quick_model)["request"], config="persona")
    text = model_card.model_card(changed(quick_model, tmp_path / "copy", request=request)).text
    assert len(code(text)) == 1
    assert "ContradictionDetector(" not in text and "from_pretrained" not in text.split("## Use")[1]
    (tmp_path / "copy" / "model.safetensors").unlink()
    with pytest.raises(InputError, match="copy: no weights"):
        model_card.model_card(tmp_path / "copy")


def test_the_command_on_a_card_reproduces_the_training(run, quick_model, sample_repo, tmp_path, monkeypatch):
    card = (quick_model / "README.md").read_text(encoding="utf-8")
    [command] = re.findall(r"`cdconv (train run\.json[^`]*)`", card)
    out = tmp_path / "again"
    monkeypatch.chdir(quick_model)
    assert run(*command.split(), "--data", sample_repo, "--out", out)[0] == 0
    assert record.read(out)["request"] == record.read(quick_model)["request"]
    assert (out / "model.safetensors").read_bytes() == (quick_model / "model.safetensors").read_bytes()


def test_a_card_says_how_the_model_was_trained(quick_model, tmp_path):
    run, start, teachers = record.read(quick_model), "nli@0123456789ab", ["one@0123456789ab", "some/teacher"]
    ngrams = "a cross-fitted linear model of character n-grams"
    for number, (options, said) in enumerate((
        ({"teachers": ["some/teacher"], "ngram_teacher_weight": 0.25}, f"some/teacher (75 %), and {ngrams} (25 %)\n"),
        ({"ngram_teacher_weight": 1.0}, f"{ngrams}\n"),
        ({"crossed": True, "crossed_batches": ["a1", "a2"]}, "2 batches"),
        ({"long_replies": 0.5, "ranking": 0.5}, "in 50 % of the groups of rows (the rows with one context)"),
        ({"backbone": start, "teachers": teachers}, "--backbone FOLDER --teacher FOLDER --teacher FOLDER`"),
        ({"backbone": start}, "holds the backbone `nli@0123456789ab`"),
        ({"nli": "pairs@0123456789ab"}, "after `--nli` holds the NLI pairs `pairs@0123456789ab`"),
    )):  # fmt: skip
        request = with_options(run["request"], **options)
        assert said in model_card.model_card(changed(quick_model, tmp_path / str(number), request=request)).text
    soup = model_card.model_card(changed(quick_model, tmp_path / "soup", soup=[run, run])).text
    assert "cdconv train run.json" not in soup and "`python -m paper.soup`" in soup
    assert not any(word in (quick_model / "README.md").read_text("utf-8") for word in ("distilled", "crossed"))
    adapted = model_card.model_card(changed(quick_model, tmp_path / "adapted", calibrated_on=["Labelled chats"])).text
    assert "The rule was fitted to labelled chats and" in adapted and "chosen on validation" not in adapted


def test_weights_made_from_a_model_of_unknown_licence_have_none_that_is_known():
    for backbone, licence in (("hfl/chinese-macbert-base", "other"), ("mine@0123456789ab", "other"), (E5, "mit")):
        recipe = {"model": {"backbone": backbone}}
        assert licences.licence_of({"request": {"data_name": "CDConv sample", "recipe": recipe}}) == licence
    assert licences.licence_of({"request": {"data_name": "CDConv sample", "recipe": {}}}) == "cc0-1.0"


def test_evaluations_belong_to_the_run_of_the_weights_even_if_entries_are_added_later(quick_model, tmp_path):
    run = record.read(quick_model)
    other = {**run, "epochs": [{**run["epochs"][0], "train_loss": 0.0}]}
    added = {"base_model": E5, "note": "It was changed.", "hardware": "another"}
    for number, (own, others, entries) in enumerate((
        (run, [other, {}], added),
        ({**run, "soup": [run, run]}, [{**run, "soup": [run, other]}], {"soup": [run, run]}),
        ({**run, "stages": {"history": run}}, [{**run, "stages": {"history": other}}], {"stages": {"history": run}}),
        ({**run, "cascade": {"share": 0.2}}, [{**run, "cascade": {"share": 0.3}}, run], {"cascade": {"share": 0.2}}),
    )):  # fmt: skip
        kept = tmp_path / str(number)
        for place, saved in enumerate((own, *others)):
            values = {"name": "other" if place else "own", "kind": "detector", "run": saved}
            write_json(kept / f"{place}.json", {**WHOLE, **values})
        copy = changed(quick_model, tmp_path / f"copy-{number}", **entries)
        assert [result["name"] for result in results.evaluations_of(copy, kept)] == ["own"]


def test_a_card_credits_the_sources_of_the_model():
    from huggingface_hub import ModelCard

    for folder, kind, base, licence in (
        (paths.SHIPPED, "encoder", E5, "MIT"),
        (paths.SHIPPED.with_name("qwen-1.5b"), "language model", "Qwen/Qwen2.5-Coder-1.5B-Instruct", "Apache-2.0"),
    ):
        card, run = ModelCard.load(folder / "README.md"), record.read(folder)
        assert card.data.base_model == base
        assert card.data.datasets == ["thu-coai/cdconv"]
        assert f"the {kind} [{base}](https://huggingface.co/{base}) ({licence})" in card.text
        assert licences.credits_sentence([base], run["corpora"], kind) in card.text
        assert re.search(r"\[CMNLI\]\(https://\S+\) \(licence not stated\)", card.text)
    assert str(licences.credits_sentence([], ["OCNLI"], "language model")).startswith("NLI pairs of [OCNLI](")


def test_the_hub_shows_code_of_transformers_only_for_what_transformers_loads(quick_model, tmp_path, monkeypatch):
    monkeypatch.setattr(card_use, "verdict_on", lambda *_: None)  # needs the base model
    decoder = paths.SHIPPED.with_name("qwen-1.5b")
    card = model_card.model_card(decoder)
    assert (card.data.library_name, card.data["base_model_relation"]) == ("cdconv", "adapter")
    assert "a chat of any number of turns" in card.text and "it reads u1" not in card.text
    assert 'pip install -e ".[decoder]"' in card.text
    stages = tmp_path / "stages"
    shutil.copytree(quick_model, stages / "history")
    write_json(stages / "stages.json", {"stages": ["history"]})
    run = record.read(quick_model)
    request = with_options(run["request"], method="hierarchical")
    write_json(stages / RECORD, {**run, "request": request, "stages": {"history": run}})
    assert model_card.model_card(stages).data.library_name == "cdconv"
    assert model_card.model_card(quick_model).data.library_name == "transformers"


def test_a_card_says_what_its_columns_count(quick_model):
    rule = load_rule(quick_model).without_curve()
    result = {**WHOLE, "name": "own", "data_name": "CDConv", "rule": rule}
    card = model_card.model_card(quick_model, [result])
    assert "| macro-F1, two classes |" in card.text and "; *two classes*: contradiction or not." in card.text
    assert [entry.dataset_type for entry in card.data.eval_results] == ["thu-coai/cdconv"] * 2


# A model card names the Hub id that a local backbone was made from. The id does not make two runs different.


OTHER = "someone/encoder"


def recipe(backbone, **values):
    given = {"name": "any", "view": "flatten", "config": "4-class", "epochs": 1, "batch_size": 64}
    return Recipe.of(**given | values, backbone=str(backbone))


def test_a_chain_of_runs_passes_the_origin_on_and_resumes_whatever_it_is(random_model, sample_repo, tmp_path):
    start = random_model("4-class")
    write_json(start / "run.json", {"corpora": ["OCNLI"]})
    first = recipe(start, base_model=E5)
    one = train(first, data=sample_repo, out=tmp_path / "one")
    two = train(recipe(one).with_changes(method="hierarchical"), data=sample_repo, out=tmp_path / "two")
    assert [model_card.model_card(folder).data.base_model for folder in (one, two, two / "history")] == [E5] * 3
    assert "fine-tuned from one, which was made from intfloat/multilingual-e5-small" in model_card.model_card(two).text
    assert all("an NLI stage on [OCNLI](" in model_card.model_card(folder).text for folder in (one, two))
    for other in (first.with_changes(base_model=OTHER), recipe(first.model.backbone)):
        assert train(other, data=sample_repo, out=one, resume=True) == one
        assert run_request(other, sample_repo) == record.read(one).get("request")
        assert same_request(record.read(one)["request"], run_request(other, sample_repo))
