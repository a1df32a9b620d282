"""Where in the two replies a contradiction lies: the clauses that clash."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import TYPE_CHECKING

import numpy as np

from contradiction.conversation import Messages, Turn, is_blank, read_message, read_turns
from contradiction.errors import InputError
from contradiction.inputs.views import CONVERSATION, Row
from contradiction.inputs.windows import windows
from contradiction.labels import INTRA
from contradiction.verdict import Verdict

if TYPE_CHECKING:
    from contradiction.detector import ContradictionDetector

# Between letters or digits of the ASCII kind, points and spaces part no clauses: 3.5, 8:30, Hello Kitty. The comma of
# enumerations (、) parts words, not clauses.
_BORDER = re.compile(r"[，。！？；：…—～!?;~\r\n]|[,.:](?![0-9A-Za-z])|(?<![0-9A-Za-z])[,.:]|\s(?![!-~])|(?<![!-~])\s")

Clause = tuple[int, int]  # start and end in a text


@dataclass(frozen=True)
class Span:
    """A clause of a message.

    Attributes:
        message: index in the chat.
        start: its first character in the message's text; the parts of a content of several are joined by line ends.
        end: the character after its last.
    """

    message: int
    start: int
    end: int


@dataclass(frozen=True)
class Location:
    """The two clauses that clash; both lie in the judged reply where it contradicts itself.

    Attributes:
        earlier: the one that is contradicted.
        later: the one, of the reply that was judged, that contradicts it.
        verdict: on that reply.
    """

    earlier: Span
    later: Span
    verdict: Verdict


def clauses(text: str) -> list[Clause]:
    """The clauses of a text: what stands between punctuation or spaces, and says something."""
    found, start = [], 0
    for border in (*_BORDER.finditer(text), None):
        end = border.start() if border else len(text)
        if not is_blank(said := text[start:end]):
            found.append((start + len(said) - len(said.lstrip()), start + len(said.rstrip())))
        start = border.end() if border else end
    return found


def locate(detector: "ContradictionDetector", messages: Messages, verdict: Verdict | None = None) -> Location | None:
    """Finds the two clauses that clash, where the last reply of a chat is a contradiction.

    - *intra-sentence*: the clauses of the reply are read in pairs, the earlier one in the place of the earlier reply,
      and the pair with the highest probability that it is contradicted is given: n (n - 1) / 2 windows for n clauses.
    - *history* (and a contradiction with evidence): each clause of the earlier reply is left out in turn, then each of
      the reply, and those are given without which the contradiction is least likely: n + m windows for n and m clauses.
      A reply of one clause takes none, and is that one.

    How often that is right hangs on the model, and may be no more than chance: ``bench/locate.py`` measures it.

    Args:
        detector: what judges.
        messages: the chat.
        verdict: the detector's on it, where there is one already; by default it is asked for, at its usual cost.

    Returns:
        None where there is nothing to locate: no contradiction, a confusion of roles, one that no evidence is named
        for, or one within a reply of a single clause.

    Raises:
        InputError: the chat is not usable, the verdict is on another reply, or the model does not read earlier replies.
    """
    if "b1" not in detector.columns:
        raise InputError(f"{detector.name} reads {', '.join(detector.columns)}; locating takes b1, the earlier reply")
    turns = read_turns(messages)
    verdict = verdict or detector(messages)
    judged = turns[-1] if turns else Turn("", "", (), ())
    if verdict.reply != judged.reply_messages:
        raise InputError(f"the verdict is on {verdict.reply}; the last reply of the chat is {judged.reply_messages}")
    if verdict.label == INTRA:
        earlier, pair = judged, _within(detector, judged)
    elif verdict.is_contradiction and verdict.evidence:
        earlier = _named(turns, verdict.evidence)
        pair = _between(detector, earlier, judged)
    else:
        return None
    return pair and Location(_span(messages, earlier, pair[0]), _span(messages, judged, pair[1]), verdict)


def _named(turns: Sequence[Turn], evidence: tuple[int, ...]) -> Turn:
    for turn in turns[:-1]:
        if turn.reply_messages == evidence:
            return turn
    raise InputError(f"the verdict names {evidence} as evidence; that is no earlier reply of the chat")


def _within(detector: "ContradictionDetector", judged: Turn) -> tuple[Clause, Clause] | None:
    """The two clauses of a reply that clash most; None where it has only one."""
    pairs = list(combinations(clauses(judged.reply), 2))
    if not pairs:
        return None
    rows = [
        dict(zip(CONVERSATION, ("", judged.reply[slice(*one)], judged.user, judged.reply[slice(*other)]), strict=True))
        for one, other in pairs
    ]
    return pairs[int(np.argmax(_clash(detector, rows)))]


def _between(detector: "ContradictionDetector", earlier: Turn, judged: Turn) -> tuple[Clause, Clause]:
    """The clause of each of two replies without which they clash least."""
    old, new = clauses(earlier.reply), clauses(judged.reply)
    # Of a single clause nothing would be left.
    fewer = [(replace(earlier, reply=text), judged) for text in _each_left_out(earlier.reply, old)]
    fewer += [(earlier, replace(judged, reply=text)) for text in _each_left_out(judged.reply, new)]
    scores = _clash(detector, [windows(two, 1, detector.settings.reading)[0].row for two in fewer])
    middle = len(scores) - (len(new) if len(new) > 1 else 0)
    return _lowest(old, scores[:middle]), _lowest(new, scores[middle:])


def _lowest(found: Sequence[Clause], scores: Sequence[float]) -> Clause:
    return found[int(np.argmin(scores))] if len(scores) else found[0]


def _each_left_out(text: str, found: Sequence[Clause]) -> list[str]:
    """The text without each of its clauses, and without what stands between it and the next; of one clause, none."""
    if len(found) < 2:
        return []
    borders = [(start, following) for (start, _), (following, _) in pairwise(found)]
    borders.append((found[-2][1], found[-1][1]))
    return [text[:start] + text[end:] for start, end in borders]


def _clash(detector: "ContradictionDetector", rows: Sequence[Row]) -> list[float]:
    return [detector.classifier.history_probability(each.probabilities) for each in detector.classifier.read(rows)]


def _span(messages: Messages, turn: Turn, clause: Clause) -> Span:
    """The place of a clause in the one message that holds it: the line end that joins two messages is a border."""
    start, end = clause
    for index in turn.reply_messages:
        length = len(read_message(messages[index], f"messages[{index}]").text)
        if length and start < length:
            return Span(index, start, end)
        # An empty message was joined without a line end.
        start, end = (start - length - 1, end - length - 1) if length else (start, end)
    raise AssertionError("a clause lies in one of the messages of its reply")
