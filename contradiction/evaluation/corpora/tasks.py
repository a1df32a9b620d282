"""Chooses the evaluation of a corpus by its labels."""

from collections.abc import Callable

from contradiction.data.corpora import dialfact
from contradiction.data.corpora.corpus import PAIRS
from contradiction.errors import InputError
from contradiction.evaluation.corpora import claims, nli, selection, structured
from contradiction.evaluation.corpora.report import Report, Request
from contradiction.labels import LABELS, is_contradiction


def task_for(request: Request) -> Callable[[Request], Report]:
    """The evaluation of a corpus; raises InputError where there is none."""
    config = request.chosen
    if config.shape == PAIRS and config.labels in (LABELS["nli"], LABELS["2-class"]):
        return nli.evaluate
    if config.labels == LABELS["response"]:
        return selection.evaluate
    if config.labels == tuple(dialfact.NAMES.values()):
        return claims.evaluate
    if config.shape != PAIRS and any(map(is_contradiction, config.labels)):
        return structured.evaluate
    raise InputError(f"{request.corpus.name}: there is no evaluation of the labels {', '.join(config.labels)}")
