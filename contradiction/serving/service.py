"""A detector for many callers at a time: one place that judges for REST, for MCP and for the page."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from contradiction.conversation import Messages
from contradiction.detector import ContradictionDetector
from contradiction.errors import InputError
from contradiction.serving.predictions import BusyError, JoinedPredictions, Ticket, joined, serving
from contradiction.settings import Limits, from_options
from contradiction.verdict import Verdict, is_unchecked

Record = dict[str, Any]
T = TypeVar("T")
WATCH = 0.25  # seconds between checks that the caller is still connected


class Places:
    """Places for the requests that are worked on or wait: ``most`` in all, and ``per_caller`` for each caller."""

    def __init__(self, most: int, per_caller: int) -> None:
        self._most, self._per_caller, self._lock = most, per_caller, Lock()
        self._callers: Counter[str] = Counter()

    def __len__(self) -> int:
        """How many are taken."""
        return self._callers.total()

    @contextmanager
    def taken(self, caller: str) -> Iterator[None]:
        """Takes a place inside the block; raises BusyError if there is none."""
        with self._lock:
            if len(self) >= self._most or self._callers[caller] >= self._per_caller:
                raise BusyError
            self._callers[caller] += 1
        try:
            yield
        finally:
            with self._lock:
                self._callers[caller] -= 1
                self._callers += Counter()  # drops the callers who have none


class Service:
    """Judges chats for many callers at a time. Its methods may be called from any thread.

    Attributes:
        detector: the detector; its name is that of the model's folder, because callers may not see where that is.
        source: the name by which the detector was loaded.
        predictions: joins the requests, and counts them.
        places: those of the requests.
        pool: the threads in which requests wait.
        verdicts: (``contradiction``, ``checked``) of a verdict -> how many there were.

    Raises:
        InputError: the detector judges no replies.
    """

    def __init__(self, detector: ContradictionDetector, limits: Limits | None = None) -> None:
        detector.check_judges_replies()
        self.limits = limits or Limits()
        self.source = detector.name
        self.predictions = JoinedPredictions(detector.classifier)
        classifier = joined(detector.classifier, self.predictions, Path(detector.name).name)
        self.detector = ContradictionDetector(classifier, detector.settings)
        # The threads wait for the one that predicts, which takes rows of each caller in turn.
        self.pool = ThreadPoolExecutor(self.limits.requests, "requests")
        self.verdicts: Counter[tuple[str, str]] = Counter()
        self.places = Places(self.limits.requests, self.limits.per_caller)
        self._lock = Lock()

    def ticket(self, caller: str = "") -> Ticket:
        """A ticket for one request, which starts now."""
        return Ticket(time.monotonic() + self.limits.seconds, self.limits.cost, caller)

    def judge(self, messages: Messages, **settings: Any) -> Record:
        """The verdict on the last reply of a chat, as a record; settings as of ``Settings``."""
        self._check_chat(messages)
        return self._records([self.with_settings(**settings)(messages)])[0]

    def scan(self, messages: Messages, **settings: Any) -> Record:
        """The verdicts on every reply of a chat."""
        self._check_chat(messages)
        return {"verdicts": self._records(self.with_settings(**settings).scan(messages))}

    def rerank(self, messages: Messages, candidates: Sequence[str], **settings: Any) -> Record:
        """The candidates with their verdicts, the least likely contradiction first."""
        self._check_chat(messages)
        self._check_count(candidates, "candidates")
        ranked = self.with_settings(**settings).rerank(messages, candidates)
        records = self._records([candidate.verdict for candidate in ranked])
        return {
            "ranked": [
                {"index": candidate.index, "reply": candidate.reply, "verdict": record}
                for candidate, record in zip(ranked, records, strict=True)
            ]
        }

    def check(self, facts: Sequence[str], reply: str, question: str = "", **settings: Any) -> Record:
        """The verdict on a reply against facts about the bot."""
        self._check_count(facts, "facts")
        return self._records([self.with_settings(**settings).check(facts, reply, question)])[0]

    def clauses(self, messages: Messages, **settings: Any) -> Record:
        """The two clauses that clash in the last reply of a chat; none if there are none."""
        self._check_chat(messages)
        location = self.with_settings(**settings).locate(messages)
        return {"clauses": [asdict(span) for span in (location.earlier, location.later)] if location else []}

    def count(self, verdicts: Sequence[Verdict]) -> None:
        """Counts the verdicts on one chat."""
        found = Counter(
            (
                "none" if verdict.contradiction is None else str(verdict.contradiction).lower(),
                str(not is_unchecked(verdict.checked, verdict.reason, len(verdicts))).lower(),
            )
            for verdict in verdicts
        )
        with self._lock:
            self.verdicts += found

    def with_settings(self, **settings: Any) -> ContradictionDetector:
        """The detector with the settings of a request."""
        chosen = from_options(settings)
        return self.detector.with_settings(**chosen) if chosen else self.detector

    def answer(self, call: Callable[[], T], ticket: Ticket) -> T:
        """Answers one request in this thread.

        Raises:
            InputError: the input is not usable, or the request asks for more than it may.
            ServiceError: it cannot be answered.
        """
        ticket.check()
        with serving(ticket):
            return call()

    async def answer_for(
        self, call: Callable[[], T], caller: str = "", gone: Callable[[], Awaitable[bool]] | None = None
    ) -> T:
        """Answers one request in a thread; raises what :meth:`answer` raises, or BusyError.

        ``gone`` says whether the caller has gone, which ends the request.
        """
        ticket = self.ticket(caller)
        with self.places.taken(caller):
            work = asyncio.get_running_loop().run_in_executor(self.pool, self.answer, call, ticket)
            try:
                while not (await asyncio.wait([work], timeout=WATCH))[0]:
                    ticket.cancelled = ticket.cancelled or (gone is not None and await gone())
                return work.result()
            except asyncio.CancelledError:
                ticket.cancelled = True
                work.cancel()
                raise

    def _records(self, verdicts: Sequence[Verdict]) -> list[Record]:
        self.count(verdicts)
        return [verdict.to_record() for verdict in verdicts]

    def _check_chat(self, messages: Messages) -> None:
        if isinstance(messages, Sequence) and len(messages) > self.limits.messages:
            raise InputError(f"the chat has {len(messages):,} messages; at most {self.limits.messages:,} are allowed")

    def _check_count(self, values: Sequence[str], name: str) -> None:
        if isinstance(values, Sequence) and len(values) > self.limits.candidates:
            raise InputError(f"{name} are {len(values):,}; at most {self.limits.candidates:,} are allowed")
