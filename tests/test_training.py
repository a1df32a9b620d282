"""Training: the output of a run, and what a run rejects."""

import shutil
import signal
from types import SimpleNamespace

import pytest
import torch
from datasets import load_dataset
from helpers import processes
from helpers.runs import FAST, TINY, TINY_TOML, scalars, train
from safetensors.numpy import load_file
from transformers import AutoModelForSequenceClassification, BertConfig

from contradiction import runs as train_module
from contradiction.data import splits as data_splits
from contradiction.errors import InputError
from contradiction.io.files import read_json
from contradiction.training import accelerators
from contradiction.training import loop as training
from contradiction.training import run as run_module
from contradiction.training.accelerators import tracking
from contradiction.training.recipe import Recipe
from contradiction.training.record import read as record
from contradiction.training.run import Run, load_splits

QUICK = Recipe.of(name="quick", view="flatten", epochs=3, train_fraction=0.3, **FAST)


@pytest.fixture(scope="module")
def finished(sample_repo, tmp_path_factory):
    return train(QUICK, data=sample_repo, out=tmp_path_factory.mktemp("runs") / "finished")


def test_a_run_saves_a_plain_checkpoint_with_label_names(finished):
    config = read_json(finished / "config.json")
    assert list(config["id2label"].values()) == ["non-contradiction", "intra-sentence", "role-confusion", "history"]
    assert config["architectures"] == ["BertForSequenceClassification"]
    assert "auto_map" not in config  # no remote code
    tokenizer = read_json(finished / "tokenizer_config.json")
    assert (tokenizer["truncation_side"], tokenizer["model_max_length"]) == ("left", 256)
    assert not finished.with_name("finished.partial").exists()
    run = record(finished)
    assert run["request"]["recipe"] == QUICK.recorded()
    assert run["request"]["data_name"] == "CDConv sample"
    assert len(run["epochs"]) == 3
    scores = [epoch["validation"]["macro_f1"] for epoch in run["epochs"]]
    assert run["best_macro_f1"] == max(scores)
    assert run["best_epoch"] == scores.index(max(scores)) + 1
    assert run["versions"]["torch"].startswith("2.")
    assert run["epochs"][2]["train_loss"] < run["epochs"][0]["train_loss"]


def test_the_checkpoint_kept_is_the_best_one_not_the_last(sample_repo, tmp_path, monkeypatch):
    # The first epoch is declared the best. The run goes on, and the saved weights must still be those of a 1-epoch run
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


def test_the_same_seed_gives_the_same_bytes_and_another_seed_does_not(finished, sample_repo, tmp_path):
    again = train(QUICK, data=sample_repo, out=tmp_path / "again")
    assert (again / "model.safetensors").read_bytes() == (finished / "model.safetensors").read_bytes()
    other = train(QUICK.with_changes(seed=42), data=sample_repo, out=tmp_path / "other")
    assert (other / "model.safetensors").read_bytes() != (finished / "model.safetensors").read_bytes()


def test_resume_leaves_a_finished_run_alone_and_nothing_overwrites_it(finished, sample_repo):
    before = (finished / "model.safetensors").stat().st_mtime_ns
    assert train(QUICK, data=sample_repo, out=finished, resume=True) == finished
    with pytest.raises(InputError, match="exists already;"):
        train(QUICK, data=sample_repo, out=finished)
    with pytest.raises(InputError, match="exists already, and is not of this recipe and data;"):
        train(QUICK.with_changes(seed=7), data=sample_repo, out=finished, resume=True)
    assert (finished / "model.safetensors").stat().st_mtime_ns == before


def test_a_non_finite_loss_stops_training_and_names_the_rows(sample_repo, tmp_path):
    wild = QUICK.with_changes(learning_rate=1e30)
    with pytest.raises(InputError, match=r"step \d+ of epoch \d+: .* (nan|inf) .*\[\d+"):
        train(wild, data=sample_repo, out=tmp_path / "wild")
    assert not (tmp_path / "wild").exists()


def test_training_does_not_read_the_test_split(sample_repo, tmp_path, monkeypatch):
    splits = []
    real = data_splits.load_split
    for module in (data_splits, run_module):
        monkeypatch.setattr(module, "load_split", lambda *rest: splits.append(rest[2]) or real(*rest))
    train(QUICK.with_changes(epochs=1), data=sample_repo, out=tmp_path / "run")
    assert splits == ["train", "validation"]


@pytest.mark.parametrize("config", ["2-class", "persona", "4-class-grouped"])
def test_every_task_and_split_trains(config, sample_repo, tmp_path):
    recipe = QUICK.with_changes(config=config, view="sentence-pair", epochs=1)
    out = train(recipe, data=sample_repo, out=tmp_path / config)
    assert (out / "model.safetensors").is_file()


@pytest.mark.parametrize("method", ["checkpoint", "hierarchical"])
def test_a_missing_column_raises_one_clear_error(method, sample_repo):
    rows = {split: load_dataset(str(sample_repo), "4-class", split=split) for split in ("train", "validation")}
    without = {split: part.remove_columns("u1") for split, part in rows.items()}
    with pytest.raises(InputError, match="recipe quick needs the column 'u1', and the train split has only "):
        load_splits(QUICK.with_changes(method=method), without)


def test_a_backbone_is_recorded_by_its_content_not_its_path(finished, sample_repo, tmp_path):
    recipe = QUICK.with_changes(backbone=str(finished), epochs=1)
    out = train(recipe, data=sample_repo, out=tmp_path / "run")
    recorded = record(out)["request"]["recipe"]["model"]["backbone"]
    assert recorded.startswith("finished@")
    assert str(finished.parent) not in (out / "run.json").read_text(encoding="utf-8")
    (tmp_path / "elsewhere").mkdir()
    moved = shutil.copytree(finished, tmp_path / "elsewhere" / "finished")
    again = recipe.with_changes(backbone=str(moved))
    assert train(again, data=sample_repo, out=out, resume=True) == out


def test_ctrl_c_prints_one_line_and_leaves_nothing_half_written(sample_repo, tmp_path):
    recipe = tmp_path / "long.toml"
    recipe.write_text('view = "flatten"\nconfig = "4-class"\nepochs = 500\n' + TINY_TOML, encoding="utf-8")
    process = processes.start_cdconv("train", recipe, "--data", sample_repo, "--out", tmp_path / "run")
    try:
        processes.wait_for(tmp_path / "run.partial" / "state", process)
    finally:
        process.send_signal(signal.SIGINT)
        stderr = process.communicate(timeout=300)[1]
    assert process.returncode == 130
    assert stderr.rstrip().endswith("cdconv: interrupted")
    assert "Traceback" not in stderr
    assert not (tmp_path / "run").exists()


def test_the_deterministic_option_applies_while_training_and_changes_nothing_on_a_cpu(
    finished, sample_repo, tmp_path, monkeypatch
):
    modes, real = [], training.evaluate_epoch
    enabled = torch.are_deterministic_algorithms_enabled
    monkeypatch.setattr(training, "evaluate_epoch", lambda *rest: modes.append(enabled()) or real(*rest))
    out = train(QUICK, data=sample_repo, out=tmp_path / "run", deterministic=True)
    assert modes == [True] * 3
    assert not enabled()
    assert record(out)["deterministic"] is True
    assert record(finished)["deterministic"] is False
    assert (out / "model.safetensors").read_bytes() == (finished / "model.safetensors").read_bytes()


@pytest.mark.parametrize("instructions", [False, True])
def test_a_cpu_without_bf16_instructions_trains_in_fp32(instructions, monkeypatch, tmp_path, caplog):
    trained = []
    monkeypatch.setattr(accelerators, "has_bf16", lambda: instructions)
    monkeypatch.setattr(train_module, "train_run", lambda run: trained.append(run.recipe.precision))
    monkeypatch.setattr(train_module, "write_cards", lambda folder: None)
    options = {"config": "4-class", "view": "flatten", "scratch": TINY}
    train_module.train({"precision": "bf16", **options}, "cdconv", tmp_path / "run")
    assert trained == ["bf16" if instructions else "fp32"]
    assert ("bf16" in caplog.text) is not instructions
    train_module.train(options, "cdconv", tmp_path / "run", precision="bf16")
    assert trained[1:] == ["bf16"]


@pytest.mark.parametrize(
    ("precision", "message"), [("fp16", ".*; on a CPU bf16"), ("bf16", "cannot be used here: .*already")]
)
def test_fp16_on_a_cpu_and_a_second_precision_in_one_process_are_rejected(
    precision, message, finished, sample_repo, tmp_path
):
    with pytest.raises(InputError, match=f"^precision '{precision}' {message}"):
        train(QUICK.with_changes(precision=precision), data=sample_repo, out=tmp_path / "run")
    assert not list(tmp_path.iterdir())


def test_only_matrices_decay_and_the_pooler_and_the_head_can_have_a_higher_learning_rate():
    model = AutoModelForSequenceClassification.from_config(
        BertConfig(vocab_size=50, hidden_size=16, num_attention_heads=2, num_hidden_layers=2, intermediate_size=32)
    )
    model.get_input_embeddings().requires_grad_(False)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    by_name = {
        names[id(parameter)]: (group["lr"], group["weight_decay"])
        for group in training.adamw(model, QUICK.with_changes(learning_rate=1.0, head_learning_rate=5.0)).param_groups
        for parameter in group["params"]
    }
    assert len(by_name) == len(names) - 1, "frozen parameters are in no group"
    assert {rate for rate, _ in by_name.values()} == {1.0, 5.0}
    assert by_name["bert.encoder.layer.0.attention.self.query.weight"][1] == 0.01
    assert by_name["bert.encoder.layer.0.attention.self.query.bias"][1] == 0.0
    assert by_name["bert.embeddings.LayerNorm.weight"][1] == 0.0

    fast = {name for name, (rate, _) in by_name.items() if rate == 5.0}
    assert fast == {"bert.pooler.dense.weight", "bert.pooler.dense.bias", "classifier.weight", "classifier.bias"}


# Trackers: a real event file that is read back, and a clear line if a tracker is missing.


TRACKED = QUICK.with_changes(epochs=2, learning_rate=5e-5, batch_size=16, train_fraction=1 / 3)


def test_the_tracker_file_contains_the_curves_of_a_run(sample_repo, tmp_path):
    out = train(TRACKED, data=sample_repo, out=tmp_path / "run", track="tensorboard")
    curves = scalars(tmp_path / "run.tracking")
    epochs = record(out)["epochs"]
    steps = 6  # per epoch: 96 rows in batches of 16
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
    # The linear schedule: 2 of 12 steps of warm-up, then down to zero.
    expected = [5e-5 * min(step / 2, (12 - step) / 10) for step in range(1, 13)]
    assert [value for _, value in curves["train/learning_rate"]] == pytest.approx(expected, rel=1e-4, abs=1e-12)
    assert not list(out.rglob("events.*")), "the model folder is published unchanged"


def test_a_run_is_named_as_its_folder_and_a_resumed_run_continues_its_curve(tmp_path):
    opened = []
    accelerator = SimpleNamespace(log_with=["trackio"], trackers=[])
    accelerator.init_trackers = lambda *_, init_kwargs, **options: opened.append(init_kwargs["trackio"])
    run = Run(TRACKED, "data", tmp_path / "run.2")
    for _ in range(2):
        with tracking(accelerator, run):
            (run.work / "state").mkdir(parents=True, exist_ok=True)
    assert opened == [{"name": "run.2", "resume": "never"}, {"name": "run.2", "resume": "allow"}]


def test_a_tracker_that_does_not_start_prints_one_clear_line(sample_repo, tmp_path):
    (tmp_path / "run.tracking").write_text("in the way", encoding="utf-8")
    with pytest.raises(InputError, match=r"^--track tensorboard: cannot be started \(.*run\.tracking"):
        train(TRACKED, data=sample_repo, out=tmp_path / "run", track="tensorboard")


def test_an_unknown_tracker_and_a_folder_without_a_name_are_rejected_before_any_work(sample_repo, tmp_path):
    with pytest.raises(InputError, match="--track notebook: no tracker of accelerate that is installed; .*tensorb"):
        train(TRACKED, data=sample_repo, out=tmp_path / "run", track="notebook")
    with pytest.raises(InputError, match="^/: names no new folder; .*inside it"):
        train(TRACKED, data="no-such-data", out="/")
    assert not list(tmp_path.iterdir())
