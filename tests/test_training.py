"""Training: what a run leaves behind, and that a killed one ends as if nothing had happened."""

import json
import shutil
import signal
import subprocess
import sys
import time

import pytest
from safetensors.numpy import load_file

from contradiction import training
from contradiction.errors import InputError
from contradiction.recipes import Recipe
from contradiction.training import train

QUICK = Recipe(
    name="quick",
    view="flatten",
    config="4-class",
    scratch={"hidden_size": 32, "layers": 1, "heads": 2, "vocabulary": 600},
    epochs=3,
    learning_rate=3e-3,
    class_weights="balanced",
)
TOML = (
    'view = "flatten"\nconfig = "4-class"\nepochs = 3\nlearning_rate = 3e-3\nclass_weights = "balanced"\n'
    "[scratch]\nhidden_size = 32\nlayers = 1\nheads = 2\nvocabulary = 600\n"
)


def record(folder):
    return json.loads((folder / "run.json").read_text(encoding="utf-8"))


def curve(folder):
    """What a run went through: it must agree to the last bit, also where the checkpoint kept is an early one."""
    return [(each["train_loss"], each["validation"]) for each in record(folder)["epochs"]]


@pytest.fixture(scope="module")
def finished(sample_repo, tmp_path_factory):
    return train(QUICK, data=sample_repo, out=tmp_path_factory.mktemp("runs") / "finished")


def test_a_run_leaves_a_plain_checkpoint_with_label_names(finished):
    config = json.loads((finished / "config.json").read_text(encoding="utf-8"))
    assert config["id2label"] == {
        "0": "non-contradiction",
        "1": "intra-sentence",
        "2": "role-confusion",
        "3": "history",
    }
    assert config["architectures"] == ["BertForSequenceClassification"]
    assert "auto_map" not in config  # no remote code
    tokenizer = json.loads((finished / "tokenizer_config.json").read_text(encoding="utf-8"))
    assert (tokenizer["truncation_side"], tokenizer["model_max_length"]) == ("left", 256)
    assert not finished.with_name("finished.partial").exists()


def test_the_record_says_what_was_run_on_what_and_what_came_of_it(finished):
    run = record(finished)
    assert run["request"]["recipe"] == QUICK.recorded()
    assert run["request"]["data_name"] == "CDConv sample"
    assert len(run["epochs"]) == 3
    scores = [each["validation"]["macro_f1"] for each in run["epochs"]]
    assert run["best_macro_f1"] == max(scores)
    assert run["best_epoch"] == scores.index(max(scores)) + 1
    assert run["versions"]["torch"].startswith("2.")
    assert run["epochs"][2]["train_loss"] < run["epochs"][0]["train_loss"]


def test_the_checkpoint_kept_is_the_best_one_not_the_last(sample_repo, tmp_path, monkeypatch):
    # The first epoch is declared the best; the run goes on, and the weights kept must still be those of a 1-epoch run
    # under the same schedule.
    scores = iter([0.9, 0.1, 0.2])
    real = training.evaluate_epoch
    kept = []

    def declared(accelerator, model, *rest):
        kept.append({name: tensor.clone() for name, tensor in model.state_dict().items()})
        return {**real(accelerator, model, *rest), "macro_f1": next(scores)}

    monkeypatch.setattr(training, "evaluate_epoch", declared)
    out = train(QUICK, data=sample_repo, out=tmp_path / "run")
    weights = load_file(out / "model.safetensors")
    assert all((weights[name] == kept[0][name].numpy()).all() for name in weights)
    assert any((weights[name] != kept[2][name].numpy()).any() for name in weights)


def test_the_same_seed_gives_the_same_bytes_and_another_does_not(finished, sample_repo, tmp_path):
    again = train(QUICK, data=sample_repo, out=tmp_path / "again")
    assert (again / "model.safetensors").read_bytes() == (finished / "model.safetensors").read_bytes()
    other = train(QUICK.with_changes(seed=42), data=sample_repo, out=tmp_path / "other")
    assert (other / "model.safetensors").read_bytes() != (finished / "model.safetensors").read_bytes()


def test_a_killed_process_resumed_gives_the_bytes_of_an_uninterrupted_run(finished, sample_repo, tmp_path):
    recipe = tmp_path / "quick.toml"
    recipe.write_text(TOML, encoding="utf-8")
    out = tmp_path / "killed"
    state = tmp_path / "killed.partial" / "state"
    command = [sys.executable, "-m", "contradiction.cli", "train", str(recipe), "--data", str(sample_repo)]
    process = subprocess.Popen(
        [*command, "--out", str(out)],
        stderr=subprocess.PIPE,
    )
    try:
        until = time.monotonic() + 60
        while not state.is_dir() and process.poll() is None and time.monotonic() < until:
            time.sleep(0.005)
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    assert state.is_dir(), "the run ended before its first state"
    assert not out.exists(), "a killed run must not look like a finished one"
    with pytest.raises(InputError, match="an unfinished run; --resume"):
        train(Recipe.load(recipe), data=sample_repo, out=out)
    train(Recipe.load(recipe), data=sample_repo, out=out, resume=True)
    assert curve(out) == curve(finished)
    assert (out / "model.safetensors").read_bytes() == (finished / "model.safetensors").read_bytes()
    assert not state.parent.exists()


def test_a_run_that_fails_resumes_to_the_weights_of_its_last_epoch(sample_repo, tmp_path, monkeypatch):
    real = training.evaluate_epoch
    calls = []

    def better_each_time(*arguments):
        # So that the weights kept are those of the last epoch, long after the failure.
        calls.append(1)
        if len(calls) == fails_at:
            raise OSError(28, "No space left on device")
        return {**real(*arguments), "macro_f1": len(calls) / 10}

    monkeypatch.setattr(training, "evaluate_epoch", better_each_time)
    fails_at = 0
    whole = train(QUICK, data=sample_repo, out=tmp_path / "whole")
    assert record(whole)["best_epoch"] == 3
    for fails_at in (2, 3):
        calls.clear()
        out = tmp_path / f"failed-{fails_at}"
        with pytest.raises(OSError, match="No space left"):
            train(QUICK, data=sample_repo, out=out)
        assert not out.exists()
        train(QUICK, data=sample_repo, out=out, resume=True)
        assert len(calls) == 4, "finished epochs must not be run again"
        assert record(out)["best_epoch"] == 3
        assert (out / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()


def test_a_finished_run_is_left_alone_by_resume_and_never_overwritten(finished, sample_repo):
    before = (finished / "model.safetensors").stat().st_mtime_ns
    assert train(QUICK, data=sample_repo, out=finished, resume=True) == finished
    with pytest.raises(InputError, match="exists already"):
        train(QUICK, data=sample_repo, out=finished)
    with pytest.raises(InputError, match="exists already"):
        train(QUICK.with_changes(seed=7), data=sample_repo, out=finished, resume=True)
    assert (finished / "model.safetensors").stat().st_mtime_ns == before


def test_a_loss_that_is_not_finite_stops_with_the_rows(sample_repo, tmp_path):
    wild = QUICK.with_changes(learning_rate=1e30)
    with pytest.raises(InputError, match=r"step \d+ of epoch \d+: the loss is (nan|inf) on the rows \[\d+"):
        train(wild, data=sample_repo, out=tmp_path / "wild")
    assert not (tmp_path / "wild").exists()


def test_a_collapse_onto_one_class_is_recorded(sample_repo, tmp_path):
    still = QUICK.with_changes(learning_rate=1e-12, epochs=1)
    out = train(still, data=sample_repo, out=tmp_path / "still")
    assert record(out)["epochs"][0]["validation"]["collapsed"]


def test_training_does_not_read_the_test_split(sample_repo, tmp_path, monkeypatch):
    asked = []
    real = training.load_split
    monkeypatch.setattr(training, "load_split", lambda *rest: asked.append(rest[2]) or real(*rest))
    train(QUICK.with_changes(epochs=1), data=sample_repo, out=tmp_path / "run")
    assert asked == ["train", "validation"]


@pytest.mark.parametrize("config", ["2-class", "persona", "4-class-grouped"])
def test_every_task_and_split_trains(config, sample_repo, tmp_path):
    recipe = QUICK.with_changes(config=config, view="sentence-pair", epochs=1)
    out = train(recipe, data=sample_repo, out=tmp_path / config)
    assert (out / "model.safetensors").is_file()


def test_a_missing_backbone_is_one_clear_sentence(sample_repo, tmp_path):
    with pytest.raises(InputError, match="backbone '.*nowhere': neither a folder with an encoder"):
        train(
            QUICK.with_changes(backbone=str(tmp_path / "nowhere")),
            data=sample_repo,
            out=tmp_path / "run",
        )


def test_two_processes_learn_what_one_learns(sample_repo, tmp_path):
    # Without dropout, whose masks differ from process to process, the loss curves must agree.
    recipe = tmp_path / "quick.toml"
    recipe.write_text(
        'view = "flatten"\nconfig = "4-class"\nepochs = 2\nlearning_rate = 3e-3\ndropout = 0.0\n'
        "[scratch]\nhidden_size = 32\nlayers = 1\nheads = 2\nvocabulary = 600\n",
        encoding="utf-8",
    )
    one = train(Recipe.load(recipe), data=sample_repo, out=tmp_path / "one")
    launch = [
        sys.executable,
        "-m",
        "accelerate.commands.launch",
        "--cpu",
        "--num_processes",
        "2",
        "--main_process_port",
        "0",
    ]
    command = [
        "-m",
        "contradiction.cli",
        "train",
        str(recipe),
        "--data",
        str(sample_repo),
        "--out",
        str(tmp_path / "two"),
    ]
    done = subprocess.run([*launch, *command], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-2000:]
    single, double = (record(folder)["epochs"] for folder in (one, tmp_path / "two"))
    for alone, together in zip(single, double, strict=True):
        assert together["train_loss"] == pytest.approx(alone["train_loss"], abs=1e-4)
        assert together["validation"]["n"] == alone["validation"]["n"]
        assert together["validation"]["macro_f1"] == pytest.approx(alone["validation"]["macro_f1"], abs=0.02)


def test_a_backbone_is_recorded_by_what_it_is_not_by_where_it_lies(finished, sample_repo, tmp_path):
    recipe = QUICK.with_changes(backbone=str(finished), epochs=1)
    out = train(recipe, data=sample_repo, out=tmp_path / "run")
    recorded = record(out)["request"]["recipe"]["backbone"]
    assert recorded.startswith("finished@")
    assert str(finished.parent) not in (out / "run.json").read_text(encoding="utf-8")
    (tmp_path / "elsewhere").mkdir()
    moved = shutil.copytree(finished, tmp_path / "elsewhere" / "finished")
    again = recipe.with_changes(backbone=str(moved))
    assert train(again, data=sample_repo, out=out, resume=True) == out


def test_ctrl_c_is_said_in_one_line_and_leaves_nothing_half_written(sample_repo, tmp_path):
    recipe = tmp_path / "long.toml"
    recipe.write_text(TOML.replace("epochs = 3", "epochs = 500"), encoding="utf-8")
    command = [sys.executable, "-m", "contradiction.cli", "train", str(recipe), "--data", str(sample_repo)]
    process = subprocess.Popen([*command, "--out", str(tmp_path / "run")], stderr=subprocess.PIPE, text=True)
    try:
        until = time.monotonic() + 60
        while not (tmp_path / "run.partial" / "state").is_dir() and time.monotonic() < until:
            time.sleep(0.01)
    finally:
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert said.rstrip().endswith("cdconv: interrupted")
    assert "Traceback" not in said
    assert not (tmp_path / "run").exists()
