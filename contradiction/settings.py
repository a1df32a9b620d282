"""Settings of an operator, and the limits of a request to the service."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_DOWN, Decimal, localcontext
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

from contradiction.errors import InputError, check_known, shown
from contradiction.inputs.views import MAX_TURNS, WINDOWED, WINDOWINGS
from contradiction.labels import CATEGORIES, CONTRADICTIONS

if TYPE_CHECKING:
    from contradiction.decision import Rule

FEW_CALLED = 0.1  # of the validation replies: if no more reach a probability, hardly any does
_PRECISION = re.compile(r"\s*precision\s*>=\s*(\d+(?:\.\d+)?|\.\d+)\s*")


@dataclass(frozen=True)
class Settings:
    """Settings of an operator; by default a detector decides by its own threshold.

    Attributes:
        threshold: the probability from which a reply is called a contradiction; or ``"precision>=0.8"``: the lowest
            threshold that had this precision on the validation split, corrected for ``prior``. By default the
            threshold of the detector's rule, or one half if a prior is set.
        prior: the fraction of contradictions among the operator's own replies; the probabilities are corrected for it.
        categories: the kinds of contradiction that count, if the labels distinguish them; others count as none.
        windowing: how earlier turns are read, see ``contradiction.inputs.views.windows``.
        max_turns: the maximum number of earlier turns that a reply is compared with; the verdict says if there were
            more. None reads all.

    Raises:
        InputError: a value is not allowed; the message names the setting, the value, and what is allowed.
    """

    threshold: float | str | None = None
    prior: float | None = None
    categories: Sequence[str] = CATEGORIES
    windowing: str = WINDOWED
    max_turns: int | None = MAX_TURNS

    def __post_init__(self) -> None:
        check_known(self.windowing, WINDOWINGS, "windowing")
        if isinstance(self.threshold, str):
            object.__setattr__(self, "threshold", _parse_threshold(self.threshold))
        elif self.threshold is not None and not (_is(Real, self.threshold) and 0 <= self.threshold <= 1):
            raise InputError(f"threshold {shown(self.threshold)}; it must be a probability from 0 to 1")
        if self.prior is not None and not (_is(Real, self.prior) and 0 < self.prior < 1):
            raise InputError(f"prior {shown(self.prior)}; it must be a fraction between 0 and 1")
        if self.max_turns is not None and not (_is(Integral, self.max_turns) and self.max_turns >= 1):
            most = shown(self.max_turns)
            raise InputError(f"max_turns {most}; it must be a whole number, 1 or more (all: None, in requests 0)")
        if isinstance(self.categories, str) or not isinstance(self.categories, Iterable):
            raise InputError(f"categories is {shown(self.categories)}; it must be a list of {', '.join(CATEGORIES)}")
        categories = list(self.categories)
        for name in categories:
            check_known(name, CATEGORIES, "category")
        if not categories:
            raise InputError(f"categories is empty; name at least one of {', '.join(CATEGORIES)}")
        object.__setattr__(self, "categories", tuple(name for name in CATEGORIES if name in categories))

    def threshold_for(self, rule: "Rule", name: str = "the detector") -> float:
        """The threshold on the corrected probabilities, as a number.

        Raises:
            InputError: the setting asks for a precision that was never reached, or no precision was measured.
        """
        if self.threshold is None:
            return rule.threshold if self.prior is None else self._one_half(rule, name)
        if not isinstance(self.threshold, str):
            return self.threshold
        target = float(_PRECISION.fullmatch(self.threshold)[1])  # type: ignore[index]  # checked when it was set
        if not rule.curve or rule.prior is None:
            raise InputError(f"{name}: no precision was measured; run `cdconv calibrate`, or give a number")
        if self.categories != CATEGORIES:
            raise InputError(
                f"threshold {self.threshold}: precision was measured with all categories; give a number instead"
            )
        prior = rule.prior if self.prior is None else self.prior
        reached = [point for point in rule.curve if point.precision(prior) >= target]
        if not reached:
            best = max(rule.curve, key=lambda point: point.precision(prior))
            raise InputError(
                f"{name}: precision {target} was not reached at a prior of {prior:.3g}; the best was "
                f"{best.precision(prior):.2f}, at recall {best.recall:.2f}"
            )
        return self.at_prior(max(reached, key=lambda point: point.recall).threshold, rule)

    def _one_half(self, rule: "Rule", name: str) -> float:
        """The threshold of one half at the operator's prior; raises InputError if hardly any reply reaches it."""
        if self.prior is None or rule.prior is None or not rule.curve:
            return 0.5
        highest = rule.curve[0]
        called = rule.prior * highest.recall + (1 - rule.prior) * highest.false_alarms
        if called <= FEW_CALLED and self.at_prior(highest.threshold, rule) < 0.5:
            best = max(point.precision(self.prior) for point in rule.curve)
            reached = f"at most precision>={_rounded_down(best)}"
            if self.categories != CATEGORIES:  # then the threshold must be a number
                reached = f"for instance {_rounded_down(self.at_prior(highest.threshold, rule))}"
            raise InputError(
                f"{name}: at a prior of {self.prior:.3g} hardly any validation reply reaches 0.5, the threshold that "
                f"applies then; set a threshold, {reached}"
            )
        return 0.5

    def correct(self, scores: Mapping[str, float], task: str, rule: "Rule") -> dict[str, float]:
        """Corrects probabilities for the operator's prior: each odds times the ratio of the odds of the priors.

        Source: Saerens et al., 2002, *Adjusting the outputs of a classifier to new a priori probabilities*, eq. 2.4.

        Raises:
            InputError: the prior of the data that the probabilities were calibrated on is not known.
        """
        if self.prior is None:
            return dict(scores)
        if rule.prior is None:
            raise InputError("a prior can only correct calibrated probabilities; run `cdconv calibrate` first")
        before = min(sum(scores[name] for name in CONTRADICTIONS[task]), 1.0)
        after = self.at_prior(before, rule)
        contradiction = after / before if before else 0.0
        other = (1 - after) / (1 - before) if before < 1 else 0.0
        return {
            name: score * (contradiction if name in CONTRADICTIONS[task] else other) for name, score in scores.items()
        }

    def at_prior(self, probability: float, rule: "Rule") -> float:
        """Corrects the probability of a contradiction for the operator's prior; unchanged if none is set."""
        if self.prior is None or rule.prior is None:
            return probability
        contradiction = probability * self.prior / rule.prior
        other = (1 - probability) * (1 - self.prior) / (1 - rule.prior)
        return contradiction / (contradiction + other)


def from_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Settings from the options of a command or a request.

    An option that is None is not given, and 0 for ``max_turns`` means all turns.
    """
    given = {name: value for name, value in options.items() if value is not None}
    if type(given.get("max_turns")) is int and given["max_turns"] == 0:
        given["max_turns"] = None
    return given


def _is(kind: type, value: object) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)  # numbers of NumPy as well


def _rounded_down(number: float) -> str:
    """A number with two significant digits, and never larger than it is."""
    with localcontext(prec=2, rounding=ROUND_DOWN):
        return f"{+Decimal(number):f}"


def _parse_threshold(text: str) -> float | str:
    """Parses a threshold: a number, or a precision such as ``precision>=0.8``, which stays text."""
    if match := _PRECISION.fullmatch(text):
        if not 0 < float(match[1]) <= 1:
            raise InputError(f"threshold {shown(text)}: a precision is above 0 and at most 1")
        return text
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not 0 <= value <= 1:
        raise InputError(f"threshold {shown(text)}; it must be a probability from 0 to 1, or like precision>=0.8")
    return value


LONGEST_ROW = 1000  # characters of a row that count towards the cost of a request: a model reads no more


@dataclass(frozen=True)
class Limits:
    """The limits of one request to the service.

    Attributes:
        body: the maximum size of a request in bytes.
        messages: the maximum number of messages of a chat.
        candidates: the maximum number of candidates to rank, or of facts to check against.
        cost: the maximum number of characters to read: those of every pair of replies that is compared and was not read
            before; of a detector that reads whole chats, those of the chat. By default, one reply can always be judged
            against as many earlier turns as a detector reads.
        seconds: the maximum time to answer.
        requests: how many requests are worked on or wait; beyond them, the service says that it is busy.
        per_caller: the same for the requests of one caller, who is known by the address. By default all, because most
            services have one caller, the backend of a chatbot.
    """

    body: int = 512 * 1024
    messages: int = 400
    candidates: int = 64
    cost: int = MAX_TURNS * LONGEST_ROW
    seconds: float = 30.0
    requests: int = 256
    per_caller: int = 256
