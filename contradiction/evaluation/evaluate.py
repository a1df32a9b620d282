"""Scores a detector on a split of the data."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contradiction.data.splits import (
    SPLITS,
    Data,
    check_columns,
    config_of,
    fingerprint,
    load_labelled_split,
    name_if_known,
)
from contradiction.detector import ContradictionDetector
from contradiction.errors import InputError
from contradiction.evaluation.results import DETECTOR, evaluation
from contradiction.io.hub import model_name
from contradiction.labels import CHECKLISTS, CONFIGS, CONTRADICTIONS, LABELS, merge, merge_label, task_of
from contradiction.training import leakage, record

if TYPE_CHECKING:
    from datasets import Dataset

BATCH_SIZE = 64


def evaluate(
    detector: ContradictionDetector,
    data: "Data | Dataset",
    config: str | None = None,
    *,
    split: str = "test",
    on_start: Callable[[int], Any] | None = None,
    on_batch: Callable[[int], Any] | None = None,
) -> dict[str, Any]:
    """Predicts rows and scores them with the metric.

    Args:
        detector: the detector.
        data: the folder or the Hub id of a data repo, or rows in memory: a ``Dataset``, or several by split. The
            columns are those of CDConv; rows in memory need no ``id``.
        config: the config; by default that of the class labels of a ``Dataset``, or else the one that the detector was
            trained on.
        split: the split. Rows that were selected from a config of CDConv know their own.
        on_start: called with the number of rows.
        on_batch: called with the number of rows done, after each forward pass.

    A 4-class detector or an NLI model can be evaluated on a 2-class config: the probabilities of all contradictions are
    summed; a hierarchical detector calls a contradiction where any stage fires. The predictions are those of the
    decision rule; ``argmax`` has the most probable labels.

    Returns:
        An evaluation, see :func:`contradiction.evaluation.results.evaluation`: metrics with intervals, predictions,
        probabilities, the rule, the record of the run, ``leakage`` in words or None, and for a language model
        ``usage``, its requests and their cost.

    Raises:
        InputError: the detector predicts other labels than the config has or reads columns that it lacks, rows have no
            label, or this is a checklist.
    """
    from datasets import Dataset

    if isinstance(data, Dataset):
        own = str(data.split or "").partition("[")[0]  # of test[:5]
        if own in SPLITS and data.info.config_name in CONFIGS:
            split = own
        config, data = config or config_of(data), {split: data}
    config = config or trained_config(detector.name) or detector.task
    if config in CHECKLISTS:
        raise InputError(f"config {config!r} holds chats of several turns; `cdconv evaluate --evidence` scores them")
    rows = load_labelled_split(data, config, split)
    task = task_of(config)
    if detector.task != task and (task != "2-class" or detector.task not in CONTRADICTIONS):
        raise InputError(f"{detector.name} predicts {', '.join(detector.labels)}; config {config!r} has other labels")
    check_columns(rows, detector.columns, detector.name)
    run, data_name = record.of_model(detector.name), name_if_known(data)
    if on_start:
        on_start(len(rows))
    classifications = detector.classify(rows.to_list(), batch_size=BATCH_SIZE, on_batch=on_batch)
    used = detector.classifier.usage()
    merged = detector.task != task
    decided = [merge_label(result.label) if merged else result.label for result in classifications]
    argmax = [merge_label(result.argmax) if merged else result.argmax for result in classifications]
    scores = [merge(detector.task, result.scores) if merged else result.scores for result in classifications]
    return evaluation(
        name=model_name(detector.name),
        config=config,
        split=split,
        data=fingerprint(rows),
        data_name=data_name,
        ids=rows["id"][:],
        references=rows["label"][:],
        predictions=[LABELS[task].index(label) for label in decided],
        argmax=[LABELS[task].index(label) for label in argmax],
        kind=DETECTOR,
        columns=detector.columns,
        truncated=sum(result.truncation is not None for result in classifications),
        run=run,
        leakage=leakage.describe_leakage(run, config, split, data_name) or leakage.describe_calibration(run, data_name),
        **({"usage": used} if used else {}),
        rule=detector.classifier.rule.without_curve(),
        # More digits than a threshold has, so that rounding does not change which rows reach it.
        probabilities=[[round(row[label], 8) for label in LABELS[task]] for row in scores],
    )


def trained_config(model: str | Path) -> str | None:
    """The config that a model was trained on, from its record; None where there is no record."""
    trainings = leakage.trainings(record.of_model(model))
    return next((training.config for training in trainings if training.model is None), None)
