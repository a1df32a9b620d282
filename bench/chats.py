"""The chats that are measured: conversations of CDConv, the crossed chats, and long chats put together from CDConv."""

import json
import os
import random
from functools import cache
from pathlib import Path
from typing import Any

import cdconv
from contradiction.paths import CHECKOUT, SAMPLE

Chat = list[dict[str, str]]


@cache
def rows() -> list[dict[str, Any]]:
    """The rows of ``$CDCONV_FILE``, else those of the embedded sample."""
    return cdconv.read_rows(Path(os.environ.get("CDCONV_FILE") or SAMPLE))


def conversations(count: int, first: int = 0) -> list[Chat]:
    """Conversations of two turns, each once."""
    chosen = rows()[first : first + count]
    return [_chat([row[column] for column in cdconv.UTTERANCES]) for row in chosen]


def crossed() -> list[Chat]:
    """The crossed chats: each of two histories with each of two replies."""
    chats = []
    for file in sorted(Path(CHECKOUT or ".", "contradiction/data/crossed").glob("*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            item = json.loads(line)
            if "a" not in item:  # a chat with a reply that contradicts itself, and one that does not
                continue
            replies = [{"role": "assistant", "content": item[reply]} for reply in ("reply_a", "reply_b")]
            chats += [[*item[history], reply] for history in ("a", "b") for reply in replies]
    return chats


def long_chat(turns: int, seed: int) -> Chat:
    """A chat of as many turns, made of the first turns of as many conversations, drawn by the seed."""
    firsts = list({row["u1"]: row for row in rows()}.values())
    chosen = random.Random(seed).sample(firsts, turns)
    return _chat([text for row in chosen for text in (row["u1"], row["b1"])])


def _chat(texts: list[str]) -> Chat:
    return [{"role": ("user", "assistant")[index % 2], "content": text} for index, text in enumerate(texts)]
