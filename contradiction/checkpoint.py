"""The classifier of one checkpoint."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np

from contradiction.classifier import Classifier, OnBatch, Reading
from contradiction.decision import FILE, Rule
from contradiction.errors import InputError
from contradiction.labels import CONTRADICTIONS, HISTORY, INTRA, LABELS, ROLE, task_with
from contradiction.scoring import Scores, check_precision, knows, load_checkpoint, score
from contradiction.views import VIEWS, Row, model_input

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

TINY = 1e-12  # a probability of 0 has no logarithm


class CheckpointClassifier(Classifier):
    """A classifier of one checkpoint.

    Args:
        model: a sequence-classification model whose configuration names the labels; it is set to evaluation mode.
        tokenizer: its tokenizer.
        view: the utterances it reads (a key of ``contradiction.views.VIEWS``); by default what its configuration says.
        name: how messages name it.
        rule: its decision rule.
        precision: of the arithmetic, one of ``contradiction.scoring.PRECISIONS``. ``bf16`` is two to four times as fast
            on a CPU that has the instructions (``bench/detect.py``), and moves probabilities by
            0.002 on average (600 validation rows of the shipped detector; 0.05 at most, one label in 600 changed);
            ``fp16`` is for GPUs.

    Raises:
        InputError: the label names, the view or the precision are unknown.
    """

    def __init__(
        self,
        model: "PreTrainedModel",
        tokenizer: "PreTrainedTokenizerBase",
        view: str | None = None,
        name: str = "model",
        rule: Rule | None = None,
        precision: str = "fp32",
    ) -> None:
        self.labels = tuple(label for _, label in sorted((model.config.id2label or {}).items()))
        task = task_with(self.labels)
        if task is None:
            known = "; ".join(", ".join(names) for names in LABELS.values())
            raise InputError(f"{name}: its labels are {', '.join(self.labels)}; a detector's are one of: {known}")
        view = view or str(getattr(model.config, "cdconv_view", ""))
        if view not in VIEWS:
            wrong = f"there is no view {view!r}" if view else "its configuration does not say which utterances it reads"
            raise InputError(f"{name}: {wrong}; views are {', '.join(VIEWS)}")
        self.model, self.tokenizer, self.name, self.task = model.eval(), tokenizer, name, task
        self.columns = VIEWS[view]
        self.rule, self.precision = rule or Rule(), check_precision(precision)
        if precision == "fp16" and model.device.type == "cpu":
            raise InputError(f"{name}: fp16 is slower than fp32 on a CPU; bf16 is the fast one there")

    @classmethod
    def load(
        cls, name: str | Path, *, view: str | None = None, device: str | None = None, precision: str = "fp32"
    ) -> Self:
        """Loads a checkpoint and its decision rule from a folder or from the Hub.

        A rule holds for the view that it was chosen with; with another one it is left out.

        Raises:
            InputError: there is no such checkpoint, or it is no classifier of this project.
        """
        check_precision(precision)  # before a large model is loaded
        model, tokenizer = load_checkpoint(name, device)
        own = view is None or view == getattr(model.config, "cdconv_view", None)
        return cls(model, tokenizer, view, str(name), Rule.load(_rule_folder(name)) if own else None, precision)

    def model_input(self, utterances: Row) -> dict[str, str]:
        """What the checkpoint reads of a row: the input of a text-classification pipeline on it."""
        return model_input(utterances, self.columns, self.tokenizer)

    def read(self, rows: Sequence[Row], *, batch_size: int = 32, on_batch: OnBatch | None = None) -> list[Reading]:
        """Reads rows of utterances; see :meth:`Classifier.read`."""
        found = self._score(rows, batch_size, on_batch)
        return [
            Reading(dict(zip(self.labels, each, strict=True)), unread)
            for each, unread in zip(
                probabilities(self.rule, found.logits, self.labels).tolist(), found.unread, strict=True
            )
        ]

    def logits(self, rows: Sequence[Row], *, batch_size: int = 32, on_batch: OnBatch | None = None) -> np.ndarray:
        """The logits of rows, shape (rows, labels); the arguments are those of :meth:`read`."""
        return self._score(rows, batch_size, on_batch).logits

    def _score(self, rows: Sequence[Row], batch_size: int, on_batch: OnBatch | None) -> Scores:
        inputs = [self.model_input(row) for row in rows]
        return score(
            self.model, self.tokenizer, inputs, batch_size=batch_size, on_batch=on_batch, precision=self.precision
        )

    def knows(self, text: str) -> bool:
        """Whether the model has a token of its own for any part of a text."""
        return knows(self.tokenizer, text)

    def uncalibrated(self, fires: Mapping[str, float]) -> Mapping[str, float]:
        """The softmax of the logits as they came."""
        logs = np.log(np.maximum([fires[name] for name in self.labels], TINY)) - _biases(self.rule, self.labels)
        return dict(zip(self.labels, _softmax(self.rule.temperature * logs).tolist(), strict=True))

    def clash(self, fires: Mapping[str, float]) -> float:
        """The probability of a contradiction of the history; of any, where the labels do not tell."""
        return fires[HISTORY] if HISTORY in fires else sum(fires[name] for name in CONTRADICTIONS.get(self.task, ()))

    def any_of(self, fires: Mapping[str, float], kinds: Sequence[str]) -> float:
        """The sum of theirs."""
        return min(sum(fires[name] for name in kinds), 1.0)

    def combine(self, windows: Sequence[Mapping[str, float]]) -> Mapping[str, float]:
        """The reading of a reply from its windows.

        With categories: history is the maximum over the windows, and the rest is shared as the nearest window shares
        what is not history in it. Without: the window that is surest of a contradiction; stages of the reply and of the
        speaker, the nearest.
        """
        nearest = windows[-1]
        if self.task in (INTRA, ROLE):
            return nearest
        surest = max(windows, key=self.clash)
        if HISTORY not in nearest or len(nearest) == 2:
            return surest
        rest = 1 - nearest[HISTORY]
        left = 1 - surest[HISTORY]
        return {
            name: surest[HISTORY] if name == HISTORY else each * left / rest if rest else 0.0
            for name, each in nearest.items()
        }

    def alone(self, fires: Mapping[str, float]) -> Mapping[str, float] | None:
        """Without history only a contradiction within the reply can be, so only classifiers with that label say any."""
        if INTRA not in fires or "u2" not in self.columns:
            return None
        none = next(name for name in fires if name not in CONTRADICTIONS[self.task])
        total = fires[none] + fires[INTRA]
        return {name: each / total if name in (none, INTRA) and total else 0.0 for name, each in fires.items()}

    def scores(self, fires: Mapping[str, float]) -> dict[str, float]:
        """The probability of every label."""
        return dict(fires)

    def label(self, fires: Mapping[str, float], rule: Rule, allowed: Sequence[str] = ()) -> str:
        """The most probable label after the rule's offsets; of two labels, the contradiction from the rule's cut on."""
        names = [name for name in self.labels if not allowed or name in allowed]
        if len(self.labels) == 2 and len(names) == 2:
            clash = next(name for name in names if name in CONTRADICTIONS[self.task])
            return clash if fires[clash] >= rule.cut else next(name for name in names if name != clash)
        return self.category(fires, rule, names)

    def category(self, fires: Mapping[str, float], rule: Rule, kinds: Sequence[str]) -> str:
        """The most probable of them after the rule's offsets."""
        logs = np.log(np.maximum([fires[name] for name in kinds], TINY))
        return kinds[int(np.argmax(logs + [rule.offsets.get(name, 0.0) for name in kinds]))]


def probabilities(rule: Rule, logits: np.ndarray, labels: Sequence[str]) -> np.ndarray:
    """Calibrated probabilities of logits; both have the shape (rows, classes)."""
    return np.maximum(_softmax(logits / rule.temperature + _biases(rule, labels)), TINY)


def _softmax(logits: np.ndarray) -> np.ndarray:
    """Over the last axis; scipy's, which the demo page does without."""
    shares = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return shares / shares.sum(axis=-1, keepdims=True)


def _biases(rule: Rule, labels: Sequence[str]) -> np.ndarray:
    return np.array([rule.biases.get(name, 0.0) for name in labels])


def _rule_folder(name: str | Path) -> Path:
    """The folder in which the rule of a model lies, fetched where ``name`` is a Hub id."""
    if Path(name).is_dir():
        return Path(name)
    from contradiction.hub import fetched

    file = fetched(str(name), FILE)
    return file.parent if file else Path(name)
