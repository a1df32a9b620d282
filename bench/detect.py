"""How fast a detector judges, beside what one would run instead: a plain text-classification pipeline.

    .venv/bin/python bench/detect.py models/e5-small-cdconv-soup --rows 256 --rounds 5

Files that `cdconv export --backend onnx` and `--backend onnx-int8` wrote beside the weights are measured too. Every way
judges the same conversations, in turn within each round, so that a machine that slows down slows all of them. What
counts is the ratio to the first; the medians over the rounds are printed.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from transformers import pipeline

import cdconv
from contradiction import ContradictionDetector
from contradiction.inference.onnx_backend import OnnxBackend, QuantizedOnnxBackend
from contradiction.paths import SAMPLE


def main() -> None:
    """Parses the arguments, measures, prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("model", help="a model folder or Hub id")
    parser.add_argument("--rows", type=int, default=256, help="conversations of the embedded sample")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()

    detector = ContradictionDetector.from_pretrained(options.model, device="cpu")
    half = ContradictionDetector.from_pretrained(options.model, device="cpu", precision="bf16")
    checkpoint = detector.classifier
    classify = pipeline(
        "text-classification", model=checkpoint.backend.model, tokenizer=checkpoint.backend.tokenizer, device="cpu"
    )
    sample = cdconv.read_rows(SAMPLE)
    rows = sample[: options.rows]  # each once: what stands more than once is read once
    chats = [
        [
            {"role": role, "content": row[column]}
            for role, column in zip(("user", "assistant") * 2, cdconv.UTTERANCES, strict=True)
        ]
        for row in rows
    ]
    inputs = [detector.classifier.model_input(row) for row in rows]
    ways: dict[str, Callable[[], object]] = {
        "pipeline, one by one": lambda: [classify(text, truncation=True) for text in inputs],
        "pipeline, batch_size=32": lambda: classify(inputs, batch_size=32, truncation=True),
        "detector, one by one": lambda: [detector(chat) for chat in chats],
        "detector.batch": lambda: detector.batch(chats),
        "detector.batch, bf16": lambda: half.batch(chats),
    }
    for kind in (OnnxBackend, QuantizedOnnxBackend):
        if (Path(options.model) / kind.FILE).is_file():
            other = ContradictionDetector.from_pretrained(options.model, backend=kind.NAME)
            ways[f"detector.batch, {kind.NAME}"] = partial(other.batch, chats)
    for way in ways.values():
        way()
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(options.rounds):
        for name, way in ways.items():
            started = time.perf_counter()
            way()
            seconds[name].append(time.perf_counter() - started)
    first = next(iter(seconds.values()))
    print(f"{len(rows)} conversations, {options.rounds} rounds, {options.model}")
    for name, times in seconds.items():
        ratio = statistics.median(a / b for a, b in zip(first, times, strict=True))
        print(f"{name:27} {len(rows) / statistics.median(times):8.0f} conversations/s   {ratio:5.2f} x")


if __name__ == "__main__":
    main()
