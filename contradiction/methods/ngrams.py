"""A linear model of character n-grams of each utterance: a baseline without understanding."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from contradiction.errors import InputError

if TYPE_CHECKING:
    from sklearn.feature_extraction.text import TfidfVectorizer


def vectorizer(**options: Any) -> "TfidfVectorizer":
    """An unfitted TF-IDF vectorizer of character 1- to 3-grams, otherwise with scikit-learn's defaults."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(analyzer="char", ngram_range=(1, 3), **options)


class LinearModel:
    """TF-IDF of character 1- to 3-grams with logistic regression, with the interface of scikit-learn.

    The n-grams of each utterance are separate features, so the same word of the user and of the bot are two features.
    This is better on validation than one text of all utterances. The model is deterministic.

    Args:
        columns: the utterances to read; those that are blank in all rows of the fit are skipped.
        class_weight: ``balanced`` raises the probabilities of rare classes, for a good macro-F1 of the most probable
            labels. By default the mean probability of a label is its frequency.
    """

    classes_: np.ndarray

    def __init__(self, columns: Sequence[str], *, class_weight: str | None = None) -> None:
        self._columns, self._class_weight = columns, class_weight

    def fit(self, rows: Sequence[Mapping[str, Any]], labels: Sequence[int]) -> Self:
        """Fits the model to rows and their class ids; raises InputError for one class, or no text in the columns."""
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline, make_union
        from sklearn.preprocessing import FunctionTransformer

        written = [column for column in self._columns if any(row[column].strip() for row in rows)]
        if not written:
            blank = ", ".join(self._columns)
            raise InputError(f"all {len(rows):,} rows are blank in {blank}; a model is fitted to text")
        if len(set(labels)) < 2:
            raise InputError(f"{len(rows):,} rows have only one label, and a model is fitted to two or more")
        columns = (FunctionTransformer(_texts, kw_args={"column": column}) for column in written)
        features = make_union(*(make_pipeline(column, vectorizer()) for column in columns))
        regression = LogisticRegression(class_weight=self._class_weight, max_iter=1000)
        self._fitted = make_pipeline(features, regression).fit(rows, labels)
        self.classes_ = self._fitted.classes_
        return self

    def predict_proba(self, rows: Sequence[Mapping[str, Any]]) -> np.ndarray:
        """The probabilities of ``classes_``, shape (rows, classes)."""
        return self._fitted.predict_proba(rows)


def _texts(rows: Iterable[Mapping[str, str]], column: str) -> list[str]:
    return [row[column] for row in rows]
