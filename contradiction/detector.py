"""The façade: chat messages in, verdicts out."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from contradiction.conversation import Messages, Turn, is_blank, is_chinese, read_turns
from contradiction.errors import InputError, kind_of
from contradiction.inputs.views import CONVERSATION, Row
from contradiction.inputs.windows import STRUCTURED, UNSTRUCTURED, Window, windows
from contradiction.labels import CATEGORIES, CONTRADICTION, CONTRADICTIONS, HISTORY, is_contradiction
from contradiction.methods.base import Classifier, Judgement, OnBatch
from contradiction.methods.decision import Rule, Settings
from contradiction.methods.loading import load_classifier
from contradiction.verdict import NOTHING_BEFORE, Clash, Verdict

if TYPE_CHECKING:
    from contradiction.monitor import Monitor
    from contradiction.rerank import Ranked
    from contradiction.spans import Location

# Windows that are held at once: enough that batches hold inputs of like length, few enough for small memories.
AT_ONCE = 8192


@dataclass(frozen=True)
class Case:
    """One reply to judge.

    Attributes:
        turns: of its chat.
        place: of its turn among them.
        windows: in which it is read, the nearest last; empty where there is nothing to judge.
        nothing: why there is nothing to judge; else None.
        dropped: turns of its chat before these, which are no longer held.
    """

    turns: Sequence[Turn]
    place: int
    windows: Sequence[Window] = ()
    nothing: str | None = None
    dropped: int = 0


class ContradictionDetector:
    """A trained model with its decision rule, over chats of any length.

    Args:
        classifier: what judges rows of two turns.
        settings: what the operator sets.

    Raises:
        InputError: the settings ask for what this classifier cannot give.
    """

    def __init__(self, classifier: Classifier, settings: Settings | None = None) -> None:
        self.classifier = classifier
        self.settings = settings or Settings()
        self.name, self.task, self.labels, self.columns = (
            classifier.name, classifier.task, classifier.labels, classifier.columns,
        )  # fmt: skip
        # Why a text cannot be judged, in words that follow what it is (``holds no words``); None where it can. Each
        # reply of a long chat is asked about again and again.
        self.unfit = lru_cache(maxsize=4096)(self._unfit)
        rule = classifier.rule
        self._kinds = tuple(name for name in self.labels if name in CONTRADICTIONS.get(self.task, ()))
        if self.settings.categories != CATEGORIES and not set(self.settings.categories) <= set(self.labels):
            raise InputError(
                f"{self.name} tells {', '.join(self.labels)}; the categories {', '.join(self.settings.categories)} are "
                "not among them"
            )
        self._limit = self.settings.limit(rule, self.name)
        self.settings.correct(dict.fromkeys(self.labels, 1 / len(self.labels)), self.task, rule)  # says what is missing
        if self.settings.reading == UNSTRUCTURED and "u1" not in self.columns:
            raise InputError(
                f"{self.name} reads {', '.join(self.columns)}; the unstructured reading needs u1 among them"
            )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.task}, reads {', '.join(self.columns)}, {self.settings})"

    @classmethod
    def from_pretrained(
        cls,
        name: str | Path,
        *,
        view: str | None = None,
        device: str | None = None,
        precision: str = "fp32",
        **settings: Any,
    ) -> Self:
        """Loads a detector from a folder or from the Hub: of one checkpoint, an ensemble, or a hierarchical one.

        Args:
            name: folder or Hub id.
            view: the utterances it reads, for checkpoints whose configuration does not say.
            device: for instance ``cpu`` or ``cuda:1``; by default a GPU where there is one.
            precision: of the arithmetic: ``fp32``, ``bf16`` or ``fp16``, see
                :class:`contradiction.methods.checkpoint.CheckpointClassifier`.
            settings: see ``contradiction.methods.decision.Settings``.

        Raises:
            InputError: there is no such checkpoint, it is no detector, or a setting is wrong.
        """
        wanted = Settings(**settings)
        return cls(load_classifier(name, view=view, device=device, precision=precision), wanted)

    def with_settings(self, **settings: Any) -> Self:
        """The same detector, with other settings; those not named stay as they are."""
        return type(self)(self.classifier, replace(self.settings, **settings))

    def __call__(self, messages: Messages) -> Verdict:
        """Judges the last reply of one chat; see :meth:`batch`."""
        return self.batch([messages])[0]

    def batch(
        self, chats: Sequence[Messages], *, batch_size: int = 32, on_batch: OnBatch | None = None
    ) -> list[Verdict]:
        """Judges the last reply of each chat, batched by length; verdicts come in the order of the chats.

        Args:
            chats: lists of ``{"role", "content"}``; see ``contradiction.conversation.read_turns``.
            batch_size: windows a forward pass.
            on_batch: called with the number of windows done, after each forward pass.

        Raises:
            InputError: a chat is not usable (the message names it, the message in it, and what would be right), or
                this model does not judge replies.
        """
        cases = [self._last(turns) for turns in self._read(chats)]
        return list(self._judge(cases, batch_size, on_batch))

    def scan(self, messages: Messages, *, batch_size: int = 32, on_batch: OnBatch | None = None) -> list[Verdict]:
        """Judges every reply of one chat, in order; see :meth:`batch`."""
        return self.scan_batch([messages], batch_size=batch_size, on_batch=on_batch)[0]

    def scan_batch(
        self, chats: Sequence[Messages], *, batch_size: int = 32, on_batch: OnBatch | None = None
    ) -> list[list[Verdict]]:
        """Judges every reply of each chat, all in one stream of batches; see :meth:`batch`."""
        read = self._read(chats)
        cases = (self._case(turns, place) for turns in read for place in range(len(turns)))
        verdicts = self._judge(cases, batch_size, on_batch)
        return [list(islice(verdicts, len(turns))) for turns in read]

    def judge_turn(self, turns: Sequence[Turn], place: int, dropped: int = 0) -> Verdict:
        """Judges the reply of one turn against the turns before it; ``dropped`` more of them are no longer held."""
        self._demand_reply()
        return next(self._judge([self._case(turns, place, dropped)], batch_size=32))

    def judge_last(
        self, chats: Sequence[Sequence[Turn]], *, batch_size: int = 32, on_batch: OnBatch | None = None
    ) -> list[Verdict]:
        """Judges the reply of the last turn of each chat, all in one stream of batches; see :meth:`batch`."""
        self._demand_reply()
        return list(self._judge([self._case(turns, len(turns) - 1) for turns in chats], batch_size, on_batch))

    def monitor(self, max_turns: int | None = None) -> "Monitor":
        """Follows one chat message by message; see ``contradiction.monitor.Monitor``.

        Args:
            max_turns: earlier turns that are held; by default those of the settings, else a bound of the monitor's own.

        Raises:
            InputError: ``max_turns`` is no positive number, or this model does not judge replies.
        """
        from contradiction.monitor import Monitor

        self._demand_reply()
        return Monitor(self, max_turns)

    def rerank(
        self,
        messages: Messages,
        candidates: Sequence[str],
        *,
        batch_size: int = 32,
        on_batch: OnBatch | None = None,
    ) -> "list[Ranked]":
        """Orders replies that a bot could give to a chat, the least likely contradiction first.

        See ``contradiction.rerank.rerank``; ``batch_size`` and ``on_batch`` are those of :meth:`batch`.
        """
        from contradiction.rerank import rerank

        return rerank(self, messages, candidates, batch_size=batch_size, on_batch=on_batch)

    def check(self, facts: Sequence[str], reply: str, question: str = "") -> Verdict:
        """Judges a reply against sentences that hold of the bot; see ``contradiction.rerank.check``."""
        from contradiction.rerank import check

        return check(self, facts, reply, question)

    def locate(self, messages: Messages, verdict: Verdict | None = None) -> "Location | None":
        """Finds the two clauses that clash in a chat; see ``contradiction.spans.locate``, also for the cost."""
        from contradiction.spans import locate

        return locate(self, messages, verdict)

    def judge(self, rows: Sequence[Row], *, batch_size: int = 32, on_batch: OnBatch | None = None) -> list[Judgement]:
        """Judges rows of the data set by the classifier's own rule; settings do not count."""
        return self.classifier.judge(rows, batch_size=batch_size, on_batch=on_batch)

    def _read(self, chats: Sequence[Messages]) -> list[list[Turn]]:
        self._demand_reply()
        read = []
        if isinstance(chats, str | bytes | Mapping) or not isinstance(chats, Iterable):
            raise InputError(f"chats is {kind_of(chats)}; it must be a list of chats, each a list of messages")
        chats = list(chats)
        for number, messages in enumerate(chats):
            try:
                read.append(read_turns(messages))
            except InputError as error:
                raise InputError(f"chats[{number}]: {error}" if len(chats) > 1 else str(error)) from None
        return read

    def _demand_reply(self) -> None:
        reply = CONVERSATION[-1]
        if reply not in self.columns or not set(self.columns) <= set(CONVERSATION):
            raise InputError(f"{self.name} reads {', '.join(self.columns)}; it does not judge the reply of a chat")
        if not self._kinds:
            raise InputError(f"{self.name} tells {', '.join(self.labels)}; none of them is a contradiction")

    def _last(self, turns: list[Turn]) -> Case:
        if not turns:
            return Case((), 0, nothing="the chat holds no message by the assistant")
        return self._case(turns, len(turns) - 1)

    def _case(self, turns: Sequence[Turn], place: int, dropped: int = 0) -> Case:
        if nothing := self.unfit(turns[place].reply):
            return Case(turns, place, nothing=f"the reply {nothing}", dropped=dropped)
        chosen = windows(turns, place, self.settings.reading, self.settings.max_turns)
        return Case(turns, place, chosen, dropped=dropped)

    def _unfit(self, text: str) -> str | None:
        if is_blank(text):
            return "holds no words"
        if not self.classifier.knows(text):
            return "holds no word that the model knows"
        return None if is_chinese(text) else "is not in Chinese, the language that the model was trained on"

    def _judge(
        self, cases: Sequence[Case] | Iterator[Case], batch_size: int, on_batch: OnBatch | None = None
    ) -> Iterator[Verdict]:
        for part in _parts(cases):
            rows = [window.row for case in part for window in case.windows]
            readings = iter(self.classifier.read(rows, batch_size=batch_size, on_batch=on_batch))
            for case in part:
                found = list(islice(readings, len(case.windows)))
                yield self.verdict(case, [each.probabilities for each in found], [each.unread for each in found])

    def verdict(self, case: Case, probabilities: list, unread: list[str | None]) -> Verdict:
        """What is said of a reply whose windows were read.

        Args:
            case: the reply.
            probabilities: of each window, by label or stage.
            unread: of each window, what was not read, in words; None where all was.
        """
        reply = case.turns[case.place].reply_messages if case.turns else ()
        if case.nothing:
            return Verdict(None, None, {}, checked=False, reason=case.nothing, reply=reply)
        opening = case.windows[-1].opening
        combine = self.classifier.combine
        together = self.classifier.without_history(probabilities[0]) if opening else combine(probabilities)
        if together is None:
            return Verdict(None, None, {}, checked=False, reason=NOTHING_BEFORE, reply=reply)
        # A rule was fitted on replies to conversations; its offsets call every fourth opening reply a contradiction.
        label, scores, probability = self._decide(together, Rule() if opening else self.classifier.rule)
        clashes = [] if opening else self._clashes(case, probabilities, unread)
        # Pairs of replies show what clashes even where the labels do not tell categories.
        told = label == HISTORY or (label == CONTRADICTION and self.settings.reading == STRUCTURED)
        best = clashes[0].messages if clashes and clashes[0] and told else ()
        sure = 0.5 if self._limit is None else self._limit
        # One window stands for all that were cut: each lost another number of tokens.
        reasons = [*dict.fromkeys(filter(None, (next(filter(None, unread), None), self._not_read(case))))]
        return Verdict(
            label=label,
            score=scores[label],
            scores=scores,
            probability=probability,
            evidence=best,
            checked=not reasons,
            reason="; ".join(reasons) or None,
            reply=reply,
            further=tuple(each for each in clashes[1:] if each and each.score >= sure) if told else (),
        )

    def _decide(self, probabilities: Any, rule: Rule) -> tuple[str, dict[str, float], float]:
        """The label, the probability of every label, and that of a contradiction of the categories asked for."""
        settings, own = self.settings, self.classifier.rule
        scores = settings.correct(self.classifier.scores(probabilities), self.task, own)
        allowed = [name for name in self.labels if name not in CATEGORIES or name in settings.categories]
        kinds = [name for name in allowed if name in self._kinds]
        probability = settings.at_prior(self.classifier.any_of(probabilities, kinds), own)
        if self._limit is None:
            label = self.classifier.label(probabilities, rule, allowed)
        elif probability >= self._limit:
            label = self.classifier.category(probabilities, rule, kinds)
        else:
            label = max((name for name in self.labels if not is_contradiction(name)), key=scores.__getitem__)
        return label, scores, probability

    def _clashes(self, case: Case, probabilities: list, unread: list[str | None]) -> list[Clash | None]:
        """The earlier replies, the most likely contradicted one first; None for windows that were not read whole."""
        found = []
        for window, each, lost in zip(case.windows, probabilities, unread, strict=True):
            if window.turn is not None:
                raw, total = self.classifier.history_probability(each), self.classifier.any_of(each, self._kinds)
                # It keeps its share of what contradictions have together at the operator's prior.
                score = raw * self.settings.at_prior(total, self.classifier.rule) / total if total else raw
                found.append((raw, None if lost else Clash(case.turns[window.turn].reply_messages, score)))
        return [clash for _, clash in sorted(found, key=lambda each: -each[0])]

    def _not_read(self, case: Case) -> str | None:
        for place in (place for window in case.windows for place in window.earlier):
            if unfit := self.unfit(case.turns[place].reply):
                first = case.turns[place].reply_messages
                return f"messages[{first[0]}] {unfit}" if first else f"an earlier reply {unfit}"
        bound = self.settings.max_turns
        if bound is not None and (earlier := case.place + case.dropped) > bound:
            return f"of {earlier} earlier turns only the last {bound} were read, as max_turns asks"
        return next((turn.unread for turn in case.turns[: case.place + 1] if turn.unread), None)


def _parts(cases: Sequence[Case] | Iterator[Case]) -> Iterator[list[Case]]:
    """The cases in parts of about ``AT_ONCE`` windows."""
    part: list[Case] = []
    held = 0
    for case in cases:
        part.append(case)
        held += len(case.windows)
        if held >= AT_ONCE:
            yield part
            part, held = [], 0
    if part:
        yield part
