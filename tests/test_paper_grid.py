"""The paper's grid: its cells, what a run trains or skips, and tables that match the predictions."""

import shutil
import signal
import statistics

import numpy as np
from helpers import processes
from helpers.grids import METHODS, evaluation, markdown_row, predictions, times
from numpy.testing import assert_allclose
from sklearn.metrics import f1_score

from contradiction import paths
from contradiction.data.splits import load_split, of_bot
from contradiction.evaluation.evaluate import evaluate
from contradiction.io.files import read_json
from contradiction.labels import BOTS
from paper.cells import cells_of
from paper.grid import finished, zero_shot


def test_the_saved_runs_of_the_papers_grid_are_recognised(release_repo):
    values = {"optimizer.epochs": 8, "loss.logit_adjustment": 0.5, "precision": "bf16"}
    options = {"data": release_repo, "configs": ["4-class"], "backbone": "e5-small-nli@8d3ce07764dc"}
    grid = cells_of("table4", methods=["sentence-pair", "hierarchical"], seeds=[23, 42], values=values, **options)
    assert finished(grid, paths.RESULTS).keys() == {cell.name for cell in grid}
    other = {**values, "loss.logit_adjustment": 0.0}
    assert not finished(
        cells_of("table4", methods=["sentence-pair"], seeds=[23], values=other, **options), paths.RESULTS
    )


def test_a_second_run_trains_nothing_and_writes_the_same_table(grid, reproduce, options, tmp_path):
    before, table = times(grid), (grid / "table4.md").read_bytes()
    command = ("table4", *options, *METHODS, "--out", grid)
    code, out, _ = reproduce(*command, "--seeds", "23,42")
    assert (code, times(grid)) == (0, before)
    assert (grid / "table4.md").read_bytes() == table
    assert "written, 6 of 6 cells" in out
    code, out, _ = reproduce(*command, "--seeds", "23,133", "--dry-run")
    assert (code, "6 cells, 3 finished" in out, times(grid)) == (0, True, before)
    code, _, err = reproduce(*command, "--seeds", "133", "--only-table")
    assert (code, "there is no table yet" in err, times(grid)) == (0, True, before)


def test_a_killed_grid_resumes_where_it_stopped(grid, reproduce, options, tmp_path):
    out = tmp_path / "out"
    few = ["table4", *options, "--seeds", "23", "--configs", "4-class", "--methods", "flatten,hierarchical"]
    killed = processes.start_module("paper.reproduce", *few, "--out", out)
    stage = out / "models" / "hierarchical-4-class-tiny-seed23.partial" / "model" / "intra-sentence" / "run.json"
    assert processes.wait_for(stage, killed)
    killed.kill()
    assert killed.wait() == -signal.SIGKILL
    assert not (out / "hierarchical-4-class-tiny-seed23.test.json").exists()
    kept = {path: when for path, when in times(out).items() if "flatten" in path.name or path == stage}
    assert len(kept) == 3

    code, _, err = reproduce(*few, "--out", out)
    assert code == 0
    assert "cell 1 of 1: hierarchical" in err
    after = times(out)
    assert all(after[path] == when for path, when in kept.items() if path != stage)
    assert after[out / "models" / "hierarchical-4-class-tiny-seed23" / "intra-sentence" / "run.json"] == kept[stage]
    for name in ("flatten-4-class-tiny-seed23", "hierarchical-4-class-tiny-seed23"):
        assert predictions(out, name) == predictions(grid, name)


def test_the_files_of_another_run_are_never_overwritten(grid, reproduce, options):
    before = times(grid)
    few = ["--seeds", "23", "--methods", "flatten", "--configs", "4-class"]
    code, _, err = reproduce("table4", *options, *few, "--set", "epochs=2", "--out", grid)
    assert code == 1
    assert "belongs to another recipe or other data" in err
    assert times(grid) == before


def test_a_failing_cell_prints_one_line_and_the_rest_runs(reproduce, options, encoders, tmp_path):
    """Table 5 with two NLI checkpoints, of which one has no NLI head: it trains, but cannot predict zero-shot."""
    headless = shutil.copytree(encoders / "tiny", tmp_path / "headless")
    out = tmp_path / "out"
    code, stdout, err = reproduce(
        "table5", *options, "--seeds", "23", "--configs", "2-class", "--methods", "sentence-pair", "--out", out,
        "--nli", encoders / "tiny-nli", "--nli", headless,
    )  # fmt: skip
    assert code == 1
    [failure] = [line for line in err.splitlines() if "failed: " in line]
    assert "zero-shot-sentence-pair-2-class-headless failed: " in failure
    assert "written, 4 of 5 cells" in stdout
    assert "Missing: zero-shot-sentence-pair-2-class-headless." in (out / "table5.md").read_text(encoding="utf-8")
    assert markdown_row(out, "2-class", "sentence-pair from tiny-nli – sentence-pair from tiny", "table5")[-1] == "1"


def test_zero_shot_is_the_probability_of_a_contradiction_of_the_nli_checkpoint(encoders, sample_repo):
    from transformers import pipeline

    rows = load_split(sample_repo, "2-class", "test")
    classify = pipeline("text-classification", model=str(encoders / "tiny-nli"), top_k=None)
    separator = classify.tokenizer.sep_token
    for view, columns in (("sentence-pair", ["b1"]), ("flatten", ["u1", "b1", "u2"])):
        detector = zero_shot(str(encoders / "tiny-nli"), view)
        probabilities = evaluate(detector, data=sample_repo, config="2-class")["probabilities"]
        # The checkpoint reads 64 tokens.
        short = [place for place, row in enumerate(rows) if sum(len(row[c]) for c in (*columns, "b2")) < 55]
        inputs = [
            {"text": separator.join(rows[place][c] for c in columns), "text_pair": rows[place]["b2"]} for place in short
        ]
        expected = [
            next(score["score"] for score in scores if score["label"] == "CONTRADICTION") for scores in classify(inputs)
        ]
        assert len(short) > 20
        assert_allclose([probabilities[place][1] for place in short], expected, atol=1e-5)
        assert np.std(expected) > 1e-3, "otherwise any score would pass"


def test_the_table_matches_the_predictions(grid):
    for config, method in [("4-class", "hierarchical"), ("2-class", "flatten")]:
        kept = [evaluation(grid, f"{method}-{config}-tiny-seed{seed}") for seed in (23, 42)]
        row = markdown_row(grid, config, method)
        classes = range(len(kept[0]["metrics"]["labels"]))
        by_class = [
            100 * f1_score(one["references"], one["predictions"], labels=classes, average=None, zero_division=0)
            for one in kept
        ]
        expected = [[scores.mean() for scores in by_class], *zip(*by_class, strict=True)]
        shown = [row[1], *row[3 : 3 + len(classes)]]
        assert shown == [f"{statistics.mean(scores):.1f} ± {statistics.stdev(scores):.1f}" for scores in expected]
        lows, highs = zip(*(one["metrics"]["interval"]["macro_f1"] for one in kept), strict=True)
        assert (row[2], row[-1]) == (f"{100 * min(lows):.1f}–{100 * max(highs):.1f}", "2 of 2")


def test_a_learning_curve_tests_adjacent_shares(grid, reproduce, options, tmp_path):
    out = shutil.copytree(grid, tmp_path / "curve")
    few = ["--seeds", "23", "--methods", "flatten", "--configs", "4-class", "--out", out]
    assert reproduce("learning-curve", *options, *few)[0] == 0
    tenth = read_json(out / "models" / "flatten-4-class-tiny-share0.1-seed23" / "run.json")
    assert tenth["request"]["recipe"]["optimizer"]["epochs"] == 10, "all shares have as many steps"
    page = (out / "learning-curve.md").read_text(encoding="utf-8")
    for less, more in ((10, 25), (25, 50), (50, 100)):
        assert f"| flatten, {more} % of the rows – flatten, {less} % of the rows |" in page
    assert (out / "learning-curve.png").read_bytes().startswith(b"\x89PNG")


def test_a_model_trained_on_one_bot_is_tested_on_each_bot(grid, reproduce, options, sample_repo, tmp_path):
    out = shutil.copytree(grid, tmp_path / "bots")
    few = ["--seeds", "23", "--methods", "flatten", "--configs", "4-class", "--out", out]
    assert reproduce("bots", *options, *few)[0] == 0
    page, rows = (out / "bots.md").read_text(encoding="utf-8"), load_split(sample_repo, "4-class", "test")
    for bot, other in (BOTS, BOTS[::-1]):
        tested = set(of_bot(rows, bot)["id"])
        section = page.split(f"## 4-class, test split, replies of {bot}, n = {len(tested)}")[1].split("\n## ")[0]
        for trained, name in ((bot, f"-{bot}"), (other, f"-{other}"), ("both", "")):
            kept = evaluation(out, f"flatten-4-class-tiny{name}-seed23")
            chosen = [place for place, number in enumerate(kept["ids"]) if number in tested]
            columns = ([kept[key][place] for place in chosen] for key in ("references", "predictions"))
            macro = f1_score(*columns, labels=range(4), average="macro", zero_division=0)
            assert f"| flatten, trained on {trained} | {100 * macro:.1f} |" in section
        pairs = [line.split(" | ")[0] for line in section.splitlines() if " – " in line.split(" | ")[0]]
        assert pairs == [f"| flatten, trained on {trained} – flatten, trained on {bot}" for trained in (other, "both")]
