"""Contrast pairs: two replies to one chat, of which one is a contradiction.

The pairs were written for this project. None of their chats is in CDConv, so habits of its bots or annotators do not
help. Simple cues do not help either: the contradiction is the longer reply in half of the pairs, and in half it shares
more characters with the bot's first reply. Pairs of similar inputs with different labels are contrast sets (Gardner et
al., 2020, *Evaluating models' local decision boundaries via contrast sets*). Grouped by what has to be understood, they
are minimum functionality tests (Ribeiro et al., 2020, *Beyond accuracy: behavioral testing of NLP models with
CheckList*).
"""

import csv
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.metrics import roc_auc_score

from contradiction.conversation import alternating
from contradiction.detector import ContradictionDetector
from contradiction.errors import InputError
from contradiction.evaluation.figures import contradiction_probabilities, ratio_interval
from contradiction.inputs.views import CONVERSATION
from contradiction.io.files import locked, sha256_of, write_text
from contradiction.io.tables import Table, as_csv, interval, percent
from contradiction.labels import is_contradiction, task_of
from contradiction.paths import SAMPLE
from contradiction.verdict import Verdict

if TYPE_CHECKING:
    from datasets import Dataset

PAIRS = SAMPLE.with_name("contrast.jsonl")
ALL = "all"
COUNTS = ("pairs", "right", "order")
FILE = "contrast.csv"  # in the folder of saved results
COLUMNS = ("detector", "file", "phenomenon", *COUNTS)
Counts = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True)
class Pair:
    """A chat and two replies to it.

    Attributes:
        phenomenon: what a reader has to understand, for instance ``number``.
        turns: u1, b1 and u2.
        contradicts: the bot's reply that contradicts them, or itself.
        label: the 4-class label of that reply.
        fits: the reply that contradicts nothing.
    """

    phenomenon: str
    turns: tuple[str, str, str]
    contradicts: str
    label: str
    fits: str

    def chats(self) -> list[list[dict[str, str]]]:
        """The chat with the reply that contradicts, and the one with the reply that fits."""
        return [alternating([*self.turns, reply]) for reply in (self.contradicts, self.fits)]


@dataclass(frozen=True)
class JudgedPair:
    """The verdicts of a detector on both replies of a pair."""

    pair: Pair
    contradicting: Verdict
    fitting: Verdict

    @property
    def right(self) -> bool:
        """Whether the one reply is called a contradiction of any kind, and the other is not."""
        return self.contradicting.contradiction is True and self.fitting.contradiction is False

    @property
    def ordered(self) -> bool:
        """Whether the contradiction has the higher probability of being one, whatever the threshold."""
        return (self.contradicting.probability or 0.0) > (self.fitting.probability or 0.0)

    def replies(self) -> list[tuple[str, Verdict, bool]]:
        """Each reply, its verdict, and whether it is a contradiction."""
        return [(self.pair.contradicts, self.contradicting, True), (self.pair.fits, self.fitting, False)]


def read_pairs() -> list[Pair]:
    """The pairs, those of one phenomenon together."""
    rows = map(json.loads, PAIRS.read_text(encoding="utf-8").splitlines())
    return [Pair(**row | {"turns": tuple(row["turns"])}) for row in rows]


def judge_pairs(
    detector: ContradictionDetector, pairs: Sequence[Pair], on_batch: Callable[[int], Any] | None = None
) -> list[JudgedPair]:
    """Judges both replies of each pair."""
    verdicts = iter(detector.batch([chat for pair in pairs for chat in pair.chats()], on_batch=on_batch))
    return [JudgedPair(pair, next(verdicts), next(verdicts)) for pair in pairs]


def count(judged_pairs: Sequence[JudgedPair]) -> dict[str, dict[str, int]]:
    """The number of ``pairs``, of those with both replies ``right``, and of those in ``order``.

    Returns:
        The counts by phenomenon, and over ``all``.
    """
    groups: dict[str, list[JudgedPair]] = {}
    for judged in judged_pairs:
        groups.setdefault(judged.pair.phenomenon, []).append(judged)
    return {
        name: {
            "pairs": len(group),
            "right": sum(judged.right for judged in group),
            "order": sum(judged.ordered for judged in group),
        }
        for name, group in {**groups, ALL: judged_pairs}.items()
    }


def fingerprint() -> str:
    """The fingerprint of the file of pairs. Tables leave out counts on other pairs."""
    return sha256_of(PAIRS)[:16]


def add(results: Iterable[Mapping[str, Any]], folder: str | Path) -> None:
    """Adds what ``cdconv contrast --json`` wrote to saved results, and replaces counts of the same detector."""
    path = Path(folder) / FILE
    with locked(path, wait=True):
        rows = _read(path)
        for result in results:
            rows = [row for row in rows if row["detector"] != result["name"]]
            for phenomenon, counts in result["contrast"].items():
                row = {"detector": result["name"], "file": result["pairs"], "phenomenon": phenomenon}
                rows.append(row | {key: str(counts[key]) for key in COUNTS})
        write_text(path, as_csv(sorted(rows, key=lambda row: row["detector"]), COLUMNS))


def load(folder: str | Path) -> dict[str, Counts]:
    """The saved counts of each detector on the current pairs, by its name."""
    saved: dict[str, dict[str, dict[str, int]]] = {}
    current = fingerprint()
    for row in _read(Path(folder) / FILE):
        if row["file"] == current:
            saved.setdefault(row["detector"], {})[row["phenomenon"]] = {key: int(row[key]) for key in COUNTS}
    return {name: saved[name] for name in sorted(saved)}


def _read(path: Path) -> list[dict[str, str]]:
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    if rows and not set(COLUMNS) <= rows[0].keys():
        raise InputError(
            f"{path}: does not have the columns {', '.join(COLUMNS)}; `python -m paper.results add` writes this file"
        )
    return rows


SEED = 13


def pairs_of(rows: "Dataset") -> list[list[tuple[int, int]]]:
    """The pairs of a split, context by context.

    Returns:
        For each context with replies of both kinds, all pairs (contradiction, consistent reply), as row numbers.
    """
    names = rows.features["label"].names
    contradicts = [is_contradiction(names[label]) for label in rows["label"]]
    contexts: dict[tuple[str, ...], list[int]] = {}
    for number, context in enumerate(zip(*(rows[column] for column in CONVERSATION[:-1]), strict=True)):
        contexts.setdefault(context, []).append(number)
    pairs = [
        [(high, low) for high in members if contradicts[high] for low in members if not contradicts[low]]
        for members in contexts.values()
    ]
    return [group for group in pairs if group]


def in_order(probabilities: np.ndarray, pairs: Sequence[Sequence[tuple[int, int]]]) -> tuple[float, Sequence[float]]:
    """The share of the pairs of :func:`pairs_of` whose contradiction is more probable, and its 95 % bootstrap interval.

    Contexts are resampled, because the pairs of one context are not independent. A tie counts one half.
    """
    sums = []
    for group in pairs:
        high, low = np.array(group).T
        gaps = probabilities[high] - probabilities[low]
        sums.append(((gaps > 0).sum() + (gaps == 0).sum() / 2, len(group)))
    wins, counts = np.array(sums, dtype=float).T
    return float(wins.sum() / counts.sum()), ratio_interval(wins, counts, SEED)


def table(evaluations: Sequence[Mapping[str, Any]], rows: "Dataset") -> Table | None:
    """AUC and pairs in order of each evaluation with probabilities; None where there is nothing to compare."""
    pairs = pairs_of(rows)
    if not pairs:
        return None
    names = rows.features["label"].names
    references = [is_contradiction(names[label]) for label in rows["label"]]
    body = []
    for result in evaluations:
        if not result.get("probabilities") or list(result["ids"]) != list(rows["id"]):
            continue
        probabilities = contradiction_probabilities(task_of(result["config"]), result["probabilities"])
        share, bounds = in_order(probabilities, pairs)
        auc = roc_auc_score(references, probabilities)
        body.append((result["name"], percent(auc), percent(share), interval(bounds)))
    if not body:
        return None
    title = f"Ranking: contradictions above other replies, and {sum(map(len, pairs)):,} pairs of replies to one context"
    return Table(title, ("", "AUC", "pairs in order, %", "95 % interval"), body)
