"""The errors: the surest of them with their utterances, and all of them by kind."""

from collections import Counter

import numpy as np

from contradiction.inputs.views import CONVERSATION
from contradiction.io.tables import percent
from contradiction.reports.analysis.predictions import Material
from contradiction.reports.analysis.slices import Records

WORST = 50
ENOUGH = 20  # rows below which a trigger's rate is not named in a sentence


def errors(material: Material) -> Records:
    """All errors, the surest first: rank, id, label, predicted, score (probability of the label predicted), ..."""
    wrong = np.flatnonzero(material.references != material.predictions)
    scores = material.probabilities[np.arange(len(material.rows)), material.predictions]
    order = sorted(wrong.tolist(), key=lambda index: (-scores[index], material.rows[index]["id"]))
    return [
        {
            "rank": rank,
            "id": row["id"],
            "label": material.labels[material.references[index]],
            "predicted": material.labels[material.predictions[index]],
            "score": float(scores[index]),
            "trigger": row["trigger"],
            "bot": row["bot"],
            "seen_context": row["seen_context"],
            **{column: row[column] for column in CONVERSATION},
        }
        for rank, index in enumerate(order, start=1)
        for row in (material.rows[index],)
    ]


def kinds(material: Material, found: Records, worst: int = WORST) -> Records:
    """Errors grouped by label and prediction, the most frequent first, with a sentence on each made from counts.

    Args:
        material: the evaluation.
        found: what ``errors`` returns.
        worst: how many of the first of them count as the surest.

    Returns:
        A record a kind: label, predicted, errors, of (rows with that label), share, among_worst, sentence.
    """
    label_counts = Counter(material.labels[index] for index in material.references.tolist())
    made = Counter(
        zip(
            (material.labels[index] for index in material.references.tolist()),
            material.values("trigger"),
            strict=True,
        )
    )
    surest = Counter((each["label"], each["predicted"]) for each in found[:worst])
    records = []
    for (label, predicted), count in Counter((each["label"], each["predicted"]) for each in found).most_common():
        these = [each for each in found if (each["label"], each["predicted"]) == (label, predicted)]
        triggers = Counter(each["trigger"] for each in these)
        of, among = label_counts[label], surest[label, predicted]
        records.append(
            {
                "label": label,
                "predicted": predicted,
                "errors": count,
                "of": of,
                "share": count / of,
                "among_worst": among,
                "sentence": _sentence(label, predicted, count, of, among, min(worst, len(found)), triggers, made),
            }
        )
    return records


def _sentence(
    label: str,
    predicted: str,
    count: int,
    of: int,
    among: int,
    worst: int,
    triggers: Counter[str],
    made: Counter[tuple[str, str]],
) -> str:
    said = (
        f"{count:,} of {of:,} {label} rows ({percent(count / of)} %) are called {predicted}; of the {worst} surest "
        f"errors {among} are of this kind."
    )
    rates = {
        trigger: (triggers[trigger], rows) for (kind, trigger), rows in made.items() if kind == label and rows >= ENOUGH
    }
    if len(rates) < 2:
        return said
    ordered = sorted(rates, key=lambda trigger: (-rates[trigger][0] / rates[trigger][1], trigger))
    most, least = (f"{name} ({rates[name][0]} of {rates[name][1]})" for name in (ordered[0], ordered[-1]))
    return f"{said} Most often after the trigger {most}, least often after {least}."
