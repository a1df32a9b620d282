"""A linear model of character n-grams of each utterance: a baseline without understanding."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import Pipeline


def vectorizer(**options: Any) -> "TfidfVectorizer":
    """An unfitted TF-IDF vectorizer of character 1- to 3-grams, otherwise with scikit-learn's defaults."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(analyzer="char", ngram_range=(1, 3), **options)


def linear_model(columns: Sequence[str], *, class_weight: str | None = None) -> "Pipeline":
    """An unfitted model of rows: TF-IDF of character 1- to 3-grams with logistic regression.

    The n-grams of each utterance are separate features, so the same word of the user and of the bot are two features.
    This is better on validation than one text of all utterances. The model is deterministic.

    Args:
        columns: the utterances to read.
        class_weight: ``balanced`` raises the probabilities of rare classes, for a good macro-F1 of the most probable
            labels. By default the mean probability of a label is its frequency.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline, make_union
    from sklearn.preprocessing import FunctionTransformer

    features = (
        make_pipeline(FunctionTransformer(_texts, kw_args={"column": column}), vectorizer()) for column in columns
    )
    return make_pipeline(make_union(*features), LogisticRegression(class_weight=class_weight, max_iter=1000))


def _texts(rows: Iterable[Mapping[str, str]], column: str) -> list[str]:
    return [row[column] for row in rows]
