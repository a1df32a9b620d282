"""A cascade: a detector judges every row, and a more expensive judge the rows for which it is unsure."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from contradiction.decision import TINY, Rule
from contradiction.errors import InputError
from contradiction.inference.base import OnBatch, Scores
from contradiction.inputs.views import Row
from contradiction.inputs.windows import is_opening
from contradiction.labels import CONTRADICTION, merge
from contradiction.methods.base import Classifier, SoftmaxClassifier, check_same_labels, joint_columns
from contradiction.methods.loading import load_classifier, load_rule, register


@register
class CascadeClassifier(SoftmaxClassifier):
    """The calibrated probabilities of a detector, and those of a judge where the detector is unsure.

    The detector is unsure where its calibrated probability of a contradiction is from ``low`` to ``high``. Other rows
    cost no request. A verdict on a reply with several earlier turns reads a row for each of them, and may cost as many
    requests.

    Args:
        detector: of any method.
        judge: of any method, with the same labels.
        low, high: the probabilities of a contradiction between which the judge is asked.
        name, rule: see :class:`SoftmaxClassifier`.

    Raises:
        InputError: their labels differ or have no contradictions, or the bounds are not probabilities.
    """

    MARKER = "cascade.json"
    PARTS = "parts"
    ENSEMBLE_MEMBER = False

    def __init__(
        self, detector: Classifier, judge: Classifier, low: float, high: float, name: str = "model",
        rule: Rule | None = None,
    ) -> None:  # fmt: skip
        check_same_labels((detector, judge), name)
        detector.check_contradictions()
        super().__init__(detector.labels, joint_columns((detector, judge)), name, rule)
        if not all(isinstance(bound, int | float) and 0 <= bound <= 1 for bound in (low, high)):
            raise InputError(f"{name}: doubt is from {low} to {high}; both must be probabilities from 0 to 1")
        self.detector, self.judge, self.low, self.high = detector, judge, low, high
        self.chinese_only = detector.chinese_only  # which reads every row

    @classmethod
    def load(cls, folder: str | Path, **options: Any) -> Self:
        """Loads both parts; see :meth:`Classifier.load`."""
        folder = Path(folder)
        parts = cls.parts(folder)
        if len(parts) != 2:
            raise InputError(f"{folder / cls.MARKER}: must name two parts, a detector and a judge")
        detector, judge = (load_classifier(part, **options) for part in parts)
        description = cls.describe(folder)
        low: Any = description.get("low")  # refused by __init__ if it is not a probability
        high: Any = description.get("high")
        return cls(detector, judge, low, high, str(folder), Rule.load(folder / cls.MARKER))

    @classmethod
    def identity(cls, folder: Path) -> list[bytes]:
        """The bounds of doubt, and what the parts decide by."""
        description = cls.describe(folder)
        rules = {part.name: load_rule(part).without_curve() for part in cls.parts(folder)}
        return [json.dumps([description.get("low"), description.get("high"), rules], sort_keys=True).encode()]

    @property
    def judges_openings(self) -> bool:
        """Whether the judge can judge a reply without an earlier reply: the detector leaves such replies to it."""
        return self.judge.judges_openings

    def has_token_for(self, text: str) -> bool:
        """Whether the detector has a token for any part of a text."""
        return self.detector.has_token_for(text)

    def usage(self) -> dict[str, Any] | None:
        """The requests to the judge and their cost."""
        return self.judge.usage()

    def score(self, rows: Sequence[Row], *, batch_size: int = 32, on_batch: OnBatch | None = None) -> Scores:
        """The logarithms of the probabilities of rows; see :meth:`SoftmaxClassifier.score`."""
        probabilities, truncations = self._predict(self.detector, rows, batch_size)
        opening = np.array([is_opening(row) for row in rows], dtype=bool)
        unjudged = opening & (not self.detector.judges_openings)
        doubted = np.flatnonzero(self.in_doubt(probabilities) | unjudged).tolist()
        if on_batch and len(rows) > len(doubted):
            on_batch(len(rows) - len(doubted))
        if doubted:
            chosen = [rows[index] for index in doubted]
            probabilities[doubted], reasons = self._predict(self.judge, chosen, batch_size, on_batch)
            for index, reason in zip(doubted, reasons, strict=True):
                truncations[index] = reason
        return Scores(np.log(np.maximum(probabilities, TINY)), truncations)

    def in_doubt(self, probabilities: np.ndarray) -> np.ndarray:
        """Whether the detector is unsure, shape (rows,), by its probabilities, shape (rows, labels)."""
        scores = (dict(zip(self.labels, row, strict=True)) for row in probabilities.tolist())
        contradiction = np.array([merge(self.task, row)[CONTRADICTION] for row in scores])
        return (contradiction >= self.low) & (contradiction <= self.high)

    def _predict(
        self, part: Classifier, rows: Sequence[Row], batch_size: int, on_batch: OnBatch | None = None
    ) -> tuple[np.ndarray, list[str | None]]:
        """The calibrated probabilities of a part, shape (rows, labels), and what of each row was not read."""
        predictions = part.predict(rows, batch_size=batch_size, on_batch=on_batch)
        scores = [part.scores(prediction.probabilities) for prediction in predictions]
        table = np.array([[row[name] for name in self.labels] for row in scores]).reshape(len(rows), len(self.labels))
        return table, [prediction.truncation for prediction in predictions]
