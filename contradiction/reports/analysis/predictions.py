"""What an analysis starts from: a kept evaluation beside the rows that it was made on."""

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


@dataclass(frozen=True)
class Material:
    """One evaluation and its rows.

    Attributes:
        result: the evaluation, as ``contradiction.evaluation.results`` keeps it, with probabilities.
        rows: of the split in its order: id, u1, b1, u2, b2; trigger, bot and batch by name; category (the label in
            ``4-class``); persona (None but for history); seen_context and seen_u1 (whether training has the same
            u1, b1, u2, or the same u1: ``seen`` or ``unseen``, None on the training split itself).
    """

    result: Mapping[str, Any]
    rows: Sequence[Mapping[str, Any]]

    @property
    def task(self) -> str:
        """``2-class`` or ``4-class``."""
        return task_of(self.result["config"])

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the labels, by class id."""
        return LABELS[self.task]

    @cached_property
    def references(self) -> np.ndarray:
        """Class ids, shape (rows,)."""
        return np.array(self.result["references"])

    @cached_property
    def predictions(self) -> np.ndarray:
        """Class ids, shape (rows,)."""
        return np.array(self.result["predictions"])

    @cached_property
    def probabilities(self) -> np.ndarray:
        """Probability of each label, shape (rows, labels)."""
        return np.array(self.result["probabilities"], dtype=float)

    @cached_property
    def contradiction_probabilities(self) -> np.ndarray:
        """P(contradiction), shape (rows,): the probabilities of all contradictions, summed."""
        others = [index for index, label in enumerate(self.labels) if label != NON_CONTRADICTION]
        # Kept probabilities are rounded, so that a sum of them may exceed 1 in the last digit.
        return np.clip(self.probabilities[:, others].sum(axis=1), 0, 1)

    def are_contradictions(self, classes: np.ndarray) -> np.ndarray:
        """Whether each of some class ids is a contradiction of any kind."""
        return classes != self.labels.index(NON_CONTRADICTION)

    def values(self, column: str) -> list[Any]:
        """A column of the rows."""
        return [row[column] for row in self.rows]


def read_kept(path: str | Path) -> dict[str, Any]:
    """Reads a kept evaluation that can be analysed.

    Raises:
        InputError: the file is none, or keeps no probabilities.
    """
    result = read_json(path)
    results.check(path, result)
    check_task(str(result["config"]))
    if "probabilities" not in result:
        raise InputError(f"{path}: keeps no probabilities; `cdconv evaluate MODEL --json FILE` writes them")
    _check_lists(path, result)
    return result


def _check_lists(path: str | Path, result: Mapping[str, Any]) -> None:
    labels = LABELS[task_of(result["config"])]
    for key in ("ids", "references", "predictions", "probabilities", "without_first_turn"):
        values: Any = result.get(key)
        if key == "without_first_turn" and values is None:
            continue
        results.check_list(path, result, key)
        if key == "probabilities":
            wrong = [each for each in values if not _are_probabilities(each, len(labels))]
        else:
            most = None if key == "ids" else len(labels) - 1
            wrong = [each for each in values if type(each) is not int or each < 0 or (most is not None and each > most)]
        if wrong:
            raise InputError(f"{path}: {key} holds {wrong[0]!r}; the file is changed")


def _are_probabilities(values: object, labels: int) -> bool:
    return (
        isinstance(values, list)
        and len(values) == labels
        and all(isinstance(each, int | float) and 0 <= each <= 1 for each in values)  # which NaN is not either
    )


def check_task(config: str) -> None:
    """Raises InputError unless a config tells contradictions from other replies."""
    if task_of(config) not in TASKS or config.startswith("nli"):
        raise InputError(f"config {config!r} tells no contradictions from other replies; analysed are {_configs()}")


def _configs() -> str:
    return ", ".join(task + suffix for task in TASKS for suffix in ("", GROUPED))


def load(result: Mapping[str, Any], data: str | Path) -> Material:
    """Finds the rows of an evaluation, and what is known of each.

    Raises:
        InputError: the evaluation was made on other rows, or one of both kinds of replies does not occur.
    """
    config, split = result["config"], result["split"]
    suffix = GROUPED if config.endswith(GROUPED) else ""
    found = load_split(data, config, split)
    # By ids and labels rather than by the digest of the rows, which older files made in another way.
    if [*found["id"]] != list(result["ids"]) or [*found["label"]] != list(result["references"]):
        raise InputError(f"{result['name']} was evaluated on other rows than the {split} split of {config!r} in {data}")
    categories, personas = (_labels(data, task + suffix, split) for task in ("4-class", "persona"))
    train = None if split == "train" else list(load_split(data, config, "train"))
    seen: dict[tuple[str, ...], set[Any]] = {
        columns: {tuple(row[name] for name in columns) for row in train or ()} for columns in (CONTEXT, ("u1",))
    }
    rows = [
        {
            **row,
            "trigger": found.features["trigger"].int2str(row["trigger"]),
            "bot": found.features["bot"].int2str(row["bot"]),
            "batch": str(row["batch"]),
            "category": categories[row["id"]],
            "persona": personas.get(row["id"]),
            "seen_context": _seen(row, CONTEXT, seen) if train else None,
            "seen_u1": _seen(row, ("u1",), seen) if train else None,
        }
        for row in found
    ]
    material = Material(result, rows)
    if len(set(material.are_contradictions(material.references))) < 2:
        raise InputError(f"the {split} split of {config!r} in {data} has not both contradictions and other replies")
    return material


def _labels(data: str | Path, config: str, split: str) -> dict[int, str]:
    rows = load_split(data, config, split)
    return dict(zip(rows["id"], rows.features["label"].int2str(list(rows["label"])), strict=True))


def _seen(row: Mapping[str, Any], columns: tuple[str, ...], seen: Mapping[tuple[str, ...], set[Any]]) -> str:
    return "seen" if tuple(row[name] for name in columns) in seen[columns] else "unseen"
