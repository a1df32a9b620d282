"""Finds the clauses that contradict each other, in the judged reply and in the earlier one."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise, product

import numpy as np

from contradiction.base_detector import BaseDetector
from contradiction.conversation import Messages, Turn, is_blank, list_messages, read_message, read_turns
from contradiction.errors import InputError
from contradiction.inputs.views import INTRODUCTION, Row, row_of, windows
from contradiction.labels import INTRA
from contradiction.markup import words
from contradiction.verdict import Verdict

# Between ASCII letters or digits, points and spaces separate no clauses: 3.5, 8:30, Hello Kitty. The comma of
# enumerations (、) separates words, not clauses.
_BORDER = re.compile(r"[，。！？；：…—～!?;~\r\n]|[,.:](?![0-9A-Za-z])|(?<![0-9A-Za-z])[,.:]|\s(?![!-~])|(?<![!-~])\s")

Clause = tuple[int, int]  # start and end in a text
MAX_CLAUSES = 48  # of a reply: each is compared with each
TINY = 1e-6  # the distance of a probability from 0 and 1 that its log-odds need


@dataclass(frozen=True)
class Span:
    """A clause of a message.

    Attributes:
        message: the index of the message in the chat.
        start: the position of the first character in the text of the message; if the content is a list of parts,
            their texts are joined by line breaks.
        end: the position after the last character.
    """

    message: int
    start: int
    end: int


@dataclass(frozen=True)
class Location:
    """Two clauses that contradict each other; both lie in the judged reply if it contradicts itself.

    Attributes:
        earlier: the clause that is contradicted.
        later: the clause of the judged reply that contradicts it.
        verdict: the verdict on the judged reply.
    """

    earlier: Span
    later: Span
    verdict: Verdict


def clauses(text: str) -> list[Clause]:
    """The clauses of a text: its parts between punctuation or spaces, if they have words."""
    spans, start = [], 0
    for border in (*_BORDER.finditer(text), None):
        end = border.start() if border else len(text)
        part = text[start:end]
        if not is_blank(part):
            spans.append((start + len(part) - len(part.lstrip()), start + len(part.rstrip())))
        start = border.end() if border else end
    return spans


def locate(detector: BaseDetector, messages: Messages, verdict: Verdict | None = None) -> Location | None:
    """Finds the two clauses that contradict each other, if the last reply of a chat is a contradiction.

    - *intra-sentence*: the two clauses of the reply with the most common characters are returned. Pairs with equally
      many are read, the earlier clause in the place of the earlier reply, and the one with the highest probability of a
      contradiction is returned. n clauses take at most n (n - 1) / 2 windows.
    - *history* (and a contradiction with evidence): each clause of the earlier reply is read with each clause of the
      judged one. Then both replies are read without each of their clauses. The score of a pair is its log-odds of a
      contradiction minus the mean of those without each of its clauses, and the pair with the highest score is
      returned. n and m clauses take nm + n + m windows; two replies of one clause take none.

    The accuracy depends on the model and may be no better than chance: ``experiments/locate_clause.py`` measures it.

    Args:
        detector: the detector.
        messages: the chat.
        verdict: the verdict of the detector on the last reply; by default the reply is judged here.

    Returns:
        The clauses; None if there are none: no contradiction, role confusion, a contradiction without evidence, a
        contradiction within a reply of a single clause, or a reply that has no clause, such as ～.

    Raises:
        InputError: the chat is not usable, the verdict is on another reply, a reply has more than ``MAX_CLAUSES``
            clauses, or the model does not read earlier replies.
    """
    if "b1" not in detector.columns:
        raise InputError(
            f"{detector.name} reads {', '.join(detector.columns)}; locating clauses needs b1, the earlier reply"
        )
    messages = list_messages(messages)
    turns = read_turns(messages)
    if verdict is None:
        [verdict] = detector.judge_last_replies([turns])
    judged = turns[-1] if turns else Turn("", "", (), ())
    if verdict.reply != judged.reply_messages:
        raise InputError(
            f"the verdict is on the messages {verdict.reply}, but the last reply of the chat is {judged.reply_messages}"
        )
    if verdict.label == INTRA:
        earlier, pair = judged, _most_contradictory_pair(detector, _plain(judged))
    elif verdict.contradiction and verdict.evidence:
        found = [turn for turn in turns[:-1] if turn.reply_messages == verdict.evidence]
        if not found:
            raise InputError(f"the verdict names {verdict.evidence} as evidence, which is no earlier reply of the chat")
        earlier, pair = found[0], _best_pair(detector, _plain(found[0]), _plain(judged))
    else:
        return None
    return pair and Location(_span(messages, earlier, pair[0]), _span(messages, judged, pair[1]), verdict)


def _plain(turn: Turn) -> Turn:
    """The turn with the words of its reply alone, as the model reads it."""
    return replace(turn, reply=words(turn.reply).text)


def _checked_clauses(reply: str) -> list[Clause]:
    """The clauses of a reply; raises InputError if there are too many to compare each with each."""
    parts = clauses(reply)
    if len(parts) > MAX_CLAUSES:
        raise InputError(f"a reply has {len(parts):,} clauses; clauses are located in at most {MAX_CLAUSES}")
    return parts


def _most_contradictory_pair(detector: BaseDetector, judged: Turn) -> tuple[Clause, Clause] | None:
    """The two clauses of a reply that most likely contradict each other; None if it has only one clause."""
    reply = judged.reply
    pairs = list(combinations(_checked_clauses(reply), 2))
    common = [len({*reply[slice(*first)]} & {*reply[slice(*second)]}) for first, second in pairs]
    pairs = [pair for pair, number in zip(pairs, common, strict=True) if number == max(common)]
    if len(pairs) < 2:
        return pairs[0] if pairs else None
    rows = [row_of(INTRODUCTION, reply[slice(*first)], judged.user, reply[slice(*second)]) for first, second in pairs]
    return pairs[int(np.argmax(_history_probabilities(detector, rows)))]


def _best_pair(detector: BaseDetector, earlier: Turn, judged: Turn) -> tuple[Clause, Clause] | None:
    """The clauses of two replies that most likely contradict each other; None if a reply has no clause."""
    old, new = _checked_clauses(earlier.reply), _checked_clauses(judged.reply)
    pairs = list(product(old, new))
    if len(pairs) < 2:
        return pairs[0] if pairs else None
    alone = [
        (replace(earlier, reply=earlier.reply[slice(*first)]), replace(judged, reply=judged.reply[slice(*second)]))
        for first, second in pairs
    ]
    without_old = [(replace(earlier, reply=text), judged) for text in _leave_one_out(earlier.reply, old)]
    without_new = [(earlier, replace(judged, reply=text)) for text in _leave_one_out(judged.reply, new)]
    rows = [windows(turns, 1, detector.settings.windowing)[-1].row for turns in (*alone, *without_old, *without_new)]
    probabilities = np.clip(_history_probabilities(detector, rows), TINY, 1 - TINY)
    log_odds = np.log(probabilities / (1 - probabilities))
    of_pairs, of_old, of_new = np.split(log_odds, np.cumsum([len(alone), len(without_old)]))
    scores = of_pairs.reshape(len(old), len(new)) - (of_old[:, None] + of_new) / 2
    return pairs[int(np.argmax(scores))]


def _leave_one_out(text: str, options: Sequence[Clause]) -> list[str]:
    """The text without each of its clauses and the punctuation next to it; a text of a single clause stays as it is."""
    if len(options) < 2:
        return [text]
    removed = [(start, following) for (start, _), (following, _) in pairwise(options)]
    removed.append((options[-2][1], options[-1][1]))
    return [text[:start] + text[end:] for start, end in removed]


def _history_probabilities(detector: BaseDetector, rows: Sequence[Row]) -> list[float]:
    predictions = detector.classifier.predict(rows)
    return [detector.classifier.history_probability(prediction.scores) for prediction in predictions]


def _span(messages: Messages, turn: Turn, clause: Clause) -> Span:
    """The span in its message of a clause of the words of a reply.

    A clause lies in one message, because a line break ends a clause.
    """
    start, end = words(turn.reply).origin(*clause)
    for index in turn.reply_messages:
        said = read_message(messages[index], f"messages[{index}]").said
        length = len(said.text)
        if length and start < length:
            return Span(index, *said.origin(start, min(end, length)))
        # The messages of a turn are joined by a line break, except where one is empty.
        start, end = (start - length - 1, end - length - 1) if length else (start, end)
    raise AssertionError("a clause lies in one of the messages of its reply")
