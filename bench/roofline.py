"""The speed of matrix products of the shapes of the model, and the share of it that the whole model reaches."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import chats
import numpy as np
import torch
from measure import Measured, in_turn
from throughput import checkpoint_of, detectors

from contradiction.inference.base import threads
from contradiction.io.tables import Table

BATCH_SIZE = 32


def measure(model: Path, *, rounds: int) -> Measured:
    """Measures one batch of conversations of equal length."""
    by_backend, left_out = detectors(model)
    classifier = checkpoint_of(by_backend["torch"])
    backend = classifier.backend
    hidden, middle, layers = (backend.config[key] for key in ("hidden_size", "intermediate_size", "num_hidden_layers"))
    example = classifier.model_input(chats.rows()[0])
    encoding = dict(backend.tokenizer(example["text"], example["text_pair"]))
    length = len(encoding["input_ids"])
    tokens = BATCH_SIZE * length
    shapes = [(hidden, hidden)] * 4 + [(hidden, middle), (middle, hidden)]
    linear = 2 * tokens * sum(a * b for a, b in shapes)
    attention = 4 * tokens * length * hidden
    ways: dict[str, Callable[[], object]] = {}
    for kind in (torch.float32, torch.bfloat16):
        layer = [(torch.randn(tokens, a, dtype=kind), torch.randn(b, a, dtype=kind)) for a, b in shapes]
        ways[f"matrix products, torch {str(kind)[6:]}"] = partial(_products, layer)
    arrays = [(np.ones((tokens, a), np.float32), np.ones((a, b), np.float32)) for a, b in shapes]
    ways["matrix products, numpy float32"] = lambda: [a @ b for a, b in arrays]
    if "onnx" in by_backend:
        ways["matrix products, onnxruntime float32"] = _onnx_products(tokens, shapes)
    for name, detector in by_backend.items():
        ways[f"model, {name}"] = partial(checkpoint_of(detector).backend.forward, [encoding] * BATCH_SIZE)
    seconds = {name: min(times) for name, times in in_turn(ways, rounds).items()}
    reached = {
        name: (layers * (linear + attention) if name.startswith("model") else linear) / taken / 1e9
        for name, taken in seconds.items()
    }
    roofs = {
        kind: max(rate for name, rate in reached.items() if name.endswith(kind)) for kind in ("float32", "bfloat16")
    }
    body = []
    for name, rate in reached.items():
        # No library here multiplies 8-bit integers alone, so a model in 8 bits has no limit of its own.
        roof = roofs["bfloat16" if "bf" in name else "float32"] if not name.endswith("int8") else None
        body.append((name, f"{rate:.0f}", f"{100 * rate / roof:.0f}" if roof else "–"))
    title = f"GFLOP/s, a batch of {BATCH_SIZE} × {length} tokens"
    header = ("what", "GFLOP/s", "% of the best products in this precision")
    return Measured([Table(title, header, body)], reached, left_out)


def _products(layer: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
    with torch.inference_mode():
        for inputs, weights in layer:
            torch.nn.functional.linear(inputs, weights)


def _onnx_products(tokens: int, shapes: Sequence[tuple[int, int]]) -> Callable[[], object]:
    """The products in ONNX Runtime, which packs the weights once, as it does for a model."""
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    nodes, weights, inputs, outputs, arrays = [], [], [], [], {}
    for number, (a, b) in enumerate(shapes):
        names = [f"x{number}", f"w{number}", f"y{number}"]
        nodes.append(helper.make_node("MatMul", names[:2], names[2:]))
        weights.append(numpy_helper.from_array(np.ones((a, b), np.float32), names[1]))
        inputs.append(helper.make_tensor_value_info(names[0], TensorProto.FLOAT, (tokens, a)))
        outputs.append(helper.make_tensor_value_info(names[2], TensorProto.FLOAT, (tokens, b)))
        arrays[names[0]] = np.ones((tokens, a), np.float32)
    graph = helper.make_graph(nodes, "products", inputs, outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads()
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return partial(session.run, None, arrays)
