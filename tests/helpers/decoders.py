"""Tiny random causal detectors, with a tokenizer of single bytes."""

from pathlib import Path

import torch
from tokenizers.pre_tokenizers import ByteLevel
from transformers import AutoConfig, AutoModel, Qwen2Tokenizer

from contradiction.decision import Rule
from contradiction.inference.network import Network, Shape
from contradiction.inputs.trees import END, START
from contradiction.io.files import read_json, write_json
from contradiction.labels import LABELS

PAD = "<|endoftext|>"


def base_model(folder, layers=3, size=32, seed=0, kind="qwen2"):
    """A folder with a random model of a kind and its tokenizer."""
    vocabulary = {token: index for index, token in enumerate([*sorted(ByteLevel.alphabet()), PAD, START, END])}
    tokenizer = Qwen2Tokenizer(vocab=vocabulary, merges=[], unk_token=PAD, pad_token=PAD, eos_token=END)
    tokenizer.add_special_tokens({"additional_special_tokens": [START, END]})
    tokenizer.save_pretrained(folder)
    torch.manual_seed(seed)
    config = AutoConfig.for_model(
        kind, vocab_size=len(vocabulary), hidden_size=size, intermediate_size=64, num_hidden_layers=layers,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=4096, pad_token_id=vocabulary[PAD],
    )  # fmt: skip
    AutoModel.from_config(config).save_pretrained(folder)
    return folder


def without_base(folder, base="/none/base", base_model="somebody/base", **changes):
    """The same detector on a machine where the folder of its base does not exist."""
    changes |= {"base": base, "base_model": base_model}
    write_json(folder / "decoder.json", {**read_json(folder / "decoder.json"), **changes})
    (folder / "SHA256SUMS").unlink(missing_ok=True)
    return folder


def detector_folder(folder, base):
    """A random detector with adapters that change the base."""
    torch.manual_seed(1)
    network = Network(Shape(str(base), layers=2, rank=4))
    for name, weight in network.named_parameters():
        if "lora_B" in name or name in ("score.weight", "query.weight", "key.weight"):
            torch.nn.init.normal_(weight, std=0.5)
    network.save(folder)
    shape = {"base": str(base), "layers": 2, "rank": 4, "labels": list(LABELS["4-class"])}
    write_json(folder / "decoder.json", {**shape, "base_weights": network.base_weights})
    Rule(threshold=0.3).save(Path(folder) / "decoder.json")
    return network
