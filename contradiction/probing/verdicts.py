"""Judges the conversations of a run, and writes them as a data set with the columns of CDConv."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contradiction.data.splits import write_repo
from contradiction.decision import Rule
from contradiction.detector import ContradictionDetector
from contradiction.errors import InputError
from contradiction.evaluation import results
from contradiction.evaluation.thresholds import rule_of
from contradiction.io.tables import Table
from contradiction.labels import LABELS, has_two_texts, task_of
from contradiction.probing.plan import Message
from contradiction.probing.run import Row, two_turns
from contradiction.probing.shares import ANY, Accuracy, accuracy_of_evaluation
from contradiction.probing.triggers import PERSONA, REPEAT
from contradiction.verdict import DIGITS, Verdict

if TYPE_CHECKING:
    from datasets import Dataset

DATA = "data"  # the data repo inside the folder of a run
CHUNK = 64  # conversations between two steps of the progress
COLUMNS = {
    "id": "unique", "u1": "the opening; empty in a persona probe",
    "b1": "the reply to it; in a persona probe the fact that is asked about", "u2": "what the user says last",
    "b2": "the reply that was judged", "label": "the verdict of the detector; null if it could not judge the reply",
    "trigger": "how u2 was made", "bot": "the bot", "probability": "of a contradiction, by the detector",
    "checked": "whether all text was read", "messages": "the whole chat as JSON",
}  # fmt: skip


def judge(
    rows: Sequence[Row],
    detector: ContradictionDetector,
    *,
    scan: bool = False,
    on_done: Callable[[int], Any] | None = None,
) -> list[Row]:
    """The same conversations with the verdict on their last reply.

    A reply of a persona probe is judged against the fact that it was asked about. The answer to a repeated question is
    judged against the first answer, and not against the turns between: with each turn that is read, a detector has one
    more occasion for a false alarm, and how often it is right was measured on chats of two turns.

    Args:
        rows: conversations of a transcript.
        detector: judges them.
        scan: judges every reply against all earlier turns too, and counts the contradictions among them.
        on_done: called with the number of conversations judged since the last call.
    """
    detector.check_judges_replies()
    judged: list[Row] = []
    for begin in range(0, len(rows), CHUNK):
        chunk = rows[begin : begin + CHUNK]
        chats = [_judged_messages(row) for row in chunk if row["trigger"] != PERSONA]
        verdicts = iter(detector.batch(chats))
        scanned = iter(detector.scan_batch([row["messages"] for row in chunk]) if scan else [[]] * len(chunk))
        for row in chunk:
            if row["trigger"] == PERSONA:
                verdict, texts = detector.check([row["b1"]], row["b2"], row["u2"]), [row["b1"]]
            else:
                verdict, texts = next(verdicts), [message["content"] for message in _judged_messages(row)]
            scored = [other for other in next(scanned) if other.label is not None] or [verdict]
            judged.append(row | _fields(verdict, texts) | _counts(scored))
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


def _counts(verdicts: Sequence[Verdict]) -> Row:
    decided = [verdict for verdict in verdicts if verdict.label is not None]
    return {"replies": len(decided), "called": sum(bool(verdict.contradiction) for verdict in decided)}


def find_accuracy(
    detector: ContradictionDetector, evaluation: str | Path | None = None, on_note: Callable[[str], Any] = str
) -> tuple[dict[str, Accuracy], str] | None:
    """How often a detector is right, and on which rows that was measured; None if it was not measured.

    An evaluation by another decision rule counts only if its probabilities are those of the detector: if temperature
    and biases are the same.

    Args:
        detector: with the settings and the rule that it decides by.
        evaluation: a file of ``cdconv evaluate --json``; by default a saved result on the test split.
        on_note: called with what to do if the saved results have other probabilities.

    Raises:
        InputError: the file is no evaluation with probabilities of contradictions, or has other probabilities.
    """
    rule = detector.classifier.rule
    again = f"`cdconv evaluate {detector.name} --json FILE`"
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
            f"{detector.name}: was calibrated after its saved evaluation, so the shares are not corrected; {again} "
            "measures it again, and --evaluation FILE corrects by that"
        )
    return _measured(fitting[0], detector) if fitting else None


def _is_calibrated_alike(result: Mapping[str, Any], rule: Rule) -> bool:
    """Whether the probabilities of an evaluation are those of a rule."""
    saved = rule_of(result)
    return (saved["temperature"], saved["biases"]) == (rule.temperature, rule.biases)


def _measured(result: Mapping[str, Any], detector: ContradictionDetector) -> tuple[dict[str, Accuracy], str]:
    accuracy = accuracy_of_evaluation(result, detector.settings, detector.classifier.rule)
    if not (accuracy[ANY].contradictions and accuracy[ANY].others):
        raise InputError(f"{result['name']}: errors can be corrected only with contradictions and other replies in it")
    of_chats = f"{result.get('data_name')}, " if "chats" in result else ""
    part = f"{of_chats}{result['split']} {'chats' if of_chats else 'split'}"
    return accuracy, f"{result['config']}, {part}, n = {len(result['references']):,}"


def accuracy_record(accuracy: tuple[Mapping[str, Accuracy], str] | None) -> dict[str, Any] | None:
    """An accuracy as a report and the record of a run keep it."""
    return accuracy and {
        "source": accuracy[1],
        "counts": {kind: asdict(counts) for kind, counts in accuracy[0].items()},
    }


def to_dataset(rows: Sequence[Row], task: str) -> "Dataset":
    """Judged conversations as a data set with the columns of CDConv."""
    from datasets import ClassLabel, Dataset, Features, Value

    features = Features(
        dict.fromkeys(COLUMNS, Value("string"))
        | {
            "label": ClassLabel(names=list(LABELS[task])),
            "bot": ClassLabel(names=list(dict.fromkeys(row["bot"] for row in rows))),
            "probability": Value("float32"),
            "checked": Value("bool"),
        }
    )
    records = [
        {**{name: row[name] for name in COLUMNS}, "messages": json.dumps(row["messages"], ensure_ascii=False)}
        for row in rows
    ]
    return Dataset.from_list(records, features=features)


def write_data(folder: Path, rows: Sequence[Row], task: str, detector: str) -> None:
    """Writes a data repo, which ``load_dataset`` reads and ``cdconv push dataset --any-data`` publishes."""
    from huggingface_hub import DatasetCardData

    bots = ", ".join(dict.fromkeys(str(row["bot"]) for row in rows))
    data = DatasetCardData(
        pretty_name=f"Probe of {bots}", language=["zh"], license="unknown",
        task_categories=["text-classification"], tags=["dialogue", "contradiction-detection", "consistency"],
    )  # fmt: skip
    labels = Counter(row["label"] or "not judged" for row in rows)
    parts = [
        f"# Probe of {bots}",
        f"{len(rows):,} conversations of `cdconv probe`. **The labels are verdicts** of the detector `{detector}`.",
        Table("", ("label", "rows"), [(label, f"{count:,}") for label, count in labels.most_common()]).markdown(),
        Table("", ("column", "meaning"), [(f"`{key}`", text) for key, text in COLUMNS.items()], texts=2).markdown(),
    ]
    write_repo(folder, {task: {"test": to_dataset(rows, task)}}, data, "\n\n".join(parts) + "\n")
