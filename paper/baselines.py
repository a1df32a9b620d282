"""The TF-IDF baselines of the tables, as saved results: ``python -m paper.baselines --out models/results``.

They are those of ``cdconv evaluate --baselines``, see :mod:`contradiction.evaluation.judging`.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

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
    place_of,
)
from contradiction.errors import InputError
from contradiction.evaluation.judging import FEATURES
from contradiction.evaluation.results import BASELINE, evaluation
from contradiction.evaluation.tables import score_table
from contradiction.inputs.views import CONVERSATION, VIEWS
from contradiction.labels import CONFIGS, has_two_texts
from contradiction.methods.ngrams import LinearModel
from paper.saved_results import add

CONVERSATIONS = tuple(config for config in CONFIGS if not has_two_texts(config))


def tfidf(data: Data, config: str, split: str = "test") -> Iterator[dict[str, Any]]:
    """Fits and scores class-balanced logistic regression on TF-IDF of the character n-grams of each utterance.

    Deterministic; see :mod:`contradiction.methods.ngrams`.

    Raises:
        InputError: there is no such config of conversations, or no training row has a label.

    Yields:
        One evaluation for each of ``FEATURES``, as :func:`contradiction.evaluation.results.evaluation` returns it.
    """
    if config not in CONVERSATIONS:
        raise InputError(
            f"config {config!r} has no conversations; the configs with them are {', '.join(CONVERSATIONS)}"
        )
    test = load_labelled_split(data, config, split)
    check_columns(test, CONVERSATION, "TF-IDF")
    train = labelled(load_split(data, config, "train"))
    if not train:
        raise InputError(
            f"{place_of(data)}: no row of the training split of {config!r} has a label; name another data repo"
        )
    rows = train.to_list()
    for view, name in FEATURES.items():
        model = LinearModel(VIEWS[view], class_weight="balanced").fit(rows, [row["label"] for row in rows])
        yield evaluation(
            name=name,
            kind=BASELINE,
            config=config,
            split=split,
            data=fingerprint(test),
            data_name=name_if_known(data),
            ids=test["id"][:],
            references=test["label"][:],
            predictions=model.predict(test.to_list()).tolist(),
            view=view,
        )


def run(
    data: DataOption = DATA,
    config: Annotated[
        list[str] | None,
        typer.Option(help="Configs to run. By default 2-class and 4-class, of the official and the grouped split."),
    ] = None,
    split: Annotated[str, typer.Option(help="The split to score.")] = "test",
    out: Annotated[Path | None, typer.Option(help="Also add the scores to the saved results in this folder.")] = None,
) -> None:
    """Scores TF-IDF of the reply, of the context, and of both."""
    for name in config or ["2-class", "4-class", "2-class-grouped", "4-class-grouped"]:
        evaluations = [*tfidf(data, name, split)]
        if out:
            add(evaluations, out)
        show(score_table(evaluations, f"{name}, {split} split, n = {evaluations[0]['metrics']['n']:,}"))


if __name__ == "__main__":
    main(script(run))
