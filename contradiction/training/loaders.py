"""Rows -> batches: tokenised once, padded to the longest of the batch, batches of like length."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Generator
from torch.utils.data import DataLoader, Sampler
from transformers import DataCollatorWithPadding
from transformers.trainer_pt_utils import LengthGroupedSampler

from contradiction.errors import InputError
from contradiction.inputs.tokenization import encode
from contradiction.inputs.views import VIEWS, model_input
from contradiction.labels import is_contradiction
from contradiction.training.losses import ALLOWED, GROUP, SOFT, UNLABELLED
from contradiction.training.recipe import Recipe

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True)
class Layout:
    """How an epoch falls into steps, and how the processes share the batch of a step.

    Attributes:
        rows: of the training split.
        batch_size: rows of a step, over all processes.
        processes: how many share each batch alike.
        process: this one's number, from 0.

    Raises:
        InputError: a batch cannot be shared alike.
    """

    rows: int
    batch_size: int
    processes: int = 1
    process: int = 0

    def __post_init__(self) -> None:
        if self.batch_size % self.processes:
            raise InputError(
                f"batch_size {self.batch_size} is no multiple of the {self.processes} processes that share a batch"
            )

    @property
    def steps(self) -> int:
        """Steps an epoch; the last may have fewer rows."""
        return math.ceil(self.rows / self.batch_size)

    def real_rows(self, step: int) -> int:
        """Rows of a step, counted from 0, over all processes."""
        return min(self.batch_size, self.rows - step * self.batch_size)

    def own_rows(self, step: int, read: int) -> int:
        """How many of the rows that this process read are real; the others fill up the last batch, and come last."""
        return max(0, min(read, self.real_rows(step) - self.process * read))

    def scale(self, step: int) -> float:
        """The factor of a loss summed over the real rows before ``accelerator.backward``.

        Accelerate averages gradients over processes, as if all had equally many rows. The factor undoes that: the
        gradient of a step becomes that of the mean loss of its rows, also where the last step is a short one.
        """
        return self.processes / self.real_rows(step)


class EpochSampler(Sampler[int]):
    """Length-grouped random order that depends on the seed and the epoch alone.

    So a resumed run reads the rows in the order in which the killed one would have.

    Args:
        lengths: of the rows, in tokens.
        batch_size: rows that are of like length.
        seed: of the order.
        groups: the number of each row's group. The rows of a group follow each other, so that nearly all groups lie in
            one batch; by default each row is a group.
    """

    def __init__(self, lengths: Sequence[int], batch_size: int, seed: int, groups: Sequence[int] | None = None) -> None:
        self.lengths, self.batch_size, self.seed = lengths, batch_size, seed
        self.epoch = 0
        members: dict[int, list[int]] = {}
        for row, group in enumerate(groups or range(len(lengths))):
            members.setdefault(group, []).append(row)
        self.members = list(members.values())

    def set_epoch(self, epoch: int) -> None:
        """Chooses the order of the next pass."""
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self.lengths)

    def __iter__(self) -> Iterator[int]:
        generator = Generator().manual_seed(self.seed * 10_007 + self.epoch)
        longest = [max(self.lengths[row] for row in rows) for rows in self.members]
        batch_size = max(1, self.batch_size * len(self.members) // len(self.lengths))  # in groups
        for group in LengthGroupedSampler(batch_size, lengths=longest, generator=generator):
            yield from self.members[group]


def encode_rows(
    rows: "Dataset",
    recipe: Recipe,
    tokenizer: "PreTrainedTokenizerBase",
    soft: np.ndarray | None = None,
) -> list[dict[str, Any]]:
    """Each row's token ids and masks with its ``labels`` (the class id, ``UNLABELLED`` where it has none) and ``id``.

    Args:
        rows: of a split. Of a row without a label a column ``contradiction`` may say whether it is one of any kind. A
            column ``group`` numbers the groups of rows that a ranking loss compares.
        recipe: says the view and the labels.
        tokenizer: of the model.
        soft: what teachers say of the first rows, shape (rows, classes), to go along; of the others, that their label
            is certain.
    """
    inputs = [model_input(row, VIEWS[recipe.data.view], tokenizer) for row in rows]
    encoded, _ = encode(tokenizer, inputs, min(recipe.model.max_length, tokenizer.model_max_length))
    labels = rows["label"]
    if recipe.data.target:
        target = rows.features["label"].str2int(recipe.data.target)
        labels = [None if label is None else int(label == target) for label in labels]
    examples = [
        {**tokens, "labels": UNLABELLED if label is None else label, "id": number}
        for tokens, label, number in zip(encoded, labels, rows["id"], strict=True)
    ]
    if "contradiction" in rows.column_names:
        for example, contradiction in zip(examples, rows["contradiction"], strict=True):
            example[ALLOWED] = allowed_labels(example["labels"], contradiction, recipe.labels)
    if GROUP in rows.column_names:
        for example, group in zip(examples, rows[GROUP], strict=True):
            example[GROUP] = group
    if soft is not None:
        certain = np.array([each["labels"] for each in examples[len(soft) :]], dtype=int)
        probabilities = np.concatenate([soft, np.eye(len(recipe.labels))[certain]])
        for example, row in zip(examples, probabilities.tolist(), strict=True):
            example[SOFT] = row
    return examples


def allowed_labels(label: int, contradiction: bool | None, names: Sequence[str]) -> list[bool]:
    """Whether a row may have each label, shape (classes,).

    Args:
        label: the class id, or ``UNLABELLED``.
        contradiction: of a row without a label, whether it is a contradiction of any kind; None if nobody knows.
        names: of the labels.
    """
    if label != UNLABELLED:
        return [number == label for number in range(len(names))]
    return [contradiction is not None and is_contradiction(name) == contradiction for name in names]


def train_loader(
    examples: list[dict[str, Any]], tokenizer: "PreTrainedTokenizerBase", batch_size: int, seed: int
) -> DataLoader:
    """Batches for training; their order depends on the epoch that the prepared loader's ``set_epoch`` is told.

    Args:
        examples: the encoded rows.
        tokenizer: pads them.
        batch_size: rows of a step, over all processes.
        seed: of the order.
    """
    lengths = [len(example["input_ids"]) for example in examples]
    groups = [example[GROUP] for example in examples] if examples and GROUP in examples[0] else None
    # The loader's own generator: without it, a DataLoader draws from the global one, and dropout after a resume would
    # no longer be what it was.
    return DataLoader(
        examples,  # type: ignore[arg-type]  # a list is a data set to torch, but not to its stubs
        batch_size=batch_size,
        sampler=EpochSampler(lengths, batch_size, seed, groups),
        collate_fn=DataCollatorWithPadding(tokenizer),
        generator=Generator().manual_seed(seed),
    )


def evaluation_loader(
    examples: list[dict[str, Any]], tokenizer: "PreTrainedTokenizerBase", batch_size: int
) -> DataLoader:
    """Batches for evaluation, longest first."""
    examples = sorted(examples, key=lambda each: -len(each["input_ids"]))
    return DataLoader(
        examples,  # type: ignore[arg-type]  # as above
        batch_size=batch_size,
        collate_fn=DataCollatorWithPadding(tokenizer),
        generator=Generator(),
    )
