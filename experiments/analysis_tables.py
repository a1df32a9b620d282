"""What ``experiments.analyze`` finds: the scored rows and the tables, from which the plots are drawn."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from contradiction.evaluation.figures import Outcome, are_contradictions, contradiction_probabilities
from experiments.operating_points import Records


@dataclass(frozen=True)
class ScoredRows:
    """Scored rows: the task, class ids of shape (rows,), and the probabilities of shape (rows, labels)."""

    task: str
    references: np.ndarray
    predictions: np.ndarray
    probabilities: np.ndarray

    def is_contradiction(self) -> np.ndarray:
        """Whether each reference is a contradiction of any kind, shape (rows,)."""
        return are_contradictions(self.task, self.references)

    def contradiction_probabilities(self) -> np.ndarray:
        """P(contradiction), shape (rows,). Saved probabilities are rounded, so their sum may slightly exceed 1."""
        return np.clip(contradiction_probabilities(self.task, self.probabilities), 0, 1)


@dataclass(frozen=True)
class Analysis:
    """The tables of an analysis, and the rows that they are made of; ``prior`` is the fraction of contradictions."""

    evaluation: Mapping[str, Any]
    rows: ScoredRows
    prior: float
    slices: Records
    classes: Records
    comparison: Records
    reliability: Records
    curve: list[Outcome]
    operating_points: Records
