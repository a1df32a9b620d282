"""Trackers: a real event file that is read back, and a clear line if a tracker is missing."""

import pytest
from accelerate import Accelerator
from helpers.runs import TINY, scalars, train

from contradiction.errors import InputError
from contradiction.training import loop
from contradiction.training.accelerators import check_tracker
from contradiction.training.recipe import Recipe

QUICK = Recipe.of(
    name="quick",
    view="flatten",
    config="4-class",
    scratch=TINY,
    epochs=2,
    batch_size=16,
)


def test_the_tracker_file_contains_the_curves_of_a_run(sample_repo, tmp_path):
    from contradiction.training import record

    out = train(QUICK, data=sample_repo, out=tmp_path / "run", track="tensorboard")
    curves = scalars(tmp_path / "run.tracking")
    epochs = record.read(out)["epochs"]
    steps = 18  # per epoch: 288 rows in batches of 16
    for tag, values in (
        ("train/epoch_loss", [epoch["train_loss"] for epoch in epochs]),
        ("validation/macro_f1", [epoch["validation"]["macro_f1"] for epoch in epochs]),
        ("validation/accuracy", [epoch["validation"]["accuracy"] for epoch in epochs]),
    ):
        assert [step for step, _ in curves[tag]] == [steps, 2 * steps]
        assert [value for _, value in curves[tag]] == pytest.approx(values, rel=1e-5)
    assert [step for step, _ in curves["train/loss"]] == list(range(1, 2 * steps + 1))
    means = [sum(value for _, value in curves["train/loss"][start : start + steps]) / steps for start in (0, steps)]
    assert means == pytest.approx([epoch["train_loss"] for epoch in epochs], rel=1e-5)
    # The linear schedule: 4 of 36 steps of warm-up, then down to zero.
    expected = [5e-5 * min(step / 4, (36 - step) / 32) for step in range(1, 37)]
    assert [value for _, value in curves["train/learning_rate"]] == pytest.approx(expected, rel=1e-4, abs=1e-12)
    assert not list(out.rglob("events.*")), "the model folder is published unchanged"


def test_a_run_has_a_name_and_a_resumed_run_keeps_it(sample_repo, tmp_path, monkeypatch):
    opened = []
    real = Accelerator.init_trackers

    def opening(self, project, config, init_kwargs):
        opened.append((init_kwargs["trackio"], init_kwargs["wandb"]["name"]))
        real(self, project, config, init_kwargs)

    def stopping(_, number, *rest):
        if number > 12:
            raise KeyboardInterrupt

    monkeypatch.setattr(Accelerator, "init_trackers", opening)
    options = {"data": sample_repo, "out": tmp_path / "run", "track": "tensorboard"}
    recipe = QUICK.with_changes(method="hierarchical", epochs=1)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(loop, "log_step", stopping)
        train(recipe, **options, save_steps=5)
    train(recipe, **options, resume=True)
    names = ["run-intra-sentence", "run-intra-sentence", "run-role-confusion", "run-history"]
    assert [name for _, name in opened] == [trackio["name"] for trackio, _ in opened] == names
    assert [trackio["resume"] for trackio, _ in opened] == ["never", "allow", "never", "never"]


def test_a_tracker_that_does_not_start_prints_one_clear_line(sample_repo, tmp_path):
    (tmp_path / "run.tracking").write_text("in the way", encoding="utf-8")
    with pytest.raises(InputError, match=r"^--track tensorboard: cannot be started \(.*run\.tracking"):
        train(QUICK, data=sample_repo, out=tmp_path / "run", track="tensorboard")


def test_an_unknown_tracker_is_rejected_before_any_work(sample_repo, tmp_path):
    with pytest.raises(InputError, match="--track notebook: no such tracker; .*tensorboard.*wandb"):
        train(QUICK, data=sample_repo, out=tmp_path / "run", track="notebook")
    assert not list(tmp_path.iterdir())


def test_the_error_for_a_missing_tracker_names_its_package():
    from accelerate.tracking import get_available_trackers

    missing = [name for name in ("comet_ml", "clearml", "swanlab") if name not in map(str, get_available_trackers())]
    assert missing
    for name in missing:
        package = name.replace("_", "-")
        with pytest.raises(InputError, match=f"--track {name}: .*; pip install {package}$"):
            check_tracker(name)
