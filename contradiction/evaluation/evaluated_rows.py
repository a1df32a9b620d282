"""An evaluation together with its rows, for analysis."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from contradiction.data.splits import load_split
from contradiction.errors import InputError
from contradiction.evaluation import results
from contradiction.io.files import read_json
from contradiction.labels import GROUPED, LABELS, NON_CONTRADICTION, task_of

TASKS = ("2-class", "4-class")
CONTEXT = ("u1", "b1", "u2")
Records = list[dict[str, Any]]  # a table: one dict a row, all with the same keys, fractions unrounded


@dataclass(frozen=True)
class EvaluatedRows:
    """One evaluation and its rows.

    Attributes:
        evaluation: see :func:`contradiction.evaluation.results.evaluation`; it has probabilities.
        rows: of the split, in its order. Each has id, u1, b1, u2, b2; trigger, bot and batch by name; category (the
            4-class label); persona (None except for history); seen_context and seen_u1 (whether the training split has
            the same u1, b1 and u2, or the same u1: ``seen`` or ``unseen``; None on the training split itself).
    """

    evaluation: Mapping[str, Any]
    rows: Sequence[Mapping[str, Any]]

    @property
    def task(self) -> str:
        """``2-class`` or ``4-class``."""
        return task_of(self.evaluation["config"])

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the labels, by class id."""
        return LABELS[self.task]

    @cached_property
    def references(self) -> np.ndarray:
        """Class ids, shape (rows,)."""
        return np.array(self.evaluation["references"])

    @cached_property
    def predictions(self) -> np.ndarray:
        """Class ids, shape (rows,)."""
        return np.array(self.evaluation["predictions"])

    @cached_property
    def probabilities(self) -> np.ndarray:
        """The probability of each label, shape (rows, labels)."""
        return np.array(self.evaluation["probabilities"], dtype=float)

    @cached_property
    def contradiction_probabilities(self) -> np.ndarray:
        """P(contradiction), the sum over all contradictions, shape (rows,)."""
        contradictions = [index for index, label in enumerate(self.labels) if label != NON_CONTRADICTION]
        # Saved probabilities are rounded, so their sum may slightly exceed 1.
        return np.clip(self.probabilities[:, contradictions].sum(axis=1), 0, 1)

    def are_contradictions(self, classes: np.ndarray) -> np.ndarray:
        """Whether each class id is a contradiction of any kind."""
        return classes != self.labels.index(NON_CONTRADICTION)

    def column(self, name: str) -> list[Any]:
        """A column of the rows."""
        return [row[name] for row in self.rows]


def read_evaluation(path: str | Path) -> dict[str, Any]:
    """Reads the JSON file of an evaluation that can be analysed.

    Raises:
        InputError: the file holds none, or one without probabilities, or a damaged one.
    """
    evaluation = read_json(path)
    results.check(path, evaluation)
    check_task(str(evaluation["config"]))
    if "probabilities" not in evaluation:
        raise InputError(f"{path}: has no probabilities; `cdconv evaluate MODEL --json FILE` writes them")
    labels = LABELS[task_of(evaluation["config"])]
    for key in ("ids", "references", "predictions", "probabilities", "without_first_turn"):
        values: Any = evaluation.get(key)
        if key == "without_first_turn" and values is None:
            continue
        results.check_list(path, evaluation, key)
        if key == "probabilities":
            wrong = [value for value in values if not _are_probabilities(value, len(labels))]
        else:
            highest = np.inf if key == "ids" else len(labels) - 1
            wrong = [value for value in values if type(value) is not int or not 0 <= value <= highest]
        if wrong:
            raise InputError(f"{path}: {key} has {wrong[0]!r}; the file was changed")
    return evaluation


def _are_probabilities(values: object, labels: int) -> bool:
    return (
        isinstance(values, list)
        and len(values) == labels
        and all(isinstance(value, int | float) and 0 <= value <= 1 for value in values)  # NaN is not
    )


def check_task(config: str) -> None:
    """Raises InputError unless the labels of a config are those of contradictions."""
    if task_of(config) not in TASKS or config.startswith("nli"):
        configs = ", ".join(task + suffix for task in TASKS for suffix in ("", GROUPED))
        raise InputError(f"config {config!r} has no labels of contradictions; an analysis needs one of {configs}")


def load_rows(evaluation: Mapping[str, Any], data: str | Path) -> EvaluatedRows:
    """Loads the rows of an evaluation with their other columns and labels.

    Raises:
        InputError: the evaluation is on other rows, or the rows are all contradictions, or none is one.
    """
    config, split = evaluation["config"], evaluation["split"]
    suffix = GROUPED if config.endswith(GROUPED) else ""
    split_rows = load_split(data, config, split)
    # Compares ids and labels, because older files have another kind of fingerprint.
    if [*split_rows["id"]] != list(evaluation["ids"]) or [*split_rows["label"]] != list(evaluation["references"]):
        raise InputError(
            f"{evaluation['name']} was evaluated on other rows than the {split} split of {config!r} in {data}"
        )
    categories, personas = (_label_names(data, task + suffix, split) for task in ("4-class", "persona"))
    train = None if split == "train" else list(load_split(data, config, "train"))
    seen: dict[tuple[str, ...], set[Any]] = {
        columns: {tuple(row[name] for name in columns) for row in train or ()} for columns in (CONTEXT, ("u1",))
    }
    rows = [
        {
            **row,
            "trigger": split_rows.features["trigger"].int2str(row["trigger"]),
            "bot": split_rows.features["bot"].int2str(row["bot"]),
            "batch": str(row["batch"]),
            "category": categories[row["id"]],
            "persona": personas.get(row["id"]),
            "seen_context": _seen(row, CONTEXT, seen) if train else None,
            "seen_u1": _seen(row, ("u1",), seen) if train else None,
        }
        for row in split_rows
    ]
    evaluated = EvaluatedRows(evaluation, rows)
    if len(set(evaluated.are_contradictions(evaluated.references))) < 2:
        raise InputError(f"the {split} split of {config!r} in {data} needs both contradictions and other replies")
    return evaluated


def _label_names(data: str | Path, config: str, split: str) -> dict[int, str]:
    rows = load_split(data, config, split)
    return dict(zip(rows["id"], rows.features["label"].int2str(list(rows["label"])), strict=True))


def _seen(row: Mapping[str, Any], columns: tuple[str, ...], seen: Mapping[tuple[str, ...], set[Any]]) -> str:
    return "seen" if tuple(row[name] for name in columns) in seen[columns] else "unseen"
