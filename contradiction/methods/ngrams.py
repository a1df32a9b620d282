"""A linear model of character n-grams, utterance by utterance: a baseline that understands nothing."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import Pipeline


def vectorizer(**options: Any) -> "TfidfVectorizer":
    """TF-IDF of character 1- to 3-grams, not fitted yet; scikit-learn's defaults otherwise."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(analyzer="char", ngram_range=(1, 3), **options)


def linear_model(columns: Sequence[str], *, class_weight: str | None = None) -> "Pipeline":
    """TF-IDF of character 1- to 3-grams with logistic regression, not fitted yet; it reads rows of a split.

    The n-grams of each utterance are separate features, so that the same words by the user and by the bot are two
    things. On validation that is better than one text of all utterances. Deterministic.

    Args:
        columns: the utterances that are read.
        class_weight: ``balanced`` raises rare classes, so that the most probable labels have a fair macro-F1. By
            default a label is on average as probable as it is frequent.
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
