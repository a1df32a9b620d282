"""The REST service: the routes of ``cdconv serve``, which the page has too."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from fastapi import APIRouter, FastAPI, Request
from fastapi.exception_handlers import http_exception_handler
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware

from contradiction import __version__
from contradiction.errors import InputError
from contradiction.serving.middleware import Guard, Metrics
from contradiction.serving.service import Busy, Cancelled, Late, Service

CHAT = [
    {"role": role, "content": text}
    for role, text in zip(
        ("user", "assistant") * 2, ("你养猫吗？", "养了一只橘猫", "它叫什么名字？", "我没养过猫呀"), strict=True
    )
]


class Options(BaseModel):
    """What may stand in every request; see ``contradiction.settings.Settings``."""

    model_config = ConfigDict(extra="forbid")

    threshold: float | str | None = Field(
        None, description="A contradiction is called from this probability on; or `precision>=0.8`."
    )
    prior: float | None = Field(None, description="The share of contradictions among your replies, such as 0.1.")
    categories: list[str] | None = Field(None, description="Call only these kinds of contradiction.")
    max_turns: int | None = Field(None, description="The most earlier turns that a reply is compared with.")


class ChatRequest(Options):
    """A chat."""

    messages: list[dict[str, Any]] = Field(description="Messages with `role` and `content`.", examples=[CHAT])


class RerankRequest(ChatRequest):
    """A chat, and the replies that a bot could give."""

    messages: list[dict[str, Any]] = Field(description="The chat so far, up to the user.", examples=[CHAT[:3]])
    candidates: list[str] = Field(examples=[["我没养过猫呀", "它叫橘子"]])


class CheckRequest(Options):
    """A reply, and facts about the bot."""

    facts: list[str] = Field(description="Sentences in the bot's own words.", examples=[["我没有养宠物"]])
    reply: str = Field(examples=["我家的猫叫橘子"])
    question: str = Field("", description="What the user said before the reply.")


class Clash(BaseModel):
    """An earlier reply that the judged one contradicts."""

    messages: list[int]
    score: float


class Verdict(BaseModel):
    """The verdict on a reply, with the fields of ``cdconv detect``."""

    label: str | None
    contradiction: bool | None
    kind: str | None
    certainty: str | None
    score: float | None
    scores: dict[str, float]
    probability: float | None
    evidence: list[int]
    checked: bool
    reason: str | None
    reply: list[int]
    further: list[Clash]


class Verdicts(BaseModel):
    """A verdict on each reply of a chat."""

    verdicts: list[Verdict]


class Candidate(BaseModel):
    """A candidate with its verdict."""

    index: int
    reply: str
    verdict: Verdict


class Ranking(BaseModel):
    """The candidates, the least likely contradiction first."""

    ranked: list[Candidate]


class Span(BaseModel):
    """A clause of a message."""

    message: int
    start: int
    end: int


class Clauses(BaseModel):
    """The two clauses that clash; empty where there are none."""

    clauses: list[Span]


class Refusal(BaseModel):
    """Why there is no answer."""

    error: str


T = TypeVar("T")
POSTS = tuple(f"/v1/{name}" for name in ("judge", "scan", "rerank", "check", "clauses"))
PATHS = (*POSTS, "/healthz", "/metrics")
WATCH = 0.25  # seconds between looks whether the caller is still there
REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": Refusal, "description": said}
    for status, said in (
        (413, "The request is too large."),
        (422, "The input is not usable."),
        (503, "The service is busy; try again."),
        (504, "The answer took too long."),
    )
}


def application(service: Service, token: str | None = None) -> FastAPI:
    """The service as an application of its own.

    Args:
        service: what judges.
        token: what callers have to send as ``Authorization: Bearer TOKEN``; None for no token.
    """
    metrics = Metrics(PATHS)
    app = FastAPI(
        title="CDConv",
        summary="Finds the replies in which a Chinese chatbot contradicts itself.",
        version=__version__,
        middleware=[Middleware(Guard, body=service.limits.body, metrics=metrics, token=token)],
    )
    app.include_router(router(service, metrics))
    for kind, handler in handlers().items():
        app.add_exception_handler(kind, handler)
    return app


def router(service: Service, metrics: Metrics) -> APIRouter:
    """The routes of the service."""
    routes = APIRouter(responses=REFUSALS)

    @routes.post("/v1/judge", response_model=Verdict, summary="Judge the last reply of a chat")
    async def judge(request: Request, body: ChatRequest) -> Any:
        return await _answer(service, request, lambda: service.judge(**_given(body)))

    @routes.post("/v1/scan", response_model=Verdicts, summary="Judge every reply of a chat")
    async def scan(request: Request, body: ChatRequest) -> Any:
        return {"verdicts": await _answer(service, request, lambda: service.scan(**_given(body)))}

    @routes.post("/v1/rerank", response_model=Ranking, summary="Order candidate replies")
    async def rerank(request: Request, body: RerankRequest) -> Any:
        return {"ranked": await _answer(service, request, lambda: service.rerank(**_given(body)))}

    @routes.post("/v1/check", response_model=Verdict, summary="Judge a reply against facts about the bot")
    async def check(request: Request, body: CheckRequest) -> Any:
        return await _answer(service, request, lambda: service.check(**_given(body)))

    @routes.post("/v1/clauses", response_model=Clauses, summary="Find the two clauses that clash")
    async def clauses(request: Request, body: ChatRequest) -> Any:
        return {"clauses": await _answer(service, request, lambda: service.clauses(**_given(body)))}

    @routes.get("/healthz", summary="Whether the service answers")
    async def healthz() -> dict[str, str]:
        return {"status": "ok", "model": Path(service.detector.name).name, "version": __version__}

    @routes.get("/metrics", summary="Counts for Prometheus", response_class=PlainTextResponse)
    async def measured() -> str:
        joined = service.predictions
        return metrics.text(
            {
                "cdconv_requests_working": ("Requests that are worked on.", service.working),
                "cdconv_rows_waiting": ("Rows that wait to be predicted.", joined.waiting),
                "cdconv_rows_total": ("Rows predicted.", joined.rows),
                "cdconv_rows_repeated_total": ("Rows asked for again, and known.", joined.repeated),
                "cdconv_passes_total": ("Forward passes.", joined.passes),
            }
        )

    return routes


def _given(body: Options) -> dict[str, Any]:
    return body.model_dump(exclude_none=True)


async def _answer(service: Service, request: Request, call: Callable[[], T]) -> T:
    """Runs a call in a thread; it ends where the caller has gone."""
    ticket = service.ticket()
    with service.place():
        work = asyncio.get_running_loop().run_in_executor(service.pool, service.answer, call, ticket)
        try:
            while not (await asyncio.wait([work], timeout=WATCH))[0]:
                ticket.cancelled = ticket.cancelled or await request.is_disconnected()
            return work.result()
        except asyncio.CancelledError:
            ticket.cancelled = True
            raise


def _in_words(error: Exception) -> str:
    if not isinstance(error, RequestValidationError):
        return str(error)
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"] if part != "body")
    return f"{place}: {first['msg']}" if place else str(first["msg"])


def handlers(paths: tuple[str, ...] = ("/",)) -> dict[type[Exception], Any]:
    """The handlers of errors, which all answer ``{"error": ...}``.

    Args:
        paths: the beginnings of the paths for which unknown paths and failures are answered so; the others are answered
            as FastAPI does.
    """

    async def http_error(request: Request, error: HTTPException) -> Response:
        if not request.url.path.startswith(paths):
            return await http_exception_handler(request, error)
        return JSONResponse({"error": str(error.detail)}, error.status_code, error.headers)

    async def failure(request: Request, error: Exception) -> Response:
        if not request.url.path.startswith(paths):
            return PlainTextResponse("Internal Server Error", 500)
        return JSONResponse({"error": "the service failed; its log says why"}, 500)

    return {
        InputError: _refusal(422),
        RequestValidationError: _refusal(422),
        Busy: _refusal(503, {"retry-after": "2"}),
        Late: _refusal(504),
        Cancelled: _refusal(499),
        HTTPException: http_error,
        Exception: failure,
    }


def _refusal(status: int, headers: dict[str, str] | None = None) -> Any:
    async def refuse(request: Request, error: Exception) -> Response:
        return JSONResponse({"error": _in_words(error)}, status, headers)

    return refuse
