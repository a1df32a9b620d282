"""Evaluates the evidence of a detector on the checklists: which earlier turn a reply contradicts, at any distance."""

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contradiction.conversation import read_turns
from contradiction.data.splits import fingerprint, load_split, name_if_known
from contradiction.detector import ContradictionDetector
from contradiction.errors import InputError
from contradiction.evaluation import evidence
from contradiction.evaluation.evaluate import BATCH_SIZE
from contradiction.evaluation.figures import RESAMPLES
from contradiction.inputs.windows import STRUCTURED, UNSTRUCTURED, WINDOWINGS, windows
from contradiction.io.hub import model_name
from contradiction.io.tables import Table, with_interval
from contradiction.labels import (
    A2T,
    CHECKLISTS,
    CONTRADICTIONS,
    HISTORY,
    LABELS,
    NON_CONTRADICTION,
    RCT,
    is_contradiction,
)
from contradiction.training import leakage, record
from contradiction.verdict import Verdict

if TYPE_CHECKING:
    from datasets import Dataset

CONFIGS = tuple(config for config in CHECKLISTS if A2T in config)
NAMES = LABELS["4-class"]
SEED = 13  # the seed of the sample that a limit draws


def evaluate(
    detector: ContradictionDetector,
    *,
    data: str | Path,
    config: str = CONFIGS[0],
    windowings: Sequence[str] = WINDOWINGS,
    limit: int | None = None,
    on_start: Callable[[int], Any] | None = None,
    on_batch: Callable[[int], Any] | None = None,
) -> dict[str, Any]:
    """Judges the chats of a checklist with added turns, and of its twin without the contradicted turn.

    A 2-class detector or an NLI model predicts no categories. Its contradictions count as contradictions of the
    history, and there are no scores of four classes.

    Args:
        detector: the detector.
        data: a data repo with checklists.
        config: one of ``CONFIGS``.
        windowings: some of ``contradiction.inputs.windows.WINDOWINGS``, by default all; those that the detector does
            not support are left out.
        limit: the maximum number of rows with added turns: all versions of a sample of conversations; by default all.
        on_start: called with the number of windows.
        on_batch: called with the number of windows of each forward pass.

    Returns:
        The results: ``metrics`` (windowing -> ``contradiction.evaluation.evidence.score_evidence`` by inserted turns,
        with evidence as turns), ``by_message`` (the same with evidence as messages), ``predictions`` and
        ``predicted_evidence`` (windowing -> one for each row; indices of messages), ``unjudged`` (windowing -> rows
        with no verdict, which count as no contradiction), ``left_out`` (windowing -> why), ``false_alarms`` (of the
        twin, by windowing), the record of the run, and the rows' ids, inserted turns, references and evidence.

    Raises:
        InputError: there is no such checklist, the detector supports none of the windowings, its labels do not name
            contradictions, or the limit is below the versions of one conversation.
    """
    if config not in CONFIGS:
        raise InputError(f"config {config!r}; evidence is scored on {', '.join(CONFIGS)}")
    variants, left_out = _able(detector, windowings)
    added = load_split(data, config, "test")
    removed = load_split(data, config.replace(A2T, RCT), "test")
    fingerprints = fingerprint(added), fingerprint(removed)
    conversations = len(set(added["id"]))
    if limit is not None:
        added, removed = _sample(added, removed, limit)
    chats = [*added["messages"], *removed["messages"]]
    if on_start:
        on_start(sum(_windows(messages, windowing) for messages in chats for windowing in variants))
    verdicts = {
        windowing: variant.batch(chats, batch_size=BATCH_SIZE, on_batch=on_batch)
        for windowing, variant in variants.items()
    }
    on_added = {windowing: results[: len(added)] for windowing, results in verdicts.items()}
    on_removed = {windowing: results[len(added) :] for windowing, results in verdicts.items()}
    scored = {windowing: _score(added, results) for windowing, results in on_added.items()}
    run = record.of_model(detector.name)
    return {
        "name": model_name(detector.name),
        "kind": "evidence",
        "config": config,
        "split": "test",
        "data": fingerprints[0],
        "limit": limit,
        "conversations": [len(set(added["id"])), conversations],
        "task": detector.task,
        "columns": detector.columns,
        "left_out": left_out,
        "run": run,
        "leakage": leakage.describe_leakage(run, config, "test", name_if_known(data)),
        "metrics": {windowing: by_turn for windowing, (by_turn, _) in scored.items()},
        "by_message": {windowing: by_message for windowing, (_, by_message) in scored.items()},
        "false_alarms": _false_alarms(removed, on_removed, config.replace(A2T, RCT), fingerprints[1]),
        **_predictions(on_added),
        "predicted_evidence": {
            windowing: [list(verdict.evidence) for verdict in results] for windowing, results in on_added.items()
        },
        "ids": list(added["id"]),
        "inserted": list(added["inserted"]),
        "references": list(added["label"]),
        "evidence": list(added["evidence"]),
    }


def tables(result: Mapping[str, Any]) -> list[Table]:
    """The scores of an evaluation: a table for each windowing, and one of false alarms."""
    drawn, total = result["conversations"]
    sample = f"{drawn:,} conversations" + (f" of {total:,}, drawn with seed {SEED}" if drawn < total else "")
    categories = result["task"] == "4-class"
    score_tables = []
    for windowing, figures in result["metrics"].items():
        names_evidence = windowing == STRUCTURED or (categories and windowing != UNSTRUCTURED)
        title = (
            f"{result['name']}: {windowing} windows, {result['config']}, n = {figures['n']:,} ({sample}; "
            f"{figures['history']:,} rows contradict the history)"
        )
        score_tables.append(evidence.table(figures, title, named=names_evidence, categories=categories))
    return [*score_tables, _false_alarm_table(result)]


def notes(result: Mapping[str, Any]) -> list[str]:
    """Notes on the scores, one line each."""
    unjudged = {
        **result["unjudged"],
        **{f"{windowing}, turn gone": n for windowing, n in result["false_alarms"]["unjudged"].items()},
    }
    return [
        *(f"{windowing} windows left out: {why}" for windowing, why in result["left_out"].items()),
        *(
            f"{windowing}: {n:,} rows without a verdict count as no contradiction"
            for windowing, n in unjudged.items()
            if n
        ),
        "evidence is counted by turn, because a reply may contradict the user's message of the turn that a detector "
        "names; only the most probable of the earlier replies counts",
    ]


def _able(
    detector: ContradictionDetector, windowings: Sequence[str]
) -> tuple[dict[str, ContradictionDetector], dict[str, str]]:
    """The detector with each supported windowing, and why others are left out."""
    if detector.task not in LABELS or detector.task not in CONTRADICTIONS:
        raise InputError(f"{detector.name} predicts {', '.join(detector.labels)}; evidence needs all contradictions")
    if "b1" not in detector.columns:
        raise InputError(f"{detector.name} reads {', '.join(detector.columns)}; evidence needs b1, the earlier reply")
    variants, left_out = {}, {}
    for windowing in windowings:
        try:
            variants[windowing] = detector.with_settings(windowing=windowing)
        except InputError as error:
            left_out[windowing] = str(error)
    if not variants:
        raise InputError("; ".join(left_out.values()))
    return variants, left_out


def _sample(added: "Dataset", removed: "Dataset", limit: int) -> "tuple[Dataset, Dataset]":
    """All rows of a sample of conversations, at most ``limit`` with added turns; and the same ones in the twin."""
    versions = Counter(added["id"])
    chosen: set[int] = set()
    left = limit
    for conversation in random.Random(SEED).sample(list(versions), len(versions)):
        left -= versions[conversation]
        if left < 0:
            break
        chosen.add(conversation)
    if not chosen:
        raise InputError(f"limit {limit}; one conversation has {max(versions.values())} rows, so that is the least")
    parts = [part.select([i for i, id in enumerate(part["id"]) if id in chosen]) for part in (added, removed)]
    return parts[0], parts[1]


def _windows(messages: Sequence[Mapping[str, str]], windowing: str) -> int:
    turns = read_turns(messages)
    return len(windows(turns, len(turns) - 1, windowing))


def _score(rows: "Dataset", verdicts: Sequence[Verdict]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The figures with evidence as turns, and as messages."""
    gold, predicted = list(rows["evidence"]), [verdict.evidence for verdict in verdicts]
    references, predictions = [NAMES[label] for label in rows["label"]], [_category(verdict) for verdict in verdicts]

    def score(gold: Sequence[Any], predicted: Sequence[Any]) -> dict[str, Any]:
        return evidence.score_evidence(
            references, predictions, gold, predicted, ids=list(rows["id"]), groups=list(rows["inserted"]),
            bootstrap=RESAMPLES,
        )  # fmt: skip

    return score(evidence.turns_of(gold), evidence.turns_of(predicted)), score(gold, predicted)


def _category(verdict: Verdict) -> str:
    """The 4-class label; without categories, a contradiction counts as one of the history."""
    if verdict.label in NAMES:
        return str(verdict.label)
    return HISTORY if verdict.label and is_contradiction(verdict.label) else NON_CONTRADICTION


def _predictions(verdicts: Mapping[str, Sequence[Verdict]]) -> dict[str, Any]:
    return {
        "predictions": {
            name: [NAMES.index(_category(verdict)) for verdict in results] for name, results in verdicts.items()
        },
        "unjudged": {name: sum(verdict.label is None for verdict in results) for name, results in verdicts.items()},
    }


def _false_alarms(rows: "Dataset", verdicts: Mapping[str, Sequence[Verdict]], config: str, data: str) -> dict[str, Any]:
    origins = [NAMES[label] for label in rows["origin"]]
    forms = rows.features["form"].int2str(rows["form"][:])
    return {
        "config": config,
        "data": data,
        "metrics": {
            windowing: evidence.false_alarms(origins, [_category(verdict) for verdict in results], forms)
            for windowing, results in verdicts.items()
        },
        **_predictions(verdicts),
        "ids": list(rows["id"]),
        "forms": forms,
        "origins": list(rows["origin"]),
    }


def _false_alarm_table(result: Mapping[str, Any]) -> Table:
    alarms = result["false_alarms"]
    body = [
        (f"{windowing}, {form}", f"{rates['n']:,}", *(_rate(rates, name) for name in rates["interval"]))
        for windowing, forms in alarms["metrics"].items()
        for form, rates in forms.items()
    ]
    title = f"{result['name']}: false alarms, {alarms['config']}: replies that contradicted a turn that is gone"
    return Table(title, ("windows, first turn", "rows", "called history", "called any contradiction"), body)


def _rate(alarms: Mapping[str, Any], name: str) -> str:
    return with_interval(alarms[name], alarms["interval"][name]) if alarms["n"] else "–"
