"""The mistakes of a detector: those with the highest probability, and all of them by kind."""

from collections import Counter

import numpy as np

from contradiction.evaluation.evaluated_rows import EvaluatedRows, Records
from contradiction.inputs.views import CONVERSATION
from contradiction.io.tables import percent

WORST = 50
ENOUGH = 20  # with fewer rows, the rate of a trigger is not named in a sentence


def mistakes(evaluated: EvaluatedRows) -> Records:
    """All mistakes, those with the highest probability first.

    Returns:
        A record for each: rank, id, label, predicted, score (the probability of the predicted label), trigger, bot,
        seen_context, u1, b1, u2, b2.
    """
    wrong = np.flatnonzero(evaluated.references != evaluated.predictions)
    scores = evaluated.probabilities[np.arange(len(evaluated.rows)), evaluated.predictions]
    order = sorted(wrong.tolist(), key=lambda index: (-scores[index], evaluated.rows[index]["id"]))
    return [
        {
            "rank": rank,
            "id": row["id"],
            "label": evaluated.labels[evaluated.references[index]],
            "predicted": evaluated.labels[evaluated.predictions[index]],
            "score": float(scores[index]),
            "trigger": row["trigger"],
            "bot": row["bot"],
            "seen_context": row["seen_context"],
            **{column: row[column] for column in CONVERSATION},
        }
        for rank, index in enumerate(order, start=1)
        for row in (evaluated.rows[index],)
    ]


def kinds(evaluated: EvaluatedRows, found: Records, worst: int = WORST) -> Records:
    """Mistakes grouped by label and prediction, the most frequent group first, with a sentence on each.

    Args:
        evaluated: the evaluation.
        found: what :func:`mistakes` returns.
        worst: how many of the first of them count as the worst.

    Returns:
        A record for each kind: label, predicted, errors, of (rows with that label), share, among_worst, sentence.
    """
    labels = [evaluated.labels[index] for index in evaluated.references.tolist()]
    label_rows = Counter(labels)
    trigger_rows = Counter(zip(labels, evaluated.column("trigger"), strict=True))
    worst_kinds = Counter((record["label"], record["predicted"]) for record in found[:worst])
    records = []
    for (label, predicted), errors in Counter((each["label"], each["predicted"]) for each in found).most_common():
        of_kind = [each for each in found if (each["label"], each["predicted"]) == (label, predicted)]
        rows, among_worst = label_rows[label], worst_kinds[label, predicted]
        sentence = (
            f"{errors:,} of {rows:,} {label} rows ({percent(errors / rows)} %) are called {predicted}. Of the "
            f"{min(worst, len(found))} worst mistakes {among_worst} are of this kind."
        )
        triggers = Counter(each["trigger"] for each in of_kind)
        rates = {
            trigger: (triggers[trigger], n)
            for (its_label, trigger), n in trigger_rows.items()
            if its_label == label and n >= ENOUGH
        }
        records.append(
            {
                "label": label,
                "predicted": predicted,
                "errors": errors,
                "of": rows,
                "share": errors / rows,
                "among_worst": among_worst,
                "sentence": sentence + _trigger_sentence(rates),
            }
        )
    return records


def _trigger_sentence(rates: dict[str, tuple[int, int]]) -> str:
    """The triggers with the highest and the lowest rate of a kind of mistakes; empty for fewer than two triggers."""
    if len(rates) < 2:
        return ""
    ordered = sorted(rates, key=lambda trigger: (-rates[trigger][0] / rates[trigger][1], trigger))
    most, least = (f"{name} ({rates[name][0]} of {rates[name][1]})" for name in (ordered[0], ordered[-1]))
    return f" They are most frequent after the trigger {most} and least frequent after {least}."
