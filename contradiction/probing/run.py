"""Runs the conversations of a plan with a bot, saves each as soon as it is complete, and judges them."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contradiction.conversation import alternating
from contradiction.errors import InputError, shown
from contradiction.evaluation import results
from contradiction.evaluation.figures import outcome, rule_of
from contradiction.inputs.views import CONVERSATION
from contradiction.io.endpoint import Answer, NoAnswerError, RefusedError, in_threads, repeated
from contradiction.io.files import RECORD, check_form, read_json, write_json
from contradiction.io.hub import model_name
from contradiction.io.line_files import LineFile, write_lines
from contradiction.labels import has_two_texts, task_of
from contradiction.probing.bots import Bot
from contradiction.probing.plan import Message, Probe, instruction
from contradiction.probing.triggers import PERSONA, lists
from contradiction.spoken import said

if TYPE_CHECKING:
    from contradiction.detector import ContradictionDetector

TRANSCRIPT, KIND = "transcript.jsonl", "probe"
LONGEST_QUESTION = 60  # characters of what a writer writes; a longer text is an explanation, not a question
QUOTES = "\"'“”‘’「」 　"
NEVER = (401, 403, 404, 405)  # the key, the address or the model is wrong, so no call will ever succeed
FAILED = "failed"  # of the record: the ids of conversations that failed in any run
ATTEMPTS = 6  # of a call that meets temporary errors
HOPELESS = 10  # after so many failures and no success the run ends, because the bot is not available
IN_VERDICT = ("label", "probability", "certainty", "checked", "reason")  # of a verdict, in the transcript
# Of the record and of its entry on the accuracy, see `check_form`.
_KEYS = {"request": (dict, ...), FAILED: (list[str], []), "detector": (str, ""), "accuracy": (dict | None, None)}
_ACCURACY = {"counts": (dict, ...), "source": (str, ...)}
Row = dict[str, Any]


class Caller:
    """Calls a bot at a limited rate, and again after temporary errors. All threads share it.

    Args:
        bot: the bot.
        per_minute: the most calls in a minute; None for no limit.
    """

    def __init__(self, bot: Bot, per_minute: float | None = None) -> None:
        self._bot = bot
        self._seconds = 60 / per_minute if per_minute else 0.0  # between two calls
        self._next, self._lock, self._stopped = 0.0, threading.Lock(), threading.Event()

    def ask(self, messages: Sequence[Message]) -> Answer:
        """One reply without its thoughts; raises NoAnswerError if no call succeeds, or if the run was stopped."""
        return repeated(lambda: self._ask_once(messages), ATTEMPTS, self._sleep)

    def _ask_once(self, messages: Sequence[Message]) -> Answer:
        with self._lock:
            at = max(time.monotonic(), self._next)
            self._next = at + self._seconds
        self._sleep(at - time.monotonic())
        try:
            reply = self._bot.ask(messages)
        except RefusedError as error:
            if error.status in NEVER:
                raise
            raise NoAnswerError(str(error), again=False) from None
        except NoAnswerError as error:
            if error.wait:  # all threads wait as long as the bot asks
                with self._lock:
                    self._next = max(self._next, time.monotonic() + error.wait)
            raise
        if reply.instead and not reply.text:
            raise NoAnswerError(reply.instead)
        # A reply that is cut inside an emoji may end with half of a surrogate pair, which is not valid text.
        return replace(reply, text=said(reply.text).text.encode("utf-8", "replace").decode())

    def stop(self) -> None:
        """Lets no further call begin."""
        self._stopped.set()

    def _sleep(self, seconds: float) -> None:
        if self._stopped.wait(max(seconds, 0)):
            raise NoAnswerError("the run was stopped", again=False)


def run(
    probes: Sequence[Probe],
    bot: Caller,
    folder: Path,
    *,
    request: Mapping[str, Any],
    name: str,
    at_once: int = 4,
    writer: Caller | None = None,
    on_done: Callable[[int, str | None], Any] | None = None,
) -> dict[str, str]:
    """Runs every conversation that the transcript does not hold yet; returns the ids of those that failed, and why.

    A conversation that was interrupted starts again from its beginning. One that fails does not stop the others, and is
    tried again, after all others, when the run is continued. The caller holds the lock of the folder.

    Args:
        probes: the plan.
        bot: calls the bot.
        folder: the folder of the run.
        request: what affects the conversations; a run is continued only with the same request.
        name: the name of the bot in the transcript.
        at_once: how many conversations run at the same time.
        writer: calls a language model that writes what the user says last; where it gives nothing, the rules do.
        on_done: called after each conversation with the number of those that are done, also in earlier runs, and with
            what is wrong if it failed.

    Raises:
        InputError: the folder holds another run, or something else, or the bot will never reply.
    """
    transcript = _open(folder, request)
    held = {row["id"] for row in transcript.keep()}
    before = set(read_record(folder).get(FAILED, ()))
    missing = sorted((probe for probe in probes if probe.id not in held), key=lambda probe: probe.id in before)
    hopeless = min(HOPELESS, len(probes))
    failed: dict[str, str] = {}

    def converse(probe: Probe) -> Row | NoAnswerError:
        try:
            return _converse(probe, bot, name, writer)
        except NoAnswerError as error:
            return error

    try:
        results = in_threads(converse, missing, at_once)
        for done, (probe, result) in enumerate(results, start=1):
            if isinstance(result, NoAnswerError):
                failed[probe.id] = str(result)
            else:
                transcript.add([result])
            if on_done:
                problem = f"{probe.id}: {result}" if probe.id in failed else None
                on_done(len(probes) - len(missing) + done, problem)
            # A bot that has replied, and fails again where it failed before, may never reply to these.
            if len(failed) == done >= hopeless and not (held and probe.id in before):
                raise InputError(f"the first {hopeless} conversations failed; the last: {result}")
    finally:
        bot.stop()  # threads end with the reply that they wait for
        if writer:
            writer.stop()
        transcript.close()
        if failed:
            write_json(folder / RECORD, read_record(folder) | {FAILED: sorted(before | {*failed})})
    return failed


def _converse(probe: Probe, bot: Caller, name: str, writer: Caller | None) -> Row:
    """One conversation, from a clean context, as a row of the transcript."""
    messages = instruction(probe.facts)
    cut = 0

    def say(text: str) -> str:
        nonlocal cut
        messages.append({"role": "user", "content": text})
        reply = bot.ask(messages)
        cut += reply.cut
        messages.append({"role": "assistant", "content": reply.text})
        return reply.text

    b1, written = say(probe.u1), None
    if probe.trigger == PERSONA:  # the fact takes the place of an earlier reply
        utterances = {"u1": "", "b1": probe.u2, "u2": probe.u1, "b2": b1}
    else:
        for text in probe.fillers:
            say(text)
        written = _write_question(writer, probe.trigger, probe.u1, b1) if writer else None
        u2 = written or probe.second(b1)
        utterances = {"u1": probe.u1, "b1": b1, "u2": u2, "b2": say(u2)}
    return {
        "id": probe.id, **utterances, "label": None, "trigger": probe.trigger, "bot": name,
        "opening": probe.id.split("/")[1], "written_by": "writer" if written else "rules", "facts": list(probe.facts),
        "messages": messages, "cut": cut,
    }  # fmt: skip


def _write_question(model: Caller, trigger: str, u1: str, b1: str) -> str | None:
    """What the user says after b1, by a language model; None without a prompt in ``words.toml``, or a usable text."""
    prompt = lists()["prompts"].get(trigger)
    if not prompt:
        return None
    try:
        reply = model.ask([{"role": "user", "content": prompt.format(u1=u1, b1=b1)}]).text
    except NoAnswerError:
        return None
    text = next((line.strip(QUOTES) for line in reply.splitlines() if line.strip(QUOTES)), "")
    return text if 0 < len(text) <= LONGEST_QUESTION and text != u1 else None


def _open(folder: Path, request: Mapping[str, Any]) -> LineFile:
    """The transcript of a folder, for a run with this request.

    A run that has no conversation yet, for instance because the bot was not available, may become another one.
    """
    path = folder / TRANSCRIPT
    before = read_record(folder)["request"] if (folder / RECORD).exists() else {}
    if before != request:
        if path.exists() and read_transcript(path):
            name = next(name for name in {**before, **request} if before.get(name) != request.get(name))
            raise InputError(
                f"{folder}: its run was made with {name} {shown(before.get(name))}, not {shown(request.get(name))}; "
                "another --out starts a new run"
            )
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / RECORD, {"kind": KIND, "request": request})
    path.touch()
    return _lines(path)


def read_record(folder: Path) -> dict[str, Any]:
    """The record of the run in a folder; raises InputError if there is none, or one of something else."""
    record = read_json(folder / RECORD)
    file = folder / RECORD
    if record.get("kind") != KIND:
        raise InputError(f"{file}: is not from `cdconv probe run`; name another folder")
    check_form(record, _KEYS, file)
    if accuracy := record.get("accuracy"):
        check_form(accuracy, _ACCURACY, f"{file}: accuracy")
        check_form(accuracy["counts"], {each.name: (int, ...) for each in fields(Accuracy)}, f"{file}: accuracy.counts")
    return record


def read_transcript(path: Path) -> list[Row]:
    """The conversations of a transcript; raises InputError if a line is not one."""
    return [row for row, _ in _lines(path).read()]


def _lines(path: Path) -> LineFile:
    wrong = "not a conversation that `cdconv probe run` wrote"
    return LineFile(path, itemgetter("id", "trigger", "b2"), wrong, durable=True)


def two_turns(row: Row) -> list[Message]:
    """The opening, the reply to it, what the user said last, and the judged reply, as messages."""
    return alternating(row[column] for column in CONVERSATION)


def judge(
    folder: Path,
    detector: "ContradictionDetector",
    accuracy: Mapping[str, Any] | None,
    on_done: Callable[[int], Any] | None = None,
) -> None:
    """Adds the verdicts of a detector to the transcript of a folder, and its name and accuracy to the record.

    Without a detector in its record a run counts as not judged. So a run that is killed here has no verdicts of one
    detector under the name of another.
    """
    rows = judged(read_transcript(folder / TRANSCRIPT), detector, on_done)
    record = read_json(folder / RECORD)
    write_json(folder / RECORD, {key: value for key, value in record.items() if key != "detector"})
    write_lines(folder / TRANSCRIPT, rows)
    write_json(folder / RECORD, record | {"detector": model_name(detector.name), "accuracy": accuracy})


def judged(
    rows: Sequence[Row], detector: "ContradictionDetector", on_done: Callable[[int], Any] | None = None
) -> list[Row]:
    """The same conversations with the verdict on their last reply.

    A reply of a persona probe is judged against the fact that it was asked about. Any other is judged against the first
    answer, and not against the turns that ``repeat`` puts between: with each turn that is read, a detector has one more
    occasion for a false alarm, and how often it is right was measured on chats of two turns. ``on_done`` is called with
    the number of conversations judged since the last call, without those of persona probes.
    """
    chats = [two_turns(row) for row in rows if row["trigger"] != PERSONA]
    verdicts = iter(detector.batch(chats, on_batch=on_done))
    result: list[Row] = []
    for row in rows:
        if row["trigger"] == PERSONA:
            verdict, texts = detector.check([row["b1"]], row["b2"], row["u2"]), [row["b1"]]
        else:
            verdict, texts = next(verdicts), [row[column] for column in CONVERSATION]
        record = verdict.to_record()
        evidence = [texts[index] for index in verdict.evidence]
        result.append(row | {name: record[name] for name in IN_VERDICT} | {"evidence": evidence})
    return result


@dataclass(frozen=True)
class Accuracy:
    """How often a detector is right, as counts of rows with true labels.

    Attributes:
        hits, contradictions: how many contradictions the detector calls so, and how many there are.
        alarms, others: how many other rows the detector calls a contradiction, and how many there are.
    """

    hits: int
    contradictions: int
    alarms: int
    others: int


def find_accuracy(
    detector: "ContradictionDetector", evaluation: str | Path | None = None, on_note: Callable[[str], Any] = str
) -> dict[str, Any] | None:
    """How often a detector is right, as the record of a run keeps it; None if it was not measured.

    An evaluation by another decision rule counts only if its probabilities are those of the detector: if temperature
    and biases are the same. ``evaluation`` is a file of ``cdconv evaluate --json``, by default a saved result on the
    test split. ``on_note`` is called with what to do if the saved results have other probabilities.

    Raises:
        InputError: the file is no evaluation with probabilities of contradictions, or has other probabilities.
    """
    rule = detector.classifier.rule
    found = [results.read_evaluation(evaluation)] if evaluation else _saved(detector)
    for result in found:
        saved = rule_of(result)
        if (saved["temperature"], saved["biases"]) == (rule.temperature, rule.biases):
            return _measured(result, detector)
    if found:
        problem = (
            f"{evaluation or detector.name}: was evaluated with another calibration of the detector, so its errors are "
            f"not known; `cdconv evaluate {detector.name} --json FILE` measures them, and --evaluation FILE reads that"
        )
        if evaluation:
            raise InputError(problem)
        on_note(problem)
    return None


def _saved(detector: "ContradictionDetector") -> list[dict[str, Any]]:
    """The saved evaluations of a detector on a test split of conversations."""
    return [
        result
        for result in results.evaluations_of(detector.name)
        if task_of(result["config"]) == detector.task
        and not has_two_texts(result["config"])
        and result["split"] == "test"
        and "probabilities" in result
    ]


def _measured(result: Mapping[str, Any], detector: "ContradictionDetector") -> dict[str, Any]:
    found = outcome(result, detector.classifier.rule, detector.settings)
    if not (found.contradictions and found.others):
        raise InputError(f"{result['name']}: errors can be corrected only with contradictions and other replies in it")
    of_chats = f"{result.get('data_name')}, " if result.get("as_chats") else ""
    part = f"{of_chats}{result['split']} {'chats' if of_chats else 'split'}"
    source = f"{result['config']}, {part}, n = {len(result['references']):,}"
    accuracy = Accuracy(found.hits, found.contradictions, found.alarms, found.others)
    return {"source": source, "counts": asdict(accuracy)}
