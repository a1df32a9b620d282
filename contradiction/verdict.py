"""What a detector says of a reply."""

from collections.abc import Mapping
from dataclasses import dataclass

from contradiction.labels import is_contradiction

NOTHING_BEFORE = "nothing was said before the reply that it could contradict, and the model judges nothing else"


def is_unchecked(checked: bool, reason: str | None, replies: int) -> bool:
    """Whether a verdict leaves open what could have been checked.

    That on an opening reply does not, of a model that judges nothing but pairs; unless it is the only one.

    Args:
        checked: of the verdict.
        reason: likewise.
        replies: of the chat, that were judged.
    """
    return not checked and (reason != NOTHING_BEFORE or replies == 1)


@dataclass(frozen=True)
class Clash:
    """An earlier reply that the judged one contradicts.

    Attributes:
        messages: its indices in the chat.
        score: the probability that it is contradicted.
    """

    messages: tuple[int, ...]
    score: float


@dataclass(frozen=True)
class Verdict:
    """What a detector says of one reply of a chat.

    Attributes:
        label: the label decided on; None where there was nothing to judge.
        score: its probability; None likewise.
        scores: the probability of every label, by name; empty likewise.
        probability: of a contradiction of one of the settings' categories, which a threshold is held against; None
            likewise.
        evidence: indices of the messages that the reply contradicts: those of the earlier reply with the highest
            probability of a contradiction of the history. Empty for other labels, and where that window was not read
            whole.
        checked: whether all was read that bears on the reply. A label on text that was not read is a guess on the rest.
        reason: why ``checked`` is false; else None.
        reply: indices of the messages that were judged.
        further: other earlier replies that are contradicted at least as likely as is asked for, surest first.
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
