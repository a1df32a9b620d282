"""Embeddings of texts by an encoder that is not fine-tuned."""

import shutil
import threading

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from safetensors.torch import load_file, save_file
from transformers import AutoModel, AutoTokenizer, T5Config, T5Model

from contradiction.errors import InputError
from contradiction.inference import embedding
from contradiction.inference.embedding import Embedder


@pytest.fixture(scope="module")
def embed(encoder):
    return Embedder(encoder)


def test_an_embedding_is_the_mean_of_the_last_hidden_states(encoder, embed):
    model, tokenizer = AutoModel.from_pretrained(encoder).eval(), AutoTokenizer.from_pretrained(encoder)
    texts = ["你养猫吗？", "养了一只橘猫，它很喜欢睡觉", "你养猫吗？"]
    vectors = embed(texts)
    assert vectors.dtype == np.float32
    for text, vector in zip(texts, vectors, strict=True):
        with torch.inference_mode():
            states = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0]
        assert_allclose(vector, states.mean(0).numpy(), atol=1e-5)


def test_a_text_is_embedded_once_and_in_simplified_characters(encoder, monkeypatch):
    embed = Embedder(encoder)
    embedded = []
    once = embed._embed
    monkeypatch.setattr(embed, "_embed", lambda texts: embedded.extend(texts) or once(texts))
    first = embed(["早上好", "再见", "早上好"])
    assert_allclose(embed(["再见", "早上好"]), first[[1, 0]])
    assert sorted(embedded) == sorted(["早上好", "再见"])
    assert_allclose(*embed(["体", "體"]))


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ("absent", "neither a folder with an encoder nor one on the Hub"),
        ("empty", "neither a folder with an encoder nor one on the Hub"),
        ("damaged", "damaged"),
        ("renamed", "its checkpoint lacks 21 weights, "),
        ("infinite", "numbers that are not finite; its weights are damaged"),
        ("decoder", "cannot embed a text"),
    ],
)
def test_a_folder_without_an_encoder_raises_one_line(encoder, tmp_path, broken, message):
    folder = tmp_path / "it"
    if broken == "empty":
        folder.mkdir()
    elif broken != "absent":
        shutil.copytree(encoder, folder)
    weights = folder / "model.safetensors"
    if broken == "damaged":
        weights.write_bytes(b"no weights")
    elif broken == "renamed":
        save_file({f"other.{name}": tensor for name, tensor in load_file(weights).items()}, weights, {"format": "pt"})
    elif broken == "infinite":
        save_file({name: tensor * torch.inf for name, tensor in load_file(weights).items()}, weights, {"format": "pt"})
    elif broken == "decoder":
        size = {"d_model": 8, "d_kv": 4, "d_ff": 8, "num_layers": 1, "num_heads": 2, "vocab_size": 700}
        T5Model(T5Config(**size, decoder_start_token_id=0)).save_pretrained(folder)
    with pytest.raises(InputError, match=message) as error:
        Embedder(folder)
    assert "\n" not in str(error.value)


def test_loading_an_encoder_does_not_change_the_random_state_of_training(encoder):
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    Embedder(encoder)
    assert torch.equal(torch.rand(3), expected)


def test_the_vector_cache_is_bounded_also_with_threads(encoder, monkeypatch):
    monkeypatch.setattr(embedding, "CACHE_SIZE", 8)
    embed = Embedder(encoder)
    expected = embed(texts := [f"第{number}句话" for number in range(20)])
    assert len(embed._cache) == 8
    vectors = {}
    threads = [
        threading.Thread(target=lambda part=part: vectors.update({part: embed(texts[part::4])})) for part in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for part in range(4):
        assert_allclose(vectors[part], expected[part::4], atol=1e-5)
    assert len(embed._cache) == 8
