"""The grid of the paper's tables: what is run, what is skipped, and that the table says what the predictions say."""

import csv
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
from sklearn.metrics import f1_score

from contradiction import cli, results
from contradiction.data.splits import load_split, of_bot
from contradiction.detector import ContradictionDetector
from contradiction.errors import InputError
from contradiction.evaluation import paired_tests
from contradiction.evaluation.on_split import evaluate
from contradiction.files import read_json
from contradiction.labels import BOTS
from contradiction.ngrams import linear_model
from contradiction.recipes import Recipe
from contradiction.reproduction import artefacts, timing
from contradiction.reproduction.cells import cells_of, shard, values_of
from contradiction.reproduction.grid import finished, same_request, zero_shot
from contradiction.reproduction.panels import configs_of, panels_of
from contradiction.results import keep
from contradiction.training.loop import train
from contradiction.training.sampling import share_of, training_rows
from contradiction.views import CONVERSATION, VIEWS
from evaluate_metric.evaluate_metric import compare

SIZE = {"hidden_size": 32, "layers": 1, "heads": 2, "vocabulary": 600}
OF_HALF = ", 50 % of the rows"
VALUES = {"epochs": 1, "learning_rate": 0.01, "class_weights": "balanced"}
SET = [word for key, value in VALUES.items() for word in ("--set", f"{key}={value}")]


@pytest.fixture(scope="module")
def encoders(sample_rows, tmp_path_factory):
    """Folders of a tiny encoder without a head, and of a tiny NLI checkpoint with labels in capitals."""
    import torch

    from contradiction.backbones.start import start

    parent = tmp_path_factory.mktemp("encoders")
    texts = [row[column] for row in sample_rows for column in CONVERSATION]
    labels = ("CONTRADICTION", "NEUTRAL", "ENTAILMENT")
    torch.manual_seed(0)
    model, tokenizer = start(Recipe(name="tiny", view="nli", config="nli", scratch=SIZE), labels, texts)
    for parameter in model.parameters():  # larger and centred, so that random weights tell inputs apart
        parameter.data.mul_(4)
    with torch.no_grad():
        batch = tokenizer(texts[:200], padding=True, return_tensors="pt")
        model.classifier.bias -= model.eval()(**batch).logits.mean(0)
        for parameter in model.classifier.parameters():
            parameter.mul_(20)
    model.save_pretrained(parent / "tiny-nli")
    model.config.num_labels = 2  # as an encoder that was never fine-tuned says: LABEL_0, LABEL_1
    model.bert.save_pretrained(parent / "tiny")
    for name in ("tiny", "tiny-nli"):
        tokenizer.save_pretrained(parent / name)
    return parent


@pytest.fixture
def run(run):
    """Calls `cdconv reproduce` in this process; gives exit code, stdout and stderr."""
    return partial(run, "reproduce")


@pytest.fixture(scope="module")
def options(encoders, sample_repo):
    return ["--data", sample_repo, "--backbone", encoders / "tiny", *SET]


@pytest.fixture(scope="module")
def grid(options, tmp_path_factory):
    """The folder of a finished table 4: three methods, two seeds, both label sets."""
    out = tmp_path_factory.mktemp("grid") / "table4"
    command = ["reproduce", "table4", "--seeds", "23,42", "--out", out, *options]
    assert not cli.app([*map(str, command)], standalone_mode=False)
    return out


@pytest.fixture(scope="module")
def cells(encoders, sample_repo):
    return cells_of("table4", data=sample_repo, seeds=(23, 42), backbone=str(encoders / "tiny"), values=VALUES)


def times(folder):
    return {
        path: path.stat().st_mtime_ns for path in Path(folder).rglob("*") if path.suffix in (".json", ".safetensors")
    }


def evaluation(folder, name):
    """The kept test evaluation of a cell, as the table reads it: without a rule fitted afterwards."""
    kept = read_json(folder / f"{name}.test.json")
    return {**kept, **kept.get("plain", {})}


def predictions(folder, name):
    return evaluation(folder, name)["predictions"]


def markdown_row(folder, title, name, table="table4"):
    """The cells of a method's line in a section of a table's page."""
    section = (folder / f"{table}.md").read_text(encoding="utf-8").split(f"## {title},")[1]
    line = next(line for line in section.splitlines() if line.startswith(f"| {name} |"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_grid_holds_each_method_on_the_labels_it_is_trained_on(cells):
    assert [cell.name for cell in cells] == [
        f"{method}-{config}-tiny-seed{seed}"
        for config, methods in (
            ("4-class", ("sentence-pair", "flatten", "hierarchical")),
            ("2-class", ("sentence-pair", "flatten")),
        )
        for method in methods
        for seed in (23, 42)
    ]


def test_a_cell_is_the_recipe_file_with_the_values_asked_for(cells, encoders):
    for cell in cells:
        recipe = Recipe.load(f"{cell.method}-{cell.config}")
        assert cell.recipe == recipe.with_changes(backbone=str(encoders / "tiny"), seed=cell.seed, **VALUES)


def test_grouped_configs_take_the_recipe_of_their_labels(sample_repo, encoders):
    found = cells_of(
        "table4", data=sample_repo, methods=["flatten"], configs=["4-class-grouped"], seeds=[1],
        backbone=str(encoders / "tiny"),
    )  # fmt: skip
    assert [(cell.name, cell.recipe.view) for cell in found] == [("flatten-4-class-grouped-tiny-seed1", "flatten")]


def test_a_learning_curve_makes_the_same_steps_on_each_share_and_shares_table_4s_cells(cells, encoders, sample_repo):
    found = cells_of(
        "learning-curve", data=sample_repo, methods=["flatten"], configs=["4-class"], seeds=(23, 42),
        shares=(0.5, 0.25, 1.0), backbone=str(encoders / "tiny"), values={**VALUES, "epochs": 3, "patience": 2},
    )  # fmt: skip
    assert [(cell.name, cell.recipe.epochs, cell.recipe.patience) for cell in found[::2]] == [
        ("flatten-4-class-tiny-share0.5-seed23", 6, 4),
        ("flatten-4-class-tiny-share0.25-seed23", 12, 8),
        ("flatten-4-class-tiny-seed23", 3, 2),
    ]
    rows = [cell.rows for cell in found]
    assert rows[0] == rows[1] < rows[4]
    assert rows[0] / rows[4] == pytest.approx(0.5, abs=0.02)
    curve = cells_of(
        "learning-curve", data=sample_repo, seeds=(23, 42), shares=[1.0], backbone=str(encoders / "tiny"), values=VALUES
    )
    assert curve == cells


@pytest.mark.parametrize("parts", [1, 2, 3, 10, 11])
def test_the_shards_together_are_the_whole_and_share_nothing(cells, parts):
    shards = [shard(cells, f"{part}/{parts}") for part in range(1, parts + 1)]
    names = [cell.name for shard in shards for cell in shard]
    assert sorted(names) == sorted(cell.name for cell in cells)
    assert max(map(len, shards)) - min(map(len, shards)) <= 1


def test_values_are_read_as_toml_and_words_need_no_quotes():
    found = values_of(["epochs=3", "precision = bf16", "learning_rate=1e-4", 'class_weights="balanced"'])
    assert found == {"epochs": 3, "precision": "bf16", "learning_rate": 1e-4, "class_weights": "balanced"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["table6"], "table 'table6'; there are table4, table5, learning-curve, bots"),
        (
            ["table4", "--methods", "flat"],
            "method 'flat'; there are sentence-pair, flatten, hierarchical, reply-only, context-only",
        ),
        (["table4", "--methods", ","], "no method is named"),
        (["table4", "--methods", "flatten,flatten"], "a method is named twice"),
        (["table4", "--configs", "persona"], "config 'persona'; there are 2-class"),
        (["table4", "--seeds", "1,x"], "seeds '1,x': must be whole numbers"),
        (["table4", "--seeds", "1,1"], "the seeds are 1, 1; give at least one, each once"),
        (["table4", "--seeds", "-1"], "'seed' is -1"),
        (["table4", "--shard", "3/2"], "shard '3/2': must be i/n"),
        (["table4", "--set", "epochs"], "'epochs': must be key=value"),
        (["table4", "--set", "seed=3"], "seed is chosen by --seeds"),
        (["table4", "--set", "epoch=3"], "'epoch' is 3"),
        (["table4", "--nli", "x"], "table4 has no NLI stage to compare with"),
        (["table5"], "--nli names its checkpoint"),
        (["table4", "--shares", "0.5"], "table4 is trained on all rows; --shares goes with learning-curve"),
        (["table4", "--set", "share=0.5"], "share is chosen by --shares"),
        (["learning-curve", "--shares", "half"], "shares 'half': must be numbers"),
        (["learning-curve", "--shares", "0,1"], "'share' is 0.0"),
        (["learning-curve", "--shares", "0.5,2"], "'share' is 2.0"),
        (["learning-curve", "--shares", "0.5,1,0.50"], "a share is named twice in 0.5, 1, 0.5"),
        (["table4", "--methods", "hierarchical", "--configs", "2-class"], "no cell is left"),
        (["table4", "--data", "no/such/folder"], "no/such/folder: no such folder"),
    ],
)
def test_a_users_mistake_is_one_line_and_leaves_nothing(run, options, tmp_path, arguments, said):
    out = tmp_path / "out"
    code, _, err = run(*options, "--out", out, *arguments)
    assert (code, err.count("\n")) == (2, 1)
    assert said in err
    assert not out.exists()


def test_the_table_says_what_the_predictions_say(grid):
    for config, method in [("4-class", "hierarchical"), ("2-class", "flatten"), ("4-class", "sentence-pair")]:
        kept = [evaluation(grid, f"{method}-{config}-tiny-seed{seed}") for seed in (23, 42)]
        row = markdown_row(grid, config, method)
        classes = range(len(kept[0]["metrics"]["labels"]))
        each = [
            f1_score(one["references"], one["predictions"], labels=classes, average=None, zero_division=0)
            for one in kept
        ]
        macro = [100 * scores.mean() for scores in each]
        assert row[1] == f"{statistics.mean(macro):.1f} ± {statistics.stdev(macro):.1f}"
        for column, scores in enumerate(zip(*each, strict=True), start=3):
            assert row[column] == f"{100 * statistics.mean(scores):.1f} ± {100 * statistics.stdev(scores):.1f}"
        bounds = [one["metrics"]["interval"]["macro_f1"] for one in kept]
        low, high = 100 * min(low for low, _ in bounds), 100 * max(high for _, high in bounds)
        assert row[2] == f"{low:.1f}–{high:.1f}"
        assert row[-1] == "2 of 2"


def test_merged_lines_are_four_class_labels_merged(grid):
    kept = [evaluation(grid, f"hierarchical-4-class-tiny-seed{seed}") for seed in (23, 42)]
    merged = [
        100 * f1_score([x > 0 for x in one["references"]], [x > 0 for x in one["predictions"]], average="macro")
        for one in kept
    ]
    row = markdown_row(grid, "2-class", "hierarchical, 4-class merged")
    assert row[1] == f"{statistics.mean(merged):.1f} ± {statistics.stdev(merged):.1f}"


def test_the_csv_holds_every_line_and_figure(grid):
    with (grid / "table4.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    lines = {(row["config"], row["method"], row["kind"]) for row in rows}
    assert {kind for config, method, kind in lines if (config, method) == ("2-class", "hierarchical")} == {"merged"}
    assert len([line for line in lines if line[2] == "baseline"]) == 6
    kept = read_json(grid / "tfidf-flatten.4-class.test.json")["metrics"]
    one = next(
        row for row in rows
        if (row["config"], row["method"], row["figure"]) == ("4-class", "TF-IDF, all", "macro_f1")
    )  # fmt: skip
    assert float(one["mean"]) == pytest.approx(kept["macro_f1"], abs=1e-6)
    assert float(one["low"]) == pytest.approx(kept["interval"]["macro_f1"][0], abs=1e-6)


def test_each_seed_is_tested_by_the_metric_and_the_tests_of_a_config_are_corrected_together(grid):
    rows = {}
    for method in ("flatten", "hierarchical"):
        tests = []
        for seed in (23, 42):
            ours, theirs = (evaluation(grid, f"{name}-4-class-tiny-seed{seed}") for name in (method, "sentence-pair"))
            result = compare(ours["references"], ours["predictions"], theirs["predictions"])
            tests.append((result["macro_f1_difference"], result["p_value"]))
        row = markdown_row(grid, "4-class", f"{method} – sentence-pair")
        assert row[1] == f"{100 * statistics.mean(difference for difference, _ in tests):+.1f}"
        assert row[3] == f"{paired_tests.combined(tests):.3f}"
        rows[method] = row
    third = markdown_row(grid, "4-class", "flatten – hierarchical")
    found = [(row[3], row[4]) for row in (*rows.values(), third)]
    smallest = min(found)
    assert float(smallest[1]) == pytest.approx(min(1, 3 * float(smallest[0])), abs=0.0016)


def test_a_second_run_trains_nothing_and_writes_the_same_table(grid, run, options):
    before, table = times(grid), (grid / "table4.md").read_bytes()
    code, out, err = run("table4", *options, "--seeds", "23,42", "--out", grid)
    assert (code, times(grid)) == (0, before)
    assert "10 of 10 cells are finished already" in err
    assert (grid / "table4.md").read_bytes() == table
    assert "written, 10 of 10 cells" in out


def test_a_dry_run_trains_nothing_and_measures(run, options, tmp_path):
    out = tmp_path / "out"
    code, said, _ = run("table4", *options, "--seeds", "23", "--configs", "4-class", "--out", out, "--dry-run")
    assert code == 0
    assert not out.exists()
    assert "3 cells, 0 finished" in said
    assert said.count("to do") == 3
    assert "from 3 measured steps a method on this machine (CPU" in said


@pytest.mark.parametrize(
    ("options", "passes"),
    [
        ({}, 1), ({"r_drop": 1.0}, 2), ({"fgm": 1.0}, 2), ({"r_drop": 1.0, "fgm": 1.0}, 4),
        ({"teachers": ["user/teacher"], "transfer": 1}, 1),
    ],
)  # fmt: skip
def test_the_steps_measured_read_each_row_as_often_as_training_does(options, passes, sample_repo):
    from torch.nn import Linear
    from torch.nn.modules.module import register_module_forward_pre_hook

    recipe = Recipe(name="tiny", view="flatten", config="4-class", scratch=SIZE, batch_size=8, **options)
    rows = []

    def count(module, inputs):
        if isinstance(module, Linear) and module.out_features == len(recipe.labels):  # the head, once a pass
            rows.append(len(inputs[0]))

    hook = register_module_forward_pre_hook(count)
    try:
        assert timing.measure(recipe, sample_repo) > 0
    finally:
        hook.remove()
    assert sum(rows) == passes * (timing.STEPS + 1) * 8


def test_a_dry_run_reckons_with_what_finished_cells_took(grid, run, options, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    shutil.copy(grid / "flatten-4-class-tiny-seed23.test.json", out)
    code, said, _ = run("table4", *options, "--seeds", "23", "--configs", "4-class", "--out", out, "--dry-run")
    assert (code, [path.name for path in out.iterdir()]) == (0, ["flatten-4-class-tiny-seed23.test.json"])
    assert "3 cells, 1 finished" in said
    assert "as the finished cells took on this hardware" in said


def test_a_method_without_records_trains_a_checkpoint_in_the_time_of_the_others(cells):
    four = [cell for cell in cells if cell.config == "4-class"]
    run = {"minutes": 6.0, "hardware": timing.hardware()}
    minutes = timing.estimate(four, {"flatten-4-class-tiny-seed23": {"run": run}})
    assert minutes["flatten-4-class-tiny-seed42"] == 6
    assert minutes["sentence-pair-4-class-tiny-seed42"] == 6
    assert minutes["hierarchical-4-class-tiny-seed42"] == 18
    elsewhere = {"run": {**run, "hardware": "another machine"}}
    assert timing.estimate(four, {"flatten-4-class-tiny-seed23": elsewhere}) is None


def test_a_cell_takes_what_cells_of_its_own_start_took(sample_repo, encoders):
    starts = {"backbone": str(encoders / "tiny"), "nli": [str(encoders / "tiny-nli")]}
    both = cells_of(
        "table5", data=sample_repo, methods=["flatten", "sentence-pair"], configs=["4-class"], seeds=[23, 42], **starts
    )
    took = {"flatten-4-class-tiny-seed23": 6.0, "flatten-4-class-tiny-nli-seed23": 60.0}
    took |= {"sentence-pair-4-class-tiny-seed23": 3.0}
    here = timing.hardware()
    done = {name: {"run": {"minutes": each, "hardware": here}} for name, each in took.items()}
    minutes = timing.estimate(both, done)
    assert minutes["flatten-4-class-tiny-seed42"] == 6
    assert minutes["flatten-4-class-tiny-nli-seed42"] == 60
    assert minutes["sentence-pair-4-class-tiny-nli-seed42"] == 3


@pytest.mark.parametrize(
    ("minutes", "words"),
    [(0.4, "under a minute"), (59.6, "about 60 min"), (60.6, "about 1 h 01 min"), (135, "about 2 h 15 min")],
)
def test_durations_are_words(minutes, words):
    assert timing.duration(minutes) == words


def test_an_evaluation_of_the_same_run_counts_under_any_name_and_another_does_not(
    grid, cells, encoders, sample_repo, tmp_path
):
    cell = next(cell for cell in cells if cell.name == "flatten-2-class-tiny-seed42")
    for epochs in (1, 2):
        recipe = cell.recipe.with_changes(name="mine", epochs=epochs)
        folder = train(recipe, data=sample_repo, out=tmp_path / f"model{epochs}")
        kept = evaluate(ContradictionDetector.from_pretrained(folder), data=sample_repo, config="2-class")
        keep(kept, tmp_path / str(epochs) / "some name.json")
    assert finished(cells, tmp_path / "2") == {}
    found = finished(cells, tmp_path / "1")
    assert list(found) == [cell.name]
    # The grid is nothing but such runs: the same predictions come out of it.
    assert found[cell.name]["predictions"] == read_json(grid / f"{cell.name}.test.json")["predictions"]


def test_requests_of_records_from_before_an_option_still_compare():
    recipe = Recipe.load("flatten-4-class").model_dump()
    older = {key: value for key, value in recipe.items() if key not in ("focal", "precision")}
    one, other = ({"recipe": each, "data": "x"} for each in (recipe, older))
    assert same_request(one, other)
    assert not same_request(one, {**other, "recipe": {**older, "focal": 2.0}})
    assert not same_request(one, {**other, "data": "y"})
    assert not same_request({}, {})


def test_shards_on_two_machines_make_the_same_table_as_one(grid, run, options, tmp_path):
    few = [*options, "--seeds", "42", "--configs", "4-class", "--methods", "sentence-pair,flatten"]
    both = tmp_path / "both"
    both.mkdir()
    for part in (1, 2):
        out = tmp_path / str(part)
        assert run("table4", *few, "--out", out, "--shard", f"{part}/2", "--drop-weights")[0] == 0
        assert len(list(out.glob("*seed42.test.json"))) == 1
        assert list((out / "models").iterdir()) == []
        for file in out.glob("*.json"):
            shutil.copy(file, both)
    whole = shutil.copytree(grid, tmp_path / "whole")
    for folder in (both, whole):
        code, said, _ = run("table4", *few, "--out", folder, "--only-table")
        assert (code, "2 of 2 cells" in said) == (0, True)
    for name in ("table4.md", "table4.csv"):
        tables = [
            # Minutes are measured, and differ.
            (folder / name).read_text(encoding="utf-8").partition("## Runs")[0]
            for folder in (both, whole)
        ]
        assert tables[0] == tables[1]


def test_a_killed_grid_goes_on_where_it_stopped(grid, run, options, tmp_path):
    out = tmp_path / "out"
    few = [*options, "--seeds", "23", "--configs", "4-class", "--methods", "flatten,hierarchical", "--out", out]
    command = [sys.executable, "-m", "contradiction.cli", "reproduce", "table4", *few]
    killed = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    stage = out / "models" / "hierarchical-4-class-tiny-seed23.partial" / "intra-sentence" / "run.json"
    deadline = time.monotonic() + 300
    while not stage.exists() and killed.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    os.kill(killed.pid, signal.SIGKILL)
    assert killed.wait() == -signal.SIGKILL
    assert stage.exists()
    assert not (out / "hierarchical-4-class-tiny-seed23.test.json").exists()
    kept = {path: when for path, when in times(out).items() if "flatten" in path.name or path == stage}
    assert len(kept) == 3

    code, _, err = run("table4", *few)
    assert code == 0
    assert "1 of 2 cells are finished already" in err
    after = times(out)
    assert all(after[path] == when for path, when in kept.items() if path != stage)
    assert after[out / "models" / "hierarchical-4-class-tiny-seed23" / "intra-sentence" / "run.json"] == kept[stage]
    for name in ("flatten-4-class-tiny-seed23", "hierarchical-4-class-tiny-seed23"):
        assert predictions(out, name) == predictions(grid, name)


def test_what_another_run_left_is_never_overwritten(grid, run, options):
    before = times(grid)
    code, _, err = run("table4", *options, "--seeds", "23", "--set", "epochs=2", "--out", grid)
    assert (code, err.count("\n")) == (2, 1 + 1)  # the first line says where hierarchical is not trained
    assert "of another recipe or other data; remove it, or name another --out" in err
    code, _, err = run("table4", *options, "--seeds", "23", "--no-resume", "--out", grid)
    assert code == 2
    assert "holds sentence-pair-4-class-tiny-seed23 already" in err
    assert times(grid) == before


def test_a_failing_cell_is_one_line_and_the_rest_goes_on(run, options, encoders, sample_repo, sample_rows, tmp_path):
    """Table 5, where one of two NLI checkpoints has no NLI head: it trains, but cannot be asked as it is."""
    headless = shutil.copytree(encoders / "tiny", tmp_path / "headless")
    out = tmp_path / "out"
    code, said, err = run(
        "table5", *options, "--seeds", "23", "--configs", "2-class", "--methods", "sentence-pair", "--out", out,
        "--nli", encoders / "tiny-nli", "--nli", headless,
    )  # fmt: skip
    assert code == 1
    failures = [line for line in err.splitlines() if "failed: " in line]
    assert len(failures) == 1
    assert failures[0].startswith("cdconv: zero-shot-sentence-pair-2-class-headless failed: ")
    assert "its labels are label_0, label_1" in failures[0]
    assert "written, 4 of 5 cells" in said
    assert "Missing: zero-shot-sentence-pair-2-class-headless." in (out / "table5.md").read_text(encoding="utf-8")
    for line in ("from tiny", "from tiny-nli", "from headless"):
        assert markdown_row(out, "2-class", f"sentence-pair {line}", "table5")[-1] == "1 of 1"
    assert markdown_row(out, "2-class", "sentence-pair from tiny-nli – sentence-pair from tiny", "table5")[-1] == "1"


@pytest.fixture(scope="module")
def curve(grid, options, tmp_path_factory):
    """The folder of the table 4, copied, with a learning curve in it: two methods, one of them an artefact baseline."""
    out = shutil.copytree(grid, tmp_path_factory.mktemp("curve") / "table4")
    command = [
        "reproduce", "learning-curve", "--seeds", "23,42", "--shares", "0.5,1", "--methods", "flatten,reply-only",
        "--configs", "4-class", "--out", out, *options,
    ]  # fmt: skip
    before = times(out)
    assert not cli.app([*map(str, command)], standalone_mode=False)
    assert before.items() <= times(out).items()
    return out


def test_a_learning_curve_takes_the_finished_cells_of_table_4_and_leaves_its_table(grid, curve):
    new = {path.name for path in curve.glob("*.test.json")} - {path.name for path in grid.glob("*.test.json")}
    assert new == {
        f"{name}-seed{seed}.test.json"
        for name in ("flatten-4-class-tiny-share0.5", "reply-only-4-class-tiny-share0.5", "reply-only-4-class-tiny")
        for seed in (23, 42)
    } | {f"tfidf-flatten.{task}-class-share0.5-seed{seed}.test.json" for task in (2, 4) for seed in (23, 42)}
    assert (curve / "table4.md").read_bytes() == (grid / "table4.md").read_bytes()


def test_the_learning_curve_says_what_the_predictions_say_and_tests_each_share_against_the_next(curve):
    page = (curve / "learning-curve.md").read_text(encoding="utf-8")
    section = page.split("## 4-class,")[1].split("## 2-class")[0]
    for share, name in (("50 %", "-share0.5"), ("100 %", "")):
        kept = [evaluation(curve, f"flatten-4-class-tiny{name}-seed{seed}") for seed in (23, 42)]
        macro = [100 * one["metrics"]["macro_f1"] for one in kept]
        assert (
            f"| flatten, {share} of the rows | {statistics.mean(macro):.1f} ± {statistics.stdev(macro):.1f} |"
            in section
        )
    assert "| reply-only (artefact baseline), 50 % of the rows |" in section
    tested = [line.split(" | ")[0] for line in section.splitlines() if " – " in line.split(" | ")[0]]
    assert tested == [
        f"| {method}, 100 % of the rows – {method}, 50 % of the rows"
        for method in ("flatten", "reply-only (artefact baseline)")
    ] + [f"| flatten, {share} % of the rows – TF-IDF, all{part}" for share, part in ((50, OF_HALF), (100, ""))]
    for config in ("4-class", "2-class"):
        assert f"\n| TF-IDF, all{OF_HALF} | " in page.split(f"## {config},")[1].split("Differences")[0]
    assert "![Learning curve: the influence of the training rows: macro-F1](learning-curve.png)" in page


def test_a_table_is_written_where_the_weights_of_its_start_are_gone(grid, options, encoders, tmp_path):
    out = shutil.copytree(grid, tmp_path / "table4")
    (out / "table4.md").unlink()
    digest = read_json(out / "models" / "flatten-4-class-tiny-seed23" / "run.json")["request"]["recipe"]["backbone"]
    options = [digest if word == encoders / "tiny" else word for word in options]
    command = [*map(str, ["reproduce", "table4", "--seeds", "23,42", "--out", out, *options])]
    assert digest in command
    with pytest.raises(InputError, match="reply-only-4-class-tiny-seed23: starts from tiny@.*name its folder, or"):
        cli.app([*command, "--methods", "reply-only", "--configs", "4-class"], standalone_mode=False)
    for words in (["--only-table"], []):  # nothing is left to train
        cli.app([*command, *words], standalone_mode=False)
        assert (out / "table4.md").read_bytes() == (grid / "table4.md").read_bytes()
        (out / "table4.md").unlink()


@pytest.mark.parametrize("shares", [(0.25, 0.5), (0.5, 1.0)], ids=str)
@pytest.mark.parametrize(
    ("configs", "values"),
    [
        (["4-class"], {}),
        (["4-class"], {"replaced": 1}),
        (["4-class", "2-class"], {}),
        (["4-class", "4-class-grouped"], {"replaced": 1}),
    ],
    ids=str,
)
def test_each_share_is_held_against_n_grams_of_its_own_rows(sample_repo, encoders, tmp_path, shares, values, configs):
    cells = cells_of(
        "learning-curve", data=sample_repo, seeds=(23, 42), shares=shares, backbone=str(encoders / "tiny"),
        methods=["flatten"], configs=configs, values={**VALUES, **values},
    )  # fmt: skip
    whole = {config: artefacts.beside(config, [], sample_repo, tmp_path, count=True)[-1] for config in configs}
    # What the encoders say makes no difference here.
    done = {cell.name: {**whole[cell.config], "run": {"request": cell.request}} for cell in cells}
    beside = {each: artefacts.beside(each, cells, sample_repo, tmp_path, count=True) for each in configs_of(cells)}
    for panel in panels_of("learning-curve", cells, done, beside, bootstrap=2):
        merged = ", 4-class merged" if panel.config not in configs else ""
        expected = [
            (f"flatten{part}{merged}", f"TF-IDF, all{part if share < 1 else ''}", 2)
            for share in shares
            for part in [f", {100 * share:g} % of the rows"]
        ]
        if panel.config == "2-class" in configs and 1 in shares:  # all rows are the same for both kinds
            expected.append(("flatten, 100 % of the rows, 4-class merged", "TF-IDF, all", 2))
        tested = [(each.line, each.against, each.seeds) for each in panel.contrasts if "TF-IDF" in each.against]
        assert tested == expected
        drawn_by = panel.config if panel.config in configs else panel.config.replace("2-class", "4-class")
        rows = load_split(sample_repo, drawn_by, "train")
        for each in beside[panel.config]:
            part = each["part"]
            assert part["rows"] == len(share_of(rows, part["share"], part["seed"] or 0))
            assert part["drawn"] == (f"{part['share']:g} of {drawn_by}" if part["share"] < 1 else "")


def test_n_grams_of_a_share_are_fitted_to_the_rows_that_the_encoder_reads(curve, sample_repo):
    for seed in (23, 42):
        recipe = Recipe.load(curve / "models" / f"flatten-4-class-tiny-share0.5-seed{seed}").with_changes(
            backbone="some/encoder"
        )
        read = set(training_rows(load_split(sample_repo, "4-class", "train"), recipe).rows["id"])
        for config in ("4-class", "2-class"):
            kept = read_json(curve / f"tfidf-flatten.{config}-share0.5-seed{seed}.test.json")
            rows = [row for row in load_split(sample_repo, config, "train") if row["id"] in read]
            model = linear_model(VIEWS["flatten"], class_weight="balanced").fit(rows, [row["label"] for row in rows])
            assert kept["predictions"] == model.predict(list(load_split(sample_repo, config, "test"))).tolist()
            assert kept["part"] == {
                "bot": None, "drawn": "0.5 of 4-class", "share": 0.5, "seed": seed, "rows": len(read),
            }  # fmt: skip
    assert not [each for each in results.kept(curve) if each["kind"] == "baseline" and "part" in each]


def test_the_csv_of_a_learning_curve_holds_the_rows_read(curve, sample_repo):
    with (curve / "learning-curve.csv").open(encoding="utf-8", newline="") as file:
        found = {int(row["rows"]) for row in csv.DictReader(file) if row["kind"] == "trained"}
    rows = len(load_split(sample_repo, "4-class", "train"))
    runs = [
        read_json(curve / "models" / f"flatten-4-class-tiny{name}-seed23" / "run.json") for name in ("-share0.5", "")
    ]
    assert [(run["request"]["recipe"]["share"], len(run["epochs"])) for run in runs] == [(0.5, 2), (1.0, 1)]
    assert max(found) == rows
    assert min(found) == pytest.approx(rows / 2, abs=2)


def test_the_plot_of_a_learning_curve_has_a_curve_a_method_and_a_point_a_share(curve, sample_repo, encoders):
    from matplotlib.figure import Figure

    from contradiction.reproduction import plot as plots

    assert (curve / "learning-curve.png").read_bytes().startswith(b"\x89PNG")
    cells = cells_of(
        "learning-curve", data=sample_repo, seeds=(23, 42), shares=(0.5, 1.0), backbone=str(encoders / "tiny"),
        methods=["flatten", "reply-only"], configs=["4-class"], values=VALUES,
    )  # fmt: skip
    beside = {"4-class": artefacts.beside("4-class", cells, sample_repo, curve, count=False)}
    panel = panels_of("learning-curve", cells, finished(cells, curve), beside, bootstrap=10)[1]
    axes = Figure().subplots()
    plots._draw_curves(axes, panel)
    drawn = dict(zip(axes.get_legend_handles_labels()[1], axes.get_legend_handles_labels()[0], strict=True))
    assert drawn.keys() == {"flatten", "reply-only", "n-grams of all utterances", "artefact baseline, all rows"}
    ngrams = sorted((line.rows, 100 * line.mean("macro_f1")) for line in panel.baselines if "all" in line.name)
    assert len(ngrams) == 2
    for found, expected in zip(drawn["n-grams of all utterances"].get_data(), zip(*ngrams, strict=True), strict=True):
        assert list(found) == pytest.approx(expected)
    for drawn, method in zip(axes.containers, ("flatten", "reply-only"), strict=True):
        means = [100 * line.mean("macro_f1") for line in panel.lines if line.method == method]
        assert list(drawn.lines[0].get_ydata()) == pytest.approx(means)
        assert len(means) == 2


@pytest.fixture(scope="module")
def by_bot(grid, options, tmp_path_factory):
    """The folder of the table 4, copied, with flatten trained on one bot's replies, too."""
    out = shutil.copytree(grid, tmp_path_factory.mktemp("bots") / "table4")
    command = ["reproduce", "bots", "--seeds", "23", "--methods", "flatten", "--configs", "4-class", "--out", out]
    assert not cli.app([*map(str, command), *map(str, options)], standalone_mode=False)
    return out


def test_a_bot_is_left_out_of_training_and_of_the_choice_of_a_checkpoint(by_bot, sample_repo):
    for bot in BOTS:
        folder = by_bot / "models" / f"flatten-4-class-tiny-{bot}-seed23"
        run = read_json(folder / "run.json")
        rows, checks = (of_bot(load_split(sample_repo, "4-class", split), bot) for split in ("train", "validation"))
        assert 0 < len(rows) < len(load_split(sample_repo, "4-class", "train"))
        assert run["request"]["recipe"]["bot"] == bot
        # As many steps as on all rows.
        assert len(run["epochs"]) == round(len(load_split(sample_repo, "4-class", "train")) / len(rows))
        assert run["epochs"][0]["validation"]["n"] == len(checks)
        assert f"replies of {bot} alone" in (folder / "README.md").read_text(encoding="utf-8")


def test_what_is_learnt_from_one_bot_is_tested_on_each(by_bot, sample_repo):
    page = (by_bot / "bots.md").read_text(encoding="utf-8")
    rows = load_split(sample_repo, "4-class", "test")
    for bot, other in (BOTS, BOTS[::-1]):
        tested = set(of_bot(rows, bot)["id"])
        section = page.split(f"## 4-class, test split, replies of {bot}, n = {len(tested)}")[1].split("\n## ")[0]
        for trained, name in ((bot, f"-{bot}"), (other, f"-{other}"), ("both", "")):
            kept = evaluation(by_bot, f"flatten-4-class-tiny{name}-seed23")
            chosen = [place for place, number in enumerate(kept["ids"]) if number in tested]
            plain = kept.get("plain", kept)["predictions"]
            macro = f1_score(
                [kept["references"][place] for place in chosen], [plain[place] for place in chosen],
                labels=range(4), average="macro", zero_division=0,
            )  # fmt: skip
            assert f"| flatten, trained on {trained} | {100 * macro:.1f} |" in section
        pairs = [line.split(" | ")[0] for line in section.splitlines() if " – " in line.split(" | ")[0]]
        ngrams = [f"TF-IDF, all, trained on {each}" for each in BOTS] + ["TF-IDF, all"]
        assert pairs == [f"| flatten, trained on {each} – flatten, trained on {bot}" for each in (other, "both")] + [
            f"| flatten, trained on {each} – {beside}" for each, beside in zip((*BOTS, "both"), ngrams, strict=True)
        ]
        assert all(f"\n| {beside} |" in section for beside in ngrams)
    with (by_bot / "bots.csv").open(encoding="utf-8", newline="") as file:
        found = {(row["bot"], row["trained_on"]) for row in csv.DictReader(file) if row["kind"] == "trained"}
    assert found == {(bot, trained) for bot in BOTS for trained in (*BOTS, "")}
    assert (by_bot / "bots.png").read_bytes().startswith(b"\x89PNG")


def test_a_bot_that_no_test_row_is_of_has_no_panel(by_bot, sample_repo, encoders):
    cells = cells_of(
        "bots", data=sample_repo, methods=["flatten"], configs=["4-class"], seeds=[23], values=VALUES,
        backbone=str(encoders / "tiny"),
    )  # fmt: skip
    done = finished(cells, by_bot)
    assert done
    found = panels_of("bots", cells, done, {}, dict.fromkeys(load_split(sample_repo, "4-class", "test")["id"], "eva"))
    assert {panel.bot for panel in found} == {"eva"}


def test_artefact_baselines_are_flatten_on_their_own_view_and_are_never_asked_zero_shot(encoders, sample_repo):
    found = cells_of(
        "table5", data=sample_repo, methods=["reply-only", "context-only"], seeds=[23], values=VALUES,
        backbone=str(encoders / "tiny"), nli=[str(encoders / "tiny-nli")],
    )  # fmt: skip
    assert len(found) == 8
    for cell in found:
        like = Recipe.load(f"flatten-{cell.config}")
        assert cell.trained
        assert cell.recipe == like.with_changes(
            name=f"{cell.method}-{cell.config}", view=cell.method, backbone=cell.recipe.backbone, **VALUES
        )


def test_the_context_alone_can_be_a_cell_and_is_named_as_what_it_is(run, options, tmp_path):
    out = tmp_path / "out"
    few = ["--seeds", "23", "--configs", "4-class", "--methods", "context-only", "--out", out]
    assert run("table4", *options, *few)[0] == 0
    kept = evaluation(out, "context-only-4-class-tiny-seed23")
    row = markdown_row(out, "4-class", "context-only (artefact baseline)")
    assert row[1] == f"{100 * kept['metrics']['macro_f1']:.1f}"
    assert kept["columns"] == ["u1", "b1", "u2"]
    assert "*reply-only* and *context-only* are artefact baselines too" in (out / "table4.md").read_text(
        encoding="utf-8"
    )


def test_zero_shot_is_the_probability_of_a_contradiction_of_the_nli_checkpoint(encoders, sample_repo):
    from transformers import pipeline

    from contradiction.data.splits import load_split

    rows = load_split(sample_repo, "2-class", "test")
    classify = pipeline("text-classification", model=str(encoders / "tiny-nli"), top_k=None)
    separator = classify.tokenizer.sep_token
    for view, columns in (("sentence-pair", ["b1"]), ("flatten", ["u1", "b1", "u2"])):
        detector = zero_shot(str(encoders / "tiny-nli"), view)
        found = evaluate(detector, data=sample_repo, config="2-class")["predictions"]
        inputs = [{"text": separator.join(row[c] for c in columns), "text_pair": row["b2"]} for row in rows]
        expected = [
            int(next(each["score"] for each in scores if each["label"] == "CONTRADICTION") >= 0.5)
            for scores in classify(inputs)
        ]
        assert found == expected
        assert 0 < sum(found) < len(found)


def test_a_rule_fitted_afterwards_does_not_count(grid):
    kept = evaluation(grid, "flatten-2-class-tiny-seed23")
    kept.pop("plain", None)
    ruled = {
        **kept,
        "predictions": [1] * len(kept["ids"]),
        "plain": {key: kept[key] for key in ("metrics", "predictions")},
    }
    assert paired_tests.run_of(ruled) == paired_tests.run_of(kept)


def test_holm_by_hand():
    assert paired_tests.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert paired_tests.holm([0.5, 0.9]) == [1.0, 1.0]
    assert paired_tests.holm([]) == []


@pytest.mark.parametrize(
    ("tests", "p"),
    [
        ([(0.02, 0.04)], 0.04),
        ([(-0.02, 0.04)], 0.04),
        ([(0.0, 1.0)], 1.0),
        # One-sided 0.005, 0.01, 0.02, 0.4: K / k = 4 / 3 times the third, twice.
        ([(0.1, 0.01), (0.1, 0.02), (0.1, 0.04), (0.1, 0.8)], 2 * 4 / 3 * 0.02),
        # Sure in both directions is sure of nothing.
        ([(0.1, 0.001), (-0.1, 0.001)], 1.0),
        ([(0.1, 0.001), (0.1, 0.003)], 0.003),
    ],
)
def test_the_p_values_of_seeds_are_combined_by_direction(tests, p):
    assert paired_tests.combined(tests) == pytest.approx(p)


def test_only_runs_of_one_seed_on_the_same_rows_are_compared():
    def line(name, *runs):
        return paired_tests.Line(name, name, "x", "trained", tuple(paired_tests.Run(*each, {}) for each in runs), 2)

    rows, references = list(range(40)), [0, 1] * 20
    ours = line("ours", (1, rows, references, references), (2, rows, references, references))
    theirs = line("theirs", (2, rows, references, [0] * 40), (3, rows, references, references))
    others = line("others", (1, rows[::-1], references, references))
    found = paired_tests.contrasts([(ours, theirs), (ours, others)], "2-class", 200)
    assert [(each.line, each.against, each.seeds) for each in found] == [("ours", "theirs", 1)]
    assert found[0].difference == pytest.approx(1 - 1 / 3)
    assert found[0].p_value == pytest.approx(2 / 201)


def test_the_plot_shows_the_kinds_that_there_are(grid, encoders, sample_repo, cells, tmp_path):
    from PIL import Image

    from contradiction.reproduction import plot as plots

    def colours(path):
        with Image.open(path) as image:
            drawn = {colour for _, colour in image.convert("RGB").getcolors(1 << 24)}
        return {kind for kind, colour in plots.COLOURS.items() if tuple(bytes.fromhex(colour[1:])) in drawn}

    assert colours(grid / "table4.png") == {"trained", "merged", "baseline"}
    # The paper's figure stands only beside results on the paper's data.
    done = finished(cells, grid)
    official = [_renamed(cell) for cell in cells]
    panels = panels_of("table4", official, done, {}, bootstrap=10)
    assert [panel.paper for panel in panels] == [("paper: hierarchical", 0.781), ("paper: hierarchical", 0.593)]
    plots.method_plot(panels, "title", tmp_path / "plot.png")
    assert colours(tmp_path / "plot.png") == {"trained", "merged", "paper"}


def _renamed(cell):
    from dataclasses import replace

    return replace(cell, request={**cell.request, "data_name": "CDConv"})


def test_json_of_other_kinds_in_the_folder_is_left_alone(cells, tmp_path):
    (tmp_path / "notes.json").write_text(json.dumps({"name": "mine"}), encoding="utf-8")
    assert finished(cells, tmp_path) == {}
    (tmp_path / "cut.json").write_text('{"name": ', encoding="utf-8")
    with pytest.raises(InputError, match="cut.json: not JSON"):
        finished(cells, tmp_path)
