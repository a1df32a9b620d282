"""How many tokens of a batch are useful, in detection and in training, and how many windows occur more than once."""

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from chats import Chat
from throughput import checkpoint_of

from contradiction import ContradictionDetector
from contradiction.chats.chunks import CHUNK_WINDOWS
from contradiction.conversation import read_turns
from contradiction.inference.base import batches
from contradiction.inputs.tokenization import encode
from contradiction.training.loaders import EpochSampler

BATCH_SIZE = 32


def measure(detector: ContradictionDetector, mixes: dict[str, list[Chat]]) -> dict[str, dict[str, float]]:
    """For each mix of chats: shares of useful tokens, and of windows that were in the chunk, or in the job, before.

    Every reply of the chats is judged.
    """
    figures = {}
    classifier = checkpoint_of(detector)
    backend = classifier.backend
    for name, chats in mixes.items():
        inputs = []
        for messages in chats:
            turns = read_turns(messages)
            cases = [detector.case(turns, place) for place in range(len(turns))]
            inputs += [classifier.model_input(window.row) for case in cases for window in case.windows]
        keys = [(entry["text"], entry["text_pair"]) for entry in inputs]
        chunks = [keys[first : first + CHUNK_WINDOWS] for first in range(0, len(keys), CHUNK_WINDOWS)]
        encodings, _ = encode(backend.tokenizer, inputs, backend.max_length)
        lengths = [len(encoding["input_ids"]) for encoding in encodings]
        parts = [lengths[first : first + CHUNK_WINDOWS] for first in range(0, len(lengths), CHUNK_WINDOWS)]
        figures[name] = {
            "windows": len(keys),
            "mean tokens": float(np.mean(lengths)),
            "useful, given order": useful(lengths, given_order(len(lengths))),
            "useful, ours": sum(lengths) / sum(padded(part, batches(part, BATCH_SIZE)) for part in parts),
            "useful, training": useful(lengths, training(lengths)),
            "repeated in a chunk": 1 - sum(len(set(chunk)) for chunk in chunks) / len(keys),
            "repeated in the job": 1 - len(Counter(keys)) / len(keys),
        }
    return figures


def given_order(count: int) -> Iterator[list[int]]:
    """Batches in the order of the input, as a pipeline makes them."""
    for first in range(0, count, BATCH_SIZE):
        yield list(range(first, min(first + BATCH_SIZE, count)))


def training(lengths: Sequence[int]) -> Iterator[list[int]]:
    """The batches of the first epoch of a training."""
    order = list(EpochSampler(lengths, BATCH_SIZE, 23))
    for first in range(0, len(order), BATCH_SIZE):
        yield order[first : first + BATCH_SIZE]


def useful(lengths: Sequence[int], batch_indices: Iterator[list[int]]) -> float:
    """The share of the tokens that is no padding."""
    return sum(lengths) / padded(lengths, batch_indices)


def padded(lengths: Sequence[int], batch_indices: Iterator[list[int]]) -> int:
    """The tokens of batches with their padding."""
    return sum(len(batch) * max(lengths[index] for index in batch) for batch in batch_indices)
