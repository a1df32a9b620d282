"""An ensemble: detectors with the same labels that are asked together, each in its own view."""

from collections.abc import Sequence
from pathlib import Path
from typing import Self

import numpy as np

from contradiction.errors import InputError
from contradiction.inference.torch_backend import Scores
from contradiction.inputs.views import CONVERSATION, Row
from contradiction.io.files import read_json
from contradiction.methods import kernel
from contradiction.methods.base import OnBatch, joint_progress
from contradiction.methods.checkpoint import CheckpointClassifier, named_in
from contradiction.methods.decision import Rule
from contradiction.methods.probabilistic import LabelClassifier, calibrated

FILE = "ensemble.json"


class EnsembleClassifier(LabelClassifier):
    """The mean of what several classifiers say, taken of their log-probabilities.

    Detectors that read different views, or were trained with different seeds, are wrong about different rows, so that
    their mean is more often right than each (Lakshminarayanan et al., 2017, *Simple and scalable predictive uncertainty
    estimation using deep ensembles*, section 2.4, who take the mean of the probabilities; that of their logarithms is
    the product of experts of Hinton, 2002). A reply with nothing before it is left to the members that judge such ones,
    where there are any.

    Each is calibrated first, or the surest would be heard most, whether or not it is right: a fine-tuned encoder is too
    sure, and a kernel machine not sure enough.

    Args:
        members: classifiers with the same labels; of their own decision rules only the calibration counts.
        name: how messages name it.
        rule: its decision rule.
        calibrate: whether the members are calibrated. Ensembles that were put together before this was done are not,
            because their own rule was chosen without it.

    Raises:
        InputError: there are fewer than two, or they have different labels.
    """

    PARTS = "members"  # the key of the list in its file

    def __init__(
        self, members: Sequence[LabelClassifier], name: str = "model", rule: Rule | None = None, calibrate: bool = True
    ) -> None:
        if len(members) < 2:
            raise InputError(f"{name}: an ensemble has two members at least")
        first = members[0]
        for other in members[1:]:
            if set(other.labels) != set(first.labels):
                one, two = (f"{each.name} tells {', '.join(each.labels)}" for each in (first, other))
                raise InputError(f"{name}: the members of an ensemble have the same labels, but {one}; {two}")
        self.members, self._calibrate = tuple(members), calibrate
        self.name, self.task, self.labels, self.rule = name, first.task, first.labels, rule or Rule()
        read = {column for each in members for column in each.columns}
        # Premise and hypothesis, where it is not conversations that they read.
        self.columns = tuple(column for column in CONVERSATION if column in read) or first.columns

    @classmethod
    def load(cls, folder: str | Path, *, device: str | None = None, precision: str = "fp32") -> Self:
        """Loads the members that a folder's ``ensemble.json`` names.

        Raises:
            InputError: the file names no usable members.
        """
        folder = Path(folder)
        places = named_in(folder / FILE, cls.PARTS)
        members = [_kind(place).load(place, device=device, precision=precision) for place in places]
        return cls(members, str(folder), Rule.load(folder), bool(read_json(folder / FILE).get("calibrated")))

    @property
    def judges_openings(self) -> bool:
        """Whether any member does."""
        return any(member.judges_openings for member in self.members)

    def knows(self, text: str) -> bool:
        """Whether any member has a token for any part of a text."""
        return any(member.knows(text) for member in self.members)

    def _score(self, rows: Sequence[Row], batch_size: int, on_batch: OnBatch | None) -> Scores:
        opening = np.array(
            [row.get("b1") == "" for row in rows], dtype=bool
        )  # as ``contradiction.inputs.windows`` writes it
        able = [member for member in self.members if member.judges_openings] or list(self.members)
        sums, readers = np.zeros((len(rows), len(self.labels))), np.zeros((len(rows), 1))
        unread: list[str | None] = [None] * len(rows)
        everywhere, later = range(len(rows)), np.flatnonzero(~opening).tolist()
        read = [everywhere if member in able else later for member in self.members]
        told = joint_progress(on_batch, len(rows), sum(map(len, read)))
        for member, places in zip(self.members, read, strict=True):
            found = member._score([rows[place] for place in places], batch_size, told)
            order = [member.labels.index(label) for label in self.labels]
            said = calibrated(member.rule if self._calibrate else Rule(), found.logits, member.labels)
            sums[places] += np.log(said[:, order])
            readers[places] += 1
            for place, lost in zip(places, found.unread, strict=True):
                unread[place] = unread[place] or lost
        return Scores(sums / readers, unread)


def _kind(member: Path) -> type[CheckpointClassifier] | type[kernel.FrozenClassifier]:
    return kernel.FrozenClassifier if (member / kernel.FILE).is_file() else CheckpointClassifier
