"""Detectors of one checkpoint: how they load, and what is rejected."""

import shutil

import pytest
from helpers.chats import chat

from contradiction.decision import KEY
from contradiction.detector import ContradictionDetector
from contradiction.errors import InputError
from contradiction.inference import torch_backend
from contradiction.inference.torch_backend import TorchBackend
from contradiction.inputs.views import OPENINGS_KEY, VIEW_KEY
from contradiction.io import manifest
from contradiction.io.files import read_json, write_json
from contradiction.methods.checkpoint import CheckpointClassifier

CHAT = ("你养猫吗？", "养了一只橘猫", "它叫什么名字？", "我没养过猫呀")


@pytest.fixture(scope="module", params=["4-class", "2-class"])
def folder(request, random_model):
    return random_model(request.param)


def test_a_model_without_a_view_is_rejected_unless_one_is_named(folder, tmp_path):
    backend = TorchBackend.load(folder)
    backend.config = {key: value for key, value in backend.config.items() if key != VIEW_KEY}
    with pytest.raises(InputError, match=r"names no view.*sentence-pair"):
        CheckpointClassifier(backend)
    with pytest.raises(InputError, match=r"'flat'.*sentence-pair"):
        CheckpointClassifier(backend, view="flat")
    assert CheckpointClassifier(backend, view="sentence-pair").columns == ("b1", "b2")


def test_numbered_labels_are_those_of_the_task_if_a_view_is_named(folder, run, sample_repo, tmp_path):
    named = ContradictionDetector.from_pretrained(folder)
    foreign = shutil.copytree(folder, tmp_path / "foreign")  # a checkpoint of another project
    config = read_json(foreign / "config.json")
    removed = ("label2id", VIEW_KEY, KEY, *(["id2label"] if len(named.labels) == 2 else []))
    numbered = {key: value for key, value in config.items() if key not in removed}
    if "id2label" in numbered:
        numbered["id2label"] = {index: f"LABEL_{index}" for index in range(4)}
    write_json(foreign / "config.json", numbered)
    manifest.write(foreign)
    view = config[VIEW_KEY]
    assert ContradictionDetector.from_pretrained(foreign, view=view)(chat(*CHAT)).scores == pytest.approx(
        ContradictionDetector(CheckpointClassifier(TorchBackend.load(folder)))(chat(*CHAT)).scores
    )
    with pytest.raises(InputError, match="labels.*numbers.*view"):
        ContradictionDetector.from_pretrained(foreign)
    code, _, err = run("calibrate", foreign, "--view", view, "--config", named.task, "--data", sample_repo)
    assert code == 0, err
    assert ContradictionDetector.from_pretrained(foreign).labels == named.labels


def test_labels_are_matched_by_name_not_by_index(folder):
    backend = TorchBackend.load(folder)
    straight = ContradictionDetector(CheckpointClassifier(backend))(chat(*CHAT))
    for parameter in (backend.model.classifier.weight, backend.model.classifier.bias):
        parameter.data = parameter.data.flip(0)
    names = [name for _, name in sorted(backend.config["id2label"].items())]
    backend.config = {**backend.config, "id2label": dict(enumerate(reversed(names)))}
    assert ContradictionDetector(CheckpointClassifier(backend))(chat(*CHAT)).scores == pytest.approx(
        straight.scores, abs=1e-6
    )


def test_a_folder_without_a_model_is_rejected(tmp_path):
    with pytest.raises(InputError, match="holds no model"):
        ContradictionDetector.from_pretrained(tmp_path)
    with pytest.raises(InputError, match="nowhere: no such folder in "):
        ContradictionDetector.from_pretrained(tmp_path / "nowhere")


@pytest.mark.parametrize("device", ["cuda:99", "toaster", "meta"])
def test_an_unavailable_device_is_named_before_the_model_is_loaded(folder, device, monkeypatch):
    monkeypatch.setattr(torch_backend, "load_model", lambda *_, **__: pytest.fail("the model was loaded"))
    with pytest.raises(InputError, match=f"^device '{device}': ") as error:
        ContradictionDetector.from_pretrained(folder, device=device)
    assert "\n" not in str(error.value)


def test_an_opening_reply_is_judged_by_a_model_that_was_trained_on_such_replies(random_model):
    backend = TorchBackend.load(random_model("4-class"))
    opening = chat("你好", "我有一只猫，我没有猫")
    assert ContradictionDetector(CheckpointClassifier(backend, view="sentence-pair"))(opening).label is None
    backend.config = {**backend.config, OPENINGS_KEY: True}
    verdict = ContradictionDetector(CheckpointClassifier(backend, view="sentence-pair"))(opening)
    assert verdict.label in ("non-contradiction", "intra-sentence")
    assert verdict.scores["history"] == verdict.scores["role-confusion"] == 0
