"""Pairs of NLI as conversations: what contradicts a premise there contradicts an earlier reply here."""

from typing import TYPE_CHECKING

import numpy as np

from contradiction.errors import InputError
from contradiction.labels import CONTRADICTION, HISTORY, NON_CONTRADICTION

if TYPE_CHECKING:
    from datasets import Dataset


def nli_rows(rows: "Dataset", pairs: "Dataset", times: int, seed: int) -> "Dataset":
    """Training rows whose two replies are the premise and the hypothesis of a pair, drawn without replacement.

    A backbone that was fine-tuned on NLI forgets it as it learns CDConv, where a reply alone, or its context alone,
    tells much of the label. Read beside the rows, the pairs keep what they taught (rehearsal: Robins, 1995,
    *Catastrophic forgetting, rehearsal and pseudorehearsal*): of those, one sentence tells little without the other.

    Args:
        rows: of the training split; a pair stands in a drawn one, in place of b1 and b2.
        pairs: of NLI, with the columns premise, hypothesis and label.
        times: how many to make for each of the rows.
        seed: of both draws.

    Returns:
        Rows of the same columns. A pair that contradicts is a row labelled history, or a contradiction where the rows
        have two labels; any other contradicts nothing.

    Raises:
        InputError: there are too few pairs.
    """
    wanted = times * len(rows)
    if wanted > len(pairs):
        raise InputError(
            f"key 'nli_pairs': {times} for each of {len(rows):,} rows are {wanted:,}, and there are {len(pairs):,} "
            f"pairs; {len(pairs) // len(rows)} is the most"
        )
    draw = np.random.default_rng(seed)
    drawn = pairs.select(draw.permutation(len(pairs))[:wanted])
    made = rows.select(draw.permutation(np.repeat(np.arange(len(rows)), times))).to_dict()
    labels = rows.features["label"]
    clash = labels.str2int(HISTORY if HISTORY in labels.names else CONTRADICTION)
    named = drawn.features["label"]
    contradicts = [named.int2str(label) == CONTRADICTION for label in drawn["label"]]
    made |= {"b1": list(drawn["premise"]), "b2": list(drawn["hypothesis"])}
    made["label"] = [clash if each else labels.str2int(NON_CONTRADICTION) for each in contradicts]
    return type(rows).from_dict(made, features=rows.features)
