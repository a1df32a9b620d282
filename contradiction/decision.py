"""The one decision: from the probabilities of a detector to a label, by a rule that is chosen on the validation split.

Rows of a data set and replies of a chat, in Python, on the command line, on the page and over HTTP, are all decided by
:func:`decide`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from contradiction.errors import InputError
from contradiction.io.files import read_json, write_json

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

KEY = "cdconv_decision"  # the key of the rule in the JSON file of a model folder; of a checkpoint config.json
# The fraction of contradictions in real use: the paper counts about one in a 30-turn chat.
IN_USE = 0.03
TINY = 1e-12  # the lowest probability: 0 has no logarithm
# A curve needs at least so many contradictions and other rows, and so many rows are called at each of its points.
MIN_FOR_CURVE = 20
# The fewest rows of each kind that a rule is fitted to; with fewer, it is a guess.
FEWEST = 10


def precision_at(prior: float, recall: "ArrayLike", false_alarms: "ArrayLike") -> np.ndarray:
    """The precision where a fraction ``prior`` of replies are contradictions: π·TPR / (π·TPR + (1 - π)·FPR).

    Recall and false-alarm rate do not depend on how frequent contradictions are, so they hold for another fraction as
    long as the replies of each kind are alike. NaN without an alarm.
    """
    hits = prior * np.asarray(recall, dtype=float)
    alarms = hits + (1 - prior) * np.asarray(false_alarms, dtype=float)
    return np.divide(hits, alarms, out=np.full(hits.shape, np.nan), where=alarms > 0)


class Point(NamedTuple):
    """Recall and false alarms on the validation split, if replies with at least a probability are contradictions."""

    threshold: float
    recall: float
    false_alarms: float

    def precision(self, prior: float) -> float:
        """The share of called replies that are contradictions, where ``prior`` of all replies are; 0 where none is."""
        precision = float(precision_at(prior, self.recall, self.false_alarms))
        return 0.0 if math.isnan(precision) else precision


def decide(scores: Mapping[str, float], threshold: float, contradictions: Sequence[str]) -> str:
    """The label of a reply from the probability of every label.

    The reply is a contradiction if the probabilities of ``contradictions`` together reach the threshold. Its label is
    then the most probable contradiction, and otherwise the most probable of the other labels. Labels of a task without
    contradictions have none.
    """
    called = contradictions and sum(scores[name] for name in contradictions) >= threshold
    names = contradictions if called else [name for name in scores if name not in contradictions]
    return max(names, key=scores.__getitem__)


@dataclass(frozen=True)
class Rule:
    """The decision rule of a detector, chosen on the validation split.

    Attributes:
        temperature: divides the logits, so that the probabilities are calibrated.
        biases: label -> the number that is then added to its logit; other labels have 0. The biases calibrate the
            probability of a contradiction, and share it among the kinds so that rare kinds are named, too. In the
            hierarchical method they are added to the log-odds of the stages.
        threshold: the probability from which a reply is a contradiction.
        prior: the share of contradictions among the rows that the probabilities were calibrated on.
        curve: from the highest threshold down; empty if it was not measured, or on too few rows.
        opening: the threshold of a reply without an earlier reply, if it is above the other one. Such a reply can only
            contradict itself, so most of the alarms would be false.
    """

    temperature: float = 1.0
    biases: Mapping[str, float] = field(default_factory=dict)
    threshold: float = 0.5
    prior: float | None = None
    curve: tuple[Point, ...] = ()
    opening: float = 0.0

    def calibrate(self, logits: np.ndarray, labels: Sequence[str]) -> np.ndarray:
        """Calibrated probabilities of logits; both have the shape (rows, classes)."""
        return np.maximum(softmax(logits / self.temperature + self.biases_of(labels)), TINY)

    def biases_of(self, labels: Sequence[str]) -> np.ndarray:
        """The biases in the order of the labels."""
        return np.array([self.biases.get(name, 0.0) for name in labels])

    @property
    def calibrates(self) -> bool:
        """Whether the rule changes the softmax of the logits; it does not if the head of the model is calibrated."""
        return self.temperature != 1 or any(self.biases.values())

    def check_labels(self, labels: Sequence[str], name: str) -> Self:
        """Returns the rule; raises InputError if its labels are not those of the model ``name``."""
        if unknown := sorted(set(self.biases) - set(labels)):
            raise InputError(
                f"{name}: its decision rule has the label {unknown[0]!r}, but the model has {', '.join(labels)}; "
                "`cdconv calibrate` writes a new rule"
            )
        return self

    def without_curve(self) -> dict[str, Any]:
        """The attributes that decide on a row of the data set, by name, as an evaluation saves them."""
        return {name: value for name, value in asdict(self).items() if name not in ("curve", "opening")}

    @classmethod
    def from_config(cls, config: Mapping[str, Any], where: str | Path) -> "Rule":
        """The rule in the contents of a JSON file, for a checkpoint its config.json; ``NO_RULE`` if it has none.

        Raises:
            InputError: the rule is damaged; the message begins with ``where``.
        """
        from pydantic import TypeAdapter

        if config.get(KEY) is None:
            return NO_RULE
        try:
            rule = TypeAdapter(cls).validate_python(config[KEY])
            points = [value for point in rule.curve for value in point]
            numbers = (rule.temperature, rule.threshold, rule.opening, *rule.biases.values(), *points)
            has_prior = rule.prior is None or 0 < rule.prior < 1
            if not (all(map(math.isfinite, numbers)) and rule.temperature > 0 and has_prior):
                raise ValueError
        except (TypeError, ValueError):  # a ValidationError of pydantic is a ValueError
            raise InputError(f"{where}: holds no decision rule; `cdconv calibrate` writes one") from None
        return rule

    @classmethod
    def load(cls, file: Path) -> "Rule":
        """The rule in a JSON file of a model folder; ``NO_RULE`` if the file holds none.

        Raises:
            InputError: the rule is damaged.
        """
        return cls.from_config(read_json(file), file) if file.is_file() else NO_RULE

    def save(self, file: Path) -> None:
        """Writes the rule into a JSON file of a model folder, beside the other contents of the file."""
        write_json(file, read_json(file) | {KEY: asdict(self)})


NO_RULE = Rule()  # for a model without a rule: the most probable label, not calibrated


def softmax(logits: np.ndarray) -> np.ndarray:
    """Softmax over the last axis; not scipy's, because the demo page is installed without scipy."""
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)
