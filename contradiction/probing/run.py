"""Runs the conversations of a plan with a bot, and saves each as soon as it is complete."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from operator import itemgetter
from pathlib import Path
from typing import Any

from contradiction.conversation import alternating, answer_of
from contradiction.errors import InputError, shown
from contradiction.inputs.views import CONVERSATION
from contradiction.io.endpoint import LONGEST_WAIT, Answer, backoff
from contradiction.io.files import RECORD, read_json, write_json
from contradiction.io.lines import LineFile, write_lines
from contradiction.probing.bots import Bot, BotError, CommandBot
from contradiction.probing.plan import Message, Probe
from contradiction.probing.triggers import PERSONA, lists

TRANSCRIPT, FAILED = "transcript.jsonl", "failed.jsonl"
LONGEST_QUESTION = 60  # characters of what an endpoint writes; a longer text is an explanation, not a question
QUOTES = "\"'“”‘’「」 　"
HOPELESS = 10  # after so many failures and no success the run ends, because the bot is not available
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


class Transcript:
    """A file of conversations, one JSON object per line. A line is on the disk before the next one begins.

    Args:
        folder: holds the transcript, and ``run.json`` with the request of the run.
        request: what affects the conversations; a run is continued only with the same request. A run that has no
            conversation yet, for instance because the bot was not available, may be of any request.

    Raises:
        InputError: the folder holds another run, the record of something else, or lines that are not conversations.
    """

    def __init__(self, folder: Path, request: Mapping[str, Any]) -> None:
        self.path, self._record = folder / TRANSCRIPT, folder / RECORD
        before = read_record(folder)["request"] if self._record.exists() else None
        if before is not None and self.path.exists() and read_transcript(self.path):
            check_same(folder, before, request)
        elif before != request:
            folder.mkdir(parents=True, exist_ok=True)
            write_json(self._record, {"request": request, "bot_seconds": 0.0, "calls": 0})
        self.path.touch()
        self._file = _lines(self.path)
        self.done = {row["id"] for row in self._file.keep()}
        self._lock = threading.Lock()

    def add(self, row: Row) -> None:
        """Appends a conversation."""
        with self._lock:
            self._file.add([row])
            self.done.add(row["id"])

    def close(self, seconds: float, calls: int) -> None:
        """Closes the file and adds the time and the calls of this part of the run to its record."""
        self._file.close()
        record = read_json(self._record)
        spent = {"bot_seconds": record["bot_seconds"] + seconds, "calls": record["calls"] + calls}
        write_json(self._record, record | spent)


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
    if "request" not in record or "calls" not in record:
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


class Caller:
    """Calls a bot at a limited rate, and again after temporary errors. All threads share it.

    Attributes:
        calls: how many calls were made.
    """

    def __init__(self, bot: Bot, limits: CallLimits) -> None:
        self._bot, self._limits = bot, limits
        self._next, self._lock, self._stopped = 0.0, threading.Lock(), threading.Event()
        self.calls = 0

    def ask(self, messages: Sequence[Message]) -> Answer:
        """One reply; raises BotError if no call succeeds, or if the run was stopped."""
        for attempt in range(self._limits.retries + 1):
            self._wait_for_turn()
            try:
                # A reply that is cut inside an emoji may end with half of a surrogate pair, which is not valid text.
                reply = self._bot.ask(messages)
                return replace(reply, text=answer_of(reply.text).encode("utf-8", "replace").decode())
            except BotError as error:
                if not error.again:
                    raise
                if attempt == self._limits.retries:
                    times = f"{attempt + 1} times" if attempt else "once"
                    raise BotError(f"{error} (asked {times})", again=False) from None
                if error.wait:  # all threads wait as long as the bot asks
                    with self._lock:
                        self._next = max(self._next, time.monotonic() + min(error.wait, LONGEST_WAIT))
                else:
                    self._sleep(backoff(self._limits.backoff, attempt))
        raise AssertionError  # the last attempt returns or raises

    def stop(self) -> None:
        """Lets no further call begin."""
        self._stopped.set()

    def _wait_for_turn(self) -> None:
        with self._lock:
            now = time.monotonic()
            at = max(now, self._next)
            self._next = at + (60 / self._limits.per_minute if self._limits.per_minute else 0.0)
        self._sleep(at - now)
        with self._lock:
            self.calls += 1

    def _sleep(self, seconds: float) -> None:
        """Waits so long; raises BotError as soon as the run is stopped."""
        if self._stopped.wait(seconds):
            raise BotError("the run was stopped", again=False)


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
    except BotError:
        return None
    text = next((line.strip(QUOTES) for line in reply.splitlines() if line.strip(QUOTES)), "")
    return text if 0 < len(text) <= LONGEST_QUESTION and text != u1 else None


def run(
    probes: Sequence[Probe],
    bot: Bot,
    folder: Path,
    *,
    request: Mapping[str, Any],
    name: str,
    seed: int = 0,
    limits: CallLimits,
    writer: Caller | None = None,
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
        request: the request of the run, see :class:`Transcript`.
        name: the name of the bot in the transcript.
        seed: of the plan.
        limits: how the bot is called.
        writer: a language model that writes the second thing the user says; where it gives nothing, the rules do.
        on_done: called after each conversation, and after each failure.
        on_failure: called with the id of a probe and why it failed.

    Raises:
        InputError: the folder is of another run, or the bot will never reply.
    """
    transcript, caller, started = Transcript(folder, request), Caller(bot, limits), time.monotonic()
    missing = [probe for probe in probes if probe.id not in transcript.done]
    earlier = len(probes) - len(missing)
    outcome = Outcome(earlier, done=earlier)
    remaining, hopeless = iter(missing), min(HOPELESS, len(probes))
    at_once = min(limits.at_once, bot.at_once or limits.at_once)
    pool = ThreadPoolExecutor(at_once, thread_name_prefix="probe")
    running: dict[Future[None], str] = {}

    def converse(probe: Probe) -> None:
        transcript.add(_converse(probe, caller, name, seed, writer))

    def start(number: int) -> None:
        for _, probe in zip(range(number), remaining, strict=False):
            running[pool.submit(converse, probe)] = probe.id

    try:
        start(at_once)
        while running:
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                probe = running.pop(future)
                try:
                    future.result()
                    outcome.done += 1
                except BotError as error:
                    outcome.failed[probe] = str(error)
                    if on_failure:
                        on_failure(probe, str(error))
                if on_done:
                    on_done(outcome)
                if len(outcome.failed) >= hopeless and outcome.done == outcome.earlier:
                    raise InputError(
                        f"the first {hopeless} conversations failed; the last: {[*outcome.failed.values()][-1]}"
                    )
                start(1)
    except KeyboardInterrupt:
        caller.stop()
        if isinstance(bot, CommandBot):  # the terminal sends Ctrl-C to no program in a session of its own
            bot.close()
        raise
    finally:
        caller.stop()  # threads end with the reply that they wait for
        if writer:
            writer.stop()
        pool.shutdown(cancel_futures=True)
        transcript.close(time.monotonic() - started, caller.calls)
        write_lines(folder / FAILED, [{"id": key, "error": why} for key, why in outcome.failed.items()])
    return outcome


def _converse(probe: Probe, bot: Caller, name: str, seed: int, writer: Caller | None) -> Row:
    """One conversation, from a clean context, as a row of the transcript."""
    messages: list[Message] = list(probe.start)
    started, cut = time.monotonic(), 0

    def say(text: str) -> str:
        nonlocal cut
        messages.append({"role": "user", "content": text})
        reply = bot.ask(messages)
        cut += reply.cut
        messages.append({"role": "assistant", "content": reply.text})
        return reply.text

    b1, written_by = say(probe.u1), "rules"
    if probe.trigger == PERSONA:  # the fact stands where an earlier reply would
        utterances = {"u1": "", "b1": probe.u2, "u2": probe.u1, "b2": b1}
    else:
        for text in probe.fillers:
            say(text)
        u2 = write_question(writer, probe.trigger, probe.u1, b1) if writer else None
        if u2:
            written_by = "endpoint"
        else:
            u2 = probe.second(b1, seed)
        utterances = {"u1": probe.u1, "b1": b1, "u2": u2, "b2": say(u2)}
    return {
        "id": probe.id,
        **utterances,
        "label": None,
        "trigger": probe.trigger,
        "bot": name,
        "opening": probe.id.split("/")[1],
        "written_by": written_by,
        "facts": list(probe.facts),
        "messages": messages,
        "cut": cut,
        "seconds": round(time.monotonic() - started, 3),
    }
