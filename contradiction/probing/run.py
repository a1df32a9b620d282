"""Runs the conversations of a plan with a bot, saves each as soon as it is complete, and judges them."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contradiction.conversation import alternating
from contradiction.errors import InputError, shown
from contradiction.inputs.views import CONVERSATION
from contradiction.io.endpoint import Answer, NoAnswerError, in_threads, repeated
from contradiction.io.files import RECORD, read_json, write_json
from contradiction.io.hub import model_name
from contradiction.io.lines import LineFile, write_lines
from contradiction.probing.bots import Bot
from contradiction.probing.plan import Message, Probe, instruction
from contradiction.probing.triggers import PERSONA, REPEAT, lists
from contradiction.spoken import said
from contradiction.verdict import DIGITS, Verdict

if TYPE_CHECKING:
    from contradiction.detector import ContradictionDetector

TRANSCRIPT, KIND = "transcript.jsonl", "probe"
LONGEST_QUESTION = 60  # characters of what a writer writes; a longer text is an explanation, not a question
QUOTES = "\"'“”‘’「」 　"
HOPELESS = 10  # after so many failures and no success the run ends, because the bot is not available
CHUNK = 64  # conversations that are judged between two steps of the progress
Row = dict[str, Any]


@dataclass(frozen=True)
class CallLimits:
    """How a bot is called.

    Attributes:
        at_once: how many conversations run at the same time.
        per_minute: the most calls in a minute; None for no limit.
        retries: how often a call is repeated after a temporary error.
        backoff: the seconds before the first repetition; each further wait is twice as long, up to a minute.
    """

    at_once: int = 4
    per_minute: float | None = None
    retries: int = 5
    backoff: float = 0.5


class Caller:
    """Calls a bot at a limited rate, and again after temporary errors. All threads share it."""

    def __init__(self, bot: Bot, limits: CallLimits) -> None:
        self._bot, self._limits = bot, limits
        self._next, self._lock, self._stopped = 0.0, threading.Lock(), threading.Event()

    def ask(self, messages: Sequence[Message]) -> Answer:
        """One reply without its thoughts; raises NoAnswerError if no call succeeds, or if the run was stopped."""
        return repeated(lambda: self._ask_once(messages), self._limits.retries + 1, self._limits.backoff, self._sleep)

    def _ask_once(self, messages: Sequence[Message]) -> Answer:
        self._wait_for_turn()
        try:
            reply = self._bot.ask(messages)
        except NoAnswerError as error:
            if error.wait:  # all threads wait as long as the bot asks
                with self._lock:
                    self._next = max(self._next, time.monotonic() + error.wait)
            raise
        # A reply that is cut inside an emoji may end with half of a surrogate pair, which is not valid text.
        return replace(reply, text=said(reply.text).text.encode("utf-8", "replace").decode())

    def stop(self) -> None:
        """Lets no further call begin."""
        self._stopped.set()

    def _wait_for_turn(self) -> None:
        with self._lock:
            at = max(time.monotonic(), self._next)
            self._next = at + (60 / self._limits.per_minute if self._limits.per_minute else 0.0)
        self._sleep(at - time.monotonic())

    def _sleep(self, seconds: float) -> None:
        if self._stopped.wait(max(seconds, 0)):
            raise NoAnswerError("the run was stopped", again=False)


@dataclass
class Outcome:
    """The outcome of a run.

    Attributes:
        earlier: conversations that were in the transcript before.
        done: conversations that are in the transcript, the earlier ones too.
        failed: the id of each probe without a conversation -> why.
    """

    earlier: int
    done: int
    failed: dict[str, str] = field(default_factory=dict)


def run(
    probes: Sequence[Probe],
    bot: Bot,
    folder: Path,
    *,
    request: Mapping[str, Any],
    name: str,
    seed: int = 0,
    limits: CallLimits,
    writer: Bot | None = None,
    on_done: Callable[[Outcome], Any] | None = None,
    on_failure: Callable[[str, str], Any] | None = None,
) -> Outcome:
    """Runs every conversation that the transcript of the folder does not hold yet.

    A conversation that was interrupted starts again from its beginning. One that fails does not stop the others, and is
    tried again when the run is continued.

    Args:
        probes: the plan.
        bot: the bot.
        folder: the folder of the run; another process may not use it at the same time.
        request: what affects the conversations; a run is continued only with the same request.
        name: the name of the bot in the transcript.
        seed: of the plan.
        limits: how the bot is called.
        writer: a language model that writes the second thing the user says; where it gives nothing, the rules do.
        on_done: called after each conversation, and after each failure.
        on_failure: called with the id of a probe and why it failed.

    Raises:
        InputError: the folder holds another run, or something else, or the bot will never reply.
    """
    transcript = _open(folder, request)
    done = {row["id"] for row in transcript.keep()}
    missing = [probe for probe in probes if probe.id not in done]
    outcome = Outcome(len(probes) - len(missing), len(probes) - len(missing))
    caller = Caller(bot, limits)
    writing = Caller(writer, limits) if writer else None

    def converse(probe: Probe) -> Row | NoAnswerError:
        try:
            return _converse(probe, caller, name, seed, writing)
        except NoAnswerError as error:
            return error

    try:
        for probe, result in in_threads(converse, missing, min(limits.at_once, bot.at_once or limits.at_once)):
            if isinstance(result, NoAnswerError):
                outcome.failed[probe.id] = str(result)
                if on_failure:
                    on_failure(probe.id, str(result))
            else:
                transcript.add([result])
                outcome.done += 1
            if on_done:
                on_done(outcome)
            hopeless = min(HOPELESS, len(probes))
            if len(outcome.failed) >= hopeless and outcome.done == outcome.earlier:
                raise InputError(f"the first {hopeless} conversations failed; the last: {result}")
    finally:
        caller.stop()  # threads end with the reply that they wait for
        if writing:
            writing.stop()
        transcript.close()
    return outcome


def _converse(probe: Probe, bot: Caller, name: str, seed: int, writer: Caller | None) -> Row:
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

    b1, written_by = say(probe.u1), "rules"
    if probe.trigger == PERSONA:  # the fact takes the place of an earlier reply
        utterances = {"u1": "", "b1": probe.u2, "u2": probe.u1, "b2": b1}
    else:
        for text in probe.fillers:
            say(text)
        u2 = write_question(writer, probe.trigger, probe.u1, b1) if writer else None
        if u2:
            written_by = "writer"
        else:
            u2 = probe.second(b1, seed)
        utterances = {"u1": probe.u1, "b1": b1, "u2": u2, "b2": say(u2)}
    return {
        "id": probe.id, **utterances, "label": None, "trigger": probe.trigger, "bot": name,
        "opening": probe.id.split("/")[1], "written_by": written_by, "facts": list(probe.facts),
        "messages": messages, "cut": cut,
    }  # fmt: skip


def write_question(model: Caller, trigger: str, u1: str, b1: str) -> str | None:
    """What the user says after b1, by a language model with the prompts of ``words.toml``.

    Returns:
        The text; None if there is no prompt for the trigger, or the model gives nothing usable.
    """
    prompt = lists()["prompts"].get(trigger)
    if not prompt:
        return None
    try:
        reply = model.ask([{"role": "user", "content": prompt.format(u1=u1, b1=b1)}]).text
    except NoAnswerError:
        return None
    text = next((line.strip(QUOTES) for line in reply.splitlines() if line.strip(QUOTES)), "")
    return text if 0 < len(text) <= LONGEST_QUESTION and text != u1 else None


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

    A reply of a persona probe is judged against the fact that it was asked about. The answer to a repeated question is
    judged against the first answer, and not against the turns between: with each turn that is read, a detector has one
    more occasion for a false alarm, and how often it is right was measured on chats of two turns.

    Args:
        rows: conversations of a transcript.
        detector: judges them.
        on_done: called with the number of conversations judged since the last call.
    """
    detector.check_judges_replies()
    result: list[Row] = []
    for begin in range(0, len(rows), CHUNK):
        chunk = rows[begin : begin + CHUNK]
        verdicts = iter(detector.batch([_judged_messages(row) for row in chunk if row["trigger"] != PERSONA]))
        for row in chunk:
            if row["trigger"] == PERSONA:
                verdict, texts = detector.check([row["b1"]], row["b2"], row["u2"]), [row["b1"]]
            else:
                verdict, texts = next(verdicts), [message["content"] for message in _judged_messages(row)]
            result.append(row | _fields(verdict, texts))
        if on_done:
            on_done(len(chunk))
    return result


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


def _open(folder: Path, request: Mapping[str, Any]) -> LineFile:
    """The transcript of a folder, for a run with this request.

    A run that has no conversation yet, for instance because the bot was not available, may become another one.
    """
    path = folder / TRANSCRIPT
    before = read_record(folder)["request"] if (folder / RECORD).exists() else None
    if before is not None and path.exists() and read_transcript(path):
        check_same(folder, before, request)
    elif before != request:
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / RECORD, {"kind": KIND, "request": request})
    path.touch()
    return _lines(path)


def check_same(folder: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raises InputError if the run in the folder was made with another request."""
    for name in now:
        if before.get(name) != now[name]:
            raise InputError(
                f"{folder}: its run was made with {name} {shown(before.get(name))}, not {shown(now[name])}; another "
                "--out starts a new run"
            )


def read_record(folder: Path) -> dict[str, Any]:
    """The record of the run in a folder; raises InputError if there is none, or one of something else."""
    record = read_json(folder / RECORD)
    if record.get("kind") != KIND:
        raise InputError(f"{folder / RECORD}: is not from `cdconv probe run`; name another folder")
    return record


def read_transcript(path: Path) -> list[Row]:
    """The conversations of a transcript; raises InputError if a line is not one."""
    return [row for row, _ in _lines(path).read()]


def two_turns(row: Row) -> list[Message]:
    """The opening, the reply to it, what the user said last, and the judged reply, as messages."""
    return alternating(row[column] for column in CONVERSATION)


def _lines(path: Path) -> LineFile:
    wrong = "not a conversation that `cdconv probe run` wrote"
    return LineFile(path, itemgetter("id", "trigger", "b2"), wrong, durable=True)
