"""Judges replies: classifies the windows of a reply, combines them, and decides on the verdict."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import islice
from typing import Any, Self

from contradiction.conversation import Turn, is_blank, is_foreign
from contradiction.decision import decide
from contradiction.errors import InputError, check_known
from contradiction.inference.base import OnBatch
from contradiction.inputs.views import CONVERSATION, LONG_REPLY, STRUCTURED, UNSTRUCTURED, Window, is_opening, windows
from contradiction.labels import CATEGORIES, CONTRADICTION, HISTORY
from contradiction.markup import plain
from contradiction.methods.base import Classifier, Prediction
from contradiction.settings import Settings
from contradiction.verdict import NO_ANSWER, NOTHING_BEFORE, Clash, Verdict

# The number of windows that are classified together: enough that a batch holds inputs of similar length, and few enough
# for a machine with little memory.
CHUNK = 8192


@dataclass(frozen=True)
class Case:
    """One reply to judge.

    Attributes:
        turns: the turns of its chat.
        place: the position of its turn among them.
        windows: the windows in which it is read, the nearest last; empty if there is nothing to judge.
        reason: why there is nothing to judge; None if there is something.
        dropped: the number of earlier turns that were dropped before ``turns``.
    """

    turns: Sequence[Turn]
    place: int
    windows: Sequence[Window] = ()
    reason: str | None = None
    dropped: int = 0


class BaseDetector:
    """Turns the probabilities of a classifier of two turns into verdicts on replies.

    Attributes:
        name, task, labels, columns: those of the classifier.

    Raises:
        InputError: the settings do not fit this classifier.
    """

    def __init__(self, classifier: Classifier, settings: Settings | None = None) -> None:
        self.classifier = classifier
        self.settings = settings or Settings()
        self.name, self.task = classifier.name, classifier.task
        self.labels, self.columns = classifier.labels, classifier.columns
        rule = classifier.rule
        if self.settings.categories != CATEGORIES and not set(self.settings.categories) <= set(self.labels):
            raise InputError(
                f"{self.name} has the labels {', '.join(self.labels)}, so categories cannot be limited to "
                f"{', '.join(self.settings.categories)}"
            )
        self._threshold = self.settings.threshold_for(rule, self.name)
        # Raises an error now if the correction for a prior lacks a value.
        self.settings.correct(dict.fromkeys(self.labels, 1 / len(self.labels)), self.task, rule)
        if self.settings.windowing == UNSTRUCTURED and "u1" not in self.columns:
            raise InputError(
                f"{self.name} reads {', '.join(self.columns)}; windowing={UNSTRUCTURED!r} needs u1 among them"
            )

    def with_settings(self, **settings: Any) -> Self:
        """The same classifier with other settings; settings that are not named stay as they are.

        Raises:
            InputError: there is no such setting, or it has a wrong value or does not fit this classifier.
        """
        for name in settings:
            check_known(name, [one.name for one in fields(Settings)], "setting")
        return type(self)(self.classifier, replace(self.settings, **settings))

    def check_judges_replies(self) -> None:
        """Raises InputError if the classifier does not judge the reply of a chat."""
        reply = CONVERSATION[-1]
        if reply not in self.columns or not set(self.columns) <= set(CONVERSATION):
            raise InputError(f"{self.name} reads {', '.join(self.columns)}; it does not judge the reply of a chat")
        if not self.classifier.contradictions:
            raise InputError(f"{self.name} has the labels {', '.join(self.labels)}; none of them is a contradiction")

    def case(self, turns: Sequence[Turn], place: int, dropped: int = 0) -> Case:
        """The case of the reply in ``turns[place]``; see :class:`Case` for ``dropped``."""
        if reason := self.why_unreadable(turns[place].reply):
            return Case(turns, place, reason=f"the reply {reason}", dropped=dropped)
        windowing = UNSTRUCTURED if self.classifier.reads_chats else self.settings.windowing
        chosen = windows(turns, place, windowing, self._turns_read(place + dropped))
        return Case(turns, place, chosen, dropped=dropped)

    def _turns_read(self, earlier: int) -> int:
        """How many of some earlier turns a reply is read against, the last ones."""
        limit = self.settings.max_turns
        if limit is None or earlier <= limit:
            return earlier
        if not self.classifier.reads_chats:
            return limit
        # In a long chat, the first turn that is read moves only now and then: the chat after it need not be read again.
        step = max(1, limit // 2)
        return earlier - math.ceil((earlier - limit) / step) * step

    def judge_last_replies(
        self, chats: Iterable[Sequence[Turn]], *, batch_size: int = 32, on_batch: OnBatch | None = None
    ) -> list[Verdict]:
        """Judges the reply of the last turn of each chat, read lazily; see :meth:`judge_replies`."""
        self.check_judges_replies()
        no_reply = Case((), 0, reason="the chat holds no message by the assistant")
        cases = (self.case(turns, len(turns) - 1) if turns else no_reply for turns in chats)
        return list(self.judge_replies(cases, batch_size=batch_size, on_batch=on_batch))

    def judge_replies(
        self, cases: Iterable[Case], *, batch_size: int = 32, on_batch: OnBatch | None = None
    ) -> Iterator[Verdict]:
        """Judges replies, all in one stream of batches.

        Args:
            cases: the replies; read lazily.
            batch_size: the number of windows in a forward pass.
            on_batch: called with the number of windows done, after each forward pass.

        Yields:
            The verdicts, in the order of the cases.
        """
        for chunk in _chunks(cases):
            rows = [window.row for case in chunk for window in case.windows]
            predictions = iter(self.classifier.predict(rows, batch_size=batch_size, on_batch=on_batch))
            for case in chunk:
                yield self.verdict(case, list(islice(predictions, len(case.windows))))

    def verdict(self, case: Case, predictions: Sequence[Prediction]) -> Verdict:
        """The verdict on a reply, from the prediction for each of its windows."""
        reply = case.turns[case.place].reply_messages if case.turns else ()
        reason = case.reason
        if not reason and all(prediction.truncation == NO_ANSWER for prediction in predictions):
            reason = NO_ANSWER
        combined = None if reason else self.combine(case, [prediction.scores for prediction in predictions])
        if combined is None:
            return Verdict(None, None, {}, checked=False, reason=reason or NOTHING_BEFORE, reply=reply)
        opening = is_opening(case.windows[-1].row)
        label, scores, probability = self._decide(combined, opening)
        clashes = [] if opening else self._clashes(case, predictions)
        # With structured windows, pairs show which reply is contradicted, also if the labels do not.
        names_evidence = label == HISTORY or (label == CONTRADICTION and self.settings.windowing == STRUCTURED)
        evidence = clashes[0].messages if names_evidence and clashes and clashes[0] else ()
        further = tuple(clash for clash in clashes[1:] if clash and clash.score >= self._threshold)
        # The reason names only the first truncated window; the others lost other numbers of tokens.
        truncated = next((prediction.truncation for prediction in predictions if prediction.truncation), None)
        reasons = list(dict.fromkeys(filter(None, (truncated, self._unchecked_turns(case)))))
        verdict = Verdict(
            label=label,
            score=scores[label],
            scores=scores,
            probability=probability,
            evidence=evidence,
            checked=not reasons,
            reason="; ".join(reasons) or None,
            reply=reply,
            further=further if names_evidence else (),
        )
        return verdict.unsure() if self._is_long(case, verdict) else verdict

    def combine(self, case: Case, windows: Sequence[Mapping[str, float]]) -> Mapping[str, float] | None:
        """The probabilities of a reply from those of its windows; None for an opening that the model does not judge."""
        if is_opening(case.windows[-1].row):
            return self.classifier.opening_probabilities(windows[0])
        return self.classifier.combine_windows(windows)

    def _is_long(self, case: Case, verdict: Verdict) -> bool:
        """Whether the judged reply, or an earlier one that the verdict rests on, is longer than any of CDConv."""
        earlier = [case.turns[place] for window in case.windows for place in window.earlier]
        if verdict.evidence:
            earlier = [turn for turn in earlier if turn.reply_messages == verdict.evidence]
        return any(len(plain(turn.reply)) > LONG_REPLY for turn in (case.turns[case.place], *earlier))

    def why_unreadable(self, text: str) -> str | None:
        """Why a text cannot be judged, in words that follow its name (``holds no words``); None if it can be judged."""
        if is_blank(text):
            return "holds no words"
        if not self.classifier.has_token_for(text):
            return "holds no word that the model knows"
        if self.classifier.chinese_only and is_foreign(text):
            return "is not in Chinese, the language that the model was trained on"
        return None

    def _decide(self, probabilities: Mapping[str, float], opening: bool) -> tuple[str, dict[str, float], float]:
        """The label, the probability of every label, and that of a contradiction of the chosen categories."""
        classifier, settings = self.classifier, self.settings
        scores = settings.correct(probabilities, self.task, classifier.rule)
        chosen = [name for name in classifier.contradictions if name not in CATEGORIES or name in settings.categories]
        others = {name: score for name, score in scores.items() if name not in classifier.contradictions}
        threshold = self._threshold
        if opening and settings.threshold is None:
            threshold = max(threshold, settings.at_prior(classifier.rule.opening, classifier.rule))
        probability = classifier.probability_of(scores, chosen)
        counted = {name: scores[name] for name in chosen}
        if total := sum(counted.values()):
            counted = {name: score * (probability / total) for name, score in counted.items()}
        label = decide({**others, **counted}, threshold, chosen)
        return label, scores, min(probability, 1.0)

    def _clashes(self, case: Case, predictions: Sequence[Prediction]) -> list[Clash | None]:
        """The earlier replies, the most likely contradicted one first; None for windows that were truncated."""
        ranked: list[tuple[float, Clash | None]] = []
        for window, prediction in zip(case.windows, predictions, strict=True):
            history = self.classifier.history_probability(prediction.scores)
            total = sum(prediction.scores[name] for name in self.classifier.contradictions)
            # At the operator's prior, history keeps its part of the probability of any contradiction.
            score = history * self.settings.at_prior(total, self.classifier.rule) / total if total else history
            if prediction.evidence:  # which of the earlier replies is meant
                for turn, share in zip(window.earlier, prediction.evidence, strict=True):
                    clash = Clash(case.turns[turn].reply_messages, score * share) if share else None  # not read
                    ranked.append((history * share, clash))
            elif window.turn is not None:
                clash = None if prediction.truncation else Clash(case.turns[window.turn].reply_messages, score)
                ranked.append((history, clash))
        return [clash for _, clash in sorted(ranked, key=lambda item: -item[0])]

    def _unchecked_turns(self, case: Case) -> str | None:
        """Why not all turns of the chat were checked; None if all were."""
        for place in (place for window in case.windows for place in window.earlier):
            if reason := self.why_unreadable(case.turns[place].reply):
                indices = case.turns[place].reply_messages
                return f"messages[{indices[0]}] {reason}" if indices else f"an earlier reply {reason}"
        earlier = case.place + case.dropped
        if (read := self._turns_read(earlier)) < earlier:
            return f"the first {earlier - read} of {earlier} earlier turns were not read, as max_turns asks"
        return next((turn.unread for turn in case.turns[: case.place + 1] if turn.unread), None)


def _chunks(cases: Iterable[Case]) -> Iterator[list[Case]]:
    """The cases in lists of about ``CHUNK`` windows."""
    chunk: list[Case] = []
    count = 0
    for case in cases:
        chunk.append(case)
        count += len(case.windows)
        if count >= CHUNK:
            yield chunk
            chunk, count = [], 0
    if chunk:
        yield chunk
