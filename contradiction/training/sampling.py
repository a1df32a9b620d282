"""The part of the training rows that a recipe with a ``share`` reads."""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from datasets import Dataset


def part_of(rows: "Dataset", share: float, seed: int) -> "Dataset":
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
