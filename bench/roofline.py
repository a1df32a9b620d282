"""The speed of matrix products of the shapes of the model, and the share of it that the whole model reaches."""

from functools import partial
from pathlib import Path

import chats
import numpy as np
import torch
from measure import Measured, in_turn
from throughput import detectors

from contradiction.io.tables import Table

BATCH_SIZE = 32


def measure(model: Path, *, rounds: int) -> Measured:
    """Measures one batch of conversations of equal length."""
    by_backend, left_out = detectors(model)
    backend = by_backend["torch"].classifier.backend
    hidden, middle, layers = (backend.config[key] for key in ("hidden_size", "intermediate_size", "num_hidden_layers"))
    example = by_backend["torch"].classifier.model_input(chats.rows()[0])
    encoding = dict(backend.tokenizer(example["text"], example["text_pair"]))
    length = len(encoding["input_ids"])
    tokens = BATCH_SIZE * length
    shapes = [(hidden, hidden)] * 4 + [(hidden, middle), (middle, hidden)]
    linear = 2 * tokens * sum(a * b for a, b in shapes)
    attention = 4 * tokens * length * hidden
    ways = {}
    for kind in (torch.float32, torch.bfloat16):
        layer = [(torch.randn(tokens, a, dtype=kind), torch.randn(b, a, dtype=kind)) for a, b in shapes]
        ways[f"matrix products, torch {str(kind)[6:]}"] = partial(_products, layer)
    arrays = [(np.ones((tokens, a), np.float32), np.ones((a, b), np.float32)) for a, b in shapes]
    ways["matrix products, numpy float32"] = lambda: [a @ b for a, b in arrays]
    for name, detector in by_backend.items():
        ways[f"model, {name}"] = partial(detector.classifier.backend.forward, [encoding] * BATCH_SIZE)
    seconds = {name: min(times) for name, times in in_turn(ways, rounds).items()}
    reached = {
        name: (layers * (linear + attention) if name.startswith("model") else linear) / taken / 1e9
        for name, taken in seconds.items()
    }
    roof = max(rate for name, rate in reached.items() if name.endswith("float32"))
    body = [(name, f"{rate:.0f}", f"{100 * rate / roof:.0f}") for name, rate in reached.items()]
    title = f"GFLOP/s, a batch of {BATCH_SIZE} × {length} tokens"
    return Measured([Table(title, ("what", "GFLOP/s", "% of the best float32 products"), body)], reached, left_out)


def _products(layer: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
    with torch.inference_mode():
        for inputs, weights in layer:
            torch.nn.functional.linear(inputs, weights)
