"""Scores of the evidence that a detector names, and of false alarms where the evidence was removed.

After Nie et al. (ACL 2021), section 5: precision, recall and F1 of the evidence, and the strict accuracy, for which
label and evidence must both be right. Scores by the number of inserted turns show the effect of long chats.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from contradiction.evaluation.figures import wilson
from contradiction.io.tables import Table, percent, with_interval
from contradiction.labels import CONTRADICTION, HISTORY, is_contradiction, merge_label

# The counts of each row; every score is a ratio of their sums.
COLUMNS = (
    "rows", "history", "hits", "predicted", "gold", "all_hits", "all_predicted", "all_gold",
    "right", "strict", "two_class_right", "two_class_strict",
)  # fmt: skip
HEADERS = {"precision": "precision", "recall": "recall", "f1": "F1"}


def score_evidence(
    references: Sequence[str],
    predictions: Sequence[str],
    evidence: Sequence[Iterable[int]],
    predicted_evidence: Sequence[Iterable[int]],
    *,
    ids: Sequence[int] | None = None,
    groups: Sequence[int] | None = None,
    bootstrap: int = 0,
) -> dict[str, Any]:
    """Scores labels and evidence together. All sequences have one entry for each row; a ratio of 0 / 0 is 0.

    Args:
        references: label names of ``4-class``.
        predictions: label names of ``4-class``.
        evidence: indices of the messages that the reply contradicts; empty for all labels except history.
        predicted_evidence: the predicted indices.
        ids: rows of one id are drawn together by the bootstrap, as the versions of one conversation must be.
        groups: for instance the number of inserted turns; each group is also scored alone.
        bootstrap: number of resamples of the 95 % intervals; 0 for none.

    Returns:
        ``n`` and ``history`` (rows, and those of the reference history);
        ``evidence``: precision, recall, f1 (fractions), over all indices in rows of the reference history;
        ``evidence_everywhere``: the same over all rows, so that evidence named in others counts as wrong;
        ``accuracy``, ``strict_accuracy`` (label right, and evidence exactly right), and both in ``two_class``;
        with bootstrap ``interval``: the bounds of each score under the same names (those of two_class as
        ``two_class_accuracy`` and ``two_class_strict_accuracy``, of evidence as ``evidence_f1``, ...), and how they
        were drawn; with groups ``groups``: all this for each group, by its number as a string, in order.
    """
    counts = np.array([_count(*row) for row in zip(references, predictions, evidence, predicted_evidence, strict=True)])
    clusters = np.arange(len(counts)) if ids is None else np.asarray(ids)
    result = _report(counts, clusters, bootstrap)
    if groups is not None:
        group_of_row = np.asarray(groups)
        result["groups"] = {
            str(group): _report(counts[group_of_row == group], clusters[group_of_row == group], bootstrap)
            for group in np.unique(group_of_row).tolist()
        }
    return result


def false_alarms(origins: Sequence[str], predictions: Sequence[str], forms: Sequence[str]) -> dict[str, Any]:
    """How often a reply is called a contradiction although the contradicted turn was removed (checklist ``rct``).

    Args:
        origins: the original label names of ``4-class``; only those of history count.
        predictions: label names of ``4-class``, on the rows without that turn.
        forms: ``removed`` or ``replaced``, for each row.

    Returns:
        By form: ``n`` (the rows of history), ``history`` and ``contradiction`` (the fraction of them with that
        prediction, or any contradiction), and ``interval`` (the 95 % Wilson interval of both).
    """
    result = {}
    rows = list(zip(origins, predictions, forms, strict=True))
    for form in dict.fromkeys(forms):
        labels = [label for origin, label, form_of_row in rows if (origin, form_of_row) == (HISTORY, form)]
        alarms = {HISTORY: labels.count(HISTORY), CONTRADICTION: sum(map(is_contradiction, labels))}
        result[form] = {
            "n": len(labels),
            **{name: count / len(labels) if labels else 0.0 for name, count in alarms.items()},
            "interval": {name: list(wilson(count, len(labels))) for name, count in alarms.items()},
        }
    return result


def turns_of(evidence: Iterable[Iterable[int]]) -> list[set[int]]:
    """The indices of turns from the indices of messages, in chats with alternating roles.

    A detector that reads turns names the reply of a turn as evidence. Where the reply contradicts the user's message of
    that turn, the turn is right and the message is not.
    """
    return [{index // 2 for index in indices} for indices in evidence]


def table(result: Mapping[str, Any], title: str = "", *, named: bool = True, categories: bool = True) -> Table:
    """The scores of ``score_evidence``, with their intervals: a row for each number of inserted turns, and one for all.

    Args:
        result: the result of ``score_evidence``.
        title: the title of the table.
        named: whether the detector names evidence; otherwise the table has only accuracies.
        categories: whether the detector predicts categories; otherwise there are only two classes.
    """
    figures = {
        **({f"evidence_{name}": header for name, header in HEADERS.items()} if named else {}),
        **({"accuracy": "accuracy", "strict_accuracy": "strict"} if categories else {}),
        "two_class_accuracy": "2-class",
        "two_class_strict_accuracy": "2-class strict",
    }
    shown = {key: header for key, header in figures.items() if named or "strict" not in key}
    body = [
        (name, f"{scores['n']:,}", *_cells(scores, shown))
        for name, scores in (*result.get("groups", {}).items(), ("all", result))
    ]
    return Table(title, ("inserted", "rows", *shown.values()), body)


def _cells(result: Mapping[str, Any], shown: Iterable[str]) -> list[str]:
    values = {
        **result,
        **{f"evidence_{name}": value for name, value in result["evidence"].items()},
        **{f"two_class_{name}": value for name, value in result["two_class"].items()},
    }
    bounds = result.get("interval")
    return [with_interval(values[name], bounds[name]) if bounds else percent(values[name]) for name in shown]


def _count(reference: str, prediction: str, evidence: Iterable[int], predicted: Iterable[int]) -> tuple[int, ...]:
    """The values of ``COLUMNS`` for one row."""
    gold, named = set(evidence), set(predicted)
    sizes = (len(gold & named), len(named), len(gold))
    history = reference == HISTORY
    exact, right = gold == named, reference == prediction
    right_merged = merge_label(reference) == merge_label(prediction)
    return (
        1, history, *(size * history for size in sizes), *sizes,
        right, right and exact, right_merged, right_merged and exact,
    )  # fmt: skip


def _report(counts: np.ndarray, clusters: np.ndarray, bootstrap: int) -> dict[str, Any]:
    """The scores of counts, shape (rows, columns), with the cluster of each row, shape (rows,)."""
    from evaluate_metric.evaluate_metric import Bootstrap

    total = counts.sum(axis=0)
    figures = {name: float(value) for name, value in _figures(total).items()}

    def part(prefix: str, names: Iterable[str]) -> dict[str, float]:
        return {name: figures[prefix + name] for name in names}

    accuracies = ("accuracy", "strict_accuracy")
    result: dict[str, Any] = {
        "n": int(total[COLUMNS.index("rows")]),
        "history": int(total[COLUMNS.index("history")]),
        "evidence": part("evidence_", HEADERS),
        "evidence_everywhere": part("evidence_everywhere_", HEADERS),
        **part("", accuracies),
        "two_class": part("two_class_", accuracies),
    }
    if bootstrap:
        resampling = Bootstrap(bootstrap)
        members = np.unique(clusters, return_inverse=True)[1]
        sums = np.zeros((members.max() + 1, len(COLUMNS)), dtype=np.int64)
        np.add.at(sums, members, counts)
        # Clusters with equal sums are interchangeable, so it is enough to draw how many of each kind there are.
        kinds, sizes = np.unique(sums, axis=0, return_counts=True)
        result["interval"] = resampling.interval(_figures(resampling.draw(sizes) @ kinds))
    return result


def _figures(sums: np.ndarray) -> dict[str, np.ndarray]:
    """The scores of sums, shape (..., columns), each of shape (...)."""
    column = dict(zip(COLUMNS, np.moveaxis(sums, -1, 0), strict=True))
    figures = {
        "accuracy": _ratio(column["right"], column["rows"]),
        "strict_accuracy": _ratio(column["strict"], column["rows"]),
        "two_class_accuracy": _ratio(column["two_class_right"], column["rows"]),
        "two_class_strict_accuracy": _ratio(column["two_class_strict"], column["rows"]),
    }
    for name, prefix in (("evidence", ""), ("evidence_everywhere", "all_")):
        hits, predicted, gold = (column[prefix + count] for count in ("hits", "predicted", "gold"))
        figures[f"{name}_precision"] = _ratio(hits, predicted)
        figures[f"{name}_recall"] = _ratio(hits, gold)
        figures[f"{name}_f1"] = _ratio(2 * hits, predicted + gold)
    return figures


def _ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    return np.divide(part, whole, out=np.zeros(np.shape(part)), where=np.asarray(whole) > 0)
