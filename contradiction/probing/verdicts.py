"""Judges the conversations of a run, and finds out how often the detector is right."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from contradiction.decision import Rule
from contradiction.detector import ContradictionDetector
from contradiction.errors import InputError
from contradiction.evaluation import results
from contradiction.evaluation.thresholds import rule_of
from contradiction.labels import has_two_texts, task_of
from contradiction.probing.plan import Message
from contradiction.probing.run import Row, two_turns
from contradiction.probing.shares import ANY, accuracy_of_evaluation
from contradiction.probing.triggers import PERSONA, REPEAT
from contradiction.verdict import DIGITS, Verdict

CHUNK = 64  # conversations between two steps of the progress


def judge(
    rows: Sequence[Row], detector: ContradictionDetector, on_done: Callable[[int], Any] | None = None
) -> list[Row]:
    """The same conversations with the verdict on their last reply.

    A reply of a persona probe is judged against the fact that it was asked about. The answer to a repeated question is
    judged against the first answer, and not against the turns between: with each turn that is read, a detector has one
    more occasion for a false alarm, and how often it is right was measured on chats of two turns.

    Args:
        rows: conversations of a transcript.
        detector: judges them.
        on_done: called with the number of conversations judged since the last call.
    """
    detector.check_judges_replies()
    judged: list[Row] = []
    for begin in range(0, len(rows), CHUNK):
        chunk = rows[begin : begin + CHUNK]
        verdicts = iter(detector.batch([_judged_messages(row) for row in chunk if row["trigger"] != PERSONA]))
        for row in chunk:
            if row["trigger"] == PERSONA:
                verdict, texts = detector.check([row["b1"]], row["b2"], row["u2"]), [row["b1"]]
            else:
                verdict, texts = next(verdicts), [message["content"] for message in _judged_messages(row)]
            judged.append(row | _fields(verdict, texts))
        if on_done:
            on_done(len(chunk))
    return judged


def _judged_messages(row: Row) -> list[Message]:
    return two_turns(row) if row["trigger"].startswith(REPEAT) else row["messages"]


def _fields(verdict: Verdict, texts: Sequence[str]) -> Row:
    return {
        "label": verdict.label,
        "probability": verdict.probability and round(verdict.probability, DIGITS),
        "certainty": verdict.certainty,
        "evidence": [texts[index] for index in verdict.evidence],
        "checked": verdict.checked,
        "reason": verdict.reason,
    }


def find_accuracy(
    detector: ContradictionDetector, evaluation: str | Path | None = None, on_note: Callable[[str], Any] = str
) -> dict[str, Any] | None:
    """How often a detector is right, as the record of a run keeps it; None if it was not measured.

    An evaluation by another decision rule counts only if its probabilities are those of the detector: if temperature
    and biases are the same.

    Args:
        detector: with the settings and the rule that it decides by.
        evaluation: a file of ``cdconv evaluate --json``; by default a saved result on the test split.
        on_note: called with what to do if the saved results have other probabilities.

    Raises:
        InputError: the file is no evaluation with probabilities of contradictions, or has other probabilities.
    """
    again = f"`cdconv evaluate {detector.name} --json FILE`"
    rule = detector.classifier.rule
    if evaluation:
        result = results.read_evaluation(evaluation)
        if not _is_calibrated_alike(result, rule):
            raise InputError(
                f"{evaluation}: was made with another calibration of the detector; {again} makes a new one"
            )
        return _measured(result, detector)
    saved = [
        result
        for result in results.evaluations_of(detector.name)
        if task_of(result["config"]) == detector.task
        and not has_two_texts(result["config"])
        and result["split"] == "test"
        and "probabilities" in result
    ]
    fitting = [result for result in saved if _is_calibrated_alike(result, rule)]
    if saved and not fitting:
        on_note(
            f"{detector.name}: was calibrated after its saved evaluation, so there is no estimate without its errors; "
            f"{again} measures it again, and --evaluation FILE reads that"
        )
    return _measured(fitting[0], detector) if fitting else None


def _is_calibrated_alike(result: Mapping[str, Any], rule: Rule) -> bool:
    """Whether the probabilities of an evaluation are those of a rule."""
    saved = rule_of(result)
    return (saved["temperature"], saved["biases"]) == (rule.temperature, rule.biases)


def _measured(result: Mapping[str, Any], detector: ContradictionDetector) -> dict[str, Any]:
    threshold = detector.settings.threshold_for(detector.classifier.rule, detector.name)
    accuracy = accuracy_of_evaluation(result, threshold)
    if not (accuracy[ANY].contradictions and accuracy[ANY].others):
        raise InputError(f"{result['name']}: errors can be corrected only with contradictions and other replies in it")
    of_chats = f"{result.get('data_name')}, " if result.get("as_chats") else ""
    part = f"{of_chats}{result['split']} {'chats' if of_chats else 'split'}"
    source = f"{result['config']}, {part}, n = {len(result['references']):,}"
    return {"source": source, "counts": {kind: asdict(counts) for kind, counts in accuracy.items()}}
