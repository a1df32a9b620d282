"""A detector for many callers at a time: one place that judges for the REST service and for the page."""

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, TypeVar

from contradiction.conversation import Messages
from contradiction.detector import ContradictionDetector
from contradiction.errors import InputError
from contradiction.inference.base import OnBatch
from contradiction.inputs.views import Row
from contradiction.methods.base import Classifier, Prediction
from contradiction.serving.limits import LONGEST_ROW, Limits

SLICE = 16  # rows of one request in a forward pass, while others wait: a light request overtakes a heavy one
BATCH = 64  # rows of all requests in a forward pass
Key = tuple[str | tuple[str, ...], ...]


class Busy(Exception):
    """There are more requests than the service can answer soon."""

    def __init__(self) -> None:
        super().__init__("the service is busy; try again soon")


class Late(Exception):
    """A request took longer than it may."""

    def __init__(self) -> None:
        super().__init__("the answer took too long; send a shorter chat, or set max_turns")


class Cancelled(Exception):
    """Nobody waits for the answer any more."""

    def __init__(self) -> None:
        super().__init__("the caller has gone")


class TooLong(InputError):
    """A request asks for more reading than it may."""


@dataclass
class Ticket:
    """One request.

    Attributes:
        until: the time by the monotonic clock at which its answer is too late.
        cost: the most characters that may be read for it.
        cancelled: whether nobody waits for its answer any more.
        spent: the characters that were read for it, without those of rows whose prediction was known.
    """

    until: float
    cost: int
    cancelled: bool = False
    spent: int = 0

    def check(self) -> None:
        """Raises Cancelled or Late where the request is not to be answered any more."""
        if self.cancelled:
            raise Cancelled
        if time.monotonic() > self.until:
            raise Late


_TICKET: ContextVar[Ticket | None] = ContextVar("ticket", default=None)


@contextmanager
def serving(ticket: Ticket) -> Iterator[None]:
    """What is predicted inside counts for this request."""
    token = _TICKET.set(ticket)
    try:
        yield
    finally:
        _TICKET.reset(token)


@dataclass
class _Job:
    rows: deque[tuple[Key, Row]]
    ticket: Ticket | None
    found: dict[Key, Prediction] = field(default_factory=dict)
    done: threading.Event = field(default_factory=threading.Event)
    error: BaseException | None = None


class JoinedPredictions:
    """Takes the place of ``predict`` of a classifier.

    One thread runs the classifier. It takes some rows of each waiting request in turn, so that many light requests
    share a forward pass and a heavy one delays nobody for long.

    Args:
        classifier: the classifier.
        remembered: how many predictions are kept; those that were not asked for longest are dropped first.
        waiting: the most rows that may wait; a request beyond them raises :class:`Busy`.

    Attributes:
        rows, passes, repeated: how many rows were predicted, in how many forward passes, and how many rows were asked
            for again and known.
    """

    def __init__(self, classifier: Classifier, remembered: int = 20_000, waiting: int = 50_000) -> None:
        self._predict, self._columns = classifier.predict, classifier.columns
        self._remembered, self._most = remembered, waiting
        self._known: OrderedDict[Key, Prediction] = OrderedDict()
        self._jobs: deque[_Job] = deque()
        self._change = threading.Condition()
        self._thread: threading.Thread | None = None
        self.rows = self.passes = self.repeated = 0

    def __call__(
        self, rows: Sequence[Row], *, batch_size: int = 32, on_batch: OnBatch | None = None
    ) -> list[Prediction]:
        """See :meth:`contradiction.methods.base.Classifier.predict`.

        Raises:
            TooLong: the request asks for more reading than it may.
            Busy, Late, Cancelled: the request cannot be answered, see there.
        """
        ticket = _TICKET.get()
        keys = [tuple(row[column] for column in self._columns) for row in rows]
        if ticket:
            ticket.check()
        with self._change:
            found = {key: self._known[key] for key in keys if key in self._known}
            for key in found:
                self._known.move_to_end(key)
            missing = {key: row for key, row in zip(keys, rows, strict=True) if key not in found}
            self.repeated += len(keys) - len(missing)
            if missing:
                if ticket:
                    _pay(ticket, missing)
                job = _Job(deque(missing.items()), ticket)
                if self._waiting() and self._waiting() + len(missing) > self._most:
                    raise Busy
                self._jobs.append(job)
                self._start()
                self._change.notify()
        if missing:
            if not job.done.wait(max(0.0, ticket.until - time.monotonic()) if ticket else None):
                raise Late
            if job.error:
                raise job.error
            found |= job.found
        if on_batch and rows:
            on_batch(len(rows))
        return [found[key] for key in keys]

    @property
    def waiting(self) -> int:
        """How many rows wait."""
        with self._change:
            return self._waiting()

    def _waiting(self) -> int:
        return sum(len(job.rows) for job in self._jobs)

    def _start(self) -> None:
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name="predictions", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while True:
            with self._change:
                while not self._jobs:
                    self._change.wait()
                taken = self._take()
            if taken:
                self._answer(taken)

    def _take(self) -> list[tuple[_Job, Key, Row]]:
        """The rows of the next forward pass: some of each request in turn, those that waited longest first."""
        taken: list[tuple[_Job, Key, Row]] = []
        for job in list(self._jobs):
            try:
                if job.ticket:
                    job.ticket.check()
            except (Cancelled, Late) as error:
                self._jobs.remove(job)
                _end(job, error)
        alone = len(self._jobs) == 1
        for _ in range(len(self._jobs)):
            job = self._jobs[0]
            for _ in range(min(len(job.rows), BATCH if alone else SLICE, BATCH - len(taken))):
                taken.append((job, *job.rows.popleft()))
            self._jobs.rotate(-1)
            if len(taken) == BATCH:
                break
        self._jobs = deque(job for job in self._jobs if job.rows)
        return taken

    def _answer(self, taken: list[tuple[_Job, Key, Row]]) -> None:
        """Predicts rows; where that fails, tries each request alone, and only those that fail again get the error."""
        try:
            self._pass(taken)
        except BaseException as error:  # a panic in tokenizers is no Exception, and must not end this thread
            jobs = {id(job): job for job, _, _ in taken}
            if len(jobs) > 1:
                for job in jobs.values():
                    self._answer([part for part in taken if part[0] is job])
                return
            job = taken[0][0]
            with self._change:
                self._jobs = deque(other for other in self._jobs if other is not job)
            _end(job, error)

    def _pass(self, taken: list[tuple[_Job, Key, Row]]) -> None:
        unique = {key: row for _, key, row in taken}
        predicted = dict(zip(unique, self._predict(list(unique.values())), strict=True))
        with self._change:
            self.rows += len(unique)
            self.passes += 1
            self._known.update(predicted)
            while len(self._known) > self._remembered:
                self._known.popitem(last=False)
        for job, key, _ in taken:
            job.found[key] = predicted[key]
        for job in {id(job): job for job, _, _ in taken}.values():
            if not job.rows:
                job.done.set()


def joined(classifier: Classifier, predictions: JoinedPredictions) -> Classifier:
    """The same classifier, whose predictions are made together with those of other callers."""
    same = copy(classifier)
    same.__dict__["predict"] = predictions
    return same


def _pay(ticket: Ticket, keys: Iterable[Key]) -> None:
    ticket.spent += sum(min(sum(map(_characters, key)), LONGEST_ROW) for key in keys)
    if ticket.spent > ticket.cost:
        raise TooLong(
            f"the chat is too long to be judged at once: each reply is compared with every earlier one, which takes "
            f"more than {ticket.cost:,} characters of reading; shorten the chat, or set max_turns"
        )


def _characters(value: str | tuple[str, ...]) -> int:
    return len(value) if isinstance(value, str) else sum(map(len, value))


def _end(job: _Job, error: BaseException) -> None:
    if not isinstance(error, Exception):  # it would end the server where it is raised again
        error = RuntimeError(f"the prediction failed: {error!r}")
    job.error = error
    job.done.set()


Record = dict[str, Any]
T = TypeVar("T")
THREADS = 64  # which wait for the one that predicts; as many requests can share forward passes


class Service:
    """Judges chats for many callers at a time. Its methods may be called from any thread.

    Args:
        detector: the detector.
        limits: what one request may ask.

    Attributes:
        predictions: what joins the requests, and counts.
        pool: the threads in which requests wait.
        working: how many requests are worked on.

    Raises:
        InputError: the detector judges no replies.
    """

    def __init__(self, detector: ContradictionDetector, limits: Limits | None = None) -> None:
        detector.check_judges_replies()
        self.limits = limits or Limits()
        self.predictions = JoinedPredictions(detector.classifier)
        self.detector = ContradictionDetector(joined(detector.classifier, self.predictions), detector.settings)
        self.pool = ThreadPoolExecutor(THREADS, "requests")
        self.working = 0
        self._lock = Lock()

    def ticket(self) -> Ticket:
        """A ticket for one request, which starts now."""
        return Ticket(until=time.monotonic() + self.limits.seconds, cost=self.limits.cost)

    def judge(self, messages: Messages, **settings: Any) -> Record:
        """The verdict on the last reply of a chat, as a record; settings as of ``Settings``."""
        self._check_chat(messages)
        return self._with(settings)(messages).to_record()

    def scan(self, messages: Messages, **settings: Any) -> list[Record]:
        """The verdicts on every reply of a chat, as records."""
        self._check_chat(messages)
        return [verdict.to_record() for verdict in self._with(settings).scan(messages)]

    def rerank(self, messages: Messages, candidates: Sequence[str], **settings: Any) -> list[Record]:
        """The candidates with their verdicts, the least likely contradiction first."""
        self._check_chat(messages)
        self._check_count(candidates, "candidates")
        ranked = self._with(settings).rerank(messages, candidates)
        return [
            {"index": candidate.index, "reply": candidate.reply, "verdict": candidate.verdict.to_record()}
            for candidate in ranked
        ]

    def check(self, facts: Sequence[str], reply: str, question: str = "", **settings: Any) -> Record:
        """The verdict on a reply against facts about the bot."""
        self._check_count(facts, "facts")
        return self._with(settings).check(facts, reply, question).to_record()

    def clauses(self, messages: Messages, **settings: Any) -> list[Record]:
        """The two clauses that clash in the last reply of a chat; empty where there are none."""
        self._check_chat(messages)
        found = self._with(settings).locate(messages)
        spans = (found.earlier, found.later) if found else ()
        return [{"message": span.message, "start": span.start, "end": span.end} for span in spans]

    def answer(self, call: Callable[[], T], ticket: Ticket | None = None) -> T:
        """Answers one request in this thread.

        Raises:
            InputError: the input is not usable, or the request asks for more than it may.
            Busy, Late, Cancelled: it cannot be answered.
        """
        with serving(ticket or self.ticket()):
            return call()

    @contextmanager
    def place(self) -> Iterator[None]:
        """A place among the requests that are worked on; raises Busy where there is none."""
        with self._lock:
            if self.working >= self.limits.requests:
                raise Busy
            self.working += 1
        try:
            yield
        finally:
            with self._lock:
                self.working -= 1

    def _with(self, settings: dict[str, Any]) -> ContradictionDetector:
        given = {name: value for name, value in settings.items() if value is not None}
        return self.detector.with_settings(**given) if given else self.detector

    def _check_chat(self, messages: Messages) -> None:
        if isinstance(messages, Sequence) and len(messages) > self.limits.messages:
            raise InputError(f"the chat has {len(messages):,} messages; at most {self.limits.messages:,} are allowed")

    def _check_count(self, values: Sequence[str], name: str) -> None:
        if isinstance(values, Sequence) and len(values) > self.limits.candidates:
            raise InputError(f"{name} are {len(values):,}; at most {self.limits.candidates:,} are allowed")
