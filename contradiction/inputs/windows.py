"""Longer chats as rows of two turns: which earlier turns a reply is read against."""

from collections.abc import Sequence
from dataclasses import dataclass

from contradiction.conversation import Turn, is_blank
from contradiction.errors import InputError
from contradiction.inputs.views import CONVERSATION, Row

WINDOWED, STRUCTURED, UNSTRUCTURED = "windowed", "structured", "unstructured"
READINGS = (WINDOWED, STRUCTURED, UNSTRUCTURED)


@dataclass(frozen=True)
class Window:
    """One row for a classifier.

    Attributes:
        row: the four utterances by name.
        earlier: positions in the chat of the earlier turns in the window whose replies have words.
    """

    row: Row
    earlier: tuple[int, ...]

    @property
    def turn(self) -> int | None:
        """The one earlier turn; None where there is none, or more than one."""
        return self.earlier[0] if len(self.earlier) == 1 else None

    @property
    def opening(self) -> bool:
        """Whether no earlier reply is in the window."""
        return not self.earlier


def windows(turns: Sequence[Turn], place: int, reading: str = WINDOWED, max_turns: int | None = None) -> list[Window]:
    """The windows in which the reply of ``turns[place]`` is read, the nearest earlier turn last.

    - *windowed*: each earlier turn with the turn judged, (u_k, b_k, u_n, b_n): what a two-turn detector was trained on.
    - *structured*: each earlier reply with the reply judged, (b_k, b_n), the users' utterances left empty (DECODE, Nie
      et al., 2021, section 4.2).
    - *unstructured*: the whole history in one row (the same section); what is too long is cut from the left.

    A reply without words is as good as none: it cannot be contradicted, and what the user said before and after it is
    read as one. Without any earlier reply there is one window, of the user's last utterance and the reply alone.

    Args:
        turns: of the chat.
        place: of the turn that is judged.
        reading: one of ``READINGS``.
        max_turns: earlier turns that are read at most, counted from the reply back; None reads all.
    """
    reply = turns[place].reply
    first = 0 if max_turns is None else max(0, place - max_turns)
    earlier = [number for number in range(first, place) if not is_blank(turns[number].reply)]
    user = {number: _said(turns, first, number) for number in (*earlier, place)}
    if not earlier:
        return [Window(_row("", "", user[place], reply), ())]
    if reading == UNSTRUCTURED:
        *before, last = [text for number in earlier for text in (user[number], turns[number].reply)]
        return [Window(_row(tuple(before), last, user[place], reply), tuple(earlier))]
    if reading == STRUCTURED:
        return [Window(_row("", turns[number].reply, "", reply), (number,)) for number in earlier]
    return [Window(_row(user[number], turns[number].reply, user[place], reply), (number,)) for number in earlier]


def _said(turns: Sequence[Turn], first: int, place: int) -> str:
    """What the user said since the last reply with words."""
    since = place
    while since > first and is_blank(turns[since - 1].reply):
        since -= 1
    return "\n".join(filter(None, (turn.user for turn in turns[since : place + 1])))


def _row(*utterances: str | tuple[str, ...]) -> Row:
    return dict(zip(CONVERSATION, utterances, strict=True))


def check_reading(reading: str) -> str:
    """The reading; raises InputError where there is none of this name."""
    if reading not in READINGS:
        raise InputError(f"reading {reading!r}; allowed are {', '.join(READINGS)}")
    return reading
