"""Crossed chats as training rows: the same reply once consistent and once contradicting, with the chats swapped."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from contradiction.conversation import read_turns
from contradiction.data.corpora.crossed import Item, Quadruple, read
from contradiction.inputs.views import Row
from contradiction.inputs.windows import windows
from contradiction.labels import CONTRADICTION, NON_CONTRADICTION

if TYPE_CHECKING:
    from datasets import Dataset


def crossed_rows(rows: "Dataset", first_group: int, seed: int) -> "Dataset":
    """The training split of the crossed chats as rows of two turns.

    Each judged reply stands with the turn that holds the evidence, under its label. In a chat of several earlier turns,
    a contradicting reply also stands with another one, drawn at random, as no contradiction. A detector reads a long
    chat through the same windows.

    Args:
        rows: of the training split, with the labels of 4-class or 2-class and a column ``group``.
        first_group: the number of the first quadruple or pair in that column.
        seed: of the draw.

    Returns:
        Rows of the same columns; those that only CDConv has are None.
    """
    draw = np.random.default_rng(seed)
    label = rows.features["label"]
    columns: dict[str, list[Any]] = {name: [] for name in rows.column_names}
    for group, item in enumerate(read("train"), start=first_group):
        for window, name in _labelled_windows(item, draw):
            if name not in label.names:
                name = CONTRADICTION
            values = {**window, "id": -1, "group": group, "label": label.str2int(name)}
            for column, cells in columns.items():
                cells.append(values.get(column))
    return type(rows).from_dict(columns, features=rows.features)


def _labelled_windows(item: Item, draw: np.random.Generator) -> Iterator[tuple[Row, str]]:
    for judged in item.judged():
        turns = read_turns([*judged.messages, {"role": "assistant", "content": judged.reply}])
        rows = [window.row for window in windows(turns, len(turns) - 1)]
        # The last window where the evidence is in the last user message, which every window holds, or in the reply.
        place = min(item.evidence // 2, len(rows) - 1) if isinstance(item, Quadruple) else len(rows) - 1
        yield rows[place], judged.label
        if judged.label != NON_CONTRADICTION and isinstance(item, Quadruple) and len(rows) > 1:
            yield rows[(place + draw.integers(1, len(rows))) % len(rows)], NON_CONTRADICTION
