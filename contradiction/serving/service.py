"""A detector for many callers at a time, and the table of what it is asked and answers, for REST, MCP and the page."""

import asyncio
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from copy import copy
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Lock, RLock
from typing import Any, TypeVar, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, SkipValidation, create_model, model_validator

from contradiction.chats.names import REMEDY, read_among
from contradiction.chats.records import read_chat
from contradiction.conversation import Messages, alternating
from contradiction.detector import ContradictionDetector
from contradiction.errors import InputError, shown
from contradiction.serving.predictions import BusyError, JoinedPredictions, Ticket, serving
from contradiction.settings import Limits, from_options
from contradiction.spans import Span
from contradiction.verdict import Verdict, is_unchecked

Record = dict[str, Any]
T = TypeVar("T")
WATCH = 0.25  # seconds between checks that the caller is still connected


class Places:
    """Places for the requests that are worked on or wait: ``most`` in all, and ``per_caller`` for each caller."""

    def __init__(self, most: int, per_caller: int) -> None:
        self._most, self._per_caller = most, per_caller
        self._lock = RLock()  # a finalizer may give a place back while this thread holds the lock
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
        verdicts: (endpoint, ``contradiction``, ``checked``) of a verdict -> how many there were.

    Raises:
        InputError: the detector judges no replies.
    """

    def __init__(self, detector: ContradictionDetector, limits: Limits | None = None) -> None:
        detector.check_judges_replies()
        self.limits = limits or Limits()
        self.source = detector.name
        self.predictions = JoinedPredictions(detector.classifier)
        classifier = copy(detector.classifier)
        classifier.name = Path(detector.name).name
        classifier.__dict__["predict"] = self.predictions
        self.detector = ContradictionDetector(classifier, detector.settings)
        # The threads wait for the one that predicts, which takes rows of each caller in turn.
        self.pool = ThreadPoolExecutor(self.limits.requests, "requests")
        self.verdicts: Counter[tuple[str, str, str]] = Counter()
        self.places = Places(self.limits.requests, self.limits.per_caller)
        self._lock = Lock()

    def ticket(self, caller: str = "") -> Ticket:
        """A ticket for one request, which starts now."""
        return Ticket(time.monotonic() + self.limits.seconds, self.limits.cost, caller)

    def judge(self, messages: Messages, **settings: Any) -> Record:
        """The verdict on the last reply of a chat, as a record; settings as of ``Settings``."""
        return self._records("judge", [self.with_settings(**settings)(messages)])[0]

    def scan(self, messages: Messages, **settings: Any) -> Record:
        """The verdicts on every reply of a chat."""
        return {"verdicts": self._records("scan", self.with_settings(**settings).scan(messages))}

    def rerank(self, messages: Messages, candidates: Sequence[str], **settings: Any) -> Record:
        """The candidates with their verdicts, the least likely contradiction first."""
        ranked = self.with_settings(**settings).rerank(messages, candidates)
        records = self._records("rerank", [candidate.verdict for candidate in ranked])
        return {
            "ranked": [
                {"index": candidate.index, "reply": candidate.reply, "verdict": record}
                for candidate, record in zip(ranked, records, strict=True)
            ]
        }

    def check(self, facts: Sequence[str], reply: str, question: str = "", **settings: Any) -> Record:
        """The verdict on a reply against facts about the bot."""
        return self._records("check", [self.with_settings(**settings).check(facts, reply, question)])[0]

    def clauses(self, messages: Messages, **settings: Any) -> Record:
        """The two clauses that clash in the last reply of a chat; none if there are none."""
        location = self.with_settings(**settings).locate(messages)
        return {"clauses": [asdict(span) for span in (location.earlier, location.later)] if location else []}

    def count(self, endpoint: str, verdicts: Sequence[Verdict]) -> None:
        """Counts the verdicts on one chat by the name of an endpoint: what it judges may be no reply that was sent."""
        found = Counter(
            (
                endpoint,
                "none" if verdict.contradiction is None else str(verdict.contradiction).lower(),
                str(not is_unchecked(verdict.checked, verdict.reason, len(verdicts))).lower(),
            )
            for verdict in verdicts
        )
        with self._lock:
            self.verdicts = self.verdicts + found  # a new one, because another thread may read the old one

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

    def _records(self, endpoint: str, verdicts: Sequence[Verdict]) -> list[Record]:
        self.count(endpoint, verdicts)
        return [verdict.to_record() for verdict in verdicts]

    def check_sizes(self, options: Mapping[str, Any]) -> None:
        """Raises InputError if a request has more messages, candidates or facts than it may."""
        for name in ("messages", "candidates", "facts"):
            whole, most = ("chat", self.limits.messages) if name == "messages" else ("request", self.limits.candidates)
            if (count := len(options.get(name, ()))) > most:
                raise InputError(f"the {whole} has {count:,} {name}; at most {most:,} are allowed")


CHAT = alternating(("你喜欢吃辣吗？", "我不吃辣", "火锅要什么锅底？", "要最辣的，我最爱吃辣"))


class Options(BaseModel):
    """The options of every request; see ``contradiction.settings.Settings``."""

    model_config = ConfigDict(extra="forbid", strict=True)  # otherwise true is read as the number 1

    threshold: SkipValidation[float | str | None] = Field(  # ``Settings`` checks it, in one sentence
        None, description="A contradiction is called from this probability on; or `precision>=0.8`."
    )
    prior: float | None = Field(None, description="The share of contradictions among your replies, such as 0.1.")
    categories: list[str] | None = Field(None, description="Call only these kinds of contradiction.")
    windowing: str | None = Field(
        None, description="How earlier turns are read: `windowed`, `structured` or `unstructured`."
    )
    max_turns: int | None = Field(
        None, description="The most earlier turns that a reply is compared with; 0 means all."
    )
    detector: str | None = Field(None, description="One of the detectors that `/healthz` names; by default the first.")


class Chat(Options):
    """A chat."""

    messages: list[dict[str, Any]] = Field(description="Messages with `role` and `content`.", examples=[CHAT])

    @model_validator(mode="before")
    @classmethod
    def _with_answer(cls, body: Any) -> Any:
        """The chat with a reply that stands beside it, as files of chats have them."""
        if not isinstance(body, dict) or "messages" not in body:
            return body
        read = {"messages", *read_among([name for name in body if name not in cls.model_fields])}
        messages = read_chat({name: body[name] for name in body if name in read}).messages
        return {**{name: value for name, value in body.items() if name not in read}, "messages": messages}


class Candidates(Options):
    """A chat, and the replies that a bot could give."""

    messages: list[dict[str, Any]] = Field(description="The chat so far, up to the user.", examples=[CHAT[:3]])
    candidates: list[str] = Field(description="The replies.", examples=[["要最辣的，我最爱吃辣", "要番茄锅"]])


class Facts(Options):
    """A reply, and facts about the bot."""

    facts: list[str] = Field(description="Sentences in the bot's own words.", examples=[["我没有养宠物"]])
    reply: str = Field(description="The reply.", examples=["我家的猫叫橘子"])
    question: str = Field(
        "",
        description="What the user said before the reply; without it the verdict is unsure.",
        examples=["你养宠物吗？"],
    )


def model_of(kind: type) -> type[BaseModel]:
    """The pydantic model of a dataclass as JSON has it, with the descriptions of its docstring."""
    texts = re.findall(r"^        (\w+): (.+(?:\n {12}.+)*)", kind.__doc__ or "", re.MULTILINE)
    described = {
        name: re.sub(r"\s+|``", lambda found: " " if found[0].isspace() else "`", text) for name, text in texts
    }
    fields: dict[str, Any] = {
        name: (hint, Field(description=described.get(name))) for name, hint in get_type_hints(kind).items()
    }
    return create_model(kind.__name__, __doc__=(kind.__doc__ or "").partition("\n")[0], **fields)


VERDICT = model_of(Verdict)


class Verdicts(BaseModel):
    """A verdict on each reply of a chat."""

    # A model that pydantic makes at run time.
    verdicts: list[VERDICT] = Field(description="The verdicts, each as from `/v1/judge`.")  # type: ignore[valid-type]


class Candidate(BaseModel):
    """A candidate with its verdict."""

    index: int
    reply: str
    verdict: VERDICT  # type: ignore[valid-type]  # a model that pydantic makes at run time


class Ranking(BaseModel):
    """The candidates, the most consistent first and contradictions last."""

    ranked: list[Candidate] = Field(description="Each with its `index` in the request, `reply` and `verdict`.")


class Clauses(BaseModel):
    """The two clauses that clash; empty where there are none."""

    # A model that pydantic makes at run time.
    clauses: list[model_of(Span)] = Field(description="Each with `message`, `start` and `end`.")  # type: ignore[valid-type]


@dataclass(frozen=True)
class Endpoint:
    """A kind of request.

    Attributes:
        body: what is sent.
        answer: what is answered.
        call: the method of the service that answers.
        summary: what it is for.
    """

    body: type[Options]
    answer: type[BaseModel]
    call: Callable[..., dict[str, Any]]
    summary: str


ENDPOINTS: Mapping[str, Endpoint] = {
    "judge": Endpoint(Chat, VERDICT, Service.judge, "Judge the last reply of a chat"),
    "scan": Endpoint(Chat, Verdicts, Service.scan, "Judge every reply of a chat"),
    "rerank": Endpoint(Candidates, Ranking, Service.rerank, "Order candidate replies"),
    "check": Endpoint(Facts, VERDICT, Service.check, "Judge a reply against facts about the bot"),
    "clauses": Endpoint(Chat, Clauses, Service.clauses, "Find the two clauses that clash"),
}


async def answer(
    services: Mapping[str, Service],
    name: str,
    body: Options,
    caller: str,
    gone: Callable[[], Awaitable[bool]] | None = None,
) -> dict[str, Any]:
    """The answer to a request; raises what ``Service.answer_for`` raises."""
    options = body.model_dump(exclude_none=True, warnings=False)
    service = chosen(services, options.pop("detector", None))
    service.check_sizes(options)
    return await service.answer_for(lambda: ENDPOINTS[name].call(service, **options), caller, gone)


def chosen(services: Mapping[str, Service], name: object) -> Service:
    """The service of a detector, by default the first; raises InputError if there is none of that name."""
    if name is None:
        return next(iter(services.values()))
    if not isinstance(name, str) or name not in services:  # a tab of the page gets any value
        raise InputError(f"detector {shown(name)} does not exist here; the detectors are {', '.join(services)}")
    return services[name]


def caller_of(request: Any) -> str:
    """Who asks, by the address. Behind a proxy, FORWARDED_ALLOW_IPS makes the server read it from the header."""
    return request.client.host if request and request.client else ""


def explain(problems: Sequence[Mapping[str, Any]]) -> str:
    """What is wrong with a request, in one line, from the errors of pydantic."""
    if problems[0]["type"] == "value_error":  # of the reader of chats
        return str(problems[0]["ctx"]["error"]).removesuffix(f"; {REMEDY}")  # which names options of commands
    places = [".".join(str(part) for part in problem["loc"] if part != "body") for problem in problems[:3]]
    return "; ".join(f"{place}: {problem['msg']}" for place, problem in zip(places, problems, strict=False))
