"""Artefact baselines: what can be had without understanding, by surface features of a part of the conversation.

A detector that does not beat the reply alone, or the context alone *without* the reply, has learnt how the data was
made and not what contradicts what.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from contradiction.data.splits import fingerprint, load_split
from contradiction.errors import InputError
from contradiction.labels import CONFIGS, NLI
from contradiction.results import evaluation
from contradiction.views import VIEWS

FEATURES = {"reply-only": "TF-IDF, reply only", "context-only": "TF-IDF, context only", "flatten": "TF-IDF, all"}


CONVERSATIONS = tuple(config for config in CONFIGS if config != "nli" and not config.startswith(NLI))


def run(data: str | Path, config: str, split: str = "test") -> Iterator[dict[str, Any]]:
    """Fits and scores TF-IDF of character 1- to 3-grams with a class-balanced logistic regression.

    scikit-learn's defaults and nothing tuned, so the test split decides nothing. Deterministic.

    Args:
        data: the data repo.
        config: for instance ``4-class``.
        split: the split to score.

    Raises:
        InputError: no such config of conversations.

    Yields:
        One evaluation for each part of the conversation, as ``contradiction.results`` keeps it.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    if config not in CONVERSATIONS:
        raise InputError(f"config {config!r} holds no conversations; there are {', '.join(CONVERSATIONS)}")
    train, test = load_split(data, config, "train"), load_split(data, config, split)
    for view, name in FEATURES.items():
        model = make_pipeline(
            TfidfVectorizer(analyzer="char", ngram_range=(1, 3)),
            LogisticRegression(class_weight="balanced", max_iter=1000),
        )
        # A line break a border: n-grams across it say that an utterance begins or ends.
        train_texts, test_texts = (
            ["\n".join(row[column] for column in VIEWS[view]) for row in rows] for rows in (train, test)
        )
        model.fit(train_texts, train["label"])
        yield evaluation(
            name=name,
            config=config,
            split=split,
            data=fingerprint(test),
            ids=list(test["id"]),
            references=list(test["label"]),
            predictions=model.predict(test_texts).tolist(),
            kind="baseline",
            view=view,
        )
