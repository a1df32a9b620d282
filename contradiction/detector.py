"""The façade: chat messages in, verdicts out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contradiction.conversation import Turn, is_blank, read_turns
from contradiction.errors import InputError
from contradiction.labels import CONTRADICTIONS, HISTORY, LABELS, is_contradiction, merge, task_with
from contradiction.scoring import load_checkpoint, score
from contradiction.views import VIEWS, model_input

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
        evidence: indices of the messages that the reply contradicts; only the label ``history`` has any.
        checked: whether all of the text was read. A label on text that was not is a guess on the rest.
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
        """Whether the label is any of the contradictions; None where there was nothing to judge."""
        return None if self.label is None else is_contradiction(self.label)


@dataclass(frozen=True)
class Judgement:
    """What a detector makes of one row of utterances.

    Attributes:
        label: the label decided.
        merged: the label decided among the two of ``2-class``; None for labels that cannot be merged.
        scores: the probability of every label, by name.
        tokens_cut: how many tokens were not read.
    """

    label: str
    merged: str | None
    scores: Mapping[str, float]
    tokens_cut: int


class ContradictionDetector:
    """A trained detector.

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
        self.labels = tuple(name for _, name in sorted((model.config.id2label or {}).items()))
        task = task_with(self.labels)
        if task is None:
            known = "; ".join(", ".join(names) for names in LABELS.values())
            raise InputError(f"{name}: its labels are {', '.join(self.labels)}; a detector's are one of: {known}")
        view = view or str(getattr(model.config, "cdconv_view", ""))
        if view not in VIEWS:
            wrong = f"there is no view {view!r}" if view else "its configuration does not say which utterances it reads"
            raise InputError(f"{name}: {wrong}; views are {', '.join(VIEWS)}")
        self.model, self.tokenizer, self.name = model.eval(), tokenizer, name
        self.task: str = task
        self.view: str = view

    @classmethod
    def from_pretrained(
        cls, name: str | Path, *, view: str | None = None, device: str | None = None
    ) -> "ContradictionDetector":
        """Loads a detector from a folder or from the Hub.

        Args:
            name: folder or Hub id of a sequence-classification checkpoint, or of a hierarchical detector.
            view: the utterances it reads, for checkpoints whose configuration does not say.
            device: for instance ``cpu`` or ``cuda:1``; by default a GPU where there is one.

        Raises:
            InputError: there is no such checkpoint, or it is no detector.
        """
        from contradiction.hierarchy import HierarchicalDetector, folder_of

        if folder := folder_of(name):
            return HierarchicalDetector.load(folder, device)
        model, tokenizer = load_checkpoint(name, device)
        return cls(model, tokenizer, view, str(name))

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
            InputError: a chat is not usable; the message names it, the message in it, and what would be right.
        """
        conversations = []
        for number, messages in enumerate(chats):
            try:
                conversations.append(_read(messages))
            except InputError as error:
                raise InputError(f"chats[{number}]: {error}" if len(chats) > 1 else str(error)) from None
        judged = [number for number, turns in enumerate(conversations) if not is_blank(turns[-1].reply)]
        rows = [_utterances(conversations[number]) for number in judged]
        verdicts = [Verdict(None, None, {}, checked=False, reason="the reply holds no words")] * len(chats)
        for number, judgement in zip(judged, self.judge(rows, batch_size=batch_size, on_batch=on_batch), strict=True):
            verdicts[number] = _verdict(conversations[number], judgement)
        return verdicts

    def judge(
        self,
        rows: Sequence[Mapping[str, str]],
        *,
        batch_size: int = 32,
        on_batch: Callable[[int], Any] | None = None,
    ) -> list[Judgement]:
        """Judges the reply of each row of utterances, ``u1``, ``b1``, ``u2``, ``b2`` as in the data set."""
        inputs = [self.model_input(row) for row in rows]
        scores = score(self.model, self.tokenizer, inputs, batch_size=batch_size, on_batch=on_batch)
        return [
            self._judgement(dict(zip(self.labels, probabilities, strict=True)), cut)
            for probabilities, cut in zip(scores.probabilities.tolist(), scores.tokens_cut.tolist(), strict=True)
        ]

    def model_input(self, utterances: Mapping[str, str]) -> dict[str, str]:
        """What the checkpoint reads of ``u1, b1, u2, b2``: the input of a text-classification pipeline on it."""
        return model_input(utterances, VIEWS[self.view], self.tokenizer)

    def _judgement(self, scores: dict[str, float], cut: int) -> Judgement:
        merged = merge(self.task, scores) if self.task in CONTRADICTIONS else None
        return Judgement(
            label=max(scores, key=scores.__getitem__),
            merged=max(merged, key=merged.__getitem__) if merged else None,
            scores=scores,
            tokens_cut=cut,
        )

    def check(self, messages: Messages) -> None:
        """Raises InputError where :meth:`batch` would, without judging anything."""
        _read(messages)


def _verdict(turns: list[Turn], judgement: Judgement) -> Verdict:
    cut = judgement.tokens_cut
    return Verdict(
        label=judgement.label,
        score=judgement.scores[judgement.label],
        scores=judgement.scores,
        evidence=(turns[0].reply_index,) if judgement.label == HISTORY else (),
        checked=not cut,
        reason=f"the first {cut} tokens of the text were not read: it is longer than the model" if cut else None,
    )


def _read(messages: Messages) -> list[Turn]:
    turns = read_turns(messages)
    if len(turns) != 2:
        raise InputError(f"messages holds {len(messages)} messages; a detector judges two turns, which are 4")
    return turns


def _utterances(turns: list[Turn]) -> dict[str, str]:
    first, second = turns
    return {"u1": first.user, "b1": first.reply, "u2": second.user, "b2": second.reply}
