"""Rows -> batches: tokenised once, padded to the longest of the batch, batches of like length."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Generator
from torch.utils.data import DataLoader, Sampler
from transformers import DataCollatorWithPadding
from transformers.trainer_pt_utils import LengthGroupedSampler

from contradiction.errors import InputError
from contradiction.inference.torch_backend import encode
from contradiction.inputs.views import VIEWS, model_input
from contradiction.training.losses import SOFT, UNLABELLED
from contradiction.training.recipe import Recipe

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True)
class Layout:
    """How an epoch falls into steps, the parts of a step, and the shares of a part that processes read.

    Attributes:
        rows: of the training split.
        batch_size: rows a step.
        accumulate: parts a step.
        processes: that share each part alike.
        process: this one's number, from 0.

    Raises:
        InputError: a part cannot be shared alike.
    """

    rows: int
    batch_size: int
    accumulate: int = 1
    processes: int = 1
    process: int = 0

    def __post_init__(self) -> None:
        if self.part % self.processes:
            parts = f" in {self.accumulate} parts" if self.accumulate > 1 else ""
            raise InputError(
                f"batch_size {self.batch_size}{parts} cannot be shared by {self.processes} processes alike"
            )

    @property
    def part(self) -> int:
        """Rows a part."""
        return self.batch_size // self.accumulate

    @property
    def steps(self) -> int:
        """Steps an epoch; the last may have fewer rows."""
        return math.ceil(self.rows / self.batch_size)

    def real_rows(self, part: int) -> int:
        """Rows of a part, over all processes."""
        return min(self.part, self.rows - part * self.part)

    def own_rows(self, part: int, read: int) -> int:
        """How many of the rows that this process read are real; the others fill up the last part, and come last."""
        return max(0, min(read, self.real_rows(part) - self.process * read))

    def scale(self, part: int) -> float:
        """What a loss summed over the real rows is to be multiplied by before ``accelerator.backward``.

        Accelerate divides by the parts of a step and averages over processes, as if all were alike. This undoes it and
        makes the step's gradient that of the mean loss a row, also where the last step is a short one.
        """
        step = part // self.accumulate
        return self.accumulate * self.processes / min(self.batch_size, self.rows - step * self.batch_size)


class EpochSampler(Sampler[int]):
    """Length-grouped random order that depends on the seed and the epoch alone.

    So a resumed run reads the rows in the order in which the killed one would have.

    Args:
        lengths: of the rows in tokens, once for each view; a pass reads each row in one view, drawn at random. What is
            yielded counts through all rows of the first view, then of the next.
        batch_size: rows that are of like length.
        seed: of the order.
    """

    def __init__(self, lengths: Sequence[Sequence[int]], batch_size: int, seed: int) -> None:
        self.lengths, self.batch_size, self.seed = lengths, batch_size, seed
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Chooses the order of the next pass."""
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self.lengths[0])

    def __iter__(self) -> Iterator[int]:
        generator = Generator().manual_seed(self.seed * 10_007 + self.epoch)
        views = [0] * len(self)
        if len(self.lengths) > 1:
            views = torch.randint(len(self.lengths), (len(self),), generator=generator).tolist()
        chosen = [self.lengths[view][row] for row, view in enumerate(views)]
        for row in LengthGroupedSampler(self.batch_size, lengths=chosen, generator=generator):
            yield views[row] * len(self) + row


def encode_rows(
    rows: "Dataset",
    recipe: Recipe,
    tokenizer: "PreTrainedTokenizerBase",
    view: str | None = None,
    soft: np.ndarray | None = None,
) -> list[dict[str, Any]]:
    """Each row's token ids and masks with its ``labels`` (the class id, ``UNLABELLED`` where it has none) and ``id``.

    Args:
        rows: of a split.
        recipe: says the view and the labels.
        tokenizer: of the model.
        view: another than the recipe's.
        soft: what teachers say of the first rows, shape (rows, classes), to go along; of the others, that their label
            is certain.
    """
    inputs = [model_input(row, VIEWS[view or recipe.view], tokenizer) for row in rows]
    encoded, _ = encode(tokenizer, inputs, min(recipe.max_length, tokenizer.model_max_length))
    labels = rows["label"]
    if recipe.target:
        target = rows.features["label"].str2int(recipe.target)
        labels = [None if label is None else int(label == target) for label in labels]
    examples = [
        {**tokens, "labels": UNLABELLED if label is None else label, "id": number}
        for tokens, label, number in zip(encoded, labels, rows["id"], strict=True)
    ]
    if soft is not None:
        certain = np.array([each["labels"] for each in examples[len(soft) :]], dtype=int)
        said = np.concatenate([soft, np.eye(len(recipe.labels))[certain]])
        for example, each in zip(examples, said.tolist(), strict=True):
            example[SOFT] = each
    return examples


def train_loader(
    views: Sequence[list[dict[str, Any]]], tokenizer: "PreTrainedTokenizerBase", layout: Layout, seed: int
) -> DataLoader:
    """The parts of all steps; the order depends on the epoch that the prepared loader's ``set_epoch`` is told.

    Rows of like length come together a step, and not a part, so that the order is the same for any ``accumulate``.

    Args:
        views: the encoded rows, once for each view of which a pass reads one a row.
        tokenizer: pads them.
        layout: rows a part and a step.
        seed: of the order.
    """
    lengths = [[len(each["input_ids"]) for each in examples] for examples in views]
    # The loader's own generator: without it, a DataLoader draws from the global one, and dropout after a resume would
    # no longer be what it was.
    return DataLoader(
        [each for examples in views for each in examples],  # type: ignore[arg-type]  # as below
        batch_size=layout.part,
        sampler=EpochSampler(lengths, layout.batch_size, seed),
        collate_fn=DataCollatorWithPadding(tokenizer),
        generator=Generator().manual_seed(seed),
    )


def evaluation_loader(
    examples: list[dict[str, Any]], tokenizer: "PreTrainedTokenizerBase", batch_size: int
) -> DataLoader:
    """Batches for evaluation, longest first."""
    examples = sorted(examples, key=lambda each: -len(each["input_ids"]))
    return DataLoader(
        examples,  # type: ignore[arg-type]  # a list is a data set to torch, but not to its stubs
        batch_size=batch_size,
        collate_fn=DataCollatorWithPadding(tokenizer),
        generator=Generator(),
    )
