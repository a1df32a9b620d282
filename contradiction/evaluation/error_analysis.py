"""Where a detector fails: scores on parts of a split, its mistakes, and the removal test.

The removal test follows RCT of DECODE: without the first turn, a history contradiction has nothing left to contradict.
A detector that still calls it a contradiction judges by the reply alone.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from contradiction.data.splits import load_split
from contradiction.detector import ContradictionDetector
from contradiction.errors import InputError
from contradiction.evaluation.figures import (
    ScoredRows,
    are_contradictions,
    contradiction_probabilities,
    measure,
    wilson,
)
from contradiction.inputs.views import CONVERSATION
from contradiction.io.tables import percent
from contradiction.labels import (
    CATEGORIES,
    CONTRADICTION,
    GROUPED,
    HISTORY,
    INTRA,
    LABELS,
    NON_CONTRADICTION,
    ROLE,
    task_of,
)

CONTEXT = ("u1", "b1", "u2")
SEEN = (CONTEXT, ("u1",))  # the columns whose values are looked up in the training split
Records = list[dict[str, Any]]  # a table: one dict for each row, all with the same keys, fractions unrounded


@dataclass(frozen=True, kw_only=True)
class EvaluatedRows(ScoredRows):
    """The rows of one evaluation.

    Attributes:
        evaluation: see :func:`contradiction.evaluation.results.evaluation`; it has probabilities.
        rows: of the split, in its order. Each has id, u1, b1, u2, b2; trigger, bot and batch by name; category (the
            4-class label); persona (None except for history); seen_context and seen_u1 (whether the training split has
            the same u1, b1 and u2, or the same u1: ``seen`` or ``unseen``; None on the training split itself).
    """

    probabilities: np.ndarray
    evaluation: Mapping[str, Any]
    rows: Sequence[Mapping[str, Any]]

    @classmethod
    def of(cls, evaluation: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> Self:
        """An evaluation and its rows."""
        columns = {key: np.array(evaluation[key]) for key in ("references", "predictions", "probabilities")}
        return cls(task=task_of(evaluation["config"]), evaluation=evaluation, rows=rows, **columns)

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the labels, by class id."""
        return LABELS[self.task]

    def contradiction_probability(self) -> np.ndarray:
        """P(contradiction), the sum over all contradictions, shape (rows,)."""
        # Saved probabilities are rounded, so their sum may slightly exceed 1.
        return np.clip(contradiction_probabilities(self.task, self.probabilities), 0, 1)

    def column(self, name: str) -> list[Any]:
        """A column of the rows."""
        return [row[name] for row in self.rows]


def load_rows(evaluation: Mapping[str, Any], data: str | Path) -> EvaluatedRows:
    """Loads the rows of an evaluation with their other columns and labels.

    Raises:
        InputError: the evaluation is on other rows, or the rows are all contradictions, or contain none.
    """
    config, split = evaluation["config"], evaluation["split"]
    suffix = GROUPED if config.endswith(GROUPED) else ""
    split_rows = load_split(data, config, split)
    # Compares ids and labels, because older files have another kind of fingerprint.
    if split_rows["id"][:] != list(evaluation["ids"]) or split_rows["label"][:] != list(evaluation["references"]):
        raise InputError(
            f"{evaluation['name']} was evaluated on other rows than the {split} split of {config!r} in {data}"
        )
    if missing := [column for column in ("trigger", "bot", "batch") if column not in split_rows.column_names]:
        raise InputError(f"{data}: the rows of {config!r} have no {', '.join(missing)}; the data needs those of CDConv")
    categories, personas = (_label_names(data, task + suffix, split) for task in ("4-class", "persona"))
    train = None if split == "train" else load_split(data, config, "train")
    known: dict[tuple[str, ...], set[tuple[str, ...]]] = (
        {columns: set(zip(*(train[column][:] for column in columns), strict=True)) for columns in SEEN} if train else {}
    )

    def seen(row: Mapping[str, Any], columns: tuple[str, ...]) -> str | None:
        if not known:
            return None
        return "seen" if tuple(row[column] for column in columns) in known[columns] else "unseen"

    features = split_rows.features  # a copy, each time
    rows = [
        {
            **row,
            "trigger": features["trigger"].int2str(row["trigger"]),
            "bot": features["bot"].int2str(row["bot"]),
            "batch": str(row["batch"]),
            "category": categories[row["id"]],
            "persona": personas.get(row["id"]),
            "seen_context": seen(row, CONTEXT),
            "seen_u1": seen(row, ("u1",)),
        }
        for row in split_rows.to_list()
    ]
    evaluated = EvaluatedRows.of(evaluation, rows)
    if len(set(evaluated.is_contradiction())) < 2:
        raise InputError(f"the {split} split of {config!r} in {data} needs both contradictions and other replies")
    return evaluated


def _label_names(data: str | Path, config: str, split: str) -> dict[int, str]:
    rows = load_split(data, config, split)
    return dict(zip(rows["id"][:], rows.features["label"].int2str(rows["label"][:]), strict=True))


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
    """Macro-F1 of every slice, as the metric counts it: over all labels, where a label without rows counts as 0.

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
        from contradiction import cdconv

        return [name for name in cdconv.TRIGGERS.values() if name in set(present)]
    return sorted(present)


def quartiles(lengths: Sequence[int]) -> list[str]:
    """The quarter of each length, named by its shortest and longest length; equal lengths share a quarter."""
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
        "contradictions": int(evaluated.is_contradiction()[mask].sum()),
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
    """The recall of history contradictions by persona, that is, by what about the bot they contradict.

    These rows have only one label, so there is no F1.

    Returns:
        A record for each persona: persona, n, found (rows predicted with their label), recall, low, high (95 % Wilson
        interval).
    """
    from contradiction import cdconv

    label = evaluated.labels.index(HISTORY if HISTORY in evaluated.labels else CONTRADICTION)
    column = evaluated.column("persona")
    records = []
    for name in cdconv.LABELS["persona"]:
        if name in column:
            mask = np.array([value == name for value in column])
            hits, n = int((evaluated.predictions[mask] == label).sum()), int(mask.sum())
            low, high = wilson(hits, n)
            records.append({"persona": name, "n": n, "found": hits, "recall": hits / n, "low": low, "high": high})
    return records


WORST = 50
ENOUGH = 20  # with fewer rows, the sentence leaves out the rate of a trigger


def mistakes(evaluated: EvaluatedRows) -> Records:
    """All mistakes, those with the highest probability first.

    Returns:
        A record for each mistake: rank, id, label, predicted, score (the probability of the predicted label), trigger,
        bot, seen_context, u1, b1, u2, b2.
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


def kinds(evaluated: EvaluatedRows, errors: Records) -> Records:
    """The result of :func:`mistakes` by label and prediction, the most frequent group first, with a sentence on each.

    Returns:
        A record for each kind: label, predicted, errors, of (rows with that label), share, among_worst, sentence.
    """
    labels = [evaluated.labels[index] for index in evaluated.references.tolist()]
    label_rows = Counter(labels)
    trigger_rows = Counter(zip(labels, evaluated.column("trigger"), strict=True))
    trigger_errors = Counter((error["label"], error["predicted"], error["trigger"]) for error in errors)
    worst_kinds = Counter((error["label"], error["predicted"]) for error in errors[:WORST])
    records = []
    for (label, predicted), number in Counter((error["label"], error["predicted"]) for error in errors).most_common():
        rows, among_worst = label_rows[label], worst_kinds[label, predicted]
        sentence = (
            f"{number:,} of {rows:,} {label} rows ({percent(number / rows)} %) are called {predicted}. Of the "
            f"{min(WORST, len(errors))} worst mistakes {among_worst} are of this kind."
        )
        rates = {
            trigger: (trigger_errors[label, predicted, trigger], n)
            for (label_of_rows, trigger), n in trigger_rows.items()
            if label_of_rows == label and n >= ENOUGH
        }
        records.append(
            {
                "label": label,
                "predicted": predicted,
                "errors": number,
                "of": rows,
                "share": number / rows,
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


FIRST_TURN = ("u1", "b1")


def judge_without_first_turn(
    detector: ContradictionDetector,
    rows: Sequence[Mapping[str, Any]],
    task: str,
    *,
    on_batch: Callable[[int], Any] | None = None,
) -> list[int]:
    """The class ids that a detector predicts with empty u1 and b1; for the task ``2-class``, its labels are merged."""
    emptied = [{**row, **dict.fromkeys(FIRST_TURN, "")} for row in rows]
    classifications = detector.classify(emptied, batch_size=64, on_batch=on_batch)
    labels = [result.label if detector.task == task else str(result.binary_label) for result in classifications]
    return [LABELS[task].index(label) for label in labels]


def removal(evaluated: EvaluatedRows, without: Sequence[int]) -> Records:
    """How the verdicts change when the first turn is removed.

    A history contradiction then contradicts nothing, so its verdict should change (``turn``). The verdicts of
    intra-sentence contradictions and of consistent replies do not depend on the first turn, so they should ``stay``.
    Role confusion often depends on the first turn, so the right verdict is unknown. ``without`` is the result of
    :func:`judge_without_first_turn`.

    Returns:
        A record for each category: label, should (``turn``, ``stay``, or None where it is unknown), n, called (the
        number of contradiction verdicts with all turns), called_without (without the first turn), asked (rows with a
        right verdict with all turns), right (those of them with a right verdict without the first turn), rate
        (right / asked), low, high (95 % Wilson interval). The rate is None where ``asked`` is 0. Rate, right, low and
        high are None where the right verdict is unknown.
    """
    before, after = (are_contradictions(evaluated.task, ids) for ids in (evaluated.predictions, without))
    categories = np.array(evaluated.column("category"))
    records = []
    for label in (NON_CONTRADICTION, *CATEGORIES):
        mask = categories == label
        if not mask.any():
            continue
        decided_right = mask & (before == (label != NON_CONTRADICTION))
        right = decided_right & (after == (label == INTRA))
        low, high = wilson(int(right.sum()), int(decided_right.sum()))
        known = label != ROLE
        records.append(
            {
                "label": label,
                "should": ("turn" if label == HISTORY else "stay") if known else None,
                "n": int(mask.sum()),
                "called": int((mask & before).sum()),
                "called_without": int((mask & after).sum()),
                "asked": int(decided_right.sum()),
                "right": int(right.sum()) if known else None,
                "rate": float(right.sum() / decided_right.sum()) if known and decided_right.any() else None,
                "low": low if known else None,
                "high": high if known else None,
            }
        )
    return records
