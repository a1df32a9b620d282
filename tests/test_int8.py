"""A causal detector computes in 8 bits on a CPU, and gives nearly the same probabilities."""

import shutil

import numpy as np
import pytest
import torch
from helpers.chats import chat
from helpers.decoders import base_model, detector_folder
from torch import nn

from contradiction.detector import ContradictionDetector
from contradiction.errors import InputError
from contradiction.inference.int8 import BLOCK, Int8Linear, multiply
from contradiction.inference.torch_backend import check_fast_enough
from contradiction.inputs.views import row_of
from contradiction.io.files import write_json
from contradiction.methods.composite import CascadeClassifier
from contradiction.methods.loading import load_classifier

TEXTS = ("养猫吗", "养了一只", "周末呢", "给猫洗澡", "家里没有动物", "我从来没养过猫", "你呢")
ROWS = [row_of(*TEXTS[:3], reply) for reply in TEXTS[3:]]
CHAT = chat(*TEXTS[:4])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    base = base_model(tmp_path_factory.mktemp("base"), size=64)
    detector_folder(folder := tmp_path_factory.mktemp("int8") / "causal", base)
    return folder


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("number_format", [torch.float32, torch.bfloat16])
def test_a_layer_of_8_bits_is_near_the_original_for_each_token_and_output(bias, number_format):
    generator = torch.Generator().manual_seed(0)
    layer = nn.Linear(96, 40, bias=bias)
    # Outputs and tokens of very different size, each of which keeps its own precision.
    layer.weight.data = torch.randn(40, 96, generator=generator) * torch.logspace(-3, 2, 40)[:, None]
    states = (torch.randn(2, 3, 96, generator=generator) * torch.logspace(-2, 2, 6).view(2, 3, 1)).to(number_format)
    with torch.no_grad():
        found, exact = Int8Linear(layer.weight, layer.bias)(states), layer(states.float())
    assert found.dtype == number_format and found.shape == exact.shape
    error = (found.float() - exact).abs().flatten(0, 1) - 2**-8 * exact.abs().flatten(0, 1)  # rounded to bf16
    # Relative to the norms of a token and of the weights of an output, on which the rounding depends.
    size = states.float().flatten(0, 1).norm(dim=1)[:, None] * layer.weight.norm(dim=1)[None]
    assert (error / size).max() < 0.01
    zeros = Int8Linear(torch.ones(8, 8))(torch.zeros(1, 8))
    assert torch.equal(zeros, torch.zeros(1, 8)), "a row of zeros has no largest number"


@pytest.mark.parametrize("outputs", [1, BLOCK, 2 * BLOCK + 3])
def test_a_cpu_without_instructions_for_integers_gives_the_same_products(outputs, monkeypatch):
    generator = torch.Generator().manual_seed(0)
    tokens, weight = (torch.randint(-127, 128, (rows, 96), generator=generator) for rows in (5, outputs))
    found = []
    for has_int8 in (True, False):
        monkeypatch.setattr("contradiction.inference.int8.has_int8", lambda answer=has_int8: answer)
        found.append(multiply(tokens.float(), weight.to(torch.int8)))
    assert torch.equal(found[0], (tokens @ weight.t()).float()) and torch.equal(found[1], found[0])


@pytest.mark.parametrize("has_bf16", [True, False])
def test_a_causal_detector_in_int8_gives_nearly_the_same_probabilities(folder, has_bf16, monkeypatch):
    monkeypatch.setattr("contradiction.inference.torch_backend.has_bf16", lambda: has_bf16)
    exact = ContradictionDetector.from_pretrained(folder, precision="fp32")
    rounded = ContradictionDetector.from_pretrained(folder, precision="int8")
    expected = torch.bfloat16 if has_bf16 else torch.float32
    assert rounded.classifier.network.body.norm.weight.dtype == expected
    layers = [*rounded.classifier.network.body.layers.modules()]
    assert sum(isinstance(layer, Int8Linear) for layer in layers) == 14 and not any(
        isinstance(layer, nn.Linear) for layer in layers
    )
    first, second = (detector.classifier.score(ROWS).logits for detector in (exact, rounded))
    assert 0 < np.abs(first - second).max() < 0.2 * (first.max(axis=0) - first.min(axis=0)).min()
    probability = rounded(CHAT).probability
    monitor, last = rounded.monitor(), None
    for message in CHAT:
        last = monitor.add(message)
    assert last.probability == pytest.approx(probability, abs=1e-3)


def test_int8_is_for_causal_detectors_on_a_cpu_and_for_such_parts(folder, calibrated, tmp_path, monkeypatch):
    encoder, _ = calibrated
    with pytest.raises(InputError, match="int8 is for causal detectors"):
        ContradictionDetector.from_pretrained(encoder, precision="int8")
    for part in ("detector", "judge"):
        shutil.copytree(encoder, tmp_path / "encoders" / part)
    write_json(tmp_path / "encoders" / "cascade.json", {"parts": ["detector", "judge"], "low": 0.0, "high": 1.0})
    with pytest.raises(InputError, match="int8 is for causal detectors"):
        load_classifier(tmp_path / "encoders", precision="int8")
    with pytest.raises(InputError, match="int8 is for a CPU"):
        check_fast_enough("int8", "cuda", "m")
    shutil.copytree(encoder, tmp_path / "both" / "detector")
    shutil.copytree(folder, tmp_path / "both" / "judge")
    write_json(tmp_path / "both" / "cascade.json", {"parts": ["detector", "judge"], "low": 0.0, "high": 1.0})
    monkeypatch.setattr("contradiction.methods.loading.has_bf16", lambda: False)
    cascade = CascadeClassifier.load(tmp_path / "both", precision="int8")
    assert cascade.detector.backend.precision == "fp32"
    assert isinstance(cascade.judge.network.body.layers[0].self_attn.q_proj, Int8Linear)
