"""Tokenizes rows and puts them into batches of similar length, padded to the longest row of the batch."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Generator, tensor
from torch.utils.data import DataLoader, Sampler
from transformers.trainer_pt_utils import LengthGroupedSampler

from contradiction.data.splits import has_label
from contradiction.errors import InputError
from contradiction.inputs.tokenization import encode
from contradiction.inputs.views import VIEWS, model_input
from contradiction.labels import is_contradiction
from contradiction.training.losses import ALLOWED, GROUP, SOFT, UNLABELLED
from contradiction.training.recipe import Recipe

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import BatchEncoding, PreTrainedTokenizerBase


def check_batches(batch_size: int, processes: int, groups: Sequence[int] = ()) -> None:
    """Raises InputError if processes cannot share a batch, or one would read a part of a group of rows."""
    share, sizes = batch_size // processes, sorted(set(Counter(groups).values()))
    if batch_size % processes:
        raise InputError(f"batch_size {batch_size} is not a multiple of the {processes} processes that share a batch")
    if len(sizes) > 1 or any(share % size for size in sizes):
        raise InputError(
            f"loss.choice needs items of equally many replies, of which a process reads whole ones; these have "
            f"{' or '.join(map(str, sizes))}, and batch_size {batch_size} gives each process {share}"
        )


class EpochSampler(Sampler[int]):
    """A random order of batches of similar length; it depends only on the seed and the epoch, so a run can resume.

    ``lengths`` are in tokens. ``groups`` has the number of each row's group, by default its own. The rows of a group
    stay together, so nearly every group lies in one batch, and every one where :func:`check_batches` passes.
    """

    def __init__(self, lengths: Sequence[int], batch_size: int, seed: int, groups: Sequence[int] | None = None) -> None:
        self.lengths, self.batch_size, self.seed, self.epoch = lengths, batch_size, seed, 0
        members: dict[int, list[int]] = {}
        for row, group in enumerate(groups or range(len(lengths))):
            members.setdefault(group, []).append(row)
        self.members = list(members.values())

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch, which determines the order of the rows."""
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
    rows: "Dataset", recipe: Recipe, tokenizer: "PreTrainedTokenizerBase", soft: np.ndarray | None = None
) -> list[dict[str, Any]]:
    """The token ids and masks of each row, its ``labels`` (a class id, or ``UNLABELLED``), and its ``id``, or number.

    Args:
        rows: the rows of a split. A column ``contradiction`` may say whether a row without a label is a contradiction
            of any kind. A column ``group`` numbers the groups of rows that a ranking loss compares.
        recipe: names the view and the labels.
        tokenizer: the tokenizer of the model.
        soft: the teachers' probabilities of the first rows; the other rows get probability 1 for their label.
    """
    # As a list, because a data set takes twenty times as long row by row.
    inputs = [model_input(row, VIEWS[recipe.data.view], tokenizer) for row in rows.to_list()]
    encoded, _ = encode(tokenizer, inputs, min(recipe.model.max_length, tokenizer.model_max_length))
    labels = rows["label"][:]
    if recipe.data.target:
        target = rows.features["label"].str2int(recipe.data.target)
        labels = [int(label == target) if has_label(label) else label for label in labels]
    labels = [label if has_label(label) else UNLABELLED for label in labels]
    ids = [name if isinstance(name, int) else number for number, name in enumerate(rows["id"][:], start=1)]
    columns: dict[str, Iterable[Any]] = {"labels": labels, "id": ids}
    if "contradiction" in rows.column_names:
        pairs = zip(labels, rows["contradiction"][:], strict=True)
        columns[ALLOWED] = [allowed_labels(label, contradiction, recipe.labels) for label, contradiction in pairs]
    if GROUP in rows.column_names:
        columns[GROUP] = rows[GROUP][:]
    if soft is not None:
        certain = np.array(labels[len(soft) :], dtype=int)
        columns[SOFT] = np.concatenate([soft, np.eye(len(recipe.labels))[certain]]).tolist()
    cells = zip(*columns.values(), strict=True)
    return [{**tokens, **dict(zip(columns, row, strict=True))} for tokens, row in zip(encoded, cells, strict=True)]


def allowed_labels(label: int, contradiction: bool | None, names: Sequence[str]) -> list[bool]:
    """Whether a row may have each label, shape (classes,).

    A row without a label may be known to be a contradiction of any kind, or none; ``contradiction`` is None otherwise.
    """
    if label != UNLABELLED:
        return [number == label for number in range(len(names))]
    return [contradiction is not None and is_contradiction(name) == contradiction for name in names]


def _batch(tokenizer: "PreTrainedTokenizerBase", examples: list[dict[str, Any]]) -> "BatchEncoding":
    """A padded batch. With `return_tensors`, transformers would go through each token in Python."""
    batch = tokenizer.pad(examples)
    batch.update({name: tensor(values) for name, values in batch.items()})
    return batch


def loader(
    examples: list[dict[str, Any]], tokenizer: "PreTrainedTokenizerBase", batch_size: int, seed: int | None = None
) -> DataLoader:
    """Batches of examples: without a seed for evaluation, longest first.

    With a seed they are for training, and ``set_epoch`` of the prepared loader sets their order.
    """
    lengths = [len(example["input_ids"]) for example in examples]
    groups = [example[GROUP] for example in examples] if examples and GROUP in examples[0] else None
    if seed is None:
        examples = sorted(examples, key=lambda example: -len(example["input_ids"]))
    # Without a generator, a DataLoader draws from the global one, and the dropout masks after a resume would differ.
    return DataLoader(
        examples,  # type: ignore[arg-type]  # a list is a data set to torch, but not to its stubs
        batch_size=batch_size,
        sampler=None if seed is None else EpochSampler(lengths, batch_size, seed, groups),
        collate_fn=partial(_batch, tokenizer),
        generator=Generator().manual_seed(seed or 0),
    )
