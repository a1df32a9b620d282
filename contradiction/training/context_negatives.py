"""Rows whose first turn is another conversation's: what contradicted the history there contradicts nothing any more."""

from typing import TYPE_CHECKING

import numpy as np

from contradiction.errors import InputError
from contradiction.labels import HISTORY, NON_CONTRADICTION

if TYPE_CHECKING:
    from datasets import Dataset


def replaced_rows(rows: "Dataset", times: int, seed: int) -> "Dataset":
    """Each row labelled history again, after the first turn of a row drawn from the same bot, as no contradiction.

    A detector can learn the labels of CDConv from how a reply sounds, without a look at what it is said to contradict.
    On these rows that is of no use: the reply is the same, and the label is not (the check *remove contradicting turns*
    of DECODE, Nie et al., 2021, section 3.3, for training). A drawn turn may clash with the reply by chance.

    Args:
        rows: of the training split, with the labels of 4-class.
        times: how many to make of each.
        seed: of the draw.

    Returns:
        Rows of the same columns; all but ``u1`` and ``b1`` are those of the row that the reply is from.

    Raises:
        InputError: a bot has one context only.
    """
    names = rows.features["label"]
    chosen = np.repeat(np.flatnonzero(np.asarray(rows["label"]) == names.str2int(HISTORY)), times)
    draw = np.random.default_rng(seed)
    bots, said = np.asarray(rows["bot"]), np.asarray(rows["u1"])
    others = [np.flatnonzero((bots == bots[row]) & (said != said[row])) for row in chosen]
    if not all(map(len, others)):
        raise InputError("key 'replaced': no row of another context and the same bot to take a first turn from")
    first = [draw.choice(each) for each in others]
    made, other = rows.select(chosen).to_dict(), rows.select(first)
    made |= {"u1": list(other["u1"]), "b1": list(other["b1"])}
    made["label"] = [names.str2int(NON_CONTRADICTION)] * len(chosen)
    return type(rows).from_dict(made, features=rows.features)
