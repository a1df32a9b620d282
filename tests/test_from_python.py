"""From Python: training on rows in memory, evaluation of rows in memory, and saving."""

import shutil

import pytest
from datasets import ClassLabel, Dataset, load_dataset
from helpers.chats import CHAT
from huggingface_hub import DatasetCardData, ModelCard
from transformers import pipeline

from contradiction import ContradictionDetector, evaluate, train
from contradiction.data.splits import UNNAMED, write_repo
from contradiction.errors import InputError
from contradiction.labels import LABELS
from contradiction.methods.loading import load_rule
from contradiction.runs import ensemble
from contradiction.training import record

SIZE = {"hidden_size": 16, "layers": 1, "heads": 2, "vocabulary": 300}
RECIPE = {"config": "4-class", "view": "flatten", "scratch": SIZE, "epochs": 1}


@pytest.fixture(scope="module")
def detector(quick_model):
    return ContradictionDetector.from_pretrained(quick_model)


@pytest.fixture(scope="module")
def data(sample_repo):
    return load_dataset(str(sample_repo), "4-class")


@pytest.fixture(scope="module")
def own():
    """Two rows without ids, with labels as texts."""
    context = {"u1": "你养猫吗？", "b1": "养了", "u2": "它叫什么？"}
    rows = [{**context, "b2": "没养", "label": "history"}, {**context, "b2": "它叫咪咪", "label": "non-contradiction"}]
    return Dataset.from_list(rows)


def with_labels(rows, names):
    return rows.cast_column("label", ClassLabel(names=list(names)))


def test_rows_in_memory_score_as_in_their_folder(detector, data, sample_repo):
    expected = evaluate(detector, data=sample_repo, config="4-class", split="validation")
    for rows, options in ((data["validation"], {}), (data, {"split": "validation"})):
        result = evaluate(detector, rows, **options)
        assert result == {key: value for key, value in expected.items() if key != "data_name"}
    part = load_dataset(str(sample_repo), "4-class", split="validation[:20]")
    result = evaluate(detector, part)
    assert (result["split"], result["ids"]) == ("validation", expected["ids"][:20])


def test_the_class_labels_tell_the_task_and_rows_without_ids_are_numbered(detector, own):
    result = evaluate(detector, with_labels(own, LABELS["4-class"]))
    assert (result["config"], result["split"], result["ids"], result["references"]) == (
        "4-class",
        "test",
        [1, 2],
        [3, 0],
    )
    merged = own.map(lambda row: {"label": "contradiction" if row["label"] == "history" else row["label"]})
    result = evaluate(detector, with_labels(merged, LABELS["2-class"]))
    assert (result["config"], result["references"]) == ("2-class", [1, 0])


def test_a_list_of_rows_scores_like_the_data_set(detector, own):
    expected = evaluate(detector, with_labels(own, LABELS["4-class"]))
    result = evaluate(detector, list(own))
    assert (result["predictions"], result["references"]) == (expected["predictions"], expected["references"])
    assert result["metrics"]["in_order"] == expected["metrics"]["in_order"]


def test_rows_in_memory_do_not_hide_leakage(detector, data, sample_repo, tmp_path):
    grouped = load_dataset(str(sample_repo), "4-class-grouped")
    assert "whose training rows these are" in evaluate(detector, data["train"].select(range(9)))["leakage"]
    result = evaluate(detector, grouped["test"].select(range(9)))
    assert result["config"] == "4-class-grouped"
    assert "trained on 4-class, whose training split holds rows of the test split" in result["leakage"]
    with pytest.raises(InputError, match="rows in memory are of config '4-class-grouped', not of '4-class'"):
        evaluate(detector, grouped["test"], "4-class")
    with pytest.raises(InputError, match="rows in memory are of config '4-class-grouped', not of '4-class'"):
        train(RECIPE, grouped, out=tmp_path / "run")


@pytest.mark.parametrize(
    ("change", "config", "said"),
    [
        (lambda rows: rows, None, "'label' is Value.'string'.; it must hold class labels"),
        (lambda rows: with_labels(rows, LABELS["4-class"]).remove_columns("b1"), None, "needs the column 'b1'"),
        (lambda rows: with_labels(rows, reversed(LABELS["4-class"])), None, "in this order; they must be non-contr"),
        (lambda rows: {"train": rows}, None, "there is no split 'test', only train"),
        (lambda rows: [{"messages": [], "label": "history"}], None, "row 1 is .* it must be"),
        (lambda rows: 1, None, "data is a number; it must be a path, a corpus, a Dataset or a list of rows"),
    ],
)  # fmt: skip
def test_unusable_rows_raise_one_clear_line(detector, own, change, config, said):
    with pytest.raises(InputError, match=said) as raised:
        evaluate(detector, change(own), config)
    assert "\n" not in str(raised.value)


def test_an_utterance_that_is_no_text_is_named_on_every_way_in(detector, own, quick_model, run, tmp_path):
    rows = with_labels(Dataset.from_list([*own, *own, *own]), LABELS["4-class"])
    rows = rows.map(lambda row, index: {"b2": None if index in (3, 5) else row["b2"]}, with_indices=True)
    splits = {"train": rows, "validation": rows, "test": rows}
    write_repo(tmp_path / "mine", {"4-class": splits}, DatasetCardData(), "")
    model = shutil.copytree(quick_model, tmp_path / "model")
    for call in (
        lambda: evaluate(detector, rows),
        lambda: evaluate(detector, tmp_path / "mine", "4-class"),
        lambda: train(RECIPE, splits, out=tmp_path / "run"),
        lambda: detector.classify(rows.to_list()),
    ):
        with pytest.raises(InputError, match="row 4: b2 is null"):
            call()
    with pytest.raises(InputError, match="row 1 has no b1"):
        detector.classify([{"u1": "你好", "u2": "你好", "b2": "你好"}])
    data = ("--data", tmp_path / "mine", "--config", "4-class")
    for command in ("evaluate", "calibrate"):
        code, _, error = run(command, model, *data)
        assert (code, error.count("row 4: b2 is null")) == (2, 1)


def test_training_on_rows_in_memory_gives_the_weights_of_training_on_their_folder(data, sample_repo, tmp_path):
    one = train(RECIPE, data, out=tmp_path / "one")
    tables = {"data": {"config": "4-class", "view": "flatten"}, "model": {"scratch": SIZE}}
    two = train({"name": "one", **tables}, sample_repo, out=tmp_path / "two", epochs=1)
    assert (one / "model.safetensors").read_bytes() == (two / "model.safetensors").read_bytes()
    requests = [record.read(folder)["request"] for folder in (one, two)]
    assert [request.pop("data_name") for request in requests] == [UNNAMED, "CDConv sample"]
    assert requests[0] == requests[1]
    assert ModelCard.load(one / "README.md").data.model_name == "one"
    assert train(RECIPE, data, out=one, resume=True) == one


def test_a_wrong_recipe_and_wrong_rows_raise_one_clear_line(data, tmp_path):
    for recipe, rows, said in (
        ({"config": "4-class"}, data, "recipe run: model: Field required"),
        (RECIPE, {"train": data["train"]}, "there is no split 'validation', only train"),
        (RECIPE, data["train"], "rows by split: a DatasetDict"),
    ):
        with pytest.raises(InputError, match=said):
            train(recipe, rows, out=tmp_path / "run")


def test_a_saved_detector_is_a_complete_folder_with_the_same_verdicts(detector, quick_model, tmp_path):
    detector.save_pretrained(tmp_path / "copies" / "copy")
    copy = tmp_path / "copies" / "copy"
    assert sorted(path.name for path in copy.parent.iterdir()) == ["copy"]
    files = {path.name: path.read_bytes() for path in copy.iterdir()}
    assert files == {path.name: path.read_bytes() for path in quick_model.iterdir()}
    assert ContradictionDetector.from_pretrained(copy)(CHAT) == detector(CHAT)
    text = {"text": "你养猫吗？[SEP]养了", "text_pair": "没养"}
    answers = [pipeline("text-classification", model=str(folder))(text) for folder in (quick_model, copy)]
    assert answers[0] == answers[1]


def test_a_detector_of_parts_is_saved_with_its_parts(quick_model, sample_repo, tmp_path):
    other = shutil.copytree(quick_model, tmp_path / "other")
    both = ensemble([quick_model, other], tmp_path / "both", data=sample_repo)
    detector = ContradictionDetector.from_pretrained(both)
    detector.save_pretrained(tmp_path / "copy")
    assert ContradictionDetector.from_pretrained(tmp_path / "copy")(CHAT) == detector(CHAT)
    with next(both.glob("*/tokenizer.json")).open("a", encoding="utf-8") as stream:
        stream.write(" ")
    with pytest.raises(InputError, match="tokenizer.json: has changed since"):
        detector.save_pretrained(tmp_path / "again")


def test_a_detector_is_not_saved_over_a_folder_or_from_a_changed_one(quick_model, tmp_path):
    folder = shutil.copytree(quick_model, tmp_path / "model")
    detector = ContradictionDetector.from_pretrained(folder)
    (tmp_path / "kept").mkdir()
    with pytest.raises(InputError, match="kept: exists already"):
        detector.save_pretrained(tmp_path / "kept")
    with pytest.raises(InputError, match="inside: is inside .*, and will hold a copy of it"):
        detector.save_pretrained(folder / "inside")
    with (folder / "tokenizer.json").open("a", encoding="utf-8") as stream:
        stream.write(" ")
    with pytest.raises(InputError, match="tokenizer.json: has changed since"):
        detector.save_pretrained(tmp_path / "copy")
    assert {path.name for path in tmp_path.iterdir()} == {"model", "kept"}


def test_a_view_that_was_given_is_saved(quick_model, tmp_path):
    """A rule holds only for the view that it was chosen with."""
    detector = ContradictionDetector.from_pretrained(quick_model, view="sentence-pair")
    detector.save_pretrained(tmp_path / "copy")
    copy = ContradictionDetector.from_pretrained(tmp_path / "copy")
    assert (copy.columns, copy.labels) == (detector.columns, detector.labels)
    assert copy(CHAT).scores == detector(CHAT).scores
    assert load_rule(tmp_path / "copy") == detector.classifier.rule
