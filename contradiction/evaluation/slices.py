"""Scores on parts of a split: by how the conversation was made, by reply length, by overlap with training."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from contradiction.evaluation.evaluated_rows import EvaluatedRows, Records
from contradiction.evaluation.figures import measure
from contradiction.labels import CONTRADICTION, HISTORY
from contradiction.rates import wilson

ALL = "all rows"
BY = {
    "trigger": "trigger",
    "bot": "bot",
    "batch": "batch",
    "length": "reply length, characters",
    "seen_context": "u1, b1, u2 in training",
    "seen_u1": "u1 in training",
}


def slices(evaluated: EvaluatedRows) -> Records:
    """Macro-F1 of every slice, as the metric counts it: over all labels, where one without rows counts as 0.

    Returns:
        A record for each slice, the first of all rows: by, slice, n, contradictions, macro_f1, low, high, accuracy,
        absent (labels that none of its rows has); for 4-class also merged_macro_f1, merged_low, merged_high. Intervals
        are 95 % bootstrap intervals over the rows of the slice.
    """
    values = {key: evaluated.column(key) for key in BY if key != "length"}
    values["length"] = quartiles([len(reply) for reply in evaluated.column("b2")])
    records = [_score(evaluated, np.ones(len(evaluated.rows), dtype=bool), ALL, ALL)]
    for by, title in BY.items():
        for name in dict.fromkeys(_ordered(by, values[by])):
            mask = np.array([value == name for value in values[by]])
            records.append(_score(evaluated, mask, title, name))
    return records


def _ordered(by: str, column: Sequence[str | None]) -> list[str]:
    present = [value for value in column if value is not None]
    if by == "length":
        return sorted(present, key=lambda name: int(name.partition("–")[0]))
    if by == "trigger":
        import cdconv

        return [name for name in cdconv.TRIGGERS.values() if name in set(present)]
    return sorted(present)


def quartiles(lengths: Sequence[int]) -> list[str]:
    """The quarter of each length, named by its shortest and longest; equal lengths are in the same quarter."""
    quarter = np.searchsorted(np.quantile(lengths, [0.25, 0.5, 0.75]), lengths, side="left")
    names = {}
    for index in set(quarter.tolist()):
        inside = np.array(lengths)[quarter == index]
        low, high = inside.min(), inside.max()
        names[index] = str(low) if low == high else f"{low}–{high}"
    return [names[index] for index in quarter.tolist()]


def _score(evaluated: EvaluatedRows, mask: np.ndarray, by: str, name: str) -> dict[str, Any]:
    references, predictions = evaluated.references[mask], evaluated.predictions[mask]
    metrics = measure(evaluated.task, references.tolist(), predictions.tolist())
    record = {
        "by": by,
        "slice": name,
        "n": metrics["n"],
        "contradictions": int(evaluated.are_contradictions(references).sum()),
        **_macro_f1(metrics),
        "accuracy": metrics["accuracy"],
        "absent": ", ".join(label for label, scores in metrics["per_class"].items() if not scores["support"]),
    }
    if "two_class" in metrics:
        record |= {f"merged_{key}": value for key, value in _macro_f1(metrics["two_class"]).items()}
    return record


def _macro_f1(metrics: dict[str, Any]) -> dict[str, float]:
    low, high = metrics["interval"]["macro_f1"]
    return {"macro_f1": metrics["macro_f1"], "low": low, "high": high}


def personas(evaluated: EvaluatedRows) -> Records:
    """How many history contradictions are found, by what about the bot they contradict.

    These rows have one label, so there is recall and no F1.

    Returns:
        A record for each persona: persona, n, found (rows predicted with their label), recall, low, high (95 % Wilson
        interval).
    """
    import cdconv

    label = evaluated.labels.index(HISTORY if HISTORY in evaluated.labels else CONTRADICTION)
    column = evaluated.column("persona")
    records = []
    for name in cdconv.LABELS["persona"]:
        if name in column:
            mask = np.array([value == name for value in column])
            found, n = int((evaluated.predictions[mask] == label).sum()), int(mask.sum())
            low, high = wilson(found, n)
            records.append({"persona": name, "n": n, "found": found, "recall": found / n, "low": low, "high": high})
    return records
