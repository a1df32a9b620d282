"""Scores on parts of a split: by how the conversation was made, by how long the reply is, by what training has seen."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from contradiction.evaluation.figures import RESAMPLES
from contradiction.labels import CONTRADICTION, HISTORY
from contradiction.rates import wilson
from contradiction.reports.analysis.predictions import Material

Records = list[dict[str, Any]]
ALL = "all rows"
BY = {
    "trigger": "trigger",
    "bot": "bot",
    "batch": "batch",
    "length": "reply length, characters",
    "seen_context": "u1, b1, u2 in training",
    "seen_u1": "u1 in training",
}


def slices(material: Material) -> Records:
    """Macro-F1 of every slice, as the metric counts it: over all labels, one that does not occur counts as 0.

    Returns:
        A record a slice, the first of all rows: by, slice, n, contradictions, macro_f1, low, high, accuracy, absent
        (labels that no row of it has); for 4-class also merged_macro_f1, merged_low, merged_high after the merge to
        2-class. Intervals are 95 % bootstrap intervals over the slice's rows.
    """
    values = {
        "trigger": material.values("trigger"),
        "bot": material.values("bot"),
        "batch": material.values("batch"),
        "length": quartiles([len(reply) for reply in material.values("b2")]),
        "seen_context": material.values("seen_context"),
        "seen_u1": material.values("seen_u1"),
    }
    records = [_score(material, np.ones(len(material.rows), dtype=bool), ALL, ALL)]
    for by, column in values.items():
        names = dict.fromkeys(_ordered(material, by, column))
        chosen = {name: np.array([value == name for value in column]) for name in names}
        records += [_score(material, mask, BY[by], name) for name, mask in chosen.items()]
    return records


def _ordered(material: Material, by: str, column: Sequence[str | None]) -> list[str]:
    present = [value for value in column if value is not None]
    if by == "length":
        return sorted(present, key=lambda name: int(name.partition("–")[0]))
    if by.startswith("seen"):
        return sorted(present)
    if by == "trigger":
        import cdconv

        return [name for name in cdconv.TRIGGERS.values() if name in set(present)]
    return sorted(present)


def quartiles(lengths: Sequence[int]) -> list[str]:
    """The quarter that each length falls into, named by its shortest and longest; equal lengths share one."""
    quarter = np.searchsorted(np.quantile(lengths, [0.25, 0.5, 0.75]), lengths, side="left")
    names = {}
    for index in set(quarter.tolist()):
        inside = np.array(lengths)[quarter == index]
        low, high = inside.min(), inside.max()
        names[index] = str(low) if low == high else f"{low}–{high}"
    return [names[index] for index in quarter.tolist()]


def _score(material: Material, mask: np.ndarray, by: str, name: str) -> dict[str, Any]:
    from evaluate_metric.evaluate_metric import score

    references, predictions = material.references[mask], material.predictions[mask]
    metrics = score(references, predictions, material.task, bootstrap=RESAMPLES)
    record = {
        "by": by,
        "slice": name,
        "n": metrics["n"],
        "contradictions": int(material.are_contradictions(references).sum()),
        **_macro_f1(metrics),
        "accuracy": metrics["accuracy"],
        "absent": ", ".join(label for label, one in metrics["per_class"].items() if not one["support"]),
    }
    if "two_class" in metrics:
        record |= {f"merged_{key}": value for key, value in _macro_f1(metrics["two_class"]).items()}
    return record


def _macro_f1(metrics: dict[str, Any]) -> dict[str, float]:
    low, high = metrics["interval"]["macro_f1"]
    return {"macro_f1": metrics["macro_f1"], "low": low, "high": high}


def personas(material: Material) -> Records:
    """How many history contradictions are found, by what about the bot they contradict.

    These rows have one label, so that there is recall and no F1.

    Returns:
        A record a persona: persona, n, found (rows given their label), recall, low, high (95 % Wilson interval).
    """
    import cdconv

    label = material.labels.index(HISTORY if HISTORY in material.labels else CONTRADICTION)
    column = material.values("persona")
    records = []
    for name in cdconv.LABELS["persona"]:
        if name in column:
            mask = np.array([value == name for value in column])
            found, n = int((material.predictions[mask] == label).sum()), int(mask.sum())
            low, high = wilson(found, n)
            records.append({"persona": name, "n": n, "found": found, "recall": found / n, "low": low, "high": high})
    return records
