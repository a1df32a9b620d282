"""Baselines of the tables: TF-IDF of a part of the conversation, and kernel ridge regression.

    python -m paper.baselines --data cdconv --embedder intfloat/multilingual-e5-small --out models/results

The first are those of ``cdconv evaluate --baselines``, see :mod:`contradiction.evaluation.baselines`.
"""

from collections.abc import Container, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from contradiction.cli import main, script
from contradiction.commands.common import DATA, DataOption, show
from contradiction.data.splits import (
    Data,
    check_columns,
    fingerprint,
    labelled,
    load_labelled_split,
    load_split,
    name_if_known,
    name_of,
    place_of,
)
from contradiction.errors import InputError
from contradiction.evaluation.baselines import FEATURES, KERNEL
from contradiction.evaluation.results import BASELINE
from contradiction.inference.embedding import Embedder
from contradiction.inputs.views import CONVERSATION, VIEWS
from contradiction.labels import CONFIGS, LABELS, has_two_texts, task_of
from contradiction.methods import calibration
from contradiction.methods.kernel import KernelRegression
from contradiction.methods.loading import name_with_digest
from contradiction.methods.ngrams import LinearModel
from contradiction.reports.tables import score_table
from contradiction.training import leakage
from paper.saved_results import add, evaluation

if TYPE_CHECKING:
    from datasets import Dataset

NGRAMS = "n-grams"  # the features of kernel ridge regression without an encoder
CONVERSATIONS = tuple(config for config in CONFIGS if not has_two_texts(config))
TRAIN, VALIDATION = "train", "validation"


def tfidf(
    data: Data,
    config: str,
    split: str = "test",
    *,
    views: Iterable[str] = tuple(FEATURES),
    train_ids: Container[int] | None = None,
    **more: Any,
) -> Iterator[dict[str, Any]]:
    """Fits and scores class-balanced logistic regression on TF-IDF of the character n-grams of each utterance.

    Deterministic; see :mod:`contradiction.methods.ngrams`. ``views`` are keys of ``FEATURES``, ``train_ids`` the ids of
    the training rows (by default all), and ``more`` further entries of the evaluations.

    Raises:
        InputError: there is no such config of conversations.

    Yields:
        One evaluation for each view, as :func:`paper.saved_results.evaluation` returns it.
    """
    check_config(config)
    test = load_labelled_split(data, config, split)
    check_columns(test, CONVERSATION, "TF-IDF")
    rows = [row for row in _training_rows(data, config).to_list() if train_ids is None or row["id"] in train_ids]
    for view in views:
        model = LinearModel(VIEWS[view], class_weight="balanced").fit(rows, [row["label"] for row in rows])
        yield evaluation(
            config=config,
            split=split,
            data=fingerprint(test),
            data_name=name_if_known(data),
            ids=test["id"][:],
            references=test["label"][:],
            predictions=model.predict(test.to_list()).tolist(),
            view=view,
            **{"name": FEATURES[view], "kind": BASELINE} | more,
        )


def kernel_ridge(data: Data, config: str, embedder: Embedder | None = None, split: str = "test") -> dict[str, Any]:
    """Fits and scores kernel ridge regression on all four utterances.

    Its decision rule is chosen on validation, like that of a trained detector. Without an embedder, it reads only
    n-grams. Deterministic; see :mod:`contradiction.methods.kernel`.

    Raises:
        InputError: there is no such config of conversations, or the encoder was trained on these rows.

    Returns:
        The evaluation, with probabilities.
    """
    check_config(config)
    if embedder:
        leakage.check_embedder(embedder.name, config, name_of(data))
    labels = LABELS[task_of(config)]
    rows = {name: load_labelled_split(data, config, name) for name in (VALIDATION, split)}
    rows[TRAIN] = _training_rows(data, config)
    if embedder:
        # Embeds all texts at once, behind one progress bar.
        embedder(row[column] for part in rows.values() for column in CONVERSATION for row in part)
    model = KernelRegression(CONVERSATION, embedder).fit(rows[TRAIN].to_list(), rows[TRAIN]["label"][:])
    logits = {name: model.logits(rows[name].to_list(), len(labels)) for name in (VALIDATION, split)}
    references = np.array(rows[VALIDATION]["label"])
    rule = calibration.fit(logits[VALIDATION], references, labels)
    probabilities = {name: rule.calibrate(values, labels) for name, values in logits.items()}
    if len(labels) == 2:
        rule = calibration.with_curve(rule, probabilities[VALIDATION][:, 1], references == 1)
    return evaluation(
        name=f"{KERNEL}, {embedder.short_name if embedder else NGRAMS}",
        kind=BASELINE,
        config=config,
        split=split,
        data=fingerprint(rows[split]),
        data_name=name_if_known(data),
        ids=list(rows[split]["id"]),
        references=list(rows[split]["label"]),
        predictions=rule.decide(probabilities[split], labels).tolist(),
        argmax=logits[split].argmax(axis=1).tolist(),
        view="flatten",
        embedder=name_with_digest(embedder.name) if embedder else None,
        rule=rule.without_curve(),
        probabilities=probabilities[split].round(8).tolist(),
    )


def _training_rows(data: Data, config: str) -> "Dataset":
    """The labelled training rows; raises InputError if there are none."""
    rows = labelled(load_split(data, config, TRAIN))
    if not rows:
        raise InputError(
            f"{place_of(data)}: no row of the training split of {config!r} has a label; name another data repo"
        )
    return rows


def check_config(config: str) -> None:
    """Raises InputError for a config without labelled conversations."""
    if config not in CONVERSATIONS:
        raise InputError(
            f"config {config!r} has no conversations; the configs with them are {', '.join(CONVERSATIONS)}"
        )


def run(
    data: DataOption = DATA,
    config: Annotated[
        list[str] | None,
        typer.Option(help="Configs to run. By default 2-class and 4-class, of the official and the grouped split."),
    ] = None,
    split: Annotated[str, typer.Option(help="The split to score.")] = "test",
    embedder: Annotated[
        str | None, typer.Option(help="Folder or Hub id of an encoder; adds kernel ridge regression on its embeddings.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Also add the scores to the saved results in this folder.")] = None,
) -> None:
    """Scores TF-IDF of the reply, of the context, and of both, and kernel ridge regression."""
    encoder = Embedder(embedder) if embedder else None
    for name in config or ["2-class", "4-class", "2-class-grouped", "4-class-grouped"]:
        evaluations = [*tfidf(data, name, split), kernel_ridge(data, name, split=split)]
        if encoder:
            evaluations.append(kernel_ridge(data, name, encoder, split))
        if out:
            add(evaluations, out)
        show(score_table(evaluations, f"{name}, {split} split, n = {evaluations[0]['metrics']['n']:,}"))


if __name__ == "__main__":
    main(script(run))
