"""The REST service: the routes of ``cdconv serve``, which the page has too."""

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

from fastapi import APIRouter, FastAPI, Request
from fastapi.exception_handlers import http_exception_handler
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware

from contradiction import __version__
from contradiction.conversation import alternating
from contradiction.errors import InputError, shown
from contradiction.serving import docs
from contradiction.serving.middleware import OPEN, Guard, Metrics
from contradiction.serving.predictions import BusyError, CallerGoneError, FailedError, LateError
from contradiction.serving.service import Service

CHAT = alternating(("你养猫吗？", "养了一只橘猫", "它叫什么名字？", "我没养过猫呀"))


class RequestOptions(BaseModel):
    """The options of every request; see ``contradiction.settings.Settings``."""

    model_config = ConfigDict(extra="forbid", strict=True)  # otherwise true is read as the number 1

    threshold: float | str | None = Field(
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


class ChatRequest(RequestOptions):
    """A chat."""

    messages: list[dict[str, Any]] = Field(description="Messages with `role` and `content`.", examples=[CHAT])


class RerankRequest(ChatRequest):
    """A chat, and the replies that a bot could give."""

    messages: list[dict[str, Any]] = Field(description="The chat so far, up to the user.", examples=[CHAT[:3]])
    candidates: list[str] = Field(examples=[["我没养过猫呀", "它叫橘子"]])


class CheckRequest(RequestOptions):
    """A reply, and facts about the bot."""

    facts: list[str] = Field(description="Sentences in the bot's own words.", examples=[["我没有养宠物"]])
    reply: str = Field(examples=["我家的猫叫橘子"])
    question: str = Field(
        "",
        description="What the user said before the reply; without it the verdict is unsure.",
        examples=["你养宠物吗？"],
    )


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
    """The candidates, the most consistent first and contradictions last."""

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
REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": Refusal, "description": description}
    for status, description in (
        (400, "The body is not in UTF-8."),
        (413, "The request is too large."),
        (422, "The input is not usable."),
        (500, "The service failed; its log says why."),
        (503, "The service is busy; try again."),
        (504, "The answer took too long."),
    )
}


def application(service: Service, token: str | None = None) -> FastAPI:
    """The service as an application of its own; callers send the token, if there is one, as a bearer token."""
    metrics = Metrics(PATHS)
    app = FastAPI(
        docs_url=None,  # the pages of FastAPI fetch scripts from another host; the router has one that does not
        redoc_url=None,
        title="CDConv",
        summary="Finds the replies in which a Chinese chatbot contradicts itself.",
        version=__version__,
        middleware=[Middleware(Guard, body=service.limits.body, metrics=metrics, token=token)],
    )
    app.include_router(router({name_of(service): service}, metrics))
    app.add_api_route("/", lambda: RedirectResponse("/docs"), include_in_schema=False)
    for kind, handler in handlers().items():
        app.add_exception_handler(kind, handler)
    if token is not None:
        _describe_token(app.openapi())  # FastAPI keeps the description
    return app


def _describe_token(description: dict[str, Any]) -> None:
    """Adds the token to the OpenAPI description of the paths that need it."""
    description["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    answer = description["paths"][POSTS[0]]["post"]["responses"]["422"]
    for path, operations in description["paths"].items():
        for operation in operations.values() if path not in OPEN else ():
            operation["security"] = [{"token": []}]
            operation["responses"]["401"] = {**answer, "description": "The token is missing or wrong."}


def router(services: Mapping[str, Service], metrics: Metrics) -> APIRouter:
    """The routes of the service.

    Args:
        services: name -> a detector that a request can choose; by default the first. No request can load another one.
        metrics: the counts of the answers.
    """
    routes = APIRouter(responses=REFUSALS)

    async def answer(request: Request, body: RequestOptions, call: Callable[..., T]) -> T:
        options = body.model_dump(exclude_none=True)
        selected = chosen(services, options.pop("detector", None))
        return await selected.answer_in_turn(
            lambda: call(selected, **options), caller_of(request), request.is_disconnected
        )

    @routes.post("/v1/judge", response_model=Verdict, summary="Judge the last reply of a chat")
    async def judge(request: Request, body: ChatRequest) -> Any:
        return await answer(request, body, Service.judge)

    @routes.post("/v1/scan", response_model=Verdicts, summary="Judge every reply of a chat")
    async def scan(request: Request, body: ChatRequest) -> Any:
        return {"verdicts": await answer(request, body, Service.scan)}

    @routes.post("/v1/rerank", response_model=Ranking, summary="Order candidate replies")
    async def rerank(request: Request, body: RerankRequest) -> Any:
        return {"ranked": await answer(request, body, Service.rerank)}

    @routes.post("/v1/check", response_model=Verdict, summary="Judge a reply against facts about the bot")
    async def check(request: Request, body: CheckRequest) -> Any:
        return await answer(request, body, Service.check)

    @routes.post("/v1/clauses", response_model=Clauses, summary="Find the two clauses that clash")
    async def clauses(request: Request, body: ChatRequest) -> Any:
        return {"clauses": await answer(request, body, Service.clauses)}

    @routes.get("/healthz", summary="Whether the service answers")
    async def healthz() -> dict[str, Any]:
        return {"status": "ok", "model": next(iter(services)), "version": __version__, "detectors": [*services]}

    @routes.get("/metrics", summary="Counts for Prometheus", response_class=PlainTextResponse)
    async def measured() -> str:
        joined = [member.predictions for member in services.values()]
        return metrics.text(
            {
                "cdconv_requests_working": ("Requests that are worked on.", sum(s.working for s in services.values())),
                "cdconv_rows_waiting": (
                    "Rows that wait to be predicted.",
                    sum(predictions.waiting for predictions in joined),
                ),
                "cdconv_rows_total": ("Rows predicted.", sum(predictions.rows for predictions in joined)),
                "cdconv_rows_repeated_total": (
                    "Rows asked for again, and known.",
                    sum(predictions.repeated for predictions in joined),
                ),
                "cdconv_passes_total": ("Forward passes.", sum(predictions.passes for predictions in joined)),
            }
        )

    described = get_openapi(title="CDConv", version=__version__, routes=routes.routes)

    @routes.get("/docs", include_in_schema=False)
    async def description() -> HTMLResponse:
        return HTMLResponse(docs.page(described), headers={"content-security-policy": docs.POLICY})

    return routes


def name_of(service: Service) -> str:
    """The name by which a request chooses the detector of a service."""
    return Path(service.detector.name).name


def chosen(services: Mapping[str, Service], name: str | None) -> Service:
    """The service of a detector, by default the first; raises InputError if there is none of that name."""
    if name is None:
        return next(iter(services.values()))
    if not isinstance(name, str) or name not in services:  # a function of the page gets any value
        raise InputError(f"detector {shown(name)} does not exist here; the detectors are {', '.join(services)}")
    return services[name]


def caller_of(request: Any) -> str:
    """Who asks, by the address. Behind a proxy, FORWARDED_ALLOW_IPS makes the server read it from the header."""
    return request.client.host if request.client else ""


def _in_words(error: Exception, request: Request) -> str:
    if not isinstance(error, RequestValidationError):
        return str(error)
    if about_a_field := _about_a_field(error, request):
        return about_a_field
    first = error.errors()[0]
    if first["type"] == "json_invalid":  # its place is a number of characters
        return f"the body is not JSON ({first['ctx']['error']})"
    if first["loc"] == ("body",):  # for instance a body that a client sends as a form
        return "the body must be a JSON object, sent with the header content-type: application/json"
    place = ".".join(str(part) for part in first["loc"] if part != "body")
    return f"{place}: {first['msg']}" if place else str(first["msg"])


def _http_error_in_words(error: HTTPException, request: Request) -> str:
    if isinstance(error.__cause__, UnicodeDecodeError):
        return f"the body is not in UTF-8 (from byte {error.__cause__.start} on)"
    if error.status_code == 404:
        return f"{shown(request.url.path)} is no path of this service; /docs lists the paths"
    if error.status_code == 405 and error.headers:
        return f"{request.method} is not allowed for this path; use {error.headers['Allow']}"
    return str(error.detail)


def _about_a_field(error: RequestValidationError, request: Request) -> str | None:
    """The message about a field that is unknown or missing, with the right names; None if there is none."""
    body = getattr(request.scope.get("route"), "body_field", None)
    fields = getattr(body and body.field_info.annotation, "model_fields", {})
    found = [(problem["type"], problem["loc"][1]) for problem in error.errors() if len(problem["loc"]) == 2]
    unknown = [str(name) for kind, name in found if kind == "extra_forbidden"]
    missing = [str(name) for kind, name in found if kind == "missing" and name in fields]
    if not fields or not (unknown or missing):
        return None
    if not unknown:
        return f"{missing[0]}: is missing; {fields[missing[0]].description or 'the request needs it'}"
    # A field under another name is both: unknown, and missing under its own name.
    meant = get_close_matches(unknown[0], fields, 1) or missing
    hint = f"; {meant[0]} is probably meant" if meant else ""
    names = sorted(fields, key=lambda name: not fields[name].is_required())
    return f"{shown(unknown[0])} is no field of this request{hint}; the fields are {', '.join(names)}"


def handlers(paths: tuple[str, ...] = ("/",)) -> dict[type[Exception], Any]:
    """The handlers of errors, which all answer ``{"error": ...}``.

    Args:
        paths: the beginnings of the paths for which unknown paths and failures are answered so; FastAPI answers the
            others.
    """

    async def http_error(request: Request, error: HTTPException) -> Response:
        if not request.url.path.startswith(paths):
            return await http_exception_handler(request, error)
        return JSONResponse({"error": _http_error_in_words(error, request)}, error.status_code, error.headers)

    async def failure(request: Request, error: Exception) -> Response:
        if not request.url.path.startswith(paths):
            return PlainTextResponse("Internal Server Error", 500)
        return JSONResponse({"error": "the service failed; its log says why"}, 500)

    return {
        InputError: _refusal(422),
        RequestValidationError: _refusal(422),
        BusyError: _refusal(503, {"retry-after": "2"}),
        LateError: _refusal(504),
        CallerGoneError: _refusal(499),
        FailedError: _refusal(500),
        HTTPException: http_error,
        Exception: failure,
    }


def _refusal(status: int, headers: dict[str, str] | None = None) -> Any:
    async def refuse(request: Request, error: Exception) -> Response:
        return JSONResponse({"error": _in_words(error, request)}, status, headers)

    return refuse
