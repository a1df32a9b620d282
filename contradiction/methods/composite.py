"""Methods that consist of several models: the hierarchical method, an ensemble, a cascade."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from contradiction.decision import KEY, NO_RULE, TINY, Rule
from contradiction.errors import InputError
from contradiction.inference.base import OnBatch, Scores
from contradiction.inputs.views import CONVERSATION, Row, is_opening, row_of
from contradiction.labels import (
    CONTRADICTION,
    HISTORY,
    INTRA,
    LABELS,
    NON_CONTRADICTION,
    STAGES,
    is_contradiction,
    merge,
)
from contradiction.methods.base import Classifier, Prediction
from contradiction.methods.checkpoint import CheckpointClassifier
from contradiction.methods.llm_judge import total_usage
from contradiction.methods.loading import load_part, load_rule, register


@register
class HierarchicalClassifier(Classifier):
    """Classifiers of one category each, in the order in which they decide.

    The probability of a contradiction is that of the stage with the highest probability. The categories share it in
    proportion to the probabilities of their stages. The paper decides otherwise: the first stage that fires names the
    category (section 5.1).

    Args:
        stages: for each category a classifier that separates it from all other rows.
        name: the name of the model in messages.
        rule: the decision rule. Its biases are added to the log-odds of the stages, which their own rules calibrate.
    """

    MARKER = "stages.json"
    PARTS = "stages"
    LOGITS = False

    def __init__(self, stages: Sequence[CheckpointClassifier], name: str = "model", rule: Rule | None = None) -> None:
        super().__init__(LABELS["4-class"], _joint_columns(stages), name, rule)
        self.stages = tuple(stages)
        self.chinese_only = any(stage.chinese_only for stage in stages)
        tasks = [stage.task for stage in self.stages]
        if sorted(tasks) != sorted(STAGES):
            raise InputError(f"{name}: its stages are {', '.join(tasks)}; there must be one for each category")

    @classmethod
    def load(cls, folder: str | Path, **options: Any) -> Self:
        """Loads the stages that ``stages.json`` names; see :meth:`Classifier.load`."""
        folder = Path(folder)
        stages = [CheckpointClassifier.load(part, **options) for part in cls.parts(folder)]
        return cls(stages, str(folder), Rule.load(folder / cls.MARKER))

    def predict(
        self, rows: Sequence[Row], *, batch_size: int = 32, on_batch: OnBatch | None = None
    ) -> list[Prediction]:
        """Predicts the probabilities of rows by all stages; see :meth:`Classifier.predict`.

        Of a reply without an earlier reply, only the stage of the reply itself counts.
        """
        predictions = []
        for row, by_stage in zip(rows, self._read(rows, batch_size, on_batch), strict=True):
            read = {stage: each for stage, each in by_stage.items() if stage == INTRA or not is_opening(row)}
            moved = {stage: self._moved(stage, each.scores[stage]) for stage, each in read.items()}
            fired = next((stage for stage, each in by_stage.items() if each.argmax == stage), NON_CONTRADICTION)
            truncation = next((each.truncation for each in by_stage.values() if each.truncation), None)
            predictions.append(Prediction(_shared({**dict.fromkeys(by_stage, 0.0), **moved}), fired, truncation))
        return predictions

    def _read(self, rows: Sequence[Row], batch_size: int, on_batch: OnBatch | None) -> list[dict[str, Prediction]]:
        """The prediction of each stage for each row, by the name of the stage."""
        report = joint_progress(on_batch, len(rows), len(rows) * len(self.stages))
        by_stage = [stage.predict(rows, batch_size=batch_size, on_batch=report) for stage in self.stages]
        order = [stage.task for stage in self.stages]
        return [dict(zip(order, predictions, strict=True)) for predictions in zip(*by_stage, strict=True)]

    def _moved(self, stage: str, probability: float) -> float:
        """The probability of a stage with the bias of the rule."""
        weighted = probability * math.exp(self.rule.biases.get(stage, 0.0))
        return weighted / (1 - probability + weighted)

    def fit_rule(self, rows: Sequence[Row], labels: Sequence[str], *, on_batch: OnBatch | None = None) -> Rule:
        """Chooses biases, threshold and curve; see :meth:`Classifier.fit_rule`."""
        from scipy.special import expit, logit

        from contradiction.methods import calibration

        order = [stage.task for stage in self.stages]
        read = self._read(rows, 32, on_batch)
        probabilities = [[by_stage[stage].scores[stage] for stage in order] for by_stage in read]
        references = calibration.class_ids(labels, (NON_CONTRADICTION, *order), self.name)
        log_odds = logit(np.clip(probabilities, TINY, 1 - TINY))
        biases, threshold = calibration.fit_kinds(log_odds, references, np.max)
        rule = Rule(biases=dict(zip(order, biases, strict=True)), threshold=threshold)
        highest = expit(log_odds + biases).max(axis=1)
        return calibration.with_curve(rule, highest, [is_contradiction(name) for name in labels], threshold)

    def probability_of(self, scores: Mapping[str, float], kinds: Sequence[str]) -> float:
        """The highest probability among the stages of some kinds."""
        shares = [scores[kind] for kind in STAGES]
        return sum(shares) * (max(scores[kind] for kind in kinds) / max(shares)) if any(shares) else 0.0

    def combine_windows(self, windows: Sequence[Mapping[str, float]]) -> Mapping[str, float]:
        """The nearest window for the stages of the reply and of the speaker; the maximum over windows for history."""
        nearest = {kind: self.probability_of(windows[-1], (kind,)) for kind in STAGES}
        return _shared({**nearest, HISTORY: max(self.history_probability(window) for window in windows)})

    def has_token_for(self, text: str) -> bool:
        """Whether the tokenizer, which is the same for all stages, has a token for any part of a text."""
        return self.stages[0].has_token_for(text)


def _shared(stages: Mapping[str, float]) -> dict[str, float]:
    """The probability of every label, from those of the stages."""
    highest, total = max(stages.values()), sum(stages.values())
    kinds = {stage: highest * value / total if total else 0.0 for stage, value in stages.items()}
    return {NON_CONTRADICTION: 1 - highest, **kinds}


class _Composite(Classifier):
    """A model whose parts are models of any method with the same labels, each calibrated by its own rule."""

    def __init__(self, parts: Sequence[Classifier], name: str, rule: Rule | None) -> None:
        first, *others = parts
        for other in others:
            if set(other.labels) != set(first.labels):
                raise InputError(
                    f"{name}: all its parts must have the same labels; {first.name} has {', '.join(first.labels)}, and "
                    f"{other.name} has {', '.join(other.labels)}"
                )
        # The columns of the first part where they are not those of a conversation: premise and hypothesis.
        super().__init__(first.labels, _joint_columns(parts) or first.columns, name, rule)
        self.reads_turns = any(part.reads_turns for part in parts)

    @classmethod
    def identity(cls, folder: Path) -> list[bytes]:
        """The description of the model, and what its parts decide by."""
        description = {name: value for name, value in cls.describe(folder).items() if name not in (KEY, cls.PARTS)}
        rules = {part.name: load_rule(part).without_curve() for part in cls.parts(folder)}
        return [json.dumps([description, rules], sort_keys=True).encode()]

    def _predict_part(
        self, part: Classifier, rows: Sequence[Row], batch_size: int, on_batch: OnBatch | None = None
    ) -> list[Prediction]:
        """The calibrated predictions of a part; a model of two turns reads a chat turn by turn."""
        if self.reads_chats and not part.reads_chats:
            split = [turns_of(row) for row in rows]
            single = [row for windows in split for row in windows]
            report = joint_progress(on_batch, len(rows), len(single))
            each = iter(part.predict(single, batch_size=batch_size, on_batch=report))
            return [_combined(part, list(islice(each, len(windows)))) for windows in split]
        return part.predict(rows, batch_size=batch_size, on_batch=on_batch)


@register
class EnsembleClassifier(_Composite):
    """The mean of the log-probabilities of several classifiers.

    Models that read different views, or were trained with different seeds, err on different rows, so their mean is
    more often right than each of them (Lakshminarayanan et al., 2017, *Simple and scalable predictive uncertainty
    estimation using deep ensembles*, section 2.4, with the mean of probabilities; the mean of their logarithms is the
    product of experts of Hinton, 2002). A reply without an earlier reply is judged only by the members that can do so,
    if there are any.

    Args:
        members: classifiers with the same labels.
        name, rule: see :class:`Classifier`.
    """

    MARKER = "ensemble.json"
    KEYS: ClassVar = {"calibrated": (bool, False)}
    PARTS = "members"

    def __init__(self, members: Sequence[Classifier], name: str = "model", rule: Rule | None = None) -> None:
        super().__init__(members, name, rule)
        self.members = tuple(members)
        self.chinese_only = any(member.chinese_only for member in members)
        self.reads_chats = any(member.reads_chats for member in members)

    @classmethod
    def load(cls, folder: str | Path, **options: Any) -> Self:
        """Loads the members that ``ensemble.json`` names, without their rules unless it says that they are calibrated.

        See :meth:`Classifier.load`.
        """
        folder = Path(folder)
        members = [load_part(part, **options) for part in cls.parts(folder)]
        if not cls.describe(folder).get("calibrated"):
            for member in members:
                member.rule = NO_RULE
        return cls(members, str(folder), Rule.load(folder / cls.MARKER))

    @property
    def judges_openings(self) -> bool:
        """Whether any member can judge a reply without an earlier reply."""
        return any(member.judges_openings for member in self.members)

    def has_token_for(self, text: str) -> bool:
        """Whether any member has a token for any part of a text."""
        return any(member.has_token_for(text) for member in self.members)

    def score(self, rows: Sequence[Row], *, batch_size: int = 32, on_batch: OnBatch | None = None) -> Scores:
        """The mean log-probabilities of rows as logits; see :meth:`Classifier.score`."""
        later = [index for index, row in enumerate(rows) if not is_opening(row)]
        rows_of = [
            range(len(rows)) if member.judges_openings or not self.judges_openings else later for member in self.members
        ]
        report = joint_progress(on_batch, len(rows), sum(map(len, rows_of)))
        sums, counts = np.zeros((len(rows), len(self.labels))), np.zeros((len(rows), 1))
        truncations: list[str | None] = [None] * len(rows)
        evidence: list[Sequence[float]] = [()] * len(rows)
        for member, indices in zip(self.members, rows_of, strict=True):
            predictions = self._predict_part(member, [rows[index] for index in indices], batch_size, report)
            for index, prediction in zip(indices, predictions, strict=True):
                sums[index] += np.log([max(prediction.scores[name], TINY) for name in self.labels])
                counts[index] += 1
                truncations[index] = truncations[index] or prediction.truncation
                # A model that reads the whole chat knows best which message is contradicted.
                if member.reads_chats or not evidence[index]:
                    evidence[index] = prediction.evidence
        return Scores(sums / counts, truncations, evidence)


@register
class CascadeClassifier(_Composite):
    """The calibrated probabilities of a detector, and those of a judge on doubtful rows.

    A row is doubtful if the detector's calibrated probability of a contradiction is from ``low`` to ``high``. Others
    cost no request. A verdict on a reply with several earlier turns reads a row for each of them, and may cost as many
    requests. If the judge reads whole chats, such as a causal detector, it is asked once, about the whole chat.

    Args:
        detector, judge: classifiers of any method, with the same labels.
        low, high: the probabilities of a contradiction between which the judge is asked.
        name, rule: see :class:`Classifier`.
    """

    MARKER = "cascade.json"
    KEYS: ClassVar = {"low": (float, ...), "high": (float, ...)}
    PARTS = "parts"

    def __init__(
        self, detector: Classifier, judge: Classifier, low: float, high: float, name: str = "model",
        rule: Rule | None = None,
    ) -> None:  # fmt: skip
        super().__init__((detector, judge), name, rule)
        detector.check_contradictions()
        if not (0 <= low <= 1 and 0 <= high <= 1):
            raise InputError(f"{name}: doubt is from {low} to {high}; both must be probabilities from 0 to 1")
        self.detector, self.judge, self.low, self.high = detector, judge, low, high
        self.chinese_only = detector.chinese_only  # which reads every row
        self.reads_chats = judge.reads_chats

    @classmethod
    def load(cls, folder: str | Path, **options: Any) -> Self:
        """Loads both parts; see :meth:`Classifier.load`."""
        folder = Path(folder)
        parts = cls.parts(folder)
        if len(parts) != 2:
            raise InputError(f"{folder / cls.MARKER}: must name two parts, a detector and a judge")
        detector, judge = (load_part(part, **options) for part in parts)
        description = cls.describe(folder)
        rule = Rule.load(folder / cls.MARKER)
        return cls(detector, judge, description["low"], description["high"], str(folder), rule)

    @property
    def judges_openings(self) -> bool:
        """Whether the judge can judge a reply without an earlier reply: the detector leaves such replies to it."""
        return self.judge.judges_openings

    def has_token_for(self, text: str) -> bool:
        """Whether the detector has a token for any part of a text."""
        return self.detector.has_token_for(text)

    def usage(self) -> dict[str, Any] | None:
        """The requests of both parts and their cost."""
        return total_usage((self.detector.usage(), self.judge.usage()))

    def score(self, rows: Sequence[Row], *, batch_size: int = 32, on_batch: OnBatch | None = None) -> Scores:
        """The logarithms of the probabilities of rows, each by the rule of its part; see :meth:`Classifier.score`."""
        predictions = self._predict_part(self.detector, rows, batch_size)
        doubted = [
            index
            for index, (row, prediction) in enumerate(zip(rows, predictions, strict=True))
            if self.low <= merge(self.task, prediction.scores)[CONTRADICTION] <= self.high
            or (is_opening(row) and not self.detector.judges_openings)
        ]
        if on_batch and len(rows) > len(doubted):
            on_batch(len(rows) - len(doubted))
        if doubted:
            judged = self._predict_part(self.judge, [rows[index] for index in doubted], batch_size, on_batch)
            for index, prediction in zip(doubted, judged, strict=True):
                predictions[index] = prediction
        table = [[prediction.scores[name] for name in self.labels] for prediction in predictions]
        logits = np.log(np.maximum(np.reshape(table, (len(rows), len(self.labels))), TINY))
        truncations = [prediction.truncation for prediction in predictions]
        return Scores(logits, truncations, [prediction.evidence for prediction in predictions])


def turns_of(row: Row) -> list[Row]:
    """The rows of two turns of a row of many: each earlier turn with the last one."""
    u1, b1, u2, b2 = (row[column] for column in CONVERSATION)
    earlier = [*([u1] if isinstance(u1, str) else u1), b1]
    earlier = ["", *earlier] if len(earlier) % 2 else earlier
    return [row_of(*turn, u2, b2) for turn in zip(earlier[::2], earlier[1::2], strict=True)]


def _combined(part: Classifier, predictions: Sequence[Prediction]) -> Prediction:
    """One prediction from those for each earlier turn."""
    combined = part.combine_windows([prediction.scores for prediction in predictions])
    truncation = next((prediction.truncation for prediction in predictions if prediction.truncation), None)
    history = [0.0 if each.truncation else part.history_probability(each.scores) for each in predictions]
    highest = max(history)
    best = max(combined, key=combined.__getitem__)
    return Prediction(combined, best, truncation, tuple(value / highest if highest else 0.0 for value in history))


def _joint_columns(classifiers: Iterable[Classifier]) -> tuple[str, ...]:
    """The utterances of a conversation that any of some classifiers reads, in their order."""
    read = {column for classifier in classifiers for column in classifier.columns}
    return tuple(column for column in CONVERSATION if column in read)


def joint_progress(on_batch: OnBatch | None, rows: int, passes: int) -> OnBatch | None:
    """A callback for several classifiers that read the same ``rows``, ``passes`` in all: each row is reported once."""
    if on_batch is None:
        return None
    done = 0

    def report(count: int) -> None:
        nonlocal done
        before, done = done, done + count
        on_batch(rows * done // passes - rows * before // passes)

    return report
