"""The TF-IDF baselines of the tables, as saved results: ``python -m paper.baselines --out models/results``.

They are those of ``cdconv evaluate --baselines``, see :mod:`contradiction.evaluation.judging`.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from contradiction.cli import main, script
from contradiction.commands.common import DATA, DataOption, show
from contradiction.data.splits import Data, place_of
from contradiction.errors import InputError
from contradiction.evaluation import sets
from contradiction.evaluation.judging import FEATURES, baselines
from contradiction.evaluation.results import BASELINE, evaluation
from contradiction.evaluation.tables import score_table
from contradiction.inputs.views import CONVERSATION
from contradiction.labels import CONFIGS, LABELS, has_two_texts
from paper.saved_results import add

CONVERSATIONS = tuple(config for config in CONFIGS if not has_two_texts(config))


def tfidf(data: Data, config: str, split: str = "test") -> Iterator[dict[str, Any]]:
    """The evaluation of each of ``FEATURES``, as :func:`contradiction.evaluation.results.evaluation` returns it.

    Raises:
        InputError: there is no such config of conversations, or no training row has a label.
    """
    if config not in CONVERSATIONS:
        raise InputError(
            f"config {config!r} has no conversations; the configs with them are {', '.join(CONVERSATIONS)}"
        )
    evalset = sets.load(data, config, split, columns=CONVERSATION)
    if not evalset.train():
        raise InputError(
            f"{place_of(data)}: no row of the training split of {config!r} has a label, or it is the split to score; "
            "name another data repo or split"
        )
    verdicts, labels = baselines(evalset, evalset.task), LABELS[evalset.task]
    for view, name in FEATURES.items():
        yield evaluation(
            name=name,
            kind=BASELINE,
            config=config,
            split=split,
            data=evalset.data,
            data_name=evalset.data_name,
            ids=[row.id for row in evalset.rows],
            references=[labels.index(str(row.label)) for row in evalset.rows],
            predictions=[labels.index(str(verdict.label)) for verdict in verdicts[name]],
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
