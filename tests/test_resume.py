"""A run stopped at any step, for any reason, resumes to the bytes of an uninterrupted one."""

import contextlib
import shutil

import numpy as np
import pytest
import torch
from helpers.runs import TINY_TOML, full_disk, train
from safetensors.numpy import save_file

from contradiction.data.splits import load_split
from contradiction.errors import InputError
from contradiction.io.files import read_json, write_json
from contradiction.methods.loading import load_classifier
from contradiction.training import loop as training
from contradiction.training.recipe import load_recipe
from contradiction.training.run import explain_write_errors

# Everything that has its own state or draws random numbers, all at once.
TOML = (
    'view = "flatten"\nconfig = "4-class"\n'
    "epochs = 2\nbatch_size = 16\nlearning_rate = 3e-3\ntrain_fraction = 0.33\n"
    'class_weights = "balanced"\n' + TINY_TOML
)
STEPS = 6  # per epoch of 95 rows


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    path = tmp_path_factory.mktemp("recipes") / "all.toml"
    path.write_text(TOML, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def whole(recipe, sample_repo, tmp_path_factory):
    return train(load_recipe(recipe), data=sample_repo, out=tmp_path_factory.mktemp("runs") / "whole")


def curve(folder):
    """The training curve of a run. It must agree to the last bit, even if an early checkpoint is kept."""
    epochs = read_json(folder / "run.json")["epochs"]
    return [(epoch["train_loss"], epoch["validation"]) for epoch in epochs]


def assert_same(folder, whole):
    assert curve(folder) == curve(whole)
    assert (folder / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()


@pytest.mark.parametrize("stops", [(1,), (3, STEPS - 1), (STEPS, STEPS + 1, 2 * STEPS)])
def test_a_run_stopped_after_any_step_resumes_to_the_same_bytes(
    recipe, whole, sample_repo, tmp_path, monkeypatch, stops
):
    reached = []

    def stopping(_, values, step):
        if "train/loss" in values:
            reached.append(step)
            if step in stops and reached.count(step) == 1:
                raise KeyboardInterrupt

    monkeypatch.setattr(training.Accelerator, "log", stopping)
    out = tmp_path / "run"
    for number in range(len(stops)):
        with pytest.raises(KeyboardInterrupt):
            train(load_recipe(recipe), data=sample_repo, out=out, resume=number > 0, save_steps=2)
    train(load_recipe(recipe), data=sample_repo, out=out, resume=True, save_steps=3)
    assert_same(out, whole)
    lost = len(reached) - 2 * STEPS
    assert lost <= 2 * len(stops), "more was run again than the steps since the last state"


def test_the_last_weights_are_kept_also_after_a_resume(recipe, whole, sample_repo, tmp_path, monkeypatch):
    last = load_recipe(recipe).with_changes(checkpoint="last")

    def stopping(_, values, step):
        if step == STEPS + 3:
            raise KeyboardInterrupt

    out = tmp_path / "run"
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(training.Accelerator, "log", stopping)
        train(last, data=sample_repo, out=out, save_steps=2)
    train(last, data=sample_repo, out=out, resume=True)
    assert curve(out) == curve(whole)
    run = read_json(out / "run.json")
    assert run["best_epoch"] == 2
    # The record has the scores of the weights in the folder.
    rows = load_split(sample_repo, "4-class", "validation")
    predictions = load_classifier(out).score(list(rows)).logits.argmax(axis=1)
    assert run["epochs"][-1]["validation"]["accuracy"] == pytest.approx(np.mean(predictions == np.array(rows["label"])))


def test_files_left_by_a_kill_at_the_very_end_are_removed(recipe, whole, sample_repo, tmp_path):
    done, left = (shutil.copytree(whole, tmp_path / name) for name in ("run", "run.partial"))
    (left / "state").mkdir()
    before = (done / "model.safetensors").stat().st_mtime_ns
    assert train(load_recipe(recipe), data=sample_repo, out=done, resume=True) == done
    assert (done / "model.safetensors").stat().st_mtime_ns == before
    assert not left.exists()


def test_a_state_of_another_number_of_processes_cannot_be_resumed(recipe, sample_repo, tmp_path, monkeypatch):
    monkeypatch.setattr(training, "evaluate_epoch", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        train(load_recipe(recipe), data=sample_repo, out=tmp_path / "run", save_steps=5)
    progress = tmp_path / "run.partial" / "state" / "progress.json"
    values = read_json(progress)
    assert values["processes"] == 1
    write_json(progress, {**values, "processes": 2})
    with pytest.raises(InputError, match="saved by 2 processes, .*1 "):
        train(load_recipe(recipe), data=sample_repo, out=tmp_path / "run", resume=True)


@pytest.mark.parametrize(
    "write",
    [
        lambda path: save_file({"weights": np.zeros(10_000)}, path),
        lambda path: torch.save({"weights": torch.zeros(100)}, path),
        lambda path: torch.save({"weights": torch.zeros(1_000_000)}, path),
        lambda path: write_json(path, {"text": "0" * 10_000}),
    ],
    ids=["safetensors", "torch, small", "torch, large", "text"],
)
def test_every_writer_reports_a_full_disk_the_same_way(tmp_path, write):
    message = r"cannot be written, .* MB are free \(.+\); .*make room"
    with pytest.raises(InputError, match=message), explain_write_errors(tmp_path), full_disk(200):
        write(tmp_path / "file")
    with pytest.raises(RuntimeError, match="out of memory"), explain_write_errors(tmp_path):
        raise RuntimeError("out of memory")


def test_a_full_disk_prints_one_line_and_loses_no_finished_epoch(
    recipe, whole, sample_repo, tmp_path, monkeypatch, capsys
):
    out, work, real = tmp_path / "run", tmp_path / "run.partial", training.save_state
    with contextlib.ExitStack() as disk:

        def then_the_disk_fills_up(*arguments):
            real(*arguments)
            disk.enter_context(full_disk(10_000))

        monkeypatch.setattr(training, "save_state", then_the_disk_fills_up)
        with pytest.raises(InputError, match=r"run\.partial: cannot be written, .* make room, then --resume") as error:
            train(load_recipe(recipe), data=sample_repo, out=out)
        assert "\n" not in str(error.value)
        assert not list(work.rglob("*.partial")), "what was half written takes room"
        assert len(read_json(work / "state" / "progress.json")["epochs"]) == 1
        monkeypatch.setattr(training, "save_state", real)
        with pytest.raises(InputError, match="cannot be written"):  # the disk is still full, and nothing is lost
            train(load_recipe(recipe), data=sample_repo, out=out, resume=True)
    train(load_recipe(recipe), data=sample_repo, out=out, resume=True)
    assert_same(out, whole)
