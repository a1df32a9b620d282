"""Predictions for concurrent requests: joined into forward passes and remembered. Callers take turns."""

import logging
import math
import sys
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import chain

from contradiction.errors import InputError
from contradiction.inference.base import OnBatch
from contradiction.inputs.views import Row
from contradiction.methods.base import Classifier, Prediction
from contradiction.methods.composite import turns_of
from contradiction.settings import LONGEST_ROW

SLICE = 16  # rows of a request before the next caller's turn in a pass: a light request overtakes a heavy one
BATCH = 64  # rows of all requests in a forward pass
REMEMBERED = 20_000  # predictions that are kept; the least recently used ones are dropped first
WAITING = 50_000  # rows that may wait; a request beyond them raises BusyError
LOG = logging.getLogger(__name__)
# The hash of the texts of a row, of 64 bits and another one in each process. The rows themselves may be long, and many
# are remembered; Python hashes a text once, whatever number of rows share it.
Key = int


class ServiceError(Exception):
    """A request gets no answer. The message may be sent to whoever asked."""

    status, said = 500, ""

    def __init__(self) -> None:
        super().__init__(self.said)


class BusyError(ServiceError):
    """There are more requests than the service can answer soon."""

    status, said = 503, "the service is busy; try again soon"


class LateError(ServiceError):
    """A request took longer than it may."""

    status, said = 504, "the answer took too long; send a shorter chat, or set max_turns"


class CallerGoneError(ServiceError):
    """Nobody waits for the answer any more."""

    status, said = 499, "the caller has gone"


class FailedError(ServiceError):
    """The model failed. The cause may name files of the server, so only the log shows it."""

    said = "the prediction failed; the log says why"


class TooLongError(InputError):
    """A request asks for more reading than it may."""


@dataclass
class Ticket:
    """One request.

    Attributes:
        until: the time by the monotonic clock at which its answer is too late.
        cost: the maximum number of characters that may be read for it, see :class:`contradiction.settings.Limits`.
        caller: whose request it is; callers take turns, whatever number of requests each has.
        cancelled: whether nobody waits for its answer any more.
        spent: the characters that were read for it, without those of rows whose prediction was known.
    """

    until: float
    cost: int
    caller: str = ""
    cancelled: bool = False
    spent: int = 0

    def ended(self) -> ServiceError | None:
        """Why the request needs no answer any more; None if it needs one."""
        if self.cancelled:
            return CallerGoneError()
        return LateError() if time.monotonic() > self.until else None


_TICKET: ContextVar[Ticket] = ContextVar("ticket")


@contextmanager
def serving(ticket: Ticket) -> Iterator[None]:
    """Counts the predictions inside the block for this request."""
    token = _TICKET.set(ticket)
    try:
        yield
    finally:
        _TICKET.reset(token)


@dataclass(eq=False)  # two jobs are never the same
class _Job:
    rows: deque[tuple[Key, Row]]
    ticket: Ticket
    results: dict[Key, Prediction] = field(default_factory=dict)
    done: threading.Event = field(default_factory=threading.Event)
    error: Exception | None = None


class JoinedPredictions:
    """Replaces ``predict`` of a classifier.

    One thread runs the classifier. It takes some rows of each caller in turn, and of a caller some of each request. So
    many light requests share a forward pass, and neither a heavy one nor many of one caller delay the others for long.

    Attributes:
        rows, passes, repeated: how many rows were predicted, in how many forward passes, and how many rows were asked
            for again and known.
    """

    def __init__(self, classifier: Classifier) -> None:
        self._predict, self._columns = classifier.predict, classifier.columns
        self._reads_chats, self._reads_turns = classifier.reads_chats, classifier.reads_turns
        self._known: OrderedDict[Key, Prediction] = OrderedDict()
        self._jobs: list[_Job] = []  # that have rows which wait; who waited longest for a turn is first
        self._change = threading.Condition()
        self._thread: threading.Thread | None = None
        self.rows = self.passes = self.repeated = 0

    def __call__(
        self, rows: Sequence[Row], *, batch_size: int = 32, on_batch: OnBatch | None = None
    ) -> list[Prediction]:
        """See :meth:`contradiction.methods.base.Classifier.predict`.

        Raises:
            TooLongError: the request asks for more reading than it may.
            ServiceError: the request cannot be answered.
        """
        ticket = _TICKET.get(None) or Ticket(math.inf, sys.maxsize)
        keys = [hash(tuple(row[column] for column in self._columns)) for row in rows]
        if ended := ticket.ended():
            raise ended
        with self._change:
            results = {key: self._known[key] for key in keys if key in self._known}
            for key in results:
                self._known.move_to_end(key)
            missing = {key: row for key, row in zip(keys, rows, strict=True) if key not in results}
            self.repeated += len(keys) - len(missing)
            if missing:
                self._charge(ticket, missing.values())
                job = _Job(deque(missing.items()), ticket)
                if (waiting := self.waiting) and waiting + len(missing) > WAITING:
                    raise BusyError
                self._jobs.append(job)
                if self._thread is None or not self._thread.is_alive():
                    self._thread = threading.Thread(target=self._run, name="predictions", daemon=True)
                    self._thread.start()
                self._change.notify()
        if missing:
            if not job.done.wait(min(max(0.0, ticket.until - time.monotonic()), threading.TIMEOUT_MAX)):
                raise LateError
            if job.error:
                raise job.error
            results |= job.results
        if on_batch and rows:
            on_batch(len(rows))
        return [results[key] for key in keys]

    def _charge(self, ticket: Ticket, rows: Iterable[Row]) -> None:
        """Counts the characters of rows; raises TooLongError if there are too many for one request."""
        read: set[str] = set()
        if self._reads_chats and self._reads_turns:  # a part of two turns reads a chat turn by turn
            rows = chain.from_iterable(map(turns_of, rows))
        for row in rows:
            texts = {text for name in self._columns for text in _texts(row[name])}
            ticket.spent += min(sum(map(len, texts - read)), LONGEST_ROW)
            if not self._reads_turns:  # the rows of a chat share what was said before
                read |= texts
        if ticket.spent > ticket.cost:
            raise TooLongError(
                f"the chat is too long to be judged at once: it takes more than {ticket.cost:,} characters of reading; "
                "shorten the chat, or set max_turns, for instance to 5"
            )

    @property
    def waiting(self) -> int:
        """How many rows wait."""
        with self._change:
            return sum(len(job.rows) for job in self._jobs)

    def _run(self) -> None:
        while True:
            with self._change:
                while not self._jobs:
                    self._change.wait()
                taken = self._take()
            if taken:
                self._answer(taken)

    def _take(self) -> list[tuple[_Job, Key, Row]]:
        """The rows of the next forward pass: some of each caller in turn, those that waited longest first."""
        for job in [*self._jobs]:
            if error := job.ticket.ended():
                self._end(job, error)
        taken: list[tuple[_Job, Key, Row]] = []
        # A detector that reads whole chats goes on from one that it has read, if it reads no other in the same pass.
        while self._jobs and len(taken) < BATCH and not (taken and self._reads_chats):
            turn = self._jobs.pop(0)
            for _ in range(min(len(turn.rows), SLICE, BATCH - len(taken))):
                taken.append((turn, *turn.rows.popleft()))
            if turn.rows:
                self._jobs.append(turn)
            self._jobs.sort(key=lambda job: job.ticket.caller == turn.ticket.caller)  # the others come before
        return taken

    def _answer(self, taken: list[tuple[_Job, Key, Row]]) -> None:
        """Predicts rows; where that fails, tries each request alone, and only those that fail again get the error."""
        try:
            self._pass(taken)
        except BaseException as error:  # a panic in tokenizers is no Exception, and must not end this thread
            jobs = [*dict.fromkeys(job for job, _, _ in taken)]
            if len(jobs) == 1:
                failed = FailedError()
                failed.__cause__ = error
                LOG.error("a prediction failed", exc_info=error)
                return self._end(jobs[0], failed)
            for job in jobs:
                # Where the model is a service that does not answer, the callers stop waiting one after another.
                if ended := job.ticket.ended():
                    self._end(job, ended)
                else:
                    self._answer([part for part in taken if part[0] is job])

    def _end(self, job: _Job, error: Exception) -> None:
        with self._change:
            if job in self._jobs:
                self._jobs.remove(job)
        job.error = error
        job.done.set()

    def _pass(self, taken: list[tuple[_Job, Key, Row]]) -> None:
        unique = {key: row for _, key, row in taken}
        predicted = dict(zip(unique, self._predict(list(unique.values())), strict=True))
        with self._change:
            self.rows += len(unique)
            self.passes += 1
            self._known.update(predicted)
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        for job, key, _ in taken:
            job.results[key] = predicted[key]
        for job in dict.fromkeys(job for job, _, _ in taken):
            if not job.rows:
                job.done.set()


def _texts(value: str | tuple[str, ...]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else value
