"""Scores the verdicts of a detector on whole chats that its owner has labelled."""

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from contradiction.data import labelled
from contradiction.data.labelled import WHOLE, LabelledChat
from contradiction.detector import ContradictionDetector
from contradiction.errors import InputError
from contradiction.evaluation.baselines import FEATURES
from contradiction.evaluation.chat_calibration import FOLDS, folds
from contradiction.evaluation.figures import measure, wilson
from contradiction.evaluation.results import DETECTOR, evaluation
from contradiction.inference.base import OnBatch
from contradiction.inputs.views import CONVERSATION, VIEWS
from contradiction.io.hub import model_name
from contradiction.io.tables import Table, with_interval
from contradiction.labels import CONTRADICTION, HISTORY, LABELS, NON_CONTRADICTION, is_contradiction, merge_label
from contradiction.methods.ngrams import LinearModel
from contradiction.training import leakage, record
from contradiction.verdict import NO_ANSWER, Verdict

REPLY_ONLY = "reply-only"
FIGURES = {"accuracy": "accuracy", "macro_f1": "macro-F1", "precision": "precision", "recall": "recall"}


def evaluate(
    detector: ContradictionDetector, path: str | Path, *, split: str = WHOLE, on_batch: OnBatch | None = None
) -> dict[str, Any]:
    """Judges the last reply of each labelled chat, as ``detector.batch`` does, and scores the verdicts.

    Chats that cannot be judged are left out, as in :func:`contradiction.evaluation.chat_calibration.calibrate`. A chat
    about which a language model gave no usable answer counts as judged *non-contradiction*.

    Args:
        detector: with the settings and the rule that it decides by.
        path: a file of labelled chats, see :func:`contradiction.data.labelled.read`.
        split: only the chats of this split, see :func:`contradiction.data.labelled.of_split`; by default all.
        on_batch: called with the number of windows done, after each forward pass.

    Returns:
        An evaluation, see :func:`contradiction.evaluation.results.evaluation`. Its labels are those of ``4-class`` if
        both the file and the detector have them, otherwise those of ``2-class``. Its ids are the places of the chats in
        the file, from 1, and its further entries are
        ``chats``: the ids of the chats in the file;
        ``unjudged``: how many chats could not be judged;
        ``threshold``: the probability from which a reply was called a contradiction;
        ``base_rate``: the fraction of contradictions;
        ``contradictions``: for the detector and each baseline ``accuracy``, ``macro_f1``, ``precision`` and ``recall``
        of contradiction or not, with their 95 % intervals: by the bootstrap for the first two, Wilson's for the others;
        ``evidence``: of the *history* verdicts on chats with labelled evidence (``verdicts``) how many name it
        (``named``), and how many would by naming a random earlier reply (``by_chance``); None if the detector or the
        file names none.

    Raises:
        InputError: the file is not valid, has no such split, or none of its chats can be judged.
    """
    every = labelled.read(path)
    chosen = labelled.of_split(every, path, split)
    verdicts = detector.judge_last_replies([chat.turns for chat in chosen], on_batch=on_batch)
    judged = [
        (chat, verdict)
        for chat, verdict in zip(chosen, verdicts, strict=True)
        if verdict.label is not None or verdict.reason == NO_ANSWER  # otherwise a judge could leave out hard chats
    ]
    if not judged:
        raise InputError(f"{path}: none of its chats can be judged; of the first one, {verdicts[0].reason}")
    chats = [chat for chat, _ in judged]
    task = "4-class" if labelled.task_of(every) == detector.task == "4-class" else "2-class"
    run, data_name = record.of_model(detector.name), labelled.name_of_file(path)
    usage: dict[str, Any] = {"usage": used} if (used := detector.classifier.usage()) else {}
    name = model_name(detector.name)
    truth = np.array([is_contradiction(chat.label) for chat in chats])
    called = {name: np.array([bool(verdict.contradiction) for _, verdict in judged]), **dict(_baselines(chats, truth))}
    places = {id(chat): place for place, chat in enumerate(every, start=1)}
    return evaluation(
        name=name,
        config=task,
        split=split,
        data=hashlib.sha256(repr([(chat.messages, chat.label) for chat in chats]).encode()).hexdigest()[:16],
        data_name=data_name,
        ids=[places[id(chat)] for chat in chats],
        references=[_class_id(task, chat.label) for chat in chats],
        predictions=[_class_id(task, verdict.label or NON_CONTRADICTION) for _, verdict in judged],
        kind=DETECTOR,
        columns=detector.columns,
        run=run,
        leakage=leakage.describe_chats(run, data_name, split),
        **usage,
        rule=detector.classifier.rule.without_curve(),
        probabilities=[_probabilities(task, verdict) for _, verdict in judged],
        chats=[chat.id for chat in chats],
        unjudged=len(chosen) - len(chats),
        threshold=detector.settings.threshold_for(detector.classifier.rule, detector.name),
        base_rate=float(truth.mean()),
        contradictions={name: _figures(truth, of_name) for name, of_name in called.items()},
        evidence=_evidence(judged) if HISTORY in detector.labels else None,
    )


def _class_id(task: str, label: str) -> int:
    return LABELS[task].index(label if task == "4-class" else merge_label(label))


def _probabilities(task: str, verdict: Verdict) -> list[float]:
    """The probability of each label of a task, with more digits than a threshold has."""
    if task == "4-class":
        scores = verdict.scores or {NON_CONTRADICTION: 1.0}
        return [round(scores.get(label, 0.0), 8) for label in LABELS[task]]
    probability = round(verdict.probability or 0.0, 8)
    return [1 - probability, probability]


def _baselines(chats: Sequence[LabelledChat], truth: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Which chats a baseline calls a contradiction, by its name: always the majority, and n-grams of the reply alone.

    The n-grams are fitted to four fifths of the chats and predict the other fifth, if there are enough chats.
    """
    majority = truth.mean() >= 0.5
    yield f"always {CONTRADICTION if majority else NON_CONTRADICTION}", np.full(len(truth), majority)
    if min(truth.sum(), (~truth).sum()) < FOLDS:
        return
    rows = [{CONVERSATION[-1]: chat.turns[-1].reply} for chat in chats]
    called = np.zeros(len(truth), dtype=bool)
    for rest, held_out in folds(truth, [chat.context for chat in chats]):
        model = LinearModel(VIEWS[REPLY_ONLY], class_weight="balanced")
        model.fit([rows[place] for place in rest], truth[rest].astype(int).tolist())
        called[held_out] = model.predict([rows[place] for place in held_out]) == 1
    yield f"{FEATURES[REPLY_ONLY]}, {FOLDS}-fold cross-validation", called


def _figures(truth: np.ndarray, called: np.ndarray) -> dict[str, Any]:
    """The scores of contradiction or not, for arrays of shape (chats,); 0 / 0 is None."""
    metrics = measure("2-class", truth.astype(int).tolist(), called.astype(int).tolist())
    hits = int((truth & called).sum())
    parts = {"precision": int(called.sum()), "recall": int(truth.sum())}
    exact = ("accuracy", "macro_f1")
    return {
        **{key: metrics[key] for key in exact},
        **{key: hits / whole if whole else None for key, whole in parts.items()},
        "interval": {
            **{key: metrics["interval"][key] for key in exact},
            **{key: list(wilson(hits, whole)) for key, whole in parts.items()},
        },
    }


def _evidence(judged: Sequence[tuple[LabelledChat, Verdict]]) -> dict[str, Any] | None:
    """How often *history* verdicts name the labelled message; None without a labelled one."""
    labels = (HISTORY, CONTRADICTION)
    marked = [(chat, verdict) for chat, verdict in judged if chat.label in labels and chat.evidence is not None]
    if not marked:
        return None
    of_history = [(chat, verdict) for chat, verdict in marked if verdict.label == HISTORY]
    earlier = [sum(bool(turn.reply_messages) for turn in chat.turns[:-1]) for chat, _ in of_history]
    return {
        "labelled": len(marked),
        "verdicts": len(of_history),
        "named": sum(chat.evidence in verdict.evidence for chat, verdict in of_history),
        "by_chance": float(sum(1 / replies for replies in earlier)),
    }


def tables(result: dict[str, Any], file: str | Path) -> list[Table]:
    """The result of :func:`evaluate` as tables: the chats, and the scores beside those of the baselines."""
    n, evidence = len(result["ids"]), result["evidence"]
    contradictions = round(n * result["base_rate"])
    place = "" if result["split"] == WHOLE else f", {result['split']} split"
    body = [
        ("chats", f"{n:,}"),
        ("of them contradictions", f"{contradictions:,}"),
        ("base rate, %", with_interval(result["base_rate"], wilson(contradictions, n))),
        ("not judged, left out", f"{result['unjudged']:,}"),
        ("threshold", f"{result['threshold']:.2f}"),
    ]
    if evidence:
        body += [
            (f"{HISTORY} verdicts on contradictions with labelled evidence",
             f"{evidence['verdicts']:,} of {evidence['labelled']:,}"),
            ("of them name the labelled message",
             f"{evidence['named']:,}; a random earlier reply: {evidence['by_chance']:.1f}"),
        ]  # fmt: skip
    scores = [(name, *(_cell(figures, key) for key in FIGURES)) for name, figures in result["contradictions"].items()]
    return [
        Table(f"{result['name']}: whole chats of {file}{place}", ("", "value"), body),
        Table(
            f"Contradiction or not, n = {n:,}, with 95 % intervals; precision and recall are those of contradictions",
            ("", *FIGURES.values()),
            scores,
        ),
    ]


def _cell(figures: dict[str, Any], key: str) -> str:
    if figures[key] is None:
        return {"precision": "none called", "recall": "none labelled"}[key]
    return with_interval(figures[key], figures["interval"][key])
