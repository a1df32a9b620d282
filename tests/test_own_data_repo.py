"""A data repo of the user's own: rows without a label, and without the columns that only CDConv has."""

import json
import shutil

import pytest
from helpers.runs import TINY_RECIPE
from huggingface_hub import DatasetCardData, ModelCard

from contradiction.data.splits import SPLITS, labelled, load_split, write_repo
from paper import baselines
from paper.results import results as add


def without_labels(rows, every=10):
    """The rows, of which each tenth has no label."""
    return rows.map(
        lambda row, index: {"label": row["label"] if index % every else None}, with_indices=True, features=rows.features
    )


@pytest.fixture(scope="module")
def splits(sample_repo):
    return {split: load_split(sample_repo, "4-class", split) for split in SPLITS}


@pytest.fixture
def own(splits, tmp_path):
    """Writes a data repo of config 4-class, with some splits replaced; returns the folder."""

    def build(**changed):
        write_repo(tmp_path / "own", {"4-class": splits | changed}, DatasetCardData(pretty_name="Own chats"), "# Own")
        return tmp_path / "own"

    return build


@pytest.mark.parametrize("command", ["train", "calibrate", "evaluate", "export"])
def test_validation_rows_without_a_label_are_one_clear_error(own, splits, quick_model, tmp_path, run, command):
    data = own(validation=without_labels(splits["validation"]))
    (tmp_path / "tiny.toml").write_text(TINY_RECIPE, encoding="utf-8")
    options = {
        "train": [tmp_path / "tiny.toml", "--out", tmp_path / "model"],
        "calibrate": [quick_model, "--out", tmp_path / "model"],
        "evaluate": [quick_model, "--split", "validation"],
        "export": [shutil.copytree(quick_model, tmp_path / "copy"), "--backend", "onnx"],
    }
    code, _, err = run(command, *options[command], "--data", data)
    assert code == 2
    last = err.strip().splitlines()[-1]
    assert "rows of the validation split of '4-class' have no label" in last, err
    assert not (tmp_path / "model").exists()


def test_baselines_are_fitted_to_the_labelled_training_rows(own, splits, tmp_path, run):
    scores = {}
    for name, train in {"null": without_labels(splits["train"]), "dropped": None}.items():
        train = train or labelled(without_labels(splits["train"]))
        options = ["--data", own(train=train), "--config", "4-class", "--out", tmp_path / name]
        code, _, err = run(*options, script=baselines.run)
        assert code == 0, err
        scores[name] = (tmp_path / name / "metrics.csv").read_text(encoding="utf-8")
    assert scores["null"] == scores["dropped"]


def test_a_split_without_labels_is_one_clear_error(own, splits, quick_model, run):
    data = own(**{split: rows.remove_columns("label") for split, rows in splits.items()})
    code, _, err = run("evaluate", quick_model, "--data", data)
    assert code == 2 and "has no column 'label'" in err.splitlines()[-1]
    data = own(train=without_labels(splits["train"], 1))
    code, _, err = run("--data", data, "--config", "4-class", script=baselines.run)
    assert code == 2 and "no row of the training split" in err.splitlines()[-1]


def test_a_report_counts_rows_without_a_label_as_not_judged(own, splits, tmp_path, run):
    code, _, err = run("probe", "report", own(train=without_labels(splits["train"])), "--out", tmp_path / "report")
    assert code == 0, err
    bots = json.loads((tmp_path / "report" / "report.json").read_text(encoding="utf-8"))["bots"]
    rows = sum(len(labelled(without_labels(rows) if split == "train" else rows)) for split, rows in splits.items())
    assert sum(bot["called"]["contradiction"]["n"] for bot in bots) == rows
    assert sum(bot["not_judged"] for bot in bots) > 0


def test_a_model_card_reports_no_scores_on_other_data_as_those_of_cdconv(own, quick_model, tmp_path, run):
    model = shutil.copytree(quick_model, tmp_path / "model")
    code, _, err = run("evaluate", model, "--data", own(), "--json", tmp_path / "own.json")
    assert code == 0, err
    assert json.loads((tmp_path / "own.json").read_text(encoding="utf-8"))["data_name"] == "Own chats"
    assert run("card", model, "--results", tmp_path)[0] == 0
    card = ModelCard.load(model / "README.md")
    assert card.data.eval_results is None
    assert "4-class, test" in card.text


def test_the_results_of_cdconv_are_not_replaced_by_those_on_other_rows(
    own, splits, sample_repo, quick_model, tmp_path, run
):
    results = tmp_path / "results"
    for name, data in {"first": sample_repo, "second": own(test=splits["test"].select(range(60)))}.items():
        run("evaluate", quick_model, "--data", data, "--json", tmp_path / f"{name}.json")
    assert run(tmp_path / "first.json", "--folder", results, script=add)[0] == 0
    before = {path: path.read_bytes() for path in results.rglob("*") if path.is_file()}
    code, _, err = run(tmp_path / "second.json", "--folder", results, script=add)
    assert code == 2 and "on other rows" in err and "--folder" in err
    assert {path: path.read_bytes() for path in results.rglob("*") if path.is_file()} == before
    shutil.copy(tmp_path / "second.json", results)
    code, _, err = run("--folder", results, "--out", tmp_path / "page.md", script=add)
    assert code == 2 and "second.json" in err and "on other rows" in err
