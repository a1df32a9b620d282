"""The word lists of the probes, and the words of a Chinese sentence."""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
OPENINGS = FOLDER / "openings.txt"
WORDS = FOLDER / "words.toml"


@cache
def lists() -> dict[str, Any]:
    """The lists of ``words.toml``, by name."""
    return tomllib.loads(WORDS.read_text(encoding="utf-8"))


def tag(text: str) -> list[tuple[str, str]]:
    """The words of a sentence, each with the tag of its word class as jieba names it (n, v, nr, ns, …)."""
    import rjieba

    return rjieba.tag(text)


def segment(text: str) -> list[str]:
    """The words of a sentence; together they are the sentence."""
    import rjieba

    return rjieba.cut(text)
