"""Exported weights: half the bytes, the same verdicts."""

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import pipeline

from contradiction.classifiers.export import WEIGHTS, export
from contradiction.detector import ContradictionDetector
from contradiction.errors import InputError


def chats(rows):
    texts = ([row[column] for column in ("u1", "b1", "u2", "b2")] for row in rows[:40])
    return [[{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(each)] for each in texts]


@pytest.fixture(scope="module")
def exported(quick_model, tmp_path_factory):
    return export(quick_model, tmp_path_factory.mktemp("export") / "half")


def test_weights_are_halved_and_the_rest_goes_along(exported, quick_model):
    assert (exported / WEIGHTS).stat().st_size < 0.55 * (quick_model / WEIGHTS).stat().st_size
    assert {each.dtype for each in load_file(exported / WEIGHTS).values()} == {torch.float16}
    assert {each.name for each in exported.iterdir()} == {each.name for each in quick_model.iterdir()}


def test_the_facade_widens_them_and_judges_the_same(exported, quick_model, sample_rows):
    detector = ContradictionDetector.from_pretrained(exported)
    assert {each.dtype for each in detector.classifier.model.parameters()} == {torch.float32}
    before = ContradictionDetector.from_pretrained(quick_model).batch(chats(sample_rows))
    for one, other in zip(before, detector.batch(chats(sample_rows)), strict=True):
        assert one.scores == pytest.approx(other.scores, abs=2e-3)


def test_a_pipeline_loads_them(exported):
    [found] = pipeline("text-classification", model=str(exported))([{"text": "你养猫吗？", "text_pair": "养"}])
    assert found["label"] in ("non-contradiction", "intra-sentence", "role-confusion", "history")


def test_what_cannot_be_exported_is_refused(quick_model, exported, tmp_path):
    with pytest.raises(InputError, match="exists already"):
        export(quick_model, exported)
    with pytest.raises(InputError, match="holds no finished model"):
        export(tmp_path, tmp_path / "out")


def test_a_weight_too_large_for_fp16_is_named_and_nothing_is_left(quick_model, tmp_path):
    import shutil

    model = tmp_path / "model"
    shutil.copytree(quick_model, model)
    weights = load_file(model / WEIGHTS)
    weights["classifier.bias"][0] = 1e6
    save_file(weights, model / WEIGHTS, metadata={"format": "pt"})
    with pytest.raises(InputError, match="classifier.bias does not fit fp16"):
        export(model, tmp_path / "out")
    assert [each.name for each in tmp_path.iterdir()] == ["model"]
