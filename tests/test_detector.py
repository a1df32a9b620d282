"""The façade loads a model, turns chats into verdicts, reports unread text, and agrees with a plain pipeline."""

import copy
import pickle
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest
from helpers.chats import TEXTS, chat
from transformers import pipeline

from contradiction.decision import KEY
from contradiction.detector import ContradictionDetector
from contradiction.errors import InputError
from contradiction.inference import torch_backend
from contradiction.inference.torch_backend import TorchBackend
from contradiction.inputs.views import OPENINGS_KEY, VIEW_KEY, row_of
from contradiction.io import manifest
from contradiction.io.files import read_json, write_json
from contradiction.methods.checkpoint import CheckpointClassifier


@pytest.fixture(scope="module", params=["4-class", "2-class"])
def folder(request, random_model):
    return random_model(request.param)


@pytest.fixture(scope="module")
def detector(folder):
    return ContradictionDetector.from_pretrained(folder)


@pytest.fixture(scope="module")
def chats(sample_chats):
    return sample_chats[:100]


def test_a_verdict_has_no_truth_value(detector):
    with pytest.raises(TypeError, match=r"\.contradiction"):
        bool(detector(chat(*TEXTS)))


def test_a_detector_can_be_pickled_and_copied(detector):
    judge = detector.with_settings(threshold=0.3)
    expected = judge(chat(*TEXTS))
    for again in (pickle.loads(pickle.dumps(judge)), copy.deepcopy(judge), copy.copy(judge)):
        assert again.settings == judge.settings
        verdict = again(chat(*TEXTS))
        assert verdict.label == expected.label
        assert verdict.scores == pytest.approx(expected.scores, abs=1e-6)


def test_the_pipeline_agrees_with_the_facade(folder, detector, chats):
    classify = pipeline("text-classification", model=str(folder), top_k=None)
    long = chat("很" * 50, "好" * 50, *TEXTS[2:])
    inputs = [
        detector.classifier.model_input(row_of(*(message["content"] for message in messages)))
        for messages in [*chats, long]
    ]
    *answers, last = zip(classify(inputs, truncation=True), detector.batch([*chats, long]), strict=True)
    whole = [(scores, verdict) for scores, verdict in answers if verdict.checked]
    assert len(whole) > len(chats) / 2  # where the history and the question are long, a pipeline reads another part
    for scores, verdict in [*whole, last]:
        assert {score["label"]: score["score"] for score in scores} == pytest.approx(dict(verdict.scores), abs=1e-5)


def test_threads_do_not_truncate_each_others_texts(detector, chats):
    work = [chat("很" * (50 + index), *TEXTS[1:]) if index % 2 else chats[index] for index in range(40)]
    alone = [detector(chat) for chat in work]
    with ThreadPoolExecutor(4) as pool:
        for verdict, expected in zip(pool.map(detector, work * 3), alone * 3, strict=True):
            assert (verdict.checked, verdict.reason) == (expected.checked, expected.reason)
            assert verdict.scores == pytest.approx(expected.scores, abs=1e-6)


def test_a_view_without_the_reply_cannot_judge_chats(folder):
    detector = ContradictionDetector(CheckpointClassifier(TorchBackend.load(folder), "context-only"))
    with pytest.raises(InputError, match="reads .*; .* not judge"):
        detector(chat(*TEXTS))


@pytest.mark.parametrize(
    ("chats", "message"),
    [
        ({"messages": chat(*TEXTS)}, "chats is an object"),
        (chat(*TEXTS), r"chats\[0\]: messages is an object"),
    ],
)
def test_the_error_names_a_value_that_is_not_a_list_of_chats(detector, chats, message):
    assert detector.batch([]) == detector.batch(iter([])) == []
    for ask in (detector.batch, detector.scan_batch):
        with pytest.raises(InputError, match=message):
            ask(chats)


@pytest.mark.parametrize(
    ("messages", "message"),
    [
        ([], "messages is empty"),
        ([{"role": "bot", "content": "你好"}], "messages[0]: role 'bot'; allowed are user, assistant, system"),
        ([{"role": "user", "content": "\ud800"}], "messages[0]: content holds a lone surrogate at character 0"),
        ([{"role": "user", "content": [{"type": "text"}]}], "messages[0]: content[0]: its text is null"),
    ],
)
def test_the_error_for_a_wrong_chat_names_its_place_and_value(detector, messages, message):
    with pytest.raises(InputError) as error:
        detector(messages)
    assert str(error.value).startswith(message)
    with pytest.raises(InputError, match=r"^chats\[1\]: "):
        detector.batch([chat(*TEXTS), messages])


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
    assert ContradictionDetector.from_pretrained(foreign, view=view)(chat(*TEXTS)).scores == pytest.approx(
        ContradictionDetector(CheckpointClassifier(TorchBackend.load(folder)))(chat(*TEXTS)).scores
    )
    with pytest.raises(InputError, match="labels.*numbers.*view"):
        ContradictionDetector.from_pretrained(foreign)
    code, _, err = run("calibrate", foreign, "--view", view, "--config", named.task, "--data", sample_repo)
    assert code == 0, err
    assert ContradictionDetector.from_pretrained(foreign).labels == named.labels


def test_labels_are_matched_by_name_not_by_index(folder):
    backend = TorchBackend.load(folder)
    straight = ContradictionDetector(CheckpointClassifier(backend))(chat(*TEXTS))
    for parameter in (backend.model.classifier.weight, backend.model.classifier.bias):
        parameter.data = parameter.data.flip(0)
    names = [name for _, name in sorted(backend.config["id2label"].items())]
    backend.config = {**backend.config, "id2label": dict(enumerate(reversed(names)))}
    assert ContradictionDetector(CheckpointClassifier(backend))(chat(*TEXTS)).scores == pytest.approx(
        straight.scores, abs=1e-6
    )


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
