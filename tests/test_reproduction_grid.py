"""The run of a grid: what is trained or skipped, and what a kill, a user error or another run leaves."""

import os
import shutil
import signal
from importlib.util import find_spec

import numpy as np
import pytest
from helpers import processes
from helpers.grids import markdown_row, predictions, times
from numpy.testing import assert_allclose

from contradiction import cli
from contradiction.data.splits import load_split
from contradiction.detector import ContradictionDetector
from contradiction.errors import InputError
from contradiction.evaluation.evaluate import evaluate
from contradiction.io.files import read_json, write_json
from contradiction.training.loop import train
from paper import grid as grid_module
from paper import reproduce as reproduce_module
from paper.grid import finished, zero_shot


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["table6"], "table4, table5, learning-curve, bots"),
        (["table4", "--methods", "flat"], "method 'flat' does not exist"),
        (["table4", "--methods", ","], "no method is named"),
        (["table4", "--methods", "flatten,flatten"], "a method is named twice"),
        (["table4", "--configs", "persona"], "config 'persona' does not exist"),
        (["table4", "--seeds", "1,x"], "seeds '1,x': must be whole numbers"),
        (["table4", "--seeds", "1,1"], "the seeds are 1, 1; give at least one, each once"),
        (["table4", "--seeds", "-1"], "seed is -1"),
        (["table4", "--shard", "3/2"], "shard '3/2': must be i/n"),
        (["table4", "--set", "epochs"], "'epochs': must be key=value"),
        (["table4", "--set", "seed=3"], "seed is chosen by --seeds"),
        (["table4", "--set", "epoch=3"], "'epoch': a recipe has no such option"),
        (["table4", "--nli", "x"], "table4 has no NLI stage to compare with"),
        (["table5"], "--nli names its checkpoint"),
        (
            ["table4", "--train-fractions", "0.5"],
            "table4 is trained on all rows; --train-fractions goes with learning-curve",
        ),
        (["table4", "--set", "train_fraction=0.5"], "data.train_fraction is chosen by --train-fractions"),
        (["learning-curve", "--train-fractions", "half"], "train fractions 'half': must be numbers"),
        (["learning-curve", "--train-fractions", "0,1"], "data.train_fraction is 0.0"),
        (["learning-curve", "--train-fractions", "0.5,2"], "data.train_fraction is 2.0"),
        (["learning-curve", "--train-fractions", "0.5,1,0.50"], "a fraction is named twice in 0.5, 1, 0.5"),
        (["table4", "--methods", "hierarchical", "--configs", "2-class"], "no cell is left"),
        (["table4", "--data", "no/such/folder"], "no/such/folder: no such folder"),
    ],
)
def test_a_user_error_prints_one_line_and_leaves_nothing(reproduce, options, tmp_path, arguments, message):
    out = tmp_path / "out"
    code, _, err = reproduce(*options, "--out", out, *arguments)
    assert (code, err.count("\n")) == (2, 1)
    assert message in err
    assert not out.exists()


def test_a_second_run_trains_nothing_and_writes_the_same_table(grid, reproduce, options, monkeypatch):
    monkeypatch.delattr(grid_module, "bots_of")  # only the table of single bots reads a column of bots
    before, table = times(grid), (grid / "table4.md").read_bytes()
    code, out, err = reproduce("table4", *options, "--seeds", "23,42", "--out", grid)
    assert (code, times(grid)) == (0, before)
    assert "10 of 10 cells are finished already" in err
    assert (grid / "table4.md").read_bytes() == table
    assert "written, 10 of 10 cells" in out


def test_a_dry_run_estimates_from_the_times_of_finished_cells(grid, reproduce, options, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    shutil.copy(grid / "flatten-4-class-tiny-seed23.test.json", out)
    code, stdout, _ = reproduce("table4", *options, "--seeds", "23", "--configs", "4-class", "--out", out, "--dry-run")
    assert (code, [path.name for path in out.iterdir()]) == (0, ["flatten-4-class-tiny-seed23.test.json"])
    assert "3 cells, 1 finished" in stdout
    assert "measured on the finished cells on this hardware" in stdout


def test_an_evaluation_of_the_same_run_counts_under_any_name_and_another_run_does_not(
    grid, cells, encoders, sample_repo, tmp_path
):
    cell = next(cell for cell in cells if cell.name == "flatten-2-class-tiny-seed42")
    for epochs in (1, 2):
        recipe = cell.recipe.with_changes(name="mine", epochs=epochs)
        folder = train(recipe, data=sample_repo, out=tmp_path / f"model{epochs}")
        kept = evaluate(ContradictionDetector.from_pretrained(folder), data=sample_repo, config="2-class")
        write_json(tmp_path / str(epochs) / "some name.json", kept)
    assert finished(cells, tmp_path / "2") == {}
    results = finished(cells, tmp_path / "1")
    assert list(results) == [cell.name]
    # The grid consists of such runs and gives the same predictions.
    assert results[cell.name]["predictions"] == read_json(grid / f"{cell.name}.test.json")["predictions"]


@pytest.mark.skipif(find_spec("ray") is None, reason="needs Ray")
def test_cells_that_run_on_ray_have_the_same_predictions_and_one_that_is_always_killed_fails_alone(
    grid, reproduce, options, tmp_path, monkeypatch
):
    out, tries = tmp_path / "out", tmp_path / "tries"
    whole, lost = "flatten-2-class-tiny-seed23", "flatten-2-class-tiny-seed42"
    few = ["table4", *options, "--seeds", "23,42", "--configs", "2-class", "--methods", "flatten", "--out", out]

    def attempt(cell, **options):
        from paper import grid

        if cell.name == lost:
            with tries.open("a") as file:
                file.write("x")
            os.kill(os.getpid(), signal.SIGKILL)
        return grid.attempt(cell, **options)

    with monkeypatch.context() as patch:
        patch.setattr(grid_module, "attempt", attempt)
        code, _, err = reproduce(*few, "--engine", "ray")
    assert (code, tries.read_text()) == (1, "xxx"), err
    assert f"cdconv: {lost} failed: killed 3 times" in err and "1 of 2 cells failed" in err
    assert f" of 2 cells: {whole}\n" in err and f" of 2 cells: {lost}" not in err
    assert [path.name for path in out.glob("*seed*.test.json")] == [f"{whole}.test.json"]
    assert reproduce(*few)[0] == 0
    assert all(predictions(out, name) == predictions(grid, name) for name in (whole, lost))
    monkeypatch.delattr(grid_module, "cluster")  # without cells to run, Ray does not start
    code, _, err = reproduce(*few, "--engine", "ray")
    assert (code, "2 of 2 cells are finished already" in err) == (0, True)


def test_shards_on_two_machines_give_the_same_table_as_one(grid, reproduce, options, tmp_path):
    few = [*options, "--seeds", "42", "--configs", "4-class", "--methods", "sentence-pair,flatten"]
    both = tmp_path / "both"
    both.mkdir()
    for part in (1, 2):
        out = tmp_path / str(part)
        assert reproduce("table4", *few, "--out", out, "--shard", f"{part}/2", "--drop-weights")[0] == 0
        assert len(list(out.glob("*seed42.test.json"))) == 1
        assert list((out / "models").iterdir()) == []
        for file in out.glob("*.json"):
            shutil.copy(file, both)
    whole = shutil.copytree(grid, tmp_path / "whole")
    for folder in (both, whole):
        code, stdout, _ = reproduce("table4", *few, "--out", folder, "--only-table")
        assert (code, "2 of 2 cells" in stdout) == (0, True)
    for name in ("table4.md", "table4.csv"):
        tables = [
            # Minutes are measured, so they differ.
            (folder / name).read_text(encoding="utf-8").partition("## Runs")[0]
            for folder in (both, whole)
        ]
        assert tables[0] == tables[1]


def test_a_killed_grid_resumes_where_it_stopped(grid, reproduce, options, tmp_path):
    out = tmp_path / "out"
    few = [*options, "--seeds", "23", "--configs", "4-class", "--methods", "flatten,hierarchical", "--out", out]
    killed = processes.start_module("paper.reproduce", "table4", *few)
    stage = out / "models" / "hierarchical-4-class-tiny-seed23.partial" / "intra-sentence" / "run.json"
    assert processes.wait_for(stage, killed)
    killed.kill()
    assert killed.wait() == -signal.SIGKILL
    assert not (out / "hierarchical-4-class-tiny-seed23.test.json").exists()
    kept = {path: when for path, when in times(out).items() if "flatten" in path.name or path == stage}
    assert len(kept) == 3

    code, _, err = reproduce("table4", *few)
    assert code == 0
    assert "1 of 2 cells are finished already" in err
    after = times(out)
    assert all(after[path] == when for path, when in kept.items() if path != stage)
    assert after[out / "models" / "hierarchical-4-class-tiny-seed23" / "intra-sentence" / "run.json"] == kept[stage]
    for name in ("flatten-4-class-tiny-seed23", "hierarchical-4-class-tiny-seed23"):
        assert predictions(out, name) == predictions(grid, name)


def test_the_files_of_another_run_are_never_overwritten(grid, reproduce, options):
    before = times(grid)
    code, _, err = reproduce("table4", *options, "--seeds", "23", "--set", "epochs=2", "--out", grid)
    assert (code, err.count("\n")) == (2, 1 + 1)  # the first line says where hierarchical is not trained
    assert "belongs to another recipe or other data; remove it, or name another --out" in err
    code, _, err = reproduce("table4", *options, "--seeds", "23", "--no-resume", "--out", grid)
    assert code == 2
    assert "has sentence-pair-4-class-tiny-seed23 already" in err
    assert times(grid) == before


def test_a_failing_cell_prints_one_line_and_the_rest_runs(
    reproduce, options, encoders, sample_repo, sample_rows, tmp_path
):
    """Table 5 with two NLI checkpoints, of which one has no NLI head: it trains, but cannot predict zero-shot."""
    headless = shutil.copytree(encoders / "tiny", tmp_path / "headless")
    out = tmp_path / "out"
    code, stdout, err = reproduce(
        "table5", *options, "--seeds", "23", "--configs", "2-class", "--methods", "sentence-pair", "--out", out,
        "--nli", encoders / "tiny-nli", "--nli", headless,
    )  # fmt: skip
    assert code == 1
    failures = [line for line in err.splitlines() if "failed: " in line]
    assert len(failures) == 1
    assert failures[0].startswith("cdconv: zero-shot-sentence-pair-2-class-headless failed: ")
    assert "headless: its checkpoint lacks 2 weights, for instance classifier" in failures[0]
    assert "written, 4 of 5 cells" in stdout
    assert "Missing: zero-shot-sentence-pair-2-class-headless." in (out / "table5.md").read_text(encoding="utf-8")
    for line in ("from tiny", "from tiny-nli", "from headless"):
        assert markdown_row(out, "2-class", f"sentence-pair {line}", "table5")[-1] == "1 of 1"
    assert markdown_row(out, "2-class", "sentence-pair from tiny-nli – sentence-pair from tiny", "table5")[-1] == "1"


def test_a_table_is_written_even_if_the_weights_of_its_start_are_missing(grid, options, encoders, tmp_path):
    out = shutil.copytree(grid, tmp_path / "table4")
    (out / "table4.md").unlink()
    digest = read_json(out / "models" / "flatten-4-class-tiny-seed23" / "run.json")["request"]["recipe"]["model"][
        "backbone"
    ]
    options = [digest if word == encoders / "tiny" else word for word in options]
    command = [*map(str, ["table4", "--seeds", "23,42", "--out", out, *options])]
    assert digest in command
    app = cli.script(reproduce_module.reproduce)
    with pytest.raises(InputError, match="reply-only-4-class-tiny-seed23: starts from tiny@.*name its folder, or"):
        cli.script(reproduce_module.reproduce)(
            [*command, "--methods", "reply-only", "--configs", "4-class"], standalone_mode=False
        )
    for words in (["--only-table"], []):  # nothing needs training
        app([*command, *words], standalone_mode=False)
        assert (out / "table4.md").read_bytes() == (grid / "table4.md").read_bytes()
        (out / "table4.md").unlink()


def test_zero_shot_is_the_probability_of_a_contradiction_of_the_nli_checkpoint(encoders, sample_repo):
    from transformers import pipeline

    rows = load_split(sample_repo, "2-class", "test")
    classify = pipeline("text-classification", model=str(encoders / "tiny-nli"), top_k=None)
    separator = classify.tokenizer.sep_token
    for view, columns in (("sentence-pair", ["b1"]), ("flatten", ["u1", "b1", "u2"])):
        detector = zero_shot(str(encoders / "tiny-nli"), view)
        probabilities = evaluate(detector, data=sample_repo, config="2-class")["probabilities"]
        inputs = [{"text": separator.join(row[c] for c in columns), "text_pair": row["b2"]} for row in rows]
        expected = [
            next(score["score"] for score in scores if score["label"] == "CONTRADICTION") for scores in classify(inputs)
        ]
        assert_allclose([contradiction for _, contradiction in probabilities], expected, atol=1e-5)
        assert np.std(expected) > 1e-3, "otherwise any score would pass"
