"""Baselines: what can be had by surface features of a part of the conversation, and without fine-tuning an encoder.

A detector that does not beat the reply alone, or the context alone *without* the reply, has learnt how the data was
made and not what contradicts what; one that does not beat a kernel machine on its own encoder has learnt nothing by
being fine-tuned.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from contradiction.classifiers import calibration
from contradiction.classifiers.decision import Rule
from contradiction.classifiers.label_classifier import calibrated
from contradiction.data.splits import fingerprint, load_split
from contradiction.errors import InputError
from contradiction.kernel import KernelModel
from contradiction.labels import CONFIGS, LABELS, NLI, task_of
from contradiction.ngrams import linear_model
from contradiction.results import evaluation
from contradiction.views import VIEWS

FEATURES = {"reply-only": "TF-IDF, reply only", "context-only": "TF-IDF, context only", "flatten": "TF-IDF, all"}
VALIDATION = "validation"
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

    Deterministic; see ``contradiction.ngrams``.

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
        One evaluation for each part of the conversation, as ``contradiction.results`` keeps it.
    """
    _check(config)
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


def kernel(
    data: str | Path, config: str, name: str, embed: Callable[[Sequence[str]], np.ndarray], split: str = "test"
) -> dict[str, Any]:
    """Fits and scores the kernel machine on embeddings and n-grams of all utterances; see ``contradiction.kernel``.

    Its decision rule is chosen on validation, as that of a trained detector is. Deterministic.

    Args:
        data: the data repo.
        config: for instance ``4-class``.
        name: of the encoder, as shown.
        embed: texts to vectors, shape (texts, hidden), by an encoder that has not been trained on these rows.
        split: the split to score.

    Raises:
        InputError: no such config of conversations.

    Returns:
        An evaluation, as ``contradiction.results`` keeps it, with probabilities.
    """
    _check(config)
    task = task_of(config)
    train, validation, test = (load_split(data, config, each) for each in ("train", "validation", split))
    embed([row[column] for rows in (train, validation, test) for column in VIEWS["flatten"] for row in rows])  # one bar
    model = KernelModel(VIEWS["flatten"], embed).fit(list(train), train["label"])
    logits = {each: np.log(model.predict_proba(list(rows))) for each, rows in ((VALIDATION, validation), (split, test))}
    references = np.array(validation["label"])
    rule = calibration.fit(logits[VALIDATION], references, LABELS[task])
    probabilities = {each: calibrated(rule, found, LABELS[task]) for each, found in logits.items()}
    if len(LABELS[task]) == 2:
        rule = calibration.with_curve(rule, probabilities[VALIDATION][:, 1], references == 1)
    return evaluation(
        name=f"kernel ridge, {name}",
        kind="baseline",
        config=config,
        split=split,
        data=fingerprint(test),
        ids=list(test["id"]),
        references=list(test["label"]),
        predictions=_decided(rule, probabilities[split], task).tolist(),
        plain=logits[split].argmax(axis=1).tolist(),
        view="flatten",
        rule=rule.without_curve(),
        probabilities=probabilities[split].round(8).tolist(),
    )


def _decided(rule: Rule, probabilities: np.ndarray, task: str) -> np.ndarray:
    names = LABELS[task]
    if len(names) == 2:
        return (probabilities[:, 1] >= rule.cut).astype(int)
    return np.argmax(np.log(probabilities) + [rule.offsets[name] for name in names], axis=1)


def _check(config: str) -> None:
    if config not in CONVERSATIONS:
        raise InputError(f"config {config!r} holds no conversations; there are {', '.join(CONVERSATIONS)}")
