"""Writes training messages in other ways that leave their labels as they are.

The replies of CDConv have 12 characters on average and at most 38. Half of them end without punctuation. A detector
that was trained on them alone changes some decisions if a full stop is added, and misses most contradictions in the
long replies of language models.
"""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from contradiction.conversation import ASSISTANT
from contradiction.data.corpora.crossed import Quadruple, read
from contradiction.inputs.views import CONVERSATION
from contradiction.training.losses import GROUP

if TYPE_CHECKING:
    from datasets import Dataset

NEUTRAL_SENTENCES = Path(__file__).resolve().parents[1] / "data" / "neutral_sentences.txt"
FULL_STOP = "。"
PUNCTUATION = "。！？!?…~～，,；;：:"
REPLIES = ("b1", "b2")
# A sentence of 8 to 40 characters without the pronouns I, you, he and she.
STATEMENT = re.compile(r"(?:(?<=[。！？])|^)[^。！？我你您咱他她]{7,39}[。！？]")
LONG = 60  # characters
MOST_SENTENCES = 4  # added to one reply; a sentence has 8 to 45 characters


def rewritten_rows(rows: "Dataset", endings: float, long_replies: float, seed: int) -> "Dataset":
    """The same rows with other endings and longer replies. The labels are those of the original rows.

    Args:
        rows: conversations of two turns. An absent or empty message stays as it is.
        endings: the share of the messages whose full stop at the end is added or removed. A message with another
            punctuation mark at the end does not change.
        long_replies: the share of the rows in which other sentences are added to ``b1``, to ``b2`` or to both. If the
            rows have a column ``group``, it is the share of the groups, so the rows of a group have similar lengths. A
            reply of ``LONG`` characters or more stays as it is.
        seed: the random seed.
    """
    draw = np.random.default_rng(seed)
    columns = {name: list(rows[name]) for name in CONVERSATION if name in rows.column_names}
    groups = np.asarray(rows[GROUP] if GROUP in rows.column_names else range(len(rows)), dtype=int)
    is_longer = draw.random(groups.max(initial=-1) + 1) < long_replies
    for row, group in enumerate(groups):
        if is_longer[group]:
            for name in (REPLIES, REPLIES[:1], REPLIES[1:])[draw.integers(3)]:
                reply = columns[name][row] if name in columns else None
                longer = _longer(reply or "", draw)
                if reply and len(reply) < LONG:  # before an opening reply there is none
                    columns[name][row] = longer
        for messages in columns.values():
            if draw.random() < endings and messages[row]:
                messages[row] = _other_ending(messages[row])
    return with_values(rows, columns)


def with_values(rows: "Dataset", columns: Mapping[str, list[Any]]) -> "Dataset":
    """The same rows with other values in some columns."""
    return type(rows).from_dict({**rows.to_dict(), **columns}, features=rows.features)


def _other_ending(message: str) -> str:
    if message.endswith(FULL_STOP):
        return message[:-1] or message
    return message if message[-1] in PUNCTUATION else message + FULL_STOP


def _longer(reply: str, draw: np.random.Generator) -> str:
    """A reply with other sentences before it, after it, or on both sides."""
    chosen = []
    for _ in range(draw.integers(1, MOST_SENTENCES + 1)):
        sentences = (neutral_sentences(), statements())[draw.integers(2)]
        chosen.append(sentences[draw.integers(len(sentences))])
    before = chosen[: draw.integers(len(chosen) + 1)]
    after = chosen[len(before) :]
    end = FULL_STOP if after and reply and reply[-1] not in PUNCTUATION else ""
    return "".join([*before, reply, end, *after])


@cache
def neutral_sentences() -> tuple[str, ...]:
    """Sentences that fit beside any reply, as language models write them. They were written for this project (CC0)."""
    return tuple(NEUTRAL_SENTENCES.read_text(encoding="utf-8").splitlines())


@cache
def statements() -> tuple[str, ...]:
    """Sentences of the assistant in the training split of the crossed chats, about neither the speaker nor the user."""
    sentences: dict[str, None] = {}
    for item in read("train"):
        if isinstance(item, Quadruple):
            for message in (*item.a, *item.b):
                if message["role"] == ASSISTANT:
                    sentences |= dict.fromkeys(STATEMENT.findall(message["content"]))
    return tuple(sentences)
