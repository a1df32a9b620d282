"""From probabilities to labels: the rule that a detector carries, chosen on validation, and what an operator sets."""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from contradiction.errors import InputError
from contradiction.inputs.windows import WINDOWED, check_reading
from contradiction.io.files import read_json, write_json
from contradiction.labels import CATEGORIES, CONTRADICTIONS
from contradiction.rates import precision_at

FILE = "decision.json"
_ASKED = re.compile(r"\s*precision\s*>=\s*(\d*\.?\d+)\s*")


@dataclass(frozen=True)
class Point:
    """What a threshold on the probability of a contradiction gives on the validation split.

    Attributes:
        threshold: replies from this probability on are called contradictions.
        recall: the share of contradictions that are called.
        false_alarms: the share of other replies that are called.
    """

    threshold: float
    recall: float
    false_alarms: float

    def precision(self, prior: float) -> float:
        """The share of called replies that are contradictions, where ``prior`` of all replies are; 0 where none is."""
        found = float(precision_at(prior, self.recall, self.false_alarms))
        return 0.0 if math.isnan(found) else found


@dataclass(frozen=True)
class Rule:
    """The decision rule of a detector, all of it chosen on the validation split.

    Attributes:
        temperature: divides the logits, so that probabilities are as sure as they are right.
        biases: label -> what is then added to its logit, to the same end; others have 0.
        offsets: label -> what is added to its log-probability before the most probable label is taken, or to the
            log-odds of its stage before the first that fires is taken, for the sake of macro-F1; others have 0.
        cut: the probability of a contradiction from which a reply is one, where only two labels are asked for.
        prior: the share of contradictions among the rows that the probabilities were fitted to.
        curve: from the highest threshold down; empty where it was never measured.
    """

    temperature: float = 1.0
    biases: Mapping[str, float] = field(default_factory=dict)
    offsets: Mapping[str, float] = field(default_factory=dict)
    cut: float = 0.5
    prior: float | None = None
    curve: tuple[Point, ...] = ()

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """The rule in a model folder; the plain one, the most probable label, where there is none.

        Raises:
            InputError: the file does not hold a rule.
        """
        path = Path(folder) / FILE
        if not path.is_file():
            return cls()
        from pydantic import TypeAdapter

        values = read_json(path)
        try:
            points = [dict(zip(("threshold", "recall", "false_alarms"), each, strict=True)) for each in values["curve"]]
            rule = TypeAdapter(cls).validate_python({**values, "curve": points})
            if not rule.temperature > 0 or not 0 < (rule.prior or 0.5) < 1:
                raise ValueError
        except (TypeError, KeyError, ValueError):  # pydantic's ValidationError among them
            raise InputError(f"{path}: holds no decision rule; `cdconv calibrate` writes one") from None
        return rule

    def without_curve(self) -> dict[str, Any]:
        """What an evaluation keeps of the rule that it was made with: all that decides."""
        return {name: value for name, value in asdict(self).items() if name != "curve"}

    def save(self, folder: str | Path) -> None:
        """Writes the rule into a model folder."""
        curve = [[each.threshold, each.recall, each.false_alarms] for each in self.curve]
        write_json(Path(folder) / FILE, {**asdict(self), "curve": curve})


@dataclass(frozen=True)
class Settings:
    """What an operator sets; the defaults leave a detector's own rule as it is.

    Attributes:
        threshold: the probability of a contradiction from which a reply is called one; or ``"precision>=0.8"``: the
            lowest threshold that had this precision on the validation split, corrected for ``prior``.
        prior: the share of replies that are contradictions in one's own traffic; it corrects the probabilities. Without
            a threshold a contradiction is then called from one half on.
        categories: the contradictions that are called, where the labels tell them; the others count as none.
        reading: how earlier turns are read, see ``contradiction.inputs.windows``.
        max_turns: earlier turns that a reply is read against at most; the verdict says where there were more.
    """

    threshold: float | str | None = None
    prior: float | None = None
    categories: tuple[str, ...] = CATEGORIES
    reading: str = WINDOWED
    max_turns: int | None = None

    def __post_init__(self) -> None:
        check_reading(self.reading)
        if isinstance(self.threshold, str):
            object.__setattr__(self, "threshold", _number(self.threshold))
        elif self.threshold is not None and not (_is_number(self.threshold) and 0 <= self.threshold <= 1):
            raise InputError(f"threshold {self.threshold!r}; it must be a probability from 0 to 1")
        if self.prior is not None and not (_is_number(self.prior) and 0 < self.prior < 1):
            raise InputError(f"prior {self.prior!r}; it must be a share between 0 and 1")
        if self.max_turns is not None and not (type(self.max_turns) is int and self.max_turns >= 1):
            raise InputError(f"max_turns {self.max_turns!r}; it must be a whole number, 1 or more")
        if isinstance(self.categories, str) or not isinstance(self.categories, Iterable):
            raise InputError(f"categories is {self.categories!r}; it must be a list of {', '.join(CATEGORIES)}")
        object.__setattr__(self, "categories", tuple(self.categories))
        if unknown := [name for name in self.categories if name not in CATEGORIES]:
            raise InputError(f"category {unknown[0]!r}; allowed are {', '.join(CATEGORIES)}")
        if not self.categories:
            raise InputError(f"categories is empty; name at least one of {', '.join(CATEGORIES)}")
        object.__setattr__(self, "categories", tuple(name for name in CATEGORIES if name in self.categories))

    def limit(self, rule: Rule, name: str = "the detector") -> float | None:
        """The threshold as a number, on the scale of the corrected probabilities; None where none is set.

        Raises:
            InputError: a precision is asked for that was never reached, or none was measured.
        """
        if self.threshold is None and self.prior is not None:
            if rule.curve and self.at_prior(rule.curve[0].threshold, rule) < 0.5:
                most = max(point.precision(self.prior) for point in rule.curve)
                raise InputError(
                    f"{name}: at a prior of {self.prior:.3g} hardly any validation reply would reach one half and be "
                    f"called; set a threshold, up to precision>={math.floor(100 * most) / 100:g}"
                )
            return 0.5
        if not isinstance(self.threshold, str):
            return self.threshold
        asked = float(_ASKED.fullmatch(self.threshold)[1])  # type: ignore[index]  # checked when it was set
        if not rule.curve or rule.prior is None:
            raise InputError(f"{name}: no precision was measured for it; `cdconv calibrate` does, or give a number")
        if set(self.categories) != set(CATEGORIES):
            raise InputError(
                f"threshold {self.threshold}: precision was measured with all categories; give a number instead"
            )
        prior = rule.prior if self.prior is None else self.prior
        reached = [point for point in rule.curve if point.precision(prior) >= asked]
        if not reached:
            best = max(rule.curve, key=lambda point: point.precision(prior))
            raise InputError(
                f"{name}: precision {asked} was not reached at a prior of {prior:.3g}; the best was "
                f"{best.precision(prior):.2f}, at recall {best.recall:.2f}"
            )
        return self.at_prior(max(reached, key=lambda point: point.recall).threshold, rule)

    def correct(self, scores: Mapping[str, float], task: str, rule: Rule) -> dict[str, float]:
        """The probabilities at the operator's prior: each odds times the ratio of the odds of the priors.

        Source: Saerens et al., 2002, *Adjusting the outputs of a classifier to new a priori probabilities*, eq. 2.4.

        Raises:
            InputError: the share of contradictions that the probabilities were fitted to is not known.
        """
        if self.prior is None:
            return dict(scores)
        if rule.prior is None:
            raise InputError("a prior can only correct calibrated probabilities; `cdconv calibrate` fits them")
        before = min(sum(scores[name] for name in CONTRADICTIONS[task]), 1.0)
        after = self.at_prior(before, rule)
        return {
            name: each * (after / before if before else 0.0)
            if name in CONTRADICTIONS[task]
            else (each * (1 - after) / (1 - before) if before < 1 else 1 - after)
            for name, each in scores.items()
        }

    def at_prior(self, probability: float, rule: Rule) -> float:
        """The probability of one contradiction at the operator's prior; as it is where none is set."""
        if self.prior is None or rule.prior is None:
            return probability
        return _at_prior(probability, rule.prior, self.prior)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number(threshold: str) -> float | str:
    if found := _ASKED.fullmatch(threshold):
        if not 0 < float(found[1]) <= 1:
            raise InputError(f"threshold {threshold!r}: a precision is above 0 and at most 1")
        return threshold
    try:
        value = float(threshold)
    except ValueError:
        value = float("nan")
    if not 0 <= value <= 1:
        raise InputError(f"threshold {threshold!r}; it must be a probability from 0 to 1, or like precision>=0.8")
    return value


def _at_prior(probability: float, before: float, after: float) -> float:
    up, down = probability * after / before, (1 - probability) * (1 - after) / (1 - before)
    return up / (up + down)
