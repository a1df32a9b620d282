"""Conversations per second of the paper's way, pipelines, CrossEncoder and our backends; and their latency."""

import statistics
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import measure as timing
import numpy as np
import torch
from measure import Measured, in_turn, ratio
from transformers import AutoModelForSequenceClassification, AutoTokenizer, BertConfig, pipeline

from contradiction import ContradictionDetector
from contradiction.errors import InputError
from contradiction.inference.base import threads
from contradiction.inputs.views import VIEWS, model_input
from contradiction.io.tables import Table
from contradiction.labels import HISTORY, INTRA, ROLE
from contradiction.methods.checkpoint import CheckpointClassifier

PAPER, PIPELINE, BATCHED = "paper: three encoders, pipeline, one by one", "pipeline, one by one", "pipeline, batch 32"
BILLION, CORE_HOUR = 10**9, 0.04  # US dollars, about what clouds take for a core of a large virtual machine
BATCH_SIZES = (8, 32, 128)
BACKENDS = (
    ("torch", "fp32"), ("torch", "bf16"), ("onnx", "fp32"), ("openvino", "fp32"),
    ("openvino", "bf16"),
)  # fmt: skip


def detectors(model: Path) -> tuple[dict[str, ContradictionDetector], list[str]]:
    """The detector with each backend that runs here, and why the others do not."""
    by_backend, left_out = {}, []
    for backend, precision in BACKENDS:
        name = backend if precision == "fp32" else f"{backend} {precision}"
        try:
            by_backend[name] = ContradictionDetector.from_pretrained(
                model, backend=backend, precision=precision, device="cpu"
            )
        except InputError as error:
            left_out.append(f"{name}: {error}")
    return by_backend, left_out


def checkpoint_of(detector: ContradictionDetector) -> CheckpointClassifier:
    """The fine-tuned checkpoint of a detector."""
    if not isinstance(detector.classifier, CheckpointClassifier):
        raise InputError("only a single fine-tuned checkpoint is measured")
    return detector.classifier


def measure(model: Path, *, rows: int, few: int, rounds: int) -> Measured:
    """Measures all ways on the same ``rows`` conversations, and those that take one at a time on ``few`` of them."""
    ours, left_out = detectors(model)
    many = timing.conversations(rows)
    classifier = checkpoint_of(ours["torch"])
    inputs = [classifier.model_input(row) for row in timing.rows()[:rows]]
    checkpoint = AutoModelForSequenceClassification.from_pretrained(model, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(model)
    classify = pipeline("text-classification", model=checkpoint, tokenizer=tokenizer, device="cpu")
    ways: dict[str, tuple[int, Callable[[], object]]] = {
        PAPER: (few, _paper(tokenizer, few)),
        PIPELINE: (few, lambda: [classify(entry, truncation=True) for entry in inputs[:few]]),
        BATCHED: (rows, lambda: classify(inputs, batch_size=32, truncation=True)),
    }
    if find_spec("sentence_transformers"):
        from sentence_transformers import CrossEncoder

        encoder = CrossEncoder(str(model), device="cpu", model_kwargs={"dtype": torch.float32})
        pairs = [(entry["text"], entry["text_pair"]) for entry in inputs]
        predict = partial(encoder.predict, pairs, batch_size=32, show_progress_bar=False)
        ways["CrossEncoder, batch 32"] = (rows, predict)
    else:
        left_out.append("CrossEncoder: sentence-transformers is not installed (bench/requirements.txt)")
    ways["detector, one by one"] = (few, lambda: [ours["torch"](chat) for chat in many[:few]])
    for name, detector in ours.items():
        for size in BATCH_SIZES:
            ways[f"detector.batch, {name}, batch {size}"] = (rows, partial(detector.batch, many, batch_size=size))
    taken = in_turn({name: way for name, (_, way) in ways.items()}, rounds)
    seconds = {name: [total / ways[name][0] for total in totals] for name, totals in taken.items()}  # a conversation
    rates = {name: 1 / statistics.median(own) for name, own in seconds.items()}
    body, values = [], {}
    for name, own in seconds.items():
        times = {other: ratio(seconds[other], own) for other in (PAPER, PIPELINE, BATCHED)}
        body.append((name, f"{rates[name]:.1f}", *(f"{factor:.2f}" for factor in times.values())))
        values[name] = {"per second": rates[name], "seconds": own, "times": times}
    header = ("way", "conversations per second", "× the paper's way", "× pipeline one by one", "× pipeline batch 32")
    sized = {name: rates[f"detector.batch, {name}, batch 32"] / threads() for name in ours}
    return Measured([Table("Conversations per second", header, body), _sizing(sized)], values, left_out)


def _sizing(rates: dict[str, float]) -> Table:
    """What a billion replies take, from the replies per second of one core."""
    body = []
    for name, rate in rates.items():
        hours = BILLION / rate / 3600
        body.append((name, f"{rate:.0f}", f"{hours:,.0f}", f"{hours * CORE_HOUR:,.0f}"))
    header = ("backend", "replies per second and core", "core hours", f"US dollars at {CORE_HOUR} per core hour")
    return Table("A billion replies in chats of two turns", header, body)


def _paper(tokenizer: Any, rows: int) -> Callable[[], object]:
    """The hierarchical method as published: three 12-layer encoders of BERT's size, one conversation at a time.

    Random weights take the same time. All three run, because most conversations need all of them.
    """
    torch.manual_seed(0)
    config = BertConfig(vocab_size=21128)  # and two labels, the default
    stages = {}
    for view in (INTRA, ROLE, HISTORY):
        model = AutoModelForSequenceClassification.from_config(config).eval()
        classify = pipeline("text-classification", model=model, tokenizer=tokenizer, device="cpu")
        stages[view] = (classify, [model_input(row, VIEWS[view], tokenizer) for row in timing.rows()[:rows]])
    return lambda: [
        classify(inputs[index], truncation=True, max_length=512)
        for index in range(rows)
        for classify, inputs in stages.values()
    ]


TURNS = (2, 10, 30)


def latency(model: Path, *, replies: int) -> Measured:
    """Milliseconds for the last reply of chats that no backend has seen, by their turns; the backends take turns.

    A monitor does the same work for a new reply: one window for each earlier turn.
    """
    by_backend, left_out = detectors(model)
    body, values = [], {}
    for turns in TURNS:
        seconds: dict[str, list[float]] = {name: [] for name in by_backend}
        for number in range(-2, replies):  # the first two warm up
            chat = timing.long_chat(turns, 100 * turns + number)
            for name, detector in by_backend.items():
                started = time.perf_counter()
                detector(chat)
                if number >= 0:
                    seconds[name].append(time.perf_counter() - started)
        for name, times in seconds.items():
            half, most = (1000 * np.quantile(times, (0.5, 0.95), method="inverted_cdf")).tolist()
            body.append((name, str(turns), f"{half:.0f}", f"{most:.0f}"))
            values[f"{name}, {turns} turns"] = {"p50 ms": half, "p95 ms": most}
    return Measured(
        [Table("Milliseconds for the last reply", ("backend", "turns", "p50", "p95"), body)], values, left_out
    )
