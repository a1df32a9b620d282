"""Contrast pairs: two replies to one chat, of which one is a contradiction.

They were written for this project, and no chat of CDConv is among them, so no habit of its bots or its annotators
helps. Nor does what is nearest at hand here: the reply that contradicts is the longer one in half of the pairs, and in
half it has more characters of the bot's first reply. Pairs of like inputs with different labels are the contrast sets
of Gardner et al. (2020, *Evaluating models' local decision boundaries via contrast sets*); sorted by what has to be
understood, they are the minimum functionality tests of Ribeiro et al. (2020, *Beyond accuracy: behavioral testing of
NLP models with CheckList*).
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contradiction.conversation import ASSISTANT, USER
from contradiction.data.sources import SAMPLE
from contradiction.detector import ContradictionDetector
from contradiction.io.files import read_json
from contradiction.io.tables import Table, interval, percent
from contradiction.rates import wilson
from contradiction.verdict import Verdict

PAIRS = SAMPLE.with_name("contrast.jsonl")
ALL = "all"
COUNTS = ("pairs", "right", "order")
SHARES = ("both right", "in order")


@dataclass(frozen=True)
class Pair:
    """A chat and two ways in which it may go on.

    Attributes:
        phenomenon: what has to be understood, for instance ``number``.
        turns: u1, b1 and u2.
        contradicts: the bot's reply that contradicts them, or itself.
        label: of that reply, in the words of 4-class.
        fits: the reply that does not.
    """

    phenomenon: str
    turns: tuple[str, str, str]
    contradicts: str
    label: str
    fits: str

    def chats(self) -> list[list[dict[str, str]]]:
        """The chat with the reply that contradicts, and the one with the reply that fits."""
        return [
            [
                {"role": role, "content": text}
                for role, text in zip((USER, ASSISTANT) * 2, (*self.turns, reply), strict=True)
            ]
            for reply in (self.contradicts, self.fits)
        ]


@dataclass(frozen=True)
class Answer:
    """What a detector says of a pair."""

    pair: Pair
    contradicting: Verdict
    fitting: Verdict

    @property
    def right(self) -> bool:
        """Whether the one reply is called a contradiction, of whatever kind, and the other is not."""
        return self.contradicting.is_contradiction is True and self.fitting.is_contradiction is False

    def replies(self) -> list[tuple[str, Verdict, bool]]:
        """Each reply, what is said of it, and whether it is a contradiction."""
        return [(self.pair.contradicts, self.contradicting, True), (self.pair.fits, self.fitting, False)]

    @property
    def ordered(self) -> bool:
        """Whether the one is more probably a contradiction than the other, wherever the decision is drawn."""
        return (self.contradicting.probability or 0.0) > (self.fitting.probability or 0.0)


def read_pairs(path: str | Path = PAIRS) -> list[Pair]:
    """The pairs, those of one phenomenon together."""
    lines = Path(path).read_text(encoding="utf-8").splitlines()
    return [Pair(**{**values, "turns": tuple(values["turns"])}) for values in map(json.loads, lines)]


def ask(
    detector: ContradictionDetector, pairs: Sequence[Pair], on_batch: Callable[[int], Any] | None = None
) -> list[Answer]:
    """What a detector says of both replies of each pair.

    Args:
        detector: with its decision rule or threshold.
        pairs: to judge.
        on_batch: called with the number of windows done, after each forward pass.
    """
    verdicts = iter(detector.batch([chat for pair in pairs for chat in pair.chats()], on_batch=on_batch))
    return [Answer(pair, next(verdicts), next(verdicts)) for pair in pairs]


def summary(answers: Sequence[Answer]) -> dict[str, dict[str, int]]:
    """By phenomenon, and over ``all``: the number of ``pairs``, those with both ``right``, and those in ``order``."""
    groups: dict[str, list[Answer]] = {}
    for answer in answers:
        groups.setdefault(answer.pair.phenomenon, []).append(answer)
    return {name: _counts(group) for name, group in {**groups, ALL: answers}.items()}


def _counts(answers: Sequence[Answer]) -> dict[str, int]:
    found = (len(answers), sum(each.right for each in answers), sum(each.ordered for each in answers))
    return dict(zip(COUNTS, found, strict=True))


def contrast_table(name: str, counts: Mapping[str, Mapping[str, int]]) -> Table:
    """What :func:`summary` counts; over all also as shares in percent, with 95 % Wilson intervals."""
    rows = [[phenomenon, *(str(each[key]) for key in COUNTS)] for phenomenon, each in counts.items()]
    rows.append(["%", "", *_shares(counts[ALL])])
    return Table(f"{name}: contrast pairs", ("phenomenon", "pairs", *SHARES), rows)


def kept_table(folder: str | Path) -> Table | None:
    """A row a detector, from the files that ``cdconv contrast --json`` wrote; None where none is of these pairs.

    Args:
        folder: of kept results; those of contrast pairs lie in its sub-folder ``contrast``.
    """
    kept = map(read_json, Path(folder, "contrast").glob("*.json"))
    found = sorted((each for each in kept if each.get("pairs") == fingerprint()), key=lambda each: each["name"])
    if not found:
        return None
    phenomena = [name for name in found[0]["contrast"] if name != ALL]
    rows = []
    for each in found:
        counts = each["contrast"]
        parts = [f"{counts[name]['right']} of {counts[name]['pairs']}" for name in phenomena]
        rows.append([each["name"], *_shares(counts[ALL]), *parts])
    return Table("", ("detector", *SHARES, *phenomena), rows)


def fingerprint() -> str:
    """Of the file of the pairs: counts on other pairs stand in no table beside these."""
    return hashlib.sha256(PAIRS.read_bytes()).hexdigest()[:16]


def _shares(counts: Mapping[str, int]) -> list[str]:
    pairs, *parts = (counts[key] for key in COUNTS)
    return [f"{percent(part / pairs)} ({interval(wilson(part, pairs))})" for part in parts]
