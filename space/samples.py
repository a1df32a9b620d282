"""What a visitor can try with one click."""

import json
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from contradiction.chats import pasted
from contradiction.conversation import alternating
from contradiction.labels import HISTORY, INTRA, LABELS, NON_CONTRADICTION, ROLE
from contradiction.paths import SAMPLE

FOLDER = Path(__file__).parent
KINDS = (HISTORY, INTRA, ROLE, NON_CONTRADICTION)
# How u2 was made, as the raw file names it -> the key of its words.
TRIGGERS = {
    "短句": "short",
    "设问-bot": "inquiring-bot",
    "设问-user": "inquiring-user",
    "设问-user-v2": "inquiring-user-m",
    "同义-回译": "paraphrasing",
    "同义-同义词": "perturb-synonym",
    "反义-反义词": "perturb-antonym",
    "反义-否定词": "perturb-negative",
}
LONG = "long"
Example = dict[str, Any]


def examples() -> list[Example]:
    """Chats with what they are sorted by, their kind, a title and their messages.

    They are sorted by category, by trigger or by persona; longer chats are a group of their own. The kind is the one
    for which a chat was written, not the verdict of a detector.
    """
    chosen = tomllib.loads((FOLDER / "examples.toml").read_text(encoding="utf-8"))
    rows = [json.loads(line) for line in SAMPLE.read_text(encoding="utf-8").splitlines()]
    samples: dict[tuple[str, str, str], Example] = {}
    for row in rows:
        texts, label = [row[name] for name in ("u1", "b1", "u2", "b2")], LABELS["4-class"][row["label"]]
        if row["u1"] in chosen["contexts"]:
            samples.setdefault(("category", label, row["u1"]), _short("category", label, texts))
        # One that contradicts and one that does not, by trigger.
        trigger = TRIGGERS[row["method"]]
        samples.setdefault(("trigger", trigger, str(label == NON_CONTRADICTION)), _short("trigger", trigger, texts))
    for row in chosen["personas"]:
        samples["persona", row["kind"], row["turns"][0]] = _short("persona", row["kind"], row["turns"])
    order = [*KINDS, *TRIGGERS.values()]
    short = sorted(samples.values(), key=lambda row: order.index(row["kind"]) if row["kind"] in order else len(order))
    chats = (FOLDER / "chats.txt").read_text(encoding="utf-8").strip().split("\n\n")
    return short + [
        {"by": LONG, "kind": LONG, "title": [chat.partition("\n")[0]], "messages": pasted.read_pasted(chat)}
        for chat in chats
    ]


def _short(by: str, kind: str, texts: Sequence[str]) -> Example:
    return {"by": by, "kind": kind, "title": [texts[1], texts[3]], "messages": alternating(texts)}


def pairs() -> list[Example]:
    """Chats with a reply that contradicts, and one that does not."""
    rows = tomllib.loads((FOLDER / "examples.toml").read_text(encoding="utf-8"))["pairs"]
    return [{"messages": alternating(row["turns"]), "one": row["contradicts"], "other": row["fits"]} for row in rows]
