"""Own labels: a detector is adapted to them if that is better, and training on few of them keeps a sound rule."""

import json
import shutil

import numpy as np
import pytest
from helpers.runs import TINY_RECIPE
from huggingface_hub import ModelCard

from contradiction import train
from contradiction.data import labelled
from contradiction.detector import ContradictionDetector
from contradiction.errors import InputError
from contradiction.methods.loading import load_rule
from contradiction.reports.sources import licence_of
from contradiction.runs import adapt
from contradiction.training import record

NONE, HISTORY = "non-contradiction", "history"


@pytest.fixture
def label(sample_chats, tmp_path):
    """Writes a file of chats; those are contradictions for which a function of the verdicts says so."""

    def write(name, model, decide, count=160):
        chosen = list({json.dumps(messages): messages for messages in sample_chats}.values())[:count]
        truth = decide(ContradictionDetector.from_pretrained(model).batch(chosen))
        lines = [
            json.dumps({"messages": messages, "label": HISTORY if flag else NONE}, ensure_ascii=False)
            for messages, flag in zip(chosen, truth, strict=True)
        ]
        (tmp_path / name).write_text("\n".join(lines), encoding="utf-8")
        return tmp_path / name

    return write


def most_probable(verdicts, share=0.2):
    probabilities = np.array([verdict.probability for verdict in verdicts])
    return probabilities > np.quantile(probabilities, 1 - share)


def test_a_rule_is_kept_only_if_it_is_better_on_chats_held_out(run, label, random_model, tmp_path):
    model, out = random_model("4-class"), tmp_path / "mine"
    labels = label("labels.jsonl", model, most_probable)
    done = adapt(labels, out, model=model)
    low, high = done.after["interval"]["macro_f1"]
    assert low <= done.after["macro_f1"] <= high
    assert done.difference["macro_f1_difference"] > 0.1
    assert (out / "model.safetensors").read_bytes() == (model / "model.safetensors").read_bytes()
    assert load_rule(out) != load_rule(model)
    assert record.read(out)["calibrated_on"] == [labelled.name_of_file(labels)]
    with pytest.raises(InputError, match="decision rule that was fitted to these chats"):
        adapt(labels, tmp_path / "again", model=out)
    own = label("own.jsonl", out, lambda verdicts: [verdict.contradiction for verdict in verdicts])
    code, shown, err = run("adapt", own, "--model", out, "--out", tmp_path / "again")
    assert code == 0, err
    assert f"{out}: stays" in shown and not (tmp_path / "again").exists()


def test_a_model_of_few_labels_keeps_the_rule_and_the_licence_of_its_start(label, quick_model, tmp_path, caplog):
    start = shutil.copytree(quick_model, tmp_path / "start")
    run = (start / "run.json").read_text(encoding="utf-8")
    (start / "run.json").write_text(run.replace('"CDConv sample"', '"CDConv"'), encoding="utf-8")
    labels = label("labels.jsonl", quick_model, lambda verdicts: most_probable(verdicts, 0.4), count=80)
    recipe = {"config": "4-class", "view": "flatten", "epochs": 1, "learning_rate": 1e-5}
    out = train(recipe, labels, tmp_path / "own", backbone=str(start))
    assert load_rule(out) == load_rule(start)
    assert "has the decision rule of start" in caplog.text
    card = ModelCard.load(out / "README.md")
    assert card.data.license == licence_of(record.read(out)) == "cc-by-nc-4.0"
    assert "Not for commercial use" in card.text and "the decision rule of start" in card.text


def test_without_a_start_few_labels_give_no_rule(label, quick_model, tmp_path):
    recipe = tmp_path / "own.toml"
    recipe.write_text(TINY_RECIPE, encoding="utf-8")
    out = train(
        recipe,
        label("labels.jsonl", quick_model, lambda verdicts: most_probable(verdicts, 0.4), count=80),
        tmp_path / "own",
    )
    assert load_rule(out).temperature == 1 and not load_rule(out).calibrates
    assert licence_of(record.read(out)) == "other"
