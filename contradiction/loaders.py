"""Rows -> batches: tokenised once, padded to the longest of the batch, batches of like length."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from torch import Generator
from torch.utils.data import DataLoader, Sampler
from transformers import DataCollatorWithPadding
from transformers.trainer_pt_utils import LengthGroupedSampler

from contradiction.recipes import Recipe
from contradiction.scoring import encode
from contradiction.views import VIEWS, model_input

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedTokenizerBase


class EpochSampler(Sampler[int]):
    """Length-grouped random order that depends on the seed and the epoch alone.

    So a resumed run reads the rows in the order in which the killed one would have.
    """

    def __init__(self, lengths: Sequence[int], batch_size: int, seed: int) -> None:
        self.lengths, self.batch_size, self.seed = list(lengths), batch_size, seed
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Chooses the order of the next pass."""
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self.lengths)

    def __iter__(self) -> Iterator[int]:
        generator = Generator().manual_seed(self.seed * 10_007 + self.epoch)
        return iter(LengthGroupedSampler(self.batch_size, lengths=self.lengths, generator=generator))


def encode_rows(rows: "Dataset", recipe: Recipe, tokenizer: "PreTrainedTokenizerBase") -> list[dict[str, Any]]:
    """Each row's token ids and masks with its ``labels`` (the class id) and ``id``."""
    inputs = [model_input(row, VIEWS[recipe.view], tokenizer) for row in rows]
    encoded, _ = encode(tokenizer, inputs, recipe.max_length)
    labels = rows["label"]
    if recipe.target:
        target = rows.features["label"].str2int(recipe.target)
        labels = [int(label == target) for label in labels]
    return [
        {**tokens, "labels": label, "id": number}
        for tokens, label, number in zip(encoded, labels, rows["id"], strict=True)
    ]


def train_loader(
    examples: list[dict[str, Any]], tokenizer: "PreTrainedTokenizerBase", batch_size: int, seed: int
) -> DataLoader:
    """Batches for training; the order depends on the epoch that the prepared loader's ``set_epoch`` is told."""
    lengths = [len(each["input_ids"]) for each in examples]
    # The loader's own generator: without it, a DataLoader draws from the global one, and dropout after a resume would
    # no longer be what it was.
    return DataLoader(
        examples,  # type: ignore[arg-type]  # a list is a data set to torch, but not to its stubs
        batch_size=batch_size,
        sampler=EpochSampler(lengths, batch_size, seed),
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
