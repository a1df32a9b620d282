"""From what a visitor wrote to what the page shows of it: a verdict on one reply, or on each of a chat."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import bubbles
from wording import BOXES, headline, in_words, summary

from contradiction import ContradictionDetector, Verdict
from contradiction.chats import pasted
from contradiction.conversation import ASSISTANT, USER, read_message
from contradiction.errors import InputError
from contradiction.labels import is_contradiction

LONGEST = 2000  # characters of one utterance
LONGEST_CHAT, MOST = 10_000, 100  # characters and messages of a whole chat: at most 1,225 pairs of replies are read


def chat_of(*utterances: str) -> list[dict[str, Any]]:
    """The messages of u1, b1, u2, b2."""
    return [{"role": role, "content": text} for role, text in zip((USER, ASSISTANT) * 2, utterances, strict=True)]


def check(utterances: Sequence[str], words: dict[str, str]) -> None:
    """Raises InputError, in these words, for utterances that the page does not take; the message names all of them."""
    named = dict(zip(BOXES, utterances, strict=True))
    empty = [name for name, text in named.items() if not text]
    problems = []
    if empty:
        problems.append(words["empty" if len(empty) == 1 else "all empty"].format(names=words["comma"].join(empty)))
    problems += [
        words["long"].format(name=name, length=len(text), longest=LONGEST)
        for name, text in named.items()
        if len(text) > LONGEST
    ]
    if problems:
        raise InputError(words["semicolon"].join(problems))


def pasted_chat(text: str, words: dict[str, str]) -> list[dict[str, Any]]:
    """The messages of a pasted chat.

    Raises:
        InputError: it is none, or it is too long.
    """
    if not text.strip():
        raise InputError(words["scan empty"])
    if len(text) > LONGEST_CHAT:
        raise InputError(words["too long"].format(length=len(text), longest=LONGEST_CHAT))
    try:
        messages = pasted.read(text)
    except InputError as error:
        raise InputError(words["no chat"].format(reason=in_words(str(error), words))) from None
    if len(messages) > MOST:
        raise InputError(words["too many"].format(count=len(messages), most=MOST))
    return messages


def judge(
    detector: ContradictionDetector, utterances: Sequence[str | None], words: dict[str, str]
) -> tuple[str, dict[str, float], str]:
    """Of the reply b2 in u1 b1 u2 b2: a headline, the probability of each label, the chat as HTML."""
    texts = [(text or "").strip() for text in utterances]
    check(texts, words)
    messages = chat_of(*texts)
    verdict = detector(messages)
    shown = {index: (each["role"], each["content"]) for index, each in enumerate(messages)}
    notes = bubbles.of_last(verdict, len(messages) - 1, words)
    return headline(verdict, words), dict(verdict.scores), bubbles.chat_html(shown, BOXES, notes, words)


@dataclass(frozen=True)
class Scanned:
    """A whole chat, read once for all thresholds.

    Attributes:
        messages: index -> role and text, of those that either side says.
        count: of all messages.
        verdicts: of all replies, each with the contradiction that it is if it is one.
    """

    messages: dict[int, tuple[str, str]]
    count: int
    verdicts: list[Verdict]

    def called(self, threshold: float) -> list[Verdict]:
        """The verdicts, in which a contradiction is called from a probability on."""
        return [_called(verdict, threshold) for verdict in self.verdicts]


def _called(verdict: Verdict, threshold: float) -> Verdict:
    if verdict.probability is None or verdict.probability >= threshold:
        return verdict
    label = max((name for name in verdict.scores if not is_contradiction(name)), key=verdict.scores.__getitem__)
    return replace(verdict, label=label, score=verdict.scores[label], evidence=(), further=())


def scan(detector: ContradictionDetector, text: str | None, words: dict[str, str]) -> Scanned:
    """Judges all replies of a pasted chat."""
    messages = pasted_chat(text or "", words)
    try:
        verdicts = detector.with_settings(threshold=0.0).scan(messages)
    except InputError as error:
        raise InputError(words["no chat"].format(reason=in_words(str(error), words))) from None
    read = [read_message(message, f"messages[{index}]") for index, message in enumerate(messages)]
    said = {index: (each.role, each.text) for index, each in enumerate(read) if not each.skipped}
    return Scanned(said, len(messages), verdicts)


def shown(chat: Scanned, threshold: float, words: dict[str, str]) -> tuple[str, str]:
    """How many replies are called contradictions from a probability on, and the chat as HTML."""
    verdicts = chat.called(threshold)
    numbers = [str(number) for number in range(1, chat.count + 1)]
    names = [words["message"].format(number=number) for number in numbers]
    notes = bubbles.of_all(verdicts, numbers, words)
    return summary(verdicts, words, names), bubbles.chat_html(chat.messages, numbers, notes, words)
