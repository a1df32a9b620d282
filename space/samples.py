"""What a visitor can try with one click."""

import json
import tomllib
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from contradiction.chats import formats
from contradiction.conversation import ASSISTANT, USER
from contradiction.labels import HISTORY, INTRA, LABELS, NON_CONTRADICTION, ROLE

FOLDER = Path(__file__).parent
KINDS = (HISTORY, INTRA, ROLE, NON_CONTRADICTION)
LONG = "long"
Example = dict[str, Any]


def chat_of(texts: Sequence[str]) -> list[dict[str, str]]:
    """The messages of texts in turn, the user's first."""
    return [{"role": (USER, ASSISTANT)[index % 2], "content": text} for index, text in enumerate(texts)]


def examples() -> list[Example]:
    """Chats with their kind, a title and their messages: two turns first, by category, then longer ones."""
    named = tomllib.loads((FOLDER / "examples.toml").read_text(encoding="utf-8"))["contexts"]
    rows = (files("contradiction.data") / "sample.jsonl").read_text(encoding="utf-8").splitlines()
    found: dict[tuple[str, str], Example] = {}
    for row in map(json.loads, rows):
        kind = LABELS["4-class"][row["label"]]
        if row["u1"] in named:
            texts = [row[name] for name in ("u1", "b1", "u2", "b2")]
            example = {"kind": kind, "title": f"{row['b1']} → {row['b2']}", "messages": chat_of(texts)}
            found.setdefault((kind, row["u1"]), example)
    short = sorted(found.values(), key=lambda row: KINDS.index(row["kind"]))
    chats = (FOLDER / "chats.txt").read_text(encoding="utf-8").strip().split("\n\n")
    return short + [
        {"kind": LONG, "title": chat.partition("\n")[0], "messages": formats.read_pasted(chat)} for chat in chats
    ]


def pairs() -> list[Example]:
    """Chats with a reply that contradicts, and one that does not."""
    kept = tomllib.loads((FOLDER / "examples.toml").read_text(encoding="utf-8"))["pairs"]
    return [{"messages": chat_of(row["turns"]), "one": row["contradicts"], "other": row["fits"]} for row in kept]
