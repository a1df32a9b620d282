"""The detectors in models/ load offline, and give the verdicts that were saved; the card of the shipped one is true."""

import filecmp
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.chats import TEXTS, chat
from transformers import pipeline

from contradiction import cdconv
from contradiction.commands.common import SHIPPED
from contradiction.detector import ContradictionDetector
from contradiction.errors import InputError
from contradiction.evaluation import results
from contradiction.inputs.views import row_of
from contradiction.io.files import read_json
from contradiction.labels import LABELS

BALL = ("动作这么溜，你打篮球多少年了？", "十年了，从小学打到大学", "动作这么溜，你玩篮球多少年了？")


@pytest.fixture(scope="module")
def detector():
    return ContradictionDetector.from_pretrained(SHIPPED)


def test_the_shipped_folder_is_small_and_complete():
    files = {path.name: path.stat().st_size for path in Path(SHIPPED).iterdir()}
    assert sum(files.values()) < 60e6
    assert {"config.json", "model.safetensors", "run.json", "tokenizer.json", "README.md"} <= set(files)


def test_the_cascade_consists_of_the_detectors_beside_it():
    cascade = Path(SHIPPED).with_name("cascade")
    for part, name in (("detector", "e5-small-long-replies"), ("judge", "qwen-1.5b")):
        files = {path.name for path in cascade.with_name(name).iterdir()}
        assert files == {path.name for path in (cascade / part).iterdir()}
        same, *_ = filecmp.cmpfiles(cascade / part, cascade.with_name(name), files, shallow=False)
        assert {*same} == files


def test_transformers_4_knows_the_tokenizers():
    files = [*Path(SHIPPED).parent.glob("**/tokenizer_config.json")]
    assert len(files) > 1 and {read_json(file)["tokenizer_class"] for file in files} == {"PreTrainedTokenizerFast"}


def test_the_pipeline_gives_the_calibrated_probabilities_of_the_facade(detector):
    classify = pipeline("text-classification", model=SHIPPED, top_k=None)
    assert classify.model.dtype == torch.float32, "without being told"
    texts = row_of(*TEXTS)
    probabilities = {
        classification["label"]: classification["score"]
        for classification in classify([detector.classifier.model_input(texts)])[0]
    }
    assert not detector.classifier.rule.calibrates
    assert detector(chat(*TEXTS)).scores == pytest.approx(probabilities, abs=1e-4)


def test_a_detector_of_the_repository_has_its_name_in_every_folder(detector, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for names in ((), ("e5-small-long-replies",), ("models/e5-small-long-replies",)):
        assert ContradictionDetector.from_pretrained(*names).name == detector.name
    here = "models/ holds cascade, e5-small-long-replies, e5-small-nli-3-epochs, qwen-1.5b"
    with pytest.raises(InputError, match=f"^models/e5-small: no such folder in {tmp_path}.*; {here}$"):
        ContradictionDetector.from_pretrained("models/e5-small")
    with pytest.raises(
        InputError, match=rf"^e5-long-replies: neither .*; {here}; did you mean e5-small-long-replies\?"
    ):
        ContradictionDetector.from_pretrained("e5-long-replies")


@pytest.mark.parametrize(
    ("texts", "label", "score"),
    [
        (("你会开车吗？", "我会开车，开了十年", "带我去兜风吧", "我不会开车"), "history", 0.9999),
        # Contradictions of the wrong kind: the first two are of the history, the third reply contradicts itself.
        (TEXTS, "intra-sentence", 0.3131),
        (("你好", "我是北京人", "北京好玩吗？", "我是上海人，没去过北京"), "intra-sentence", 0.7182),
        ((*BALL, "打了十年，上个月才第一次摸篮球"), "history", 0.3358),
        ((*BALL, "你从小学打到大学，这还用问我呀"), "role-confusion", 0.4515),
        (("你养猫吗？", "养了一只橘猫", "它叫什么名字？", "它叫橘子"), "non-contradiction", 0.9818),
        # Known errors. A better detector is noticed here. The first reply is below the threshold of openings.
        (("你好", "我没养过猫，我养了一只猫"), "non-contradiction", 0.0861),
        (("你喜欢吃辣吗？", "喜欢，我是四川人", "我也喜欢吃辣", "我不吃辣"), "non-contradiction", 0.6322),
        (("你有对象吗？", "我单身很多年了", "周末干嘛？", "周末陪我老公逛街"), "non-contradiction", 0.9979),
    ],
)
def test_verdicts_on_a_few_chats_have_not_changed(detector, texts, label, score):
    verdict = detector(chat(*texts))
    assert (verdict.label, verdict.score) == (label, pytest.approx(score, abs=2e-3))


def test_every_fortieth_test_row_is_classified_as_the_saved_result_says(release):
    detector = ContradictionDetector.from_pretrained(SHIPPED)
    [saved] = results.load(config="4-class", split="test", names=[Path(SHIPPED).name])
    rows = cdconv.official_split(cdconv.read_rows(release))["test"]
    assert [row["id"] for row in rows] == list(saved["ids"])
    some = range(0, len(rows), 40)
    classifications = detector.classify([rows[index] for index in some])
    labels = [LABELS["4-class"][saved["predictions"][index]] for index in some]
    agree = sum(one.label == label for one, label in zip(classifications, labels, strict=True))
    assert agree >= 0.98 * len(labels)
    probabilities = [list(one.scores.values()) for one in classifications]
    np.testing.assert_allclose(probabilities, [saved["probabilities"][index] for index in some], atol=2e-3)
