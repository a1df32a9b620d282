"""Scores a detector, or baselines, on rows of any kind."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from contradiction.chats.names import USUAL, Speakers
from contradiction.data.corpora import Row
from contradiction.detector import ContradictionDetector
from contradiction.errors import InputError
from contradiction.evaluation import figures, judging, sets
from contradiction.evaluation.results import DETECTOR
from contradiction.evaluation.sets import EvalSet, Source
from contradiction.io.hub import model_name
from contradiction.labels import CONFIGS, CONTRADICTIONS, LABELS, NON_CONTRADICTION
from contradiction.methods.base import Classifier
from contradiction.training import leakage, record
from contradiction.verdict import Verdict

Metrics = dict[str, Any]
CORPUS = "corpus"  # the kind of an evaluation of rows that are not of CDConv; the saved results do not take it


def evaluate(
    detector: ContradictionDetector | Classifier | None,
    data: Source,
    config: str | None = None,
    *,
    split: str | None = None,
    limit: int | None = None,
    copy: str | Path | None = None,
    baselines: bool = False,
    speakers: Speakers = USUAL,
    on_start: Callable[[int], Any] | None = None,
    on_batch: Callable[[int], Any] | None = None,
) -> dict[str, Any]:
    """Judges rows, and scores the verdicts with the metric.

    Labels of two tasks are compared as contradiction or not. Rows that the detector cannot judge are left out.

    Args:
        detector: the detector, with the settings that it decides by; None for the baselines alone.
        data: a data repo, a corpus, a file of labelled chats or rows; see :func:`contradiction.evaluation.sets.load`.
        config: a config of it; by default that of the rows or of the detector's training.
        split: a split; by default test, or what ``load`` says.
        limit: about how many rows are judged; rows of one source stay together. By default all.
        copy: the local copy of a corpus; by default in ``$CDCONV_CORPORA``.
        speakers: the names of speakers in a file of labelled chats.
        baselines: whether :func:`contradiction.evaluation.judging.baselines` are scored too.
        on_start: called with the number of rows.
        on_batch: called with the number of rows, or windows of chats, done after each forward pass.

    Returns:
        ``name``, ``kind``, ``config``, ``split``, ``data`` (a digest of the rows), ``data_name``, ``as_chats`` (whether
        rows were judged as chats of any length), ``task`` (the labels that are compared); ``metrics``: see
        :func:`score`; ``parts``: column -> value -> metrics without intervals; ``baselines``: name -> metrics;
        ``ids``, ``references``, ``predictions`` (class ids of the task), and where there are any ``probabilities`` (of
        each label) and ``evidence`` (the named messages), one for each judged row;
        ``argmax``: predictions and metrics of the most probable labels, where these differ and are known;
        ``columns``, ``rule``, ``threshold`` (the probability from which a reply is called a contradiction),
        ``unjudged`` and ``truncated`` (numbers of rows), ``run`` (the record of the training), ``leakage`` in words or
        None, and for a language model ``usage``, its requests and their cost.

    Raises:
        InputError: the data cannot be read, its labels cannot be compared with those of the detector, it lacks a column
            that the detector reads, none of its rows can be judged, an item of responses has not one right reply, or
            the detector has settings and the rows are no chats.
    """
    if isinstance(detector, Classifier):
        detector = ContradictionDetector(detector)
    own = detector and (trained_config(detector.name) or detector.task)
    evalset = sets.load(
        data, config, split, own_config=own or "4-class", task=detector.task if detector else None,
        columns=detector.columns if detector else (), limit=limit, copy=copy, speakers=speakers,
    )  # fmt: skip
    result: dict[str, Any] = {"name": "baselines", "kind": "baselines", "task": evalset.task}
    if detector:
        result = _of_detector(detector, evalset, on_start, on_batch)
    config = result["task"] if evalset.config == evalset.task and evalset.as_chats else evalset.config
    places = {"config": config, "split": evalset.split, "data": evalset.data, "as_chats": evalset.as_chats}
    if evalset.data_name is not None:
        places["data_name"] = evalset.data_name
    if baselines or not detector:
        task = result["task"]
        result["baselines"] = {}
        for name, verdicts in judging.baselines(evalset, task).items():
            # Some baselines name no kind of contradiction.
            names_kinds = task == "response" or all(verdict.label in LABELS[task] for verdict in verdicts)
            scored = task if names_kinds else "2-class"
            result["baselines"][name] = score(evalset.rows, verdicts, scored, bootstrap=figures.RESAMPLES)
        if not detector and not result["baselines"]:
            raise InputError(f"{evalset.config}: there are no baselines of these rows; name a detector")
    return {**places, **result}


def _of_detector(
    detector: ContradictionDetector,
    evalset: EvalSet,
    on_start: Callable[[int], Any] | None,
    on_batch: Callable[[int], Any] | None,
) -> dict[str, Any]:
    task = judging.task_for(evalset, detector.task, detector.name)
    if on_start:
        on_start(len(evalset.rows))
    verdicts, argmax = judging.judge(detector, evalset, task, on_batch)
    judged = [number for number, verdict in enumerate(verdicts) if judging.was_judged(verdict)]
    if task == "response":  # of an item, all replies are ranked, or none
        broken = {evalset.rows[number].source for number in {*range(len(verdicts))} - {*judged}}
        judged = [number for number in judged if evalset.rows[number].source not in broken]
    if not judged:
        reason = next(verdict.reason for verdict in verdicts if not judging.was_judged(verdict))
        raise InputError(f"{evalset.config}: none of the rows can be judged; of the first one, {reason}")
    rows, chosen, counted = [evalset.rows[n] for n in judged], [verdicts[n] for n in judged], {*judged}
    run = record.of_model(detector.name)
    names, label = LABELS[task], partial(judging.in_task, task)
    result: dict[str, Any] = {
        "name": model_name(detector.name),
        "kind": DETECTOR if evalset.config in CONFIGS else CORPUS,
        "task": task,
        "metrics": score(rows, chosen, task, bootstrap=figures.RESAMPLES),
        "unjudged": len(verdicts) - len(judged),
        "parts": {
            column: {
                value: score([evalset.rows[n] for n in kept], [verdicts[n] for n in kept], task)
                for value, numbers in values.items()
                if (kept := [number for number in numbers if number in counted])
            }
            for column, values in evalset.groups().items()
        },
        "columns": detector.columns,
        "rule": detector.classifier.rule.without_curve(),
        "threshold": detector.settings.threshold_for(detector.classifier.rule, detector.name),
        "truncated": sum(not verdict.checked for verdict in chosen),
        "run": run,
        "leakage": evalset.leak(run),
        "ids": [row.id for row in rows],
        "references": [names.index(label(row.label)) for row in rows],
    }
    if task != "response" or detector.task == task:
        result["predictions"] = [names.index(label(verdict.label or NON_CONTRADICTION)) for verdict in chosen]
        result["probabilities"] = [_probabilities(task, verdict) for verdict in chosen]
        if argmax and (most := [names.index(label(name)) for name in argmax]) != result["predictions"]:
            result["argmax"] = {"metrics": figures.measure(task, result["references"], most), "predictions": most}
    if any(verdict.evidence for verdict in chosen):
        result["evidence"] = [list(verdict.evidence) for verdict in chosen]
    if used := detector.classifier.usage():
        result["usage"] = used
    return result


def score(rows: Sequence[Row], verdicts: Sequence[Verdict], task: str, bootstrap: int = 0) -> Metrics:
    """The figures of verdicts: those of ``score_replies`` of the metric, or of ``selection`` for ranked replies.

    Evidence is counted by turn: a reply may contradict the user's message of the turn that a detector names.
    """
    from evaluate_metric.evaluate_metric import score_replies, score_rows

    if task == "response":
        items: dict[str, list[int]] = {}
        for number, row in enumerate(rows):
            items.setdefault(str(row.source), []).append(number)
        labels = {name: [rows[number].label for number in numbers] for name, numbers in items.items()}
        for name, own in labels.items():
            if len(own) < 2 or own.count("right") != 1:
                raise InputError(f"source {name}: of {len(own)} replies, {own.count('right')} are right; one must be")
        wanted = [[_rank(verdicts[number]) for number in numbers] for numbers in items.values()]
        right = [own.index("right") for own in labels.values()]
        return score_rows(right, wanted, "selection", bootstrap=bootstrap)
    probabilities = [verdict.probability for verdict in verdicts]
    names_evidence = any(verdict.evidence for verdict in verdicts)
    return score_replies(
        [judging.in_task(task, row.label) for row in rows],
        [judging.in_task(task, verdict.label or NON_CONTRADICTION) for verdict in verdicts],
        task,
        probabilities=None if task not in CONTRADICTIONS else [min(value or 0.0, 1.0) for value in probabilities],
        contexts=[row.context for row in rows],
        items=[row.source or f"row {row.id}" for row in rows] if any(row.source for row in rows) else None,
        evidence=[row.turns_of(row.evidence) for row in rows] if names_evidence else None,
        named_evidence=[row.turns_of(v.evidence) or () for row, v in zip(rows, verdicts, strict=True)],
        bootstrap=bootstrap,
    )


def _rank(verdict: Verdict) -> float:
    """The score by which a reply is chosen: that it is right, or that it contradicts nothing."""
    if "right" in verdict.scores:
        return float(verdict.scores["right"])
    return -verdict.probability if verdict.probability is not None else -1.0


def _probabilities(task: str, verdict: Verdict) -> list[float]:
    """The probability of each label, with more digits than a threshold has, so that rounding changes no decision."""
    scores = verdict.scores or {NON_CONTRADICTION: 1.0}
    if task == "2-class":
        probability = round(verdict.probability or 0.0, 8)
        return [1 - probability, probability]
    return [round(scores.get(label, 0.0), 8) for label in LABELS[task]]


def trained_config(model: str | Path) -> str | None:
    """The config that a model was trained on, or a cascade measured on, from its record; None where it has none."""
    run = record.of_model(model)
    trained = next((training.config for training in leakage.trainings(run) if training.model is None), None)
    return trained or record.options_of(run, record.CASCADE).get("config")
