"""The chats that are measured: conversations of CDConv, the crossed chats, and long chats put together from CDConv."""

import os
import random
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from contradiction import cdconv
from contradiction.conversation import ASSISTANT, alternating
from contradiction.data.corpora.crossed import FOLDER, Quadruple, read_batch
from contradiction.paths import SAMPLE

Chat = Sequence[Mapping[str, str]]


@cache
def rows() -> list[dict[str, Any]]:
    """The rows of ``$CDCONV_FILE``, else those of the embedded sample."""
    return cdconv.read_rows(Path(os.environ.get("CDCONV_FILE") or SAMPLE))


def conversations(count: int) -> list[Chat]:
    """Conversations of two turns, each once."""
    return [alternating(row[column] for column in cdconv.UTTERANCES) for row in rows()[:count]]


def crossed() -> list[Chat]:
    """The crossed chats: each of two histories with each of two replies."""
    chats: list[Chat] = []
    for file in sorted(FOLDER.glob("*.jsonl")):
        for item in read_batch(file):
            if isinstance(item, Quadruple):
                replies = [{"role": ASSISTANT, "content": reply} for reply in (item.reply_a, item.reply_b)]
                chats += [[*history, reply] for history in (item.a, item.b) for reply in replies]
    return chats


def long_chat(turns: int, seed: int) -> Chat:
    """A chat of as many turns, made of the first turns of as many conversations, drawn by the seed."""
    firsts = list({row["u1"]: row for row in rows()}.values())
    chosen = random.Random(seed).sample(firsts, turns)
    return alternating(text for row in chosen for text in (row["u1"], row["b1"]))
