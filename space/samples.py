"""What a visitor can try with one click."""

import tomllib
from pathlib import Path
from typing import Any

from contradiction.conversation import alternating

FILE = Path(__file__).with_name("examples.toml")
Example = dict[str, Any]


def examples() -> list[Example]:
    """Chats with what they are sorted by, their kind, a title, messages, and which message contradicts."""
    rows = tomllib.loads(FILE.read_text(encoding="utf-8"))["examples"]
    return [
        {**row, "title": [turns[1], turns[3]] if len(turns) == 4 else turns[:1], "messages": alternating(turns)}
        for row in rows
        for turns in [row["turns"]]
    ]


def pairs() -> list[Example]:
    """Chats with a reply that contradicts, and one that does not."""
    rows = tomllib.loads(FILE.read_text(encoding="utf-8"))["pairs"]
    return [{"messages": alternating(row["turns"]), "one": row["contradicts"], "other": row["fits"]} for row in rows]
