"""A classifier of which nothing is fine-tuned: an encoder as it is, and a kernel machine on its embeddings."""

from collections.abc import Sequence
from pathlib import Path
from typing import Self

import numpy as np

from contradiction.errors import InputError
from contradiction.inference.embedding import Embedder
from contradiction.inference.torch_backend import Scores, check_batch_size
from contradiction.inputs.characters import simplified
from contradiction.inputs.views import Row
from contradiction.io.files import read_json, write_json
from contradiction.labels import LABELS, task_with
from contradiction.methods.base import OnBatch
from contradiction.methods.checkpoint import named_in
from contradiction.methods.decision import Rule
from contradiction.methods.kernel_regression import KernelModel
from contradiction.methods.probabilistic import TINY, LabelClassifier

FILE = "frozen.json"
ENCODER = "encoder"
AT_ONCE = 512  # rows that are compared with those fitted to: a few matrices of so many rows


class FrozenClassifier(LabelClassifier):
    """A kernel machine on the embeddings and n-grams of utterances, see ``contradiction.methods.kernel_regression``.

    It reads each utterance alone. So one that stands in many windows of a long chat is embedded once, where a
    fine-tuned encoder reads it once more for each window. What it knows is like whole conversations, so it says nothing
    of a reply with nothing before it. It compares as many rows at once as fit memory well, whatever ``batch_size`` is.

    Args:
        model: the machine, fitted.
        embed: what embeds for it.
        labels: names by class id.
        name: how messages name it.
        rule: its decision rule.

    Raises:
        InputError: the label names are those of no task.
    """

    PARTS = "encoders"  # the key of the list in its file
    judges_openings = False

    def __init__(
        self, model: KernelModel, embed: Embedder, labels: Sequence[str], name: str = "model", rule: Rule | None = None
    ) -> None:
        task = task_with(labels)
        if task is None:
            known = "; ".join(", ".join(names) for names in LABELS.values())
            raise InputError(f"{name}: its labels are {', '.join(labels)}; a detector's are one of: {known}")
        self.model, self.embed = model, embed
        self.name, self.task, self.labels, self.columns = name, task, tuple(labels), model.columns
        self.rule = rule or Rule()

    @classmethod
    def load(cls, folder: str | Path, *, device: str | None = None, precision: str = "fp32") -> Self:
        """Loads what :meth:`save` wrote, and the decision rule beside it.

        Raises:
            InputError: the folder holds none, or a damaged one.
        """
        folder = Path(folder)
        encoder, *_ = named_in(folder / FILE, cls.PARTS)
        labels = read_json(folder / FILE).get("labels")
        if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
            raise InputError(f"{folder / FILE}: names no labels")
        embed = Embedder(encoder, precision, device=device, bar=False)
        return cls(KernelModel.load(folder, embed), embed, labels, str(folder), Rule.load(folder))

    def save(self, folder: str | Path) -> None:
        """Writes the encoder, the machine and the names of the labels into a folder."""
        self.embed.save(Path(folder) / ENCODER)
        self.model.save(folder)
        write_json(Path(folder) / FILE, {self.PARTS: [ENCODER], "labels": list(self.labels)})

    def knows(self, text: str) -> bool:
        """Whether the encoder has a token of its own for any part of a text."""
        return self.embed.knows(text)

    def _score(self, rows: Sequence[Row], batch_size: int, on_batch: OnBatch | None) -> Scores:
        check_batch_size(batch_size)
        logits = np.full((len(rows), len(self.labels)), np.log(TINY))
        unread: list[str | None] = []
        for first in range(0, len(rows), AT_ONCE):
            some = [self._utterances(row) for row in rows[first : first + AT_ONCE]]
            logits[first : first + len(some), self.model.classes_] = np.log(self.model.predict_proba(some))
            cut = np.any([self.embed.cut(row[column] for row in some) for column in self.columns], axis=0)
            unread += [self._said if each else None for each in cut]
            if on_batch:
                on_batch(len(some))
        return Scores(logits, unread)

    def _utterances(self, row: Row) -> dict[str, str]:
        """Those that it reads, in simplified characters; several in one column are one text."""
        read = ((column, row[column]) for column in self.columns)
        return {column: simplified(each if isinstance(each, str) else "\n".join(each)) for column, each in read}

    @property
    def _said(self) -> str:
        return f"of a message only the last tokens were read: the model reads at most {self.embed.max_length} of each"
