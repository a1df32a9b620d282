"""Artefact baselines: what can be had without understanding, by surface features of a part of the conversation.

A detector that does not beat the reply alone, or the context alone *without* the reply, has learnt how the data was
made and not what contradicts what.
"""

from collections.abc import Container, Iterable, Iterator
from pathlib import Path
from typing import Any

from contradiction.data.splits import fingerprint, load_split
from contradiction.errors import InputError
from contradiction.evaluation.results import evaluation
from contradiction.inputs.views import VIEWS
from contradiction.labels import CONFIGS, NLI
from contradiction.methods.ngrams import linear_model

FEATURES = {"reply-only": "TF-IDF, reply only", "context-only": "TF-IDF, context only", "flatten": "TF-IDF, all"}
CONVERSATIONS = tuple(config for config in CONFIGS if config != "nli" and not config.startswith(NLI))


def run(
    data: str | Path,
    config: str,
    split: str = "test",
    *,
    views: Iterable[str] = tuple(FEATURES),
    read: Container[int] | None = None,
    **more: Any,
) -> Iterator[dict[str, Any]]:
    """Fits and scores TF-IDF of character n-grams, utterance by utterance, with a class-balanced logistic regression.

    Deterministic; see ``contradiction.methods.ngrams``.

    Args:
        data: the data repo.
        config: for instance ``4-class``.
        split: the split to score.
        views: keys of ``FEATURES``.
        read: the ids of the training rows to fit to; by default all.
        more: further entries of the evaluations.

    Raises:
        InputError: no such config of conversations.

    Yields:
        One evaluation for each part of the conversation, as ``contradiction.evaluation.results`` keeps it.
    """
    check_config(config)
    test = load_split(data, config, split)
    rows = [row for row in load_split(data, config, "train") if read is None or row["id"] in read]
    for view in views:
        model = linear_model(VIEWS[view], class_weight="balanced").fit(rows, [row["label"] for row in rows])
        yield evaluation(
            config=config,
            split=split,
            data=fingerprint(test),
            ids=list(test["id"]),
            references=list(test["label"]),
            predictions=model.predict(list(test)).tolist(),
            view=view,
            **{"name": FEATURES[view], "kind": "baseline"} | more,
        )


def check_config(config: str) -> None:
    """Raises InputError for a config that holds no conversations with a label."""
    if config not in CONVERSATIONS:
        raise InputError(f"config {config!r} holds no conversations; there are {', '.join(CONVERSATIONS)}")
