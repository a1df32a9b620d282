"""The façade: chat messages in, verdicts out."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contradiction.conversation import Turn, is_blank, read_turns
from contradiction.errors import InputError
from contradiction.labels import CONTRADICTIONS, HISTORY, LABELS, NON_CONTRADICTION, is_contradiction, merge, task_with
from contradiction.scoring import knows, load_checkpoint, score
from contradiction.views import CONVERSATION, VIEWS, model_input

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

Messages = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Verdict:
    """What a detector says of the last reply of a chat.

    Attributes:
        label: the label decided on, for most detectors the most probable; None where there was nothing to judge.
        score: its probability; None likewise.
        scores: the probability of every label, by name; empty likewise.
        evidence: indices of the messages that the reply contradicts; only the label ``history`` has any, and only
            where ``checked`` is true.
        checked: whether all was read of the utterances that the detector's view reads. A label on text that was not
            read is a guess on the rest.
        reason: why ``checked`` is false; else None.
    """

    label: str | None
    score: float | None
    scores: Mapping[str, float]
    evidence: tuple[int, ...] = ()
    checked: bool = True
    reason: str | None = None

    @property
    def is_contradiction(self) -> bool | None:
        """Whether the reply contradicts anything; None where the label does not say."""
        if self.label == NON_CONTRADICTION:
            return False
        return True if self.label and is_contradiction(self.label) else None


@dataclass(frozen=True)
class Judgement:
    """What a detector makes of one row of utterances.

    Attributes:
        label: the label decided on.
        merged: the label decided on among the two of ``2-class``; None for labels that cannot be merged.
        scores: the probability of every label, by name.
        unread: what was not read, in words; None where all was.
    """

    label: str
    merged: str | None
    scores: Mapping[str, float]
    unread: str | None


class Detector(ABC):
    """What all detectors share: it turns chats into rows of utterances, and judgements of these into verdicts.

    Attributes:
        name: how messages name it.
        task: a key of ``contradiction.labels.LABELS``, or the category of a single stage.
        labels: the names of its labels.
        columns: the utterances that it reads.
    """

    name: str
    task: str
    labels: tuple[str, ...]
    columns: tuple[str, ...]

    @abstractmethod
    def judge(
        self,
        rows: Sequence[Mapping[str, str]],
        *,
        batch_size: int = 32,
        on_batch: Callable[[int], Any] | None = None,
    ) -> list[Judgement]:
        """Judges rows of utterances, named as in the data set.

        Args:
            rows: dicts that hold at least ``columns``.
            batch_size: rows a forward pass.
            on_batch: called with the number of rows done, after each forward pass.
        """

    @abstractmethod
    def knows(self, text: str) -> bool:
        """Whether the model has a token of its own for any part of a text; else it reads nothing but "unknown"."""

    def __call__(self, messages: Messages) -> Verdict:
        """Judges the last reply of one two-turn chat; see :meth:`batch`."""
        return self.batch([messages])[0]

    def batch(
        self, chats: Sequence[Messages], *, batch_size: int = 32, on_batch: Callable[[int], Any] | None = None
    ) -> list[Verdict]:
        """Judges the last reply of each chat, batched by length; verdicts come in the order of the chats.

        Args:
            chats: lists of ``{"role", "content"}``: user, assistant, user, assistant.
            batch_size: chats a forward pass.
            on_batch: called with the number of chats done, after each forward pass.

        Raises:
            InputError: a chat is not usable (the message names it, the message in it, and what would be right), or
                this model does not judge replies.
        """
        reply = CONVERSATION[-1]
        if reply not in self.columns or not set(self.columns) <= set(CONVERSATION):
            raise InputError(f"{self.name} reads {', '.join(self.columns)}; it does not judge the reply of a chat")
        conversations = []
        for number, messages in enumerate(chats):
            try:
                conversations.append(two_turns(messages))
            except InputError as error:
                raise InputError(f"chats[{number}]: {error}" if len(chats) > 1 else str(error)) from None
        rows = [dict(zip(CONVERSATION, _texts(turns), strict=True)) for turns in conversations]
        nothing = [self._nothing_to_judge(row[reply]) for row in rows]
        judged = [number for number, reason in enumerate(nothing) if reason is None]
        verdicts = [Verdict(None, None, {}, checked=False, reason=reason) for reason in nothing]
        judgements = self.judge([rows[number] for number in judged], batch_size=batch_size, on_batch=on_batch)
        for number, judgement in zip(judged, judgements, strict=True):
            verdicts[number] = _verdict(conversations[number], judgement)
        return verdicts

    def _nothing_to_judge(self, reply: str) -> str | None:
        if is_blank(reply):
            return "the reply holds no words"
        return None if self.knows(reply) else "the reply holds no word that the model knows"


class ContradictionDetector(Detector):
    """A detector of one checkpoint.

    Args:
        model: a sequence-classification model whose configuration names the labels; it is set to evaluation mode.
        tokenizer: its tokenizer.
        view: the utterances it reads (a key of ``contradiction.views.VIEWS``); by default what its configuration says.
        name: how messages name it.

    Raises:
        InputError: the label names or the view are unknown.
    """

    def __init__(
        self,
        model: "PreTrainedModel",
        tokenizer: "PreTrainedTokenizerBase",
        view: str | None = None,
        name: str = "model",
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

    @staticmethod
    def from_pretrained(name: str | Path, *, view: str | None = None, device: str | None = None) -> Detector:
        """Loads a detector from a folder or from the Hub: of one checkpoint, or a hierarchical one.

        Args:
            name: folder or Hub id.
            view: the utterances it reads, for checkpoints whose configuration does not say.
            device: for instance ``cpu`` or ``cuda:1``; by default a GPU where there is one.

        Raises:
            InputError: there is no such checkpoint, or it is no detector.
        """
        from contradiction.hierarchy import HierarchicalDetector, folder_of

        if folder := folder_of(name):
            if view is not None:
                raise InputError(f"{name}: hierarchical, each stage reads a view of its own; leave the view out")
            return HierarchicalDetector.load(folder, device)
        model, tokenizer = load_checkpoint(name, device)
        return ContradictionDetector(model, tokenizer, view, str(name))

    def judge(
        self,
        rows: Sequence[Mapping[str, str]],
        *,
        batch_size: int = 32,
        on_batch: Callable[[int], Any] | None = None,
    ) -> list[Judgement]:
        """Judges rows of utterances; see :meth:`Detector.judge`."""
        inputs = [self.model_input(row) for row in rows]
        scores = score(self.model, self.tokenizer, inputs, batch_size=batch_size, on_batch=on_batch)
        return [
            self._judgement(dict(zip(self.labels, probabilities, strict=True)), unread)
            for probabilities, unread in zip(scores.probabilities.tolist(), scores.unread, strict=True)
        ]

    def knows(self, text: str) -> bool:
        """Whether the model has a token of its own for any part of a text."""
        return knows(self.tokenizer, text)

    def model_input(self, utterances: Mapping[str, str]) -> dict[str, str]:
        """What the checkpoint reads of a row: the input of a text-classification pipeline on it."""
        return model_input(utterances, self.columns, self.tokenizer)

    def _judgement(self, scores: dict[str, float], unread: str | None) -> Judgement:
        merged = merge(self.task, scores) if self.task in CONTRADICTIONS else None
        return Judgement(
            label=max(scores, key=scores.__getitem__),
            merged=max(merged, key=merged.__getitem__) if merged else None,
            scores=scores,
            unread=unread,
        )


def two_turns(messages: Messages) -> list[Turn]:
    """The turns of a chat that a detector can judge.

    Raises:
        InputError: it is no chat, or not one of two turns.
    """
    turns = read_turns(messages)
    if len(turns) != 2:
        raise InputError(f"messages holds {len(messages)} messages; a detector judges two turns, which are 4")
    return turns


def _texts(turns: list[Turn]) -> list[str]:
    return [text for turn in turns for text in (turn.user, turn.reply)]


def _verdict(turns: list[Turn], judgement: Judgement) -> Verdict:
    # Without all of the text nobody knows which message it was.
    known = judgement.label == HISTORY and judgement.unread is None
    return Verdict(
        label=judgement.label,
        score=judgement.scores[judgement.label],
        scores=judgement.scores,
        evidence=(turns[0].reply_index,) if known else (),
        checked=judgement.unread is None,
        reason=judgement.unread,
    )
