"""Cuts a chat of any length into rows of two turns: an earlier turn and the judged one."""

from collections.abc import Sequence
from dataclasses import dataclass

from contradiction.conversation import Turn
from contradiction.errors import InputError, shown
from contradiction.inputs.views import CONVERSATION, Row

WINDOWED, STRUCTURED, UNSTRUCTURED = "windowed", "structured", "unstructured"
WINDOWINGS = (WINDOWED, STRUCTURED, UNSTRUCTURED)

# Characters: a little more than the longest reply of CDConv, 38. Detectors find fewer contradictions in longer ones.
LONG_REPLY = 40

# How many earlier turns a reply is read against by default: more than most chats have. A reply then takes about a
# second on two CPU cores with an encoder of 28 M parameters; without a bound, a chat of 10,000 turns takes minutes.
MAX_TURNS = 50

# "Tell me about yourself": the message before a text that answers nobody, such as a fact about the bot or a greeting.
# Detectors were trained on replies to a message, and find more contradictions with it than without
# (``experiments/persona_facts.py``).
INTRODUCTION = "跟我说说你吧"


@dataclass(frozen=True)
class Window:
    """One row for a classifier.

    Attributes:
        row: the four utterances by column name.
        earlier: positions in the chat of those earlier turns in the window whose replies have words.
    """

    row: Row
    earlier: tuple[int, ...]

    @property
    def turn(self) -> int | None:
        """The position of the earlier turn if there is exactly one; else None."""
        return self.earlier[0] if len(self.earlier) == 1 else None


def windows(turns: Sequence[Turn], place: int, windowing: str = WINDOWED, max_turns: int | None = None) -> list[Window]:
    """The windows in which the reply of ``turns[place]`` is read, the nearest earlier turn last.

    - *windowed*: each earlier turn with the judged turn, (u_k, b_k, u_n, b_n), as a two-turn detector was trained.
    - *structured*: each earlier reply with the judged reply, (b_k, b_n), without the user's utterances (DECODE, Nie et
      al., 2021, section 4.2).
    - *unstructured*: the whole history in one row (the same section); a history that is too long is cut from the left.

    An earlier reply without words cannot be contradicted, so its turn is merged into the next: what the user said
    before and after it is read as one utterance. If the assistant began the chat, its first reply is read as the answer
    to ``INTRODUCTION``. Where there is no earlier reply at all, the one window holds the user's last utterance and the
    reply.

    Args:
        turns: the turns of the chat.
        place: the position of the judged turn.
        windowing: one of ``WINDOWINGS``.
        max_turns: how many earlier turns are read at most, counted back from the reply; None reads all.
    """
    reply = turns[place].reply
    first = 0 if max_turns is None else max(0, place - max_turns)
    earlier = [number for number in range(first, place) if turns[number].has_words]
    question = _user_text(turns, first, place)
    if not earlier:
        return [Window(row_of("", "", question, reply), ())]
    if windowing == STRUCTURED:
        return [Window(row_of("", turns[number].reply, "", reply), (number,)) for number in earlier]
    user = {number: _user_text(turns, first, number) or INTRODUCTION for number in earlier}
    if windowing == UNSTRUCTURED:
        *before, last = [text for number in earlier for text in (user[number], turns[number].reply)]
        return [Window(row_of(tuple(before), last, question, reply), tuple(earlier))]
    return [Window(row_of(user[number], turns[number].reply, question, reply), (number,)) for number in earlier]


def is_opening(row: Row) -> bool:
    """Whether a row is the window of a reply without an earlier reply: its b1 is empty."""
    return row.get("b1") == ""


def _user_text(turns: Sequence[Turn], first: int, place: int) -> str:
    """What the user said between the last reply with words and the reply of ``turns[place]``."""
    since = place
    while since > first and not turns[since - 1].has_words:
        since -= 1
    return "\n".join(filter(None, (turn.user for turn in turns[since : place + 1])))


def row_of(*utterances: str | tuple[str, ...]) -> Row:
    """The row of the utterances of a conversation."""
    return dict(zip(CONVERSATION, utterances, strict=True))


def check_windowing(windowing: str) -> str:
    """Returns a windowing; raises InputError for an unknown one."""
    if not isinstance(windowing, str) or windowing not in WINDOWINGS:
        raise InputError(f"windowing {shown(windowing)}; allowed are {', '.join(WINDOWINGS)}")
    return windowing
