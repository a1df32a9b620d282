"""A linear model of character n-grams, utterance by utterance: what can be had without understanding."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import Pipeline


def vectorizer(**options: Any) -> "TfidfVectorizer":
    """TF-IDF of character 1- to 3-grams, not fitted yet; else scikit-learn's default."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(analyzer="char", ngram_range=(1, 3), **options)


def linear_model(columns: Sequence[str], *, class_weight: str | None = None) -> "Pipeline":
    """TF-IDF of character 1- to 3-grams with a logistic regression, not fitted yet; it reads rows of a split.

    The n-grams of each utterance are features of their own: what the user says and what the bot says in reply are then
    two things. On validation that is better than one text of all utterances; all else is scikit-learn's default.
    Deterministic.

    Args:
        columns: the utterances that are read.
        class_weight: ``balanced`` for rare classes, so that the most probable label has a fair macro-F1; by default
            none, so that on average a label is as probable as it is frequent.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline, make_union
    from sklearn.preprocessing import FunctionTransformer

    read = (make_pipeline(FunctionTransformer(_texts, kw_args={"column": column}), vectorizer()) for column in columns)
    return make_pipeline(make_union(*read), LogisticRegression(class_weight=class_weight, max_iter=1000))


def _texts(rows: Iterable[Mapping[str, str]], column: str) -> list[str]:
    return [row[column] for row in rows]
