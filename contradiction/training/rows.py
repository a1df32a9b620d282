"""The rows that a recipe trains on: those of one bot, or a share of them, and what is made of them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from datasets import concatenate_datasets

from contradiction.data.splits import load_split, of_bot
from contradiction.training.context_negatives import replaced_rows
from contradiction.training.nli_rehearsal import nli_rows
from contradiction.training.recipe import Recipe
from contradiction.training.transfer_set import transfer_rows

if TYPE_CHECKING:
    from datasets import Dataset


@dataclass(frozen=True)
class Reading:
    """What one pass over the training split reads.

    Attributes:
        rows: all of it.
        taught: so many of these, the first, teachers are asked of. The label of the others follows from how they were
            made, whatever a teacher would say.
    """

    rows: "Dataset"
    taught: int


def training_rows(rows: "Dataset", recipe: Recipe) -> Reading:
    """The rows that a recipe reads of the training split, a share of those of its bot, then what it makes of them."""
    chosen = share_of(of_bot(rows, recipe.data.bot), recipe.data.train_fraction, recipe.seed)
    taught, certain = [chosen], []
    if recipe.distillation.transfer_per_row:
        taught.append(transfer_rows(chosen, recipe.distillation.transfer_per_row))
    if recipe.augmentation.context_negatives:
        certain.append(replaced_rows(chosen, recipe.augmentation.context_negatives, recipe.seed))
    if recipe.augmentation.nli:
        pairs = load_split(recipe.augmentation.nli, "nli", "train")
        certain.append(nli_rows(chosen, pairs, recipe.augmentation.nli_pairs_per_row, recipe.seed))
    parts = [*taught, *certain]
    return Reading(concatenate_datasets(parts) if len(parts) > 1 else chosen, sum(map(len, taught)))


def share_of(rows: "Dataset", share: float, seed: int) -> "Dataset":
    """A share of the rows, drawn label by label, in their order; at least one row of each label.

    For one seed the draws are nested: what 10 % hold lies in 25 %, so that two points of a learning curve differ by
    rows that were added and by none that were taken away.

    Args:
        rows: of a split, with a column ``label``.
        share: above 0; 1 gives the rows as they are.
        seed: of the draw.
    """
    if share == 1:
        return rows
    labels = np.asarray(rows["label"])
    order = np.random.default_rng(seed).permutation(len(labels))
    chosen = []
    for label in np.unique(labels):
        members = order[labels[order] == label]
        chosen.append(members[: max(1, round(share * len(members)))])
    return rows.select(np.sort(np.concatenate(chosen)))
