"""Exported weights: half the bytes, the same verdicts."""

import shutil
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import pipeline

from contradiction.decision import Rule
from contradiction.detector import ContradictionDetector
from contradiction.errors import InputError
from contradiction.export import export
from contradiction.io import manifest
from contradiction.io.files import read_json, write_json
from contradiction.io.pretrained import WEIGHTS
from contradiction.labels import HISTORY, INTRA, ROLE
from contradiction.methods.checkpoint import CheckpointClassifier
from contradiction.methods.loading import save_rule


@pytest.fixture(scope="module")
def exported(quick_model, tmp_path_factory):
    return export(quick_model, tmp_path_factory.mktemp("export") / "half")


def test_weights_are_halved_and_the_facade_judges_the_same(exported, quick_model, sample_chats):
    assert (exported / WEIGHTS).stat().st_size < 0.55 * (quick_model / WEIGHTS).stat().st_size
    assert {path.name for path in exported.iterdir()} == {path.name for path in quick_model.iterdir()}
    detector = ContradictionDetector.from_pretrained(exported)
    assert {parameter.dtype for parameter in detector.classifier.backend.model.parameters()} == {torch.float32}
    before = ContradictionDetector.from_pretrained(quick_model).batch(sample_chats[:40])
    for one, other in zip(before, detector.batch(sample_chats[:40]), strict=True):
        assert one.scores == pytest.approx(other.scores, abs=2e-3)


def test_with_a_calibrated_head_transformers_gives_the_calibrated_probabilities(quick_model, sample_rows, tmp_path):
    model = shutil.copytree(quick_model, tmp_path / "model")
    rule = Rule(0.8, {INTRA: 0.5, ROLE: -0.4, HISTORY: -0.6}, threshold=0.4)
    config = read_json(model / "config.json")
    id2label = dict(reversed(config["id2label"].items()))  # the ids count, not the order of the file
    write_json(model / "config.json", config | {"id2label": id2label})
    save_rule(model, rule)
    before = [prediction.scores for prediction in CheckpointClassifier.load(model).predict(sample_rows)]
    out = export(model, tmp_path / "out", calibrate_head=True)
    classifier = CheckpointClassifier.load(out)
    assert classifier.rule == replace(rule, temperature=1.0, biases={})
    assert [prediction.scores for prediction in classifier.predict(sample_rows)] == [
        pytest.approx(probabilities, abs=2e-3) for probabilities in before
    ]
    classify = pipeline("text-classification", model=str(out), top_k=None, dtype=torch.float32)
    answers = classify([classifier.model_input(row) for row in sample_rows])
    assert [{score["label"]: score["score"] for score in scores} for scores in answers] == [
        pytest.approx(probabilities, abs=2e-3) for probabilities in before
    ]
    uncalibrated = pipeline("text-classification", model=str(model), top_k=None)(classifier.model_input(sample_rows[0]))
    assert {score["label"]: score["score"] for score in uncalibrated} != pytest.approx(before[0], abs=0.05)


def test_a_model_that_cannot_be_exported_is_rejected(quick_model, exported, tmp_path):
    with pytest.raises(InputError, match="exists already"):
        export(quick_model, exported)
    with pytest.raises(InputError, match="name a folder outside"):
        export(exported, exported / "half")
    assert not (exported / "half").exists()
    with pytest.raises(InputError, match="holds no finished model"):
        export(tmp_path, tmp_path / "out")
    model = shutil.copytree(quick_model, tmp_path / "model")
    save_rule(model, Rule(1.0, {INTRA: 0.0}))
    with pytest.raises(InputError, match=f"{model}: its decision rule has no calibration"):
        export(model, tmp_path / "out", calibrate_head=True)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_weight_too_large_for_fp16_is_named_and_nothing_is_left(quick_model, tmp_path):
    model = tmp_path / "model"
    shutil.copytree(quick_model, model)
    weights = load_file(model / WEIGHTS)
    weights["classifier.bias"][0] = 1e6
    save_file(weights, model / WEIGHTS, metadata={"format": "pt"})
    (model / manifest.NAME).unlink()
    with pytest.raises(InputError, match="classifier.bias does not fit fp16"):
        export(model, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
