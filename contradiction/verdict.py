"""The verdict on a reply."""

from collections.abc import Mapping
from dataclasses import dataclass

from contradiction.labels import is_contradiction

NOTHING_BEFORE = "nothing was said before the reply that it could contradict, and the model judges nothing else"


def is_unchecked(checked: bool, reason: str | None, replies: int) -> bool:
    """Whether a verdict leaves open something that could have been checked.

    An opening reply that the model does not judge counts as checked, unless it is the only reply of the chat.

    Args:
        checked: ``checked`` of the verdict.
        reason: ``reason`` of the verdict.
        replies: how many replies of the chat were judged.
    """
    return not checked and (reason != NOTHING_BEFORE or replies == 1)


@dataclass(frozen=True)
class Clash:
    """An earlier reply that the judged reply contradicts.

    Attributes:
        messages: the indices of its messages in the chat.
        score: the probability that it is contradicted.
    """

    messages: tuple[int, ...]
    score: float


@dataclass(frozen=True)
class Verdict:
    """The verdict on one reply of a chat.

    Attributes:
        label: the label; None where there was nothing to judge.
        score: the probability of the label; None where there was nothing to judge.
        scores: the probability of every label, by name; empty where there was nothing to judge.
        probability: the probability of a contradiction of one of the categories that the settings ask for; a threshold
            is compared with it. None where there was nothing to judge.
        evidence: the indices of the messages that the reply contradicts: those of the earlier reply with the highest
            probability of a contradiction of the history. Empty for other labels, and where the window of that reply
            was truncated.
        checked: whether all text that bears on the reply was read; else the label is a guess.
        reason: why ``checked`` is false; None where it is true.
        reply: the indices of the messages that were judged.
        further: other earlier replies whose probability of being contradicted reaches the threshold, or one half where
            there is none; the highest first.
    """

    label: str | None
    score: float | None
    scores: Mapping[str, float]
    probability: float | None = None
    evidence: tuple[int, ...] = ()
    checked: bool = True
    reason: str | None = None
    reply: tuple[int, ...] = ()
    further: tuple[Clash, ...] = ()

    @property
    def is_contradiction(self) -> bool | None:
        """Whether the reply contradicts anything; None where there was nothing to judge."""
        return None if self.label is None else is_contradiction(self.label)
