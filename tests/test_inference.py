"""Backends: a new one is one class, and lower precision gives nearly the same results."""

import json

import numpy as np
import pytest
import torch
from helpers.chats import chat
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from contradiction.commands.common import SHIPPED
from contradiction.detector import ContradictionDetector
from contradiction.errors import InputError
from contradiction.inference import torch_backend
from contradiction.inference.base import BACKENDS, Backend, register
from contradiction.inference.choice import chosen_precision
from contradiction.io.files import read_json

CHAT = chat("你养猫吗？", "养了一只橘猫", "它叫什么名字？", "我没养过猫呀")


@pytest.fixture(scope="module")
def double():
    """A toy backend that computes in float64."""

    @register
    class DoubleBackend(Backend):
        NAME = "double"

        @classmethod
        def load(cls, name, *, device=None, precision="fp32"):
            backend = cls()
            backend.config = read_json(f"{name}/config.json")
            backend.tokenizer = AutoTokenizer.from_pretrained(name)
            backend.max_length = backend.tokenizer.model_max_length
            backend.model = AutoModelForSequenceClassification.from_pretrained(name, dtype=torch.float64).eval()
            backend.batches = []
            return backend

        def forward(self, batch):
            self.batches.append(len(batch))
            with torch.inference_mode():
                return self.model(**self.tokenizer.pad(list(batch), return_tensors="pt")).logits.numpy()

    yield DoubleBackend
    del BACKENDS["double"]


def test_a_new_backend_can_run_a_detector(double, random_model, detector):
    other = ContradictionDetector.from_pretrained(random_model("4-class"), backend="double")
    assert isinstance(other.classifier.backend, double)
    one, two = detector.scan(CHAT), other.scan(CHAT)
    assert [verdict.label for verdict in one] == [verdict.label for verdict in two]
    for verdict, again in zip(one, two, strict=True):
        assert again.scores == pytest.approx(verdict.scores, abs=1e-5)


def test_equal_inputs_run_once_and_are_each_counted(double, random_model):
    backend = double.load(random_model("4-class"))
    inputs = [{"text": "甲", "text_pair": "乙"}, {"text": "甲乙丙丁", "text_pair": "丙"}] * 3
    done = []
    scores = backend.score(inputs, batch_size=2, on_batch=done.append)
    assert (backend.batches, done) == ([2], [6])
    np.testing.assert_array_equal(scores.logits[0], scores.logits[2])
    assert scores.truncations == [None] * 6


def test_an_unknown_backend_or_precision_is_rejected_before_anything_is_loaded(tmp_path):
    for options, message in (({"backend": "abacus"}, "'abacus'.*torch.*auto"), ({"precision": "int4"}, "'int4'.*fp32")):
        with pytest.raises(InputError, match=message):
            ContradictionDetector.from_pretrained(tmp_path / "not-there", **options)


def test_bf16_changes_probabilities_slightly_and_labels_rarely(sample_chats, monkeypatch):
    monkeypatch.setattr(torch_backend, "has_bf16", lambda: True)  # a CPU without it computes bf16 slowly
    exact, fast = (
        ContradictionDetector.from_pretrained(SHIPPED, precision=precision).batch(sample_chats[:60])
        for precision in ("fp32", "bf16")
    )
    both = list(zip(exact, fast, strict=True))
    moved = [max(abs(one.scores[name] - other.scores[name]) for name in one.scores) for one, other in both]
    assert 0 < max(moved) < 0.1
    assert sum(one.label == other.label for one, other in both) >= 0.95 * len(both)


@pytest.mark.parametrize(("precision", "message"), [("fp16", "fp16 .*CPU; bf16"), ("bf16", "no instructions for bf16")])
def test_a_precision_that_makes_a_cpu_slower_is_rejected(quick_model, monkeypatch, precision, message):
    monkeypatch.setattr("torch.cpu.get_capabilities", lambda: {"architecture": "x86_64", "avx512_bf16": False})
    with pytest.raises(InputError, match=message):
        ContradictionDetector.from_pretrained(quick_model, device="cpu", precision=precision)


@pytest.mark.parametrize(
    ("cpu", "backend", "given", "chosen"),
    [
        ({"architecture": "x86_64", "avx512_bf16": True}, "torch", "auto", "bf16"),
        ({"architecture": "x86_64", "amx_bf16": True}, "openvino", "auto", "bf16"),
        ({"architecture": "x86_64", "avx512_bf16": True}, "onnx", "auto", "fp32"),
        ({"architecture": "x86_64"}, "torch", "auto", "fp32"),
        ({"architecture": "aarch64"}, "torch", "auto", "fp32"),
        ({"architecture": "x86_64", "avx512_bf16": True}, "torch", "fp32", "fp32"),
    ],
)
def test_the_default_precision_is_the_fastest_of_the_cpu(monkeypatch, cpu, backend, given, chosen):
    monkeypatch.setattr("torch.cpu.get_capabilities", lambda: cpu)
    monkeypatch.delenv("CDCONV_PRECISION")
    assert chosen_precision(given, backend, "cpu") == chosen
    monkeypatch.setenv("CDCONV_PRECISION", "fp32")
    assert chosen_precision(given, backend, "cpu") == "fp32"
    monkeypatch.setenv("CDCONV_PRECISION", "int3")
    with pytest.raises(InputError, match="'int3'"):
        chosen_precision("auto", backend, "cpu")


def test_the_commands_say_once_that_they_compute_in_bf16(run, quick_model, monkeypatch):
    monkeypatch.setattr("torch.cpu.get_capabilities", lambda: {"architecture": "x86_64", "avx512_bf16": True})
    monkeypatch.delenv("CDCONV_PRECISION")
    asked = ["detect", "--model", quick_model, "--text", json.dumps(CHAT)]
    assert run(*asked)[2].count("computes in bf16") == 1
    for options in (["--precision", "bf16"], ["--precision", "fp32"], ["--quiet"]):
        assert "computes in" not in run(*asked, *options)[2]
