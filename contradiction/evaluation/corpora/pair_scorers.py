"""Scores pairs of an earlier text and a later one: the probability that the later contradicts the earlier."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from contradiction.errors import InputError
from contradiction.inference.base import OnBatch
from contradiction.labels import CONTRADICTION, CONTRADICTIONS, merge

if TYPE_CHECKING:
    from contradiction.methods.base import Classifier

# Each pair has premise and hypothesis, and as u1 and u2 what the other speaker said before each, or nothing.
PairRow = Mapping[str, str]
PairScorer = Callable[[Sequence[PairRow]], np.ndarray]


def pair_row(premise: str, hypothesis: str, before_premise: str = "", before_hypothesis: str = "") -> PairRow:
    """A pair under the names of both CDConv and NLI, so that a model of either reads it."""
    return {
        "premise": premise, "hypothesis": hypothesis, "b1": premise, "b2": hypothesis, "u1": before_premise,
        "u2": before_hypothesis,
    }  # fmt: skip


def model_scorer(classifier: "Classifier", on_batch: OnBatch | None = None) -> PairScorer:
    """The scorer of a trained model, of NLI or of CDConv; its decision rule is not used.

    Raises:
        InputError: the model does not tell contradictions from other replies.
    """
    task = classifier.task
    if task not in CONTRADICTIONS:
        raise InputError(f"{classifier.name}: its labels tell no contradictions from other replies")

    def score(rows: Sequence[PairRow]) -> np.ndarray:
        predictions = classifier.predict(rows, on_batch=on_batch)
        scores = [merge(task, classifier.scores(prediction.probabilities))[CONTRADICTION] for prediction in predictions]
        return np.array(scores, dtype=float)

    return score


class NgramPairs:
    """Logistic regression on n-grams of both texts and on those that they share: no encoder.

    Args:
        premise: whether the earlier text is read; without it the model is an artefact baseline.
        characters: n-grams of characters, for text without spaces; else of words.
    """

    def __init__(self, premise: bool = True, characters: bool = False) -> None:
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.linear_model import LogisticRegression

        form: dict[str, Any] = {"analyzer": "char", "ngram_range": (1, 3)} if characters else {"ngram_range": (1, 2)}
        pattern = {} if characters else {"token_pattern": r"(?u)\b\w+\b"}
        self.reads_premise = premise
        self.vectorizer = TfidfVectorizer(min_df=2, sublinear_tf=True, **form, **pattern)
        self.model = LogisticRegression(max_iter=300)

    def fit(self, rows: Sequence[PairRow], labels: Sequence[Any]) -> Self:
        """Fits to pairs and their labels."""
        texts = [row["hypothesis"] for row in rows]
        self.vectorizer.fit(texts + [row["premise"] for row in rows] if self.reads_premise else texts)
        self.model.fit(self._features(rows), labels)
        return self

    def predict(self, rows: Sequence[PairRow]) -> np.ndarray:
        """The most probable label of each pair."""
        return self.model.predict(self._features(rows))

    def __call__(self, rows: Sequence[PairRow]) -> np.ndarray:
        """The probability of the label True, or of a contradiction."""
        classes = list(self.model.classes_)
        wanted = True if True in classes else CONTRADICTION
        return self.model.predict_proba(self._features(rows))[:, classes.index(wanted)]

    def _features(self, rows: Sequence[PairRow]) -> Any:
        from scipy.sparse import hstack

        later = self.vectorizer.transform([row["hypothesis"] for row in rows])
        if not self.reads_premise:
            return later
        earlier = self.vectorizer.transform([row["premise"] for row in rows])
        return hstack([earlier, later, earlier.multiply(later).sqrt()]).tocsr()
