"""Scores a detector on a split of the data."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from contradiction.data.splits import fingerprint, load_split, name_of
from contradiction.detector import ContradictionDetector
from contradiction.errors import InputError
from contradiction.evaluation.results import DETECTOR, evaluation
from contradiction.labels import CHECKLISTS, CONTRADICTIONS, LABELS, merge, task_of
from contradiction.training import leakage, record


def evaluate(
    detector: ContradictionDetector,
    *,
    data: str | Path,
    config: str,
    split: str = "test",
    batch_size: int = 64,
    on_start: Callable[[int], Any] | None = None,
    on_batch: Callable[[int], Any] | None = None,
) -> dict[str, Any]:
    """Predicts a split and scores it with the metric.

    A 4-class detector, or an NLI model, can be evaluated on a 2-class config: the probabilities of all its
    contradictions are summed; a hierarchical one calls a contradiction where any stage fires. Labels are those of the
    detector's decision rule, with those of the most probable label beside them.

    Args:
        detector: what to evaluate.
        data: the data repo.
        config: for instance ``4-class``.
        split: of that config.
        batch_size: conversations a forward pass.
        on_start: called with the number of conversations.
        on_batch: called with the number of conversations done, after each forward pass.

    Returns:
        An evaluation, see :func:`contradiction.evaluation.results.evaluation`: metrics with intervals, predictions,
        probabilities, the rule, the record of the run, and ``seen``: how the detector has seen the rows in training,
        or None.

    Raises:
        InputError: the detector predicts other labels than the config has, or this is a checklist.
    """
    if config in CHECKLISTS:
        raise InputError(f"config {config!r} holds chats of several turns; `cdconv evaluate --evidence` scores them")
    rows = load_split(data, config, split)
    task = task_of(config)
    if detector.task != task and (task != "2-class" or detector.task not in CONTRADICTIONS):
        raise InputError(f"{detector.name} predicts {', '.join(detector.labels)}; config {config!r} has other labels")
    if missing := [column for column in detector.columns if column not in rows.column_names]:
        raise InputError(
            f"{detector.name} reads {', '.join(detector.columns)}, but config {config!r} has no {', '.join(missing)}; "
            "another view can be named"
        )
    run = record.of_model(detector.name)
    if on_start:
        on_start(len(rows))
    classifications = detector.classify(list(rows), batch_size=batch_size, on_batch=on_batch)
    merged = detector.task != task
    decided = [str(each.binary_label) if merged else each.label for each in classifications]
    argmax = [str(each.binary_label_without_rule) if merged else each.label_without_rule for each in classifications]
    scores = [merge(detector.task, each.scores) if merged else each.scores for each in classifications]
    return evaluation(
        name=model_name(detector.name),
        config=config,
        split=split,
        data=fingerprint(rows),
        ids=list(rows["id"]),
        references=list(rows["label"]),
        predictions=[LABELS[task].index(label) for label in decided],
        argmax=[LABELS[task].index(label) for label in argmax],
        kind=DETECTOR,
        columns=detector.columns,
        cut=sum(each.truncation is not None for each in classifications),
        run=run,
        seen=why_seen(run, config, split, data),
        rule=detector.classifier.rule.without_curve(),
        # With more digits than a threshold has, so that a row reaches the same thresholds here as in use.
        probabilities=[[round(each[label], 8) for label in LABELS[task]] for each in scores],
    )


def why_seen(run: Mapping[str, Any], config: str, split: str, data: str | Path) -> str | None:
    """Why a recorded model has seen the rows of a split, see ``contradiction.training.leakage``; None if it has not."""
    # Of a repo on the Hub the name is not asked for: it may be in the cache without its card.
    return leakage.why_seen(run, config, split, name_of(data) if Path(data).is_dir() else None)


def trained_config(model: str | Path) -> str | None:
    """The config that a model was trained on, from its record; None where there is no record.

    Args:
        model: a folder, or the Hub id of one that has been loaded.
    """
    trainings = leakage.trainings(record.of_model(model))
    return next((training.config for training in trainings if training.model is None), None)


def model_name(model: str) -> str:
    """How results name a model: a folder by its name, and a model on the Hub by its id."""
    return Path(model).resolve().name if Path(model).is_dir() else model
