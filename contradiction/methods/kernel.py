"""The kernel method: kernel ridge regression on the embeddings and n-grams of utterances; nothing is fine-tuned."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from contradiction.errors import InputError
from contradiction.inference.base import OnBatch, Scores, check_batch_size
from contradiction.inference.embedding import Embedder
from contradiction.inputs.views import Row, simplified
from contradiction.io.files import read_json, write_json
from contradiction.methods.decision import TINY, Rule
from contradiction.methods.kernel_regression import ARRAYS, FILE, KernelRegression
from contradiction.methods.loading import register
from contradiction.methods.softmax import SoftmaxClassifier

ENCODER = "encoder"
LEGACY_FILE = "frozen.json"  # which named the encoder and the labels in older model folders
CHUNK = 512  # rows that are compared with the training rows at once: a few matrices with so many rows fit memory


@register
class KernelClassifier(SoftmaxClassifier):
    """Kernel ridge regression on utterances, see :class:`contradiction.methods.kernel_regression.KernelRegression`.

    Each utterance is embedded by itself. An utterance that occurs in many windows of a long chat is embedded once,
    where a fine-tuned encoder reads it again in each window. The method compares whole conversations, so it does not
    judge a reply without an earlier reply. It reads ``CHUNK`` rows at once, whatever ``batch_size`` is.

    Args:
        model: the fitted regression.
        embed: the embedder that the model was fitted with.
        labels: the names of the labels by class id.
        name: the name of the model in messages.
        rule: the decision rule.

    Raises:
        InputError: the labels are not those of a task.
    """

    NAME = "kernel"
    MARKER = FILE
    PARTS = "encoders"
    FILES = (ARRAYS,)
    WEIGHTS = (ARRAYS,)
    FINE_TUNES = False
    judges_openings = False

    def __init__(
        self,
        model: KernelRegression,
        embed: Embedder,
        labels: Sequence[str],
        name: str = "model",
        rule: Rule | None = None,
    ) -> None:
        super().__init__(labels, model.columns, name, rule)
        self.model, self.embed = model, embed

    @classmethod
    def load(cls, folder: str | Path, *, device: str | None = None, precision: str = "fp32", **options: Any) -> Self:
        """Loads what :meth:`save` wrote, and the decision rule; see :meth:`Classifier.load`."""
        folder = Path(folder)
        encoder, *_ = cls.parts(folder)
        labels = cls.describe(folder).get("labels")
        if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
            raise InputError(f"{folder / cls.MARKER}: names no labels")
        embed = Embedder(encoder, precision, device=device, bar=False)
        rule = Rule.load(folder / cls.MARKER)
        return cls(KernelRegression.load(folder, embed), embed, labels, str(folder), rule)

    def save(self, folder: str | Path) -> None:
        """Writes the encoder, the regression and the names of the labels into a folder."""
        folder = Path(folder)
        self.embed.save(folder / ENCODER)
        self.model.save(folder)
        write_json(folder / FILE, read_json(folder / FILE) | {self.PARTS: [ENCODER], "labels": list(self.labels)})

    @classmethod
    def describe(cls, folder: Path) -> dict[str, Any]:
        """What the folder says about the model, also an older folder."""
        legacy = folder / LEGACY_FILE
        return super().describe(folder) | (read_json(legacy) if legacy.is_file() else {})

    def has_token_for(self, text: str) -> bool:
        """Whether the encoder has a token for any part of a text."""
        return self.embed.has_token_for(text)

    def score(self, rows: Sequence[Row], *, batch_size: int = 32, on_batch: OnBatch | None = None) -> Scores:
        """The log-probabilities of rows as logits; see :meth:`SoftmaxClassifier.score`."""
        check_batch_size(batch_size)
        logits = np.full((len(rows), len(self.labels)), np.log(TINY))
        truncations: list[str | None] = []
        for first in range(0, len(rows), CHUNK):
            chunk = [self._utterances(row) for row in rows[first : first + CHUNK]]
            logits[first : first + len(chunk), self.model.classes_] = np.log(self.model.predict_proba(chunk))
            truncated = np.any([self.embed.truncated(row[column] for row in chunk) for column in self.columns], axis=0)
            truncations += [self._truncation if row else None for row in truncated]
            if on_batch:
                on_batch(len(chunk))
        return Scores(logits, truncations)

    def _utterances(self, row: Row) -> dict[str, str]:
        """The utterances to read, in simplified characters; several utterances in one column are one text."""
        texts: dict[str, Any] = {column: row[column] for column in self.columns}
        return {
            column: simplified(text if isinstance(text, str) else "\n".join(text)) for column, text in texts.items()
        }

    @property
    def _truncation(self) -> str:
        return f"of a message only the last tokens were read: the model reads at most {self.embed.max_length} of each"
