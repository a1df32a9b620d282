"""Pairs of replies to one context, one of them a contradiction: whether a detector compares a reply with its context.

Macro-F1 on CDConv rewards what a reply sounds like. Both replies of a pair follow the same context, so only a detector
that reads the reply against the context can rank them; the share of pairs in order is 50 % for a coin.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.metrics import roc_auc_score

from contradiction.evaluation.figures import RESAMPLES
from contradiction.inputs.views import CONVERSATION
from contradiction.io.tables import Table, interval, percent
from contradiction.labels import LABELS, is_contradiction, task_of

if TYPE_CHECKING:
    from datasets import Dataset

SEED = 13


def pairs_of(rows: "Dataset") -> list[list[tuple[int, int]]]:
    """The pairs of a split, context by context.

    Args:
        rows: of a split of CDConv, with a column ``label``.

    Returns:
        For each context with replies of both kinds all its pairs (contradiction, consistent reply), as row numbers.
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


def in_order(probabilities: np.ndarray, pairs: Sequence[Sequence[tuple[int, int]]]) -> tuple[float, list[float]]:
    """The share of pairs whose contradiction has the higher probability, and its 95 % bootstrap interval.

    Contexts are resampled, because the pairs of one are not independent.

    Args:
        probabilities: of a contradiction, shape (rows,); a tie counts one half.
        pairs: as :func:`pairs_of` gives them.
    """
    sums = []
    for group in pairs:
        high, low = np.array(group).T
        gaps = probabilities[high] - probabilities[low]
        sums.append(((gaps > 0).sum() + (gaps == 0).sum() / 2, len(group)))
    wins, counts = np.array(sums, dtype=float).T
    draws = np.random.default_rng(SEED).integers(len(wins), size=(RESAMPLES, len(wins)))
    shares = wins[draws].sum(1) / counts[draws].sum(1)
    return float(wins.sum() / counts.sum()), np.quantile(shares, [0.025, 0.975]).tolist()


def table(evaluations: Sequence[Mapping[str, Any]], rows: "Dataset") -> Table | None:
    """AUC and pairs in order of each evaluation that keeps probabilities; None where there is nothing to compare.

    Args:
        evaluations: of these rows, see ``contradiction.evaluation.results``.
        rows: of a split.
    """
    pairs = pairs_of(rows)
    names = rows.features["label"].names
    references = [is_contradiction(names[label]) for label in rows["label"]]
    body = []
    for result in evaluations:
        if not result.get("probabilities") or list(result["ids"]) != list(rows["id"]):
            continue
        labels = LABELS[task_of(result["config"])]
        kinds = [number for number, label in enumerate(labels) if is_contradiction(label)]
        probabilities = np.asarray(result["probabilities"])[:, kinds].sum(axis=1)
        share, bounds = in_order(probabilities, pairs)
        auc = roc_auc_score(references, probabilities)
        body.append((result["name"], percent(auc), percent(share), interval(bounds)))
    if not pairs or not body:
        return None
    title = f"Ranking: contradictions above other replies, and {sum(map(len, pairs)):,} pairs of replies to one context"
    return Table(title, ("", "AUC", "pairs in order, %", "95 % interval"), body)
