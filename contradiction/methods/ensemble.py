"""An ensemble: the mean of several models with the same labels, each in its own view."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from contradiction.decision import Rule
from contradiction.errors import InputError
from contradiction.inference.base import OnBatch, Scores
from contradiction.inputs.views import Row
from contradiction.inputs.windows import is_opening
from contradiction.methods.base import SoftmaxClassifier, check_same_labels, joint_columns, joint_progress
from contradiction.methods.loading import load_classifier, load_rule, register


@register
class EnsembleClassifier(SoftmaxClassifier):
    """The mean of the log-probabilities of several classifiers.

    Models that read different views, or were trained with different seeds, err on different rows, so their mean is
    more often right than each of them (Lakshminarayanan et al., 2017, *Simple and scalable predictive uncertainty
    estimation using deep ensembles*, section 2.4, with the mean of probabilities; the mean of their logarithms is the
    product of experts of Hinton, 2002). A reply without an earlier reply is judged only by the members
    that can do so, if there are any.

    Each member is calibrated first, because an overconfident member would outweigh the others.

    Args:
        members: classifiers with the same labels; only the calibration of their decision rules is used.
        name, rule: see :class:`SoftmaxClassifier`.
        calibrate: whether the members are calibrated. Older ensembles have a rule for uncalibrated members.

    Raises:
        InputError: there are fewer than two members, or their labels differ.
    """

    MARKER = "ensemble.json"
    PARTS = "members"
    ENSEMBLE_MEMBER = False

    def __init__(
        self,
        members: Sequence[SoftmaxClassifier],
        name: str = "model",
        rule: Rule | None = None,
        calibrate: bool = True,
    ) -> None:
        if len(members) < 2:
            raise InputError(f"{name}: an ensemble needs at least two members")
        check_same_labels(members, name)
        self.members, self._calibrate = tuple(members), calibrate
        # The columns of the first member where they are not those of a conversation: premise and hypothesis.
        super().__init__(members[0].labels, joint_columns(members) or members[0].columns, name, rule)
        self.chinese_only = any(member.chinese_only for member in members)

    @classmethod
    def load(cls, folder: str | Path, **options: Any) -> Self:
        """Loads the members that ``ensemble.json`` names; see :meth:`Classifier.load`."""
        folder = Path(folder)
        members: list[Any] = [load_classifier(part, **options) for part in cls.parts(folder)]
        calibrate = bool(cls.describe(folder).get("calibrated"))
        return cls(members, str(folder), Rule.load(folder / cls.MARKER), calibrate)

    @classmethod
    def identity(cls, folder: Path) -> list[bytes]:
        """Where members are calibrated, their names and their decision rules."""
        description = cls.describe(folder)
        if not description.get("calibrated"):
            return []
        rules = {part.name: load_rule(part).without_curve() for part in cls.parts(folder)}
        return [json.dumps(rules, sort_keys=True).encode()]

    @property
    def judges_openings(self) -> bool:
        """Whether any member can judge a reply without an earlier reply."""
        return any(member.judges_openings for member in self.members)

    def has_token_for(self, text: str) -> bool:
        """Whether any member has a token for any part of a text."""
        return any(member.has_token_for(text) for member in self.members)

    def score(self, rows: Sequence[Row], *, batch_size: int = 32, on_batch: OnBatch | None = None) -> Scores:
        """The mean log-probabilities of rows as logits; see :meth:`SoftmaxClassifier.score`."""
        opening = np.array([is_opening(row) for row in rows], dtype=bool)
        opening_members = [member for member in self.members if member.judges_openings] or list(self.members)
        all_rows, later_rows = range(len(rows)), np.flatnonzero(~opening).tolist()
        rows_of = [all_rows if member in opening_members else later_rows for member in self.members]
        report = joint_progress(on_batch, len(rows), sum(map(len, rows_of)))
        sums, counts = np.zeros((len(rows), len(self.labels))), np.zeros((len(rows), 1))
        truncations: list[str | None] = [None] * len(rows)
        for member, indices in zip(self.members, rows_of, strict=True):
            scores = member.score([rows[index] for index in indices], batch_size=batch_size, on_batch=report)
            order = [member.labels.index(label) for label in self.labels]
            rule = member.rule if self._calibrate else Rule()
            sums[indices] += np.log(rule.calibrate(scores.logits, member.labels)[:, order])
            counts[indices] += 1
            for index, truncation in zip(indices, scores.truncations, strict=True):
                truncations[index] = truncations[index] or truncation
        return Scores(sums / counts, truncations)
