"""The interface of a method: rows of utterances in, probabilities and labels out."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field

from contradiction.decision import NO_RULE, Rule, decide
from contradiction.errors import InputError
from contradiction.inference.base import OnBatch, Scores
from contradiction.inputs.views import Row
from contradiction.io.files import check_form, read_json
from contradiction.labels import CONTRADICTIONS, HISTORY, INTRA, LABELS, ROLE, STAGES, is_contradiction, task_of_labels


@dataclass(frozen=True)
class Prediction:
    """What a classifier predicts for one row."""

    scores: Mapping[str, float]  # the probability of every label, by name
    argmax: str  # the most probable label by the logits alone, or as in the paper the first stage that fires
    truncation: str | None = None  # what was not read, in words; None if all was read
    evidence: Sequence[float] = ()  # how likely each earlier reply is the contradicted one, if the model says so
    label: str = ""  # by `contradiction.decision.decide`, as in a verdict on a chat of these utterances; see `classify`


class Classifier(ABC):
    """A trained model with its decision rule.

    A subclass is a method. Its class attributes describe its folders. It is added to the list in
    ``contradiction.methods``. It implements :meth:`load` and :meth:`score`, which gives each label a logit. A method
    without logits overrides :meth:`predict` and :meth:`fit_rule` instead.

    Args:
        labels: the names of the labels in the order of the logits; those of a task or stage, in any order.
        columns: the utterances that are read.
        name: the name of the model in messages.
        rule: the decision rule.

    Raises:
        InputError: the labels are not those of a task, or the rule is about others.
    """

    MARKER: ClassVar[str]  # the JSON file that identifies a folder of this method; it also has the decision rule
    KEYS: ClassVar[Mapping[str, Any]] = {}  # of MARKER, each with its type and default; see `io.files.check_form`
    PARTS: ClassVar[str | None] = None  # the key in MARKER of the sub-folders that the model consists of, if it has any
    FILES: ClassVar[tuple[str, ...]] = ()  # the other files that a folder must have
    TRANSFORMERS: ClassVar[bool] = False  # whether transformers loads a folder of this method without this library
    LOGITS: ClassVar[bool] = True  # whether `score` gives each label a logit

    reads_chats: bool = False  # whether a whole chat is read at once, and not a window for each earlier turn
    reads_turns: bool = True  # whether it, or a part of it, reads a reply with each earlier turn apart
    chinese_only: bool = True  # whether it was trained on Chinese alone, so that verdicts on other languages say so
    needs_rule: bool = False  # whether the model was saved with a rule, so that without one it is damaged

    def __init__(
        self, labels: Sequence[str], columns: Sequence[str], name: str = "model", rule: Rule | None = None
    ) -> None:
        task = task_of_labels(labels)
        if task is None:
            known = "; ".join(", ".join(names) for names in LABELS.values())
            raise InputError(f"{name}: its labels are {', '.join(labels)}; allowed are {known}")
        self.name, self.task, self.labels, self.columns = name, task, tuple(labels), tuple(columns)
        self.rule = (rule or NO_RULE).check_labels(labels, name)

    @classmethod
    @abstractmethod
    def load(cls, folder: str | Path, **options: Any) -> Self:
        """Loads a model folder; raises InputError if it holds no such model.

        The options are the keyword arguments of ``contradiction.methods.loading.load_classifier`` except ``view``.
        """

    @classmethod
    def parts(cls, folder: Path) -> list[Path]:
        """The sub-folders that a model folder consists of; raises InputError if its ``MARKER`` names none."""
        if cls.PARTS is None:
            return []
        names = cls.describe(folder)[cls.PARTS]
        for name in names:  # a model that somebody sends must not make others read what lies elsewhere
            if folder.resolve() not in (folder / name).resolve().parents:
                raise InputError(f"{folder / cls.MARKER}: {name!r} lies outside the folder; parts must be inside it")
        return [folder / name for name in names]

    @classmethod
    def describe(cls, folder: Path) -> dict[str, Any]:
        """The JSON object in the file ``MARKER`` of a model folder; raises InputError if it is damaged."""
        file = folder / cls.MARKER
        description = read_json(file)
        parts = {cls.PARTS: (Annotated[list[str], Field(min_length=1)], ...)} if cls.PARTS else {}
        check_form(description, {**parts, **cls.KEYS}, file)
        return description

    @classmethod
    def check_folder(cls, folder: Path) -> None:
        """Raises InputError if a file of the model folder is missing."""
        for name in (cls.MARKER, *cls.FILES):
            if not (folder / name).is_file():
                raise InputError(f"{folder}: no {name}; `cdconv train` writes it")

    @classmethod
    def identity(cls, folder: Path) -> list[bytes]:
        """What the logits depend on besides the weights; records identify a model by a digest of both."""
        return []

    def score(self, rows: Sequence[Row], *, batch_size: int = 32, on_batch: OnBatch | None = None) -> Scores:
        """The logits of rows, and what was truncated; see :meth:`predict` for the arguments."""
        raise NotImplementedError(f"{type(self).__name__} gives its labels no logits")

    def predict(
        self, rows: Sequence[Row], *, batch_size: int = 32, on_batch: OnBatch | None = None
    ) -> list[Prediction]:
        """Predicts the probabilities of rows.

        Args:
            rows: utterances by the column names of the data set; a row holds at least ``columns``.
            batch_size: the number of rows in a forward pass.
            on_batch: called with the number of rows done, after each forward pass.
        """
        scores = self.score(rows, batch_size=batch_size, on_batch=on_batch)
        probabilities = self.rule.calibrate(scores.logits, self.labels).tolist()
        best = [self.labels[index] for index in scores.logits.argmax(1)]
        evidence = scores.evidence or [()] * len(best)
        return [
            Prediction(dict(zip(self.labels, values, strict=True)), argmax=label, truncation=reason, evidence=shares)
            for values, label, reason, shares in zip(probabilities, best, scores.truncations, evidence, strict=True)
        ]

    def fit_rule(self, rows: Sequence[Row], labels: Sequence[str], *, on_batch: OnBatch | None = None) -> Rule:
        """Chooses a decision rule on validation rows: temperature, biases, threshold and curve.

        Args:
            rows: the rows; see :meth:`predict`.
            labels: the label of each row, by name; for a single stage also labels of ``4-class``.
            on_batch: called with the number of rows done, after each forward pass.

        Raises:
            InputError: the rows have other labels than the model.
        """
        from contradiction.methods import calibration

        if self.task in STAGES and set(labels) <= set(LABELS["4-class"]):
            other = next(name for name in self.labels if name != self.task)
            labels = [name if name == self.task else other for name in labels]
        references = calibration.class_ids(labels, self.labels, self.name)
        logits = self.score(rows, on_batch=on_batch).logits
        rule = calibration.fit(logits, references, self.labels)
        contradictions = [name in self.contradictions for name in self.labels]
        probabilities = rule.calibrate(logits, self.labels)[:, contradictions].sum(axis=1)
        truth = [is_contradiction(name) for name in labels]
        threshold = rule.threshold if sum(contradictions) > 1 else None
        return calibration.with_curve(rule, probabilities, truth, threshold)

    def classify(
        self, rows: Sequence[Row], *, batch_size: int = 32, on_batch: OnBatch | None = None
    ) -> list[Prediction]:
        """Predicts rows, with a label by the model's own decision rule; see :meth:`predict` for the arguments."""
        predictions = self.predict(rows, batch_size=batch_size, on_batch=on_batch)
        return [replace(one, label=decide(one.scores, self.rule.threshold, self.contradictions)) for one in predictions]

    def usage(self) -> dict[str, Any] | None:
        """The requests to an endpoint and their cost; None for a model that runs on this machine."""
        return None

    def has_token_for(self, text: str) -> bool:
        """Whether the model has a token for any part of a text; otherwise it reads only unknown tokens."""
        return True

    @property
    def contradictions(self) -> tuple[str, ...]:
        """The labels that are contradictions; empty for a model whose labels name none."""
        return tuple(name for name in self.labels if name in CONTRADICTIONS.get(self.task, ()))

    @property
    def judges_openings(self) -> bool:
        """Whether the model can judge a reply without an earlier reply."""
        return "u2" in self.columns

    def check_contradictions(self) -> None:
        """Raises InputError for a model whose labels do not distinguish contradictions from other replies."""
        if self.task not in CONTRADICTIONS:
            raise InputError(
                f"{self.name}: its labels tell no contradictions from other replies ({', '.join(self.labels)}); take a "
                "model of contradictions"
            )

    def probability_of(self, scores: Mapping[str, float], kinds: Sequence[str]) -> float:
        """The probability of a contradiction of some kinds, which are labels."""
        return sum(scores[kind] for kind in kinds)

    def history_probability(self, probabilities: Mapping[str, float]) -> float:
        """The probability that the earlier turn of a window is contradicted, or else of any contradiction."""
        return self.probability_of(probabilities, (HISTORY,) if HISTORY in probabilities else self.contradictions)

    def combine_windows(self, windows: Sequence[Mapping[str, float]]) -> Mapping[str, float]:
        """The probabilities of a reply from those of its windows, the nearest last.

        With categories, history is the maximum over the windows. The other labels share the rest in the proportions of
        the nearest window. Without categories, the window with the highest probability of a contradiction counts. Of a
        stage that judges the reply or the speaker, the nearest window counts.
        """
        nearest = windows[-1]
        if self.task in (INTRA, ROLE):
            return nearest
        highest = max(windows, key=self.history_probability)
        if HISTORY not in nearest or len(nearest) == 2:
            return highest
        rest = 1 - nearest[HISTORY]
        factor = (1 - highest[HISTORY]) / rest if rest else 0.0
        return {name: highest[HISTORY] if name == HISTORY else value * factor for name, value in nearest.items()}

    def opening_probabilities(self, probabilities: Mapping[str, float]) -> Mapping[str, float] | None:
        """The probabilities of a reply without an earlier reply; None if the model cannot judge such a reply.

        Such a reply can contradict nothing but itself.
        """
        if INTRA not in probabilities or not self.judges_openings:
            return None
        no_contradiction = next(name for name in probabilities if name not in CONTRADICTIONS[self.task])
        total = probabilities[no_contradiction] + probabilities[INTRA]
        return {
            name: value / total if name in (no_contradiction, INTRA) and total else 0.0
            for name, value in probabilities.items()
        }
