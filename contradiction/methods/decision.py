"""The decision rule of a detector: from probabilities to labels, chosen on the validation split."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from contradiction.errors import InputError
from contradiction.io.files import read_json, write_json
from contradiction.rates import precision_at

FILE = "decision.json"


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
