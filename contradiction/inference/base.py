"""The interface of a backend, which loads a checkpoint and turns batches of tokens into logits."""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np

from contradiction.errors import InputError
from contradiction.inputs.tokenization import encode
from contradiction.io.environment import usable_cores

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# The number formats in which a forward pass computes. The weights of an encoder are float32 in all of them.
INT8 = "int8"  # of a causal detector on a CPU, see ``contradiction.inference.int8``
PRECISIONS = ("fp32", "bf16", "fp16", INT8)

TOKENS = 128  # a batch has at most this many for each input of the batch size; long inputs make smaller batches
MOST_PADDING = 0.05  # the share of a batch that may be padding
SMALL = 4  # inputs; a smaller batch may hold more padding

OnBatch = Callable[[int], Any]  # called with the number of rows done, after each forward pass


@dataclass(frozen=True)
class Scores:
    """The output of a model."""

    logits: np.ndarray  # shape (inputs, classes)
    truncations: list[str | None]  # for each input what was cut, in words, or None
    # For each input how likely each earlier reply is the contradicted one; empty if the model does not say so.
    evidence: Sequence[Sequence[float]] = ()


class Backend(ABC):
    """A sequence-classification checkpoint that is loaded and can be run.

    A subclass loads the checkpoint and runs one batch; what all backends share is here.
    """

    NAME: ClassVar[str]  # by which the backend is chosen
    config: Mapping[str, Any]  # what the config.json of the checkpoint says
    tokenizer: "PreTrainedTokenizerBase"
    max_length: int  # the tokens that the model reads

    @classmethod
    @abstractmethod
    def load(cls, name: str | Path, *, device: str | None = None, precision: str = "fp32") -> Self:
        """Loads a checkpoint and its tokenizer.

        Args:
            name: a folder or Hub id.
            device: the device in the words of the backend; by default the best one there is.
            precision: one of ``PRECISIONS``.

        Raises:
            InputError: there is no such checkpoint or device, or the backend does not offer the precision.
        """

    @abstractmethod
    def forward(self, batch: Sequence[Mapping[str, list[int]]]) -> np.ndarray:
        """Runs one batch: the token ids and masks of each input, by name, not padded yet.

        Returns:
            The logits in float32, shape (inputs, classes).
        """

    def score(
        self, inputs: Sequence[Mapping[str, str]], *, batch_size: int = 32, on_batch: OnBatch | None = None
    ) -> Scores:
        """Scores the inputs of a text-classification pipeline.

        Equal inputs are read once. A batch holds inputs of similar length, see :func:`batches`. Which inputs share a
        batch may change the last bits of a probability (a few 1e-6 in float32).

        Args:
            inputs: dicts with ``text`` and, in all or none of them, ``text_pair``.
            batch_size: the number of inputs in a forward pass at most.
            on_batch: called with the number of inputs done, after each forward pass.

        Raises:
            InputError: ``batch_size`` is below 1, or the logits are not finite.
        """
        check_batch_size(batch_size)
        classes = len(self.config["id2label"])
        if not inputs:
            return Scores(np.zeros((0, classes)), [])
        keys = [(entry["text"], entry.get("text_pair")) for entry in inputs]
        distinct = dict(zip(keys, inputs, strict=True))
        positions = {key: position for position, key in enumerate(distinct)}
        position_of = np.array([positions[key] for key in keys])
        encodings, truncations = encode(self.tokenizer, list(distinct.values()), self.max_length)
        copies = np.bincount(position_of)
        logits = np.empty((len(distinct), classes))
        for batch in batches([len(encoding["input_ids"]) for encoding in encodings], batch_size):
            logits[batch] = self.forward([encodings[index] for index in batch])
            if on_batch:
                on_batch(int(copies[batch].sum()))
        if not np.isfinite(logits).all():
            raise InputError("the model gives scores that are not finite; its weights are damaged")
        return Scores(logits[position_of], [truncations[position] for position in position_of])


def batches(lengths: Sequence[int], batch_size: int) -> Iterator[list[int]]:
    """Puts inputs into batches of little padding and bounded size, the longest first.

    A batch, the positions of its inputs, holds at most ``batch_size`` inputs and ``TOKENS`` times as many tokens,
    padding included. It ends where the next input would make more than ``MOST_PADDING`` of it padding, unless it is
    still ``SMALL``.
    """
    batch: list[int] = []
    useful = 0
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        if batch:
            size = (len(batch) + 1) * lengths[batch[0]]
            padded = len(batch) >= SMALL and useful + lengths[index] < (1 - MOST_PADDING) * size
            if len(batch) == batch_size or size > TOKENS * batch_size or padded:
                yield batch
                batch, useful = [], 0
        batch.append(index)
        useful += lengths[index]
    if batch:
        yield batch


def threads() -> int:
    """How many threads a backend computes with: ``OMP_NUM_THREADS``, else the cores that this process may use."""
    if (limit := os.environ.get("OMP_NUM_THREADS", "")).isdigit() and int(limit):
        return int(limit)
    return usable_cores()


AUTO = "auto"  # the fastest precision or backend, see ``contradiction.inference``
BACKENDS: dict[str, type[Backend]] = {}
_Backend = TypeVar("_Backend", bound=Backend)


def register(backend: type[_Backend]) -> type[_Backend]:
    """Makes a backend known by its ``NAME``; a decorator."""
    BACKENDS[backend.NAME] = backend
    return backend


def check_batch_size(batch_size: int) -> None:
    """Raises InputError for a batch size below 1."""
    if batch_size < 1:
        raise InputError(f"batch_size {batch_size}; it must be 1 or more")
