"""The verdict on a reply."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NoReturn, Self

from contradiction.labels import CATEGORIES, is_contradiction

NOTHING_BEFORE = "this is the first reply, so there is nothing before it that it could contradict"
NO_ANSWER = "the judge gave no usable answer"

DIGITS = 6  # decimal places of a probability in a record
SURE, LIKELY, UNSURE = "sure", "likely", "unsure"
# Certainty -> the lowest probability that the decision is right; the highest first.
CERTAINTIES = {SURE: 0.8, LIKELY: 0.6, UNSURE: 0.0}


def is_unchecked(checked: bool, reason: str | None, replies: int) -> bool:
    """Whether a verdict, by its ``checked`` and ``reason``, left something unchecked that could have been checked.

    An opening reply that the model does not judge counts as checked, unless it is the only one of the judged replies.
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

    :class:`contradiction.base_detector.BaseDetector` decides, for Python, the command line, the page and the service.

    Attributes:
        label: the label; None if there was nothing to judge, or if a language model gave no usable answer.
        contradiction: whether the label is a contradiction; None without a label.
        kind: the category of the contradiction; None if there is none, or if the labels have no categories.
        certainty: how sure the decision between contradiction and none is: ``sure``, ``likely`` or ``unsure``, by the
            probability that it is right, see ``CERTAINTIES``. Unsure are also a decision on text that was read in part,
            one that rests on a reply of more than ``contradiction.inputs.views.LONG_REPLY`` characters, and one of
            ``check`` without a question. None if there was nothing to judge.
        score: the probability of the label; None if there was nothing to judge.
        scores: the probability of every label, by name; empty if there was nothing to judge.
        probability: the probability of a contradiction of one of the categories in the settings, which is compared with
            the threshold. None if there was nothing to judge.
        evidence: the indices of the messages that the reply contradicts: those of the earlier reply with the highest
            probability of a contradiction of the history. Empty for other labels, and if the window of that reply
            was truncated.
        checked: whether all text that matters for the verdict was read; if not, the label is a guess.
        reason: why ``checked`` is false; None if it is true.
        reply: the indices of the messages that were judged.
        further: other earlier replies whose probability of being contradicted reaches the threshold; the highest
            first.
    """

    label: str | None
    contradiction: bool | None = field(init=False)
    kind: str | None = field(init=False)
    certainty: str | None = field(init=False)
    score: float | None
    scores: Mapping[str, float] = field(hash=False)  # a dict has no hash
    probability: float | None = None
    evidence: tuple[int, ...] = ()
    checked: bool = True
    reason: str | None = None
    reply: tuple[int, ...] = ()
    further: tuple[Clash, ...] = ()

    def to_record(self) -> dict[str, Any]:
        """The fields with rounded probabilities, as files, the page and the REST service give them.

        Further digits depend on which inputs share a batch. The last digits that are kept may still differ, by a few
        units.
        """
        record = asdict(self)
        for name in ("score", "probability"):
            record[name] = record[name] and round(record[name], DIGITS)
        record["scores"] = {label: round(score, DIGITS) for label, score in self.scores.items()}
        for clash in record["further"]:
            clash["score"] = round(clash["score"], DIGITS)
        return record

    def unsure(self) -> Self:
        """The same verdict with the certainty ``unsure``; unchanged if there was nothing to judge."""
        verdict = replace(self)
        if self.certainty is not None:
            object.__setattr__(verdict, "certainty", UNSURE)
        return verdict

    def __bool__(self) -> NoReturn:
        # A verdict of no contradiction would count as true.
        raise TypeError("a verdict is neither true nor false; use verdict.contradiction, or `verdict is not None`")

    def __post_init__(self) -> None:
        contradiction = None if self.label is None else is_contradiction(self.label)
        object.__setattr__(self, "contradiction", contradiction)
        object.__setattr__(self, "kind", self.label if self.label in CATEGORIES else None)
        object.__setattr__(self, "certainty", self._certainty())

    def _certainty(self) -> str | None:
        if self.contradiction is None or self.probability is None:
            return None
        right = self.probability if self.contradiction else 1 - self.probability
        return next(name for name, least in CERTAINTIES.items() if right >= least) if self.checked else UNSURE
