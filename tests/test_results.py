"""The kept results: what is added can be loaded, a name means one run, and every file is complete or the old one."""

import random
import re

import numpy as np
import pytest
from helpers.data_repo import contents

from contradiction import paths
from contradiction.errors import InputError
from contradiction.evaluation import results
from contradiction.io.files import write_json
from paper import saved_results
from paper.saved_results import add

REFERENCES = [0, 1, 2, 3] * 10
PARQUET = "predictions/4-class.test.parquet"


def evaluation(name="any", seed=1, config="4-class", split="test", epoch=0.5, **more):
    draw = random.Random(f"{name}{seed}")
    run = {"request": {"recipe": {"config": "4-class", "seed": 23}}, "epochs": [epoch], "best_epoch": 1}
    values = {
        "kind": "detector", "run": run, "columns": ["b1", "b2"], "truncated": 0, "rule": {"temperature": 2.0}, **more,
    }  # fmt: skip
    return results.evaluation(
        name=name, config=config, split=split, data="these", ids=list(range(40)), references=REFERENCES,
        predictions=[draw.randrange(4) for _ in range(40)], argmax=[draw.randrange(4) for _ in range(40)],
        probabilities=np.random.default_rng(seed).dirichlet([1] * 4, 40).tolist(), **values,
    )  # fmt: skip


@pytest.fixture(scope="module")
def one():
    return evaluation()


def without_probabilities(result):
    return {key: value for key, value in result.items() if key not in ("probabilities", "page", "leakage")}


def test_added_evaluations_load_with_probabilities_in_four_digits(one, tmp_path):
    add([one], tmp_path)
    [loaded] = results.load(tmp_path)
    assert without_probabilities(loaded) == without_probabilities(one)
    assert loaded["probabilities"] == np.round(one["probabilities"], 4).tolist()


def test_a_second_evaluation_of_a_run_replaces_only_its_rows(one, tmp_path):
    others = [evaluation("other"), evaluation(split="validation")]
    add([one, *others], tmp_path)
    again = {**one, **evaluation(seed=2)}
    add([again], tmp_path)
    by_run = {(result["name"], result["split"]): result for result in results.load(tmp_path)}
    assert len(by_run) == 3
    assert by_run["any", "test"]["predictions"] == again["predictions"] != one["predictions"]
    assert by_run["other", "test"]["predictions"] == others[0]["predictions"]
    assert by_run["any", "validation"]["predictions"] == others[1]["predictions"]
    write_json(tmp_path / "new.json", {**evaluation("new"), "ids": list(map(str, range(40)))})  # of an own data repo
    (tmp_path / "notes.json").write_text("{}", encoding="utf-8")
    assert {result["name"] for result in results.load(tmp_path)} == {"any", "other", "new"}, "files beside it count too"


def test_another_run_of_the_same_name_is_rejected_and_nothing_is_written(one, tmp_path):
    add([one], tmp_path)
    before = contents(tmp_path)
    for other in (evaluation(epoch=0.7, split="validation"), evaluation(kind="baseline")):
        with pytest.raises(InputError, match="another run named 'any'"):
            add([evaluation("new"), other], tmp_path)
    assert contents(tmp_path) == before


def test_only_the_requested_results_are_read(one, tmp_path):
    add([one, evaluation(split="validation"), evaluation("other", kind="baseline")], tmp_path)
    add([evaluation("cell", config="4-class-grouped")], tmp_path, page="files")
    add([evaluation("seen", leakage="was trained on these")], tmp_path)  # kept with a note, and never loaded
    assert {row["leakage"] for row in results.read_metrics(tmp_path)} == {"", "was trained on these"}
    assert {result["name"] for result in saved_results.published(tmp_path)} == {"any", "other"}
    assert {result["name"] for result in results.load(tmp_path)} == {"any", "other", "cell"}
    assert [result["split"] for result in results.load(tmp_path, names=["any"])] == ["test", "validation"]
    assert [result["name"] for result in results.load(tmp_path, kind="baseline")] == ["other"]
    assert [result["name"] for result in results.load(tmp_path, config="4-class", split="validation")] == ["any"]
    assert results.load(tmp_path, config="2-class") == []


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / PARQUET).unlink(), "4-class.test.parquet: missing or damaged"),
        (lambda folder: (folder / PARQUET).write_bytes(b"x" * 99), "4-class.test.parquet: missing or damaged"),
        (lambda folder: edit(folder, ",config,", ",kind of,"), "metrics.csv: has no column 'config'"),
        (lambda folder: edit(folder, '""temperature""', "temperature"), "metrics.csv: the row of 'any'"),
        (lambda folder: edit(folder, ",0.", ",much"), "metrics.csv: missing or damaged"),
    ],
)
def test_a_one_line_error_names_a_damaged_file(one, tmp_path, damage, message):
    add([one], tmp_path)
    damage(tmp_path)
    with pytest.raises(InputError) as error:
        results.load(tmp_path)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def edit(folder, old, new):
    file = folder / "metrics.csv"
    file.write_text(file.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")


def test_a_write_that_was_interrupted_is_noticed_and_adding_again_repairs_it(one, tmp_path, monkeypatch):
    add([one], tmp_path)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(saved_results, "write_text", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        add([evaluation(seed=2)], tmp_path)
    with pytest.raises(InputError, match="is not that of its predictions in .*; add it again"):
        results.load(tmp_path)
    add([one], tmp_path)
    assert results.load(tmp_path)[0]["predictions"] == one["predictions"]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ({"split": "x/../../evil"}, "there is no 'x/../../evil' split"),
        ({"ids": [], "references": [], "predictions": [], "probabilities": []}, "are empty"),
        ({"argmax": {"predictions": [0]}}, "lengths differ"),
        ({"predictions": ["history"] * 40}, "predictions must be a list of class ids"),
        ({"ids": [*range(39), 2**40]}, "id 1099511627776 is not a whole number"),
        ({"ids": list(map(str, range(40)))}, "id '0' is not a whole number"),
        ({"probabilities": [[10**400, 0, 0, 0]] * 40}, "too large"),
        ({"probabilities": [[0.1, 0.2, 0.3, float("nan")]] * 40}, "must have 4 numbers from 0 to 1"),
        ({"metrics": {"accuracy": float("nan"), "macro_f1": 0.1}}, "accuracy is nan, but"),
    ],
)
def test_a_damaged_evaluation_is_rejected_before_anything_is_written(one, tmp_path, damage, message):
    out = tmp_path / "kept"
    with pytest.raises(InputError, match=re.escape(message)):
        add([one, {**one, **damage}], out)
    assert not any(path.is_file() for path in tmp_path.rglob("*.csv"))


def test_the_kept_results_of_the_project_are_complete_small_and_those_of_the_predictions():
    rows = {results.place_of(row): row for row in results.read_metrics(paths.RESULTS)}
    evaluations = results.load()
    assert len(evaluations) == len(rows) > 90
    assert sum(path.stat().st_size for path in paths.RESULTS.rglob("*") if path.is_file()) < 5_000_000
    for result in evaluations:
        saved, found = rows[results.place_of(result)], saved_results._metrics_row(result)
        for column in saved_results._figure_columns():
            assert float(found.get(column, "nan")) == pytest.approx(float(saved[column] or "nan"), nan_ok=True), column
