"""The ways in over HTTP: REST with its page at /docs, and an MCP server. The page of the Space has them too."""

import json
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from importlib.util import find_spec
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Security
from fastapi.exception_handlers import http_exception_handler
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from fastapi.security import HTTPBearer
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.routing import Route

from contradiction import __version__
from contradiction.errors import InputError, shown
from contradiction.io.tables import render
from contradiction.serving.middleware import Guard, Metrics
from contradiction.serving.predictions import BusyError, FailedError, ServiceError
from contradiction.serving.service import ENDPOINTS, Endpoint, Service, answer, caller_of, explain

LOG = logging.getLogger(__name__)
MCP = "/mcp"
Lifespan = Callable[[Any], AbstractAsyncContextManager[None]]


def tools(services: Mapping[str, Service]) -> tuple[list[Route], Lifespan | None]:
    """The route of the MCP server, and what runs as long as the application; nothing if mcp is not installed."""
    if find_spec("mcp") is None:
        return [], None
    from mcp import types
    from mcp.server.fastmcp.server import StreamableHTTPASGIApp
    from mcp.server.lowlevel import Server
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    server = Server[Any, Any]("cdconv", version=__version__)

    @server.list_tools()
    async def listed() -> list[types.Tool]:
        return [
            types.Tool(
                name=name,
                description=f"{endpoint.summary}. The chat is in Chinese.",
                inputSchema=endpoint.body.model_json_schema(),
                outputSchema=endpoint.answer.model_json_schema(),
            )
            for name, endpoint in ENDPOINTS.items()
        ]

    @server.call_tool(validate_input=False)  # the body of the endpoint checks it, in words
    async def call(name: str, arguments: dict[str, Any]) -> tuple[list[types.TextContent], dict[str, Any]]:
        found = await _answered(services, name, arguments, caller_of(server.request_context.request))
        return [types.TextContent(type="text", text=json.dumps(found, ensure_ascii=False))], found

    body = next(iter(services.values())).limits.body
    manager = StreamableHTTPSessionManager(server, json_response=True, stateless=True, max_request_body_size=body)
    # Without GET, which opens a stream for messages of the server: it has none, and the stream would never end.
    return [Route(MCP, StreamableHTTPASGIApp(manager), methods=["POST"])], lambda app: manager.run()


async def _answered(services: Mapping[str, Service], name: str, arguments: dict[str, Any], caller: str) -> Any:
    if name not in ENDPOINTS:
        raise InputError(f"tool {shown(name)} does not exist; the tools are {', '.join(ENDPOINTS)}")
    try:
        body = ENDPOINTS[name].body.model_validate(arguments)
        # As JSON has it: lists where Python has tuples.
        return json.loads(json.dumps(await answer(services, name, body, caller)))
    except ValidationError as error:
        raise InputError(explain(error.errors())) from None
    except (InputError, ServiceError):
        raise
    except Exception:
        LOG.exception("a tool failed")  # not sent, because it may name files
        raise FailedError from None


POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def docs_page() -> str:
    """What the service is asked and what it answers, as HTML that fetches nothing: FastAPI's page fetches scripts."""
    examples = {}
    for name, endpoint in ENDPOINTS.items():
        fields = endpoint.body.model_fields.items()
        body = {field: info.examples[0] for field, info in fields if info.examples}
        examples[name] = json.dumps(body, ensure_ascii=False, indent=1)
    return render("service.html", version=__version__, endpoints=ENDPOINTS, examples=examples, refusals=REFUSALS)


class Refusal(BaseModel):
    """Why there is no answer."""

    error: str


POSTS = tuple(f"/v1/{name}" for name in ENDPOINTS)
PATHS = (*POSTS, "/healthz", "/metrics", MCP)
REFUSALS: dict[int | str, dict[str, Any]] = {
    401: {"model": Refusal, "description": "A token is needed, and it is missing or wrong."},
    400: {"model": Refusal, "description": "The body is not in UTF-8, or its JSON is nested too deeply."},
    403: {"model": Refusal, "description": "Only this machine may ask, and a page from elsewhere asks."},
    408: {"model": Refusal, "description": "The request took too long to arrive."},
    413: {"model": Refusal, "description": "The request is too large."},
    422: {"model": Refusal, "description": "The input is not usable."},
    500: {"model": Refusal, "description": "The service failed; its log says why."},
    503: {"model": Refusal, "description": "The service is busy; try again."},
    504: {"model": Refusal, "description": "The answer took too long."},
}


def application(service: Service, token: str | None = None, *, local: bool = False) -> FastAPI:
    """The service as an application of its own; callers send the token, if there is one, as a bearer token.

    ``local`` is that of :class:`contradiction.serving.middleware.Guard`.
    """
    metrics, services = Metrics(PATHS), {service.detector.name: service}
    mcp, lifespan = tools(services)
    app = FastAPI(
        docs_url=None,  # the pages of FastAPI fetch scripts from another host; the router has one that does not
        redoc_url=None,
        title="CDConv",
        summary="Finds the replies in which a Chinese chatbot contradicts itself.",
        version=__version__,
        middleware=[
            Middleware(
                Guard,
                body=service.limits.body,
                seconds=service.limits.seconds,
                metrics=metrics,
                token=token,
                local=local,
            )
        ],
        routes=[*mcp],
        lifespan=lifespan,
    )
    app.include_router(router(services, metrics, token))
    app.add_api_route("/", lambda: RedirectResponse("/docs"), include_in_schema=False)
    for kind, handler in handlers().items():
        app.add_exception_handler(kind, handler)
    return app


def router(services: Mapping[str, Service], metrics: Metrics, token: str | None = None) -> APIRouter:
    """The routes of the service, for detectors by name, of which a request can choose one; by default the first.

    The description names the ``token``, which the middleware checks.
    """
    routes = APIRouter(responses=REFUSALS)
    described: dict[str, Any] = {}
    if token is not None:
        described = {"dependencies": [Security(HTTPBearer(auto_error=False))]}
    for name, endpoint in ENDPOINTS.items():
        post = routes.post(f"/v1/{name}", response_model=endpoint.answer, summary=endpoint.summary, **described)
        post(_route(services, name, endpoint))

    @routes.head("/healthz", include_in_schema=False)  # as load balancers ask
    @routes.get("/healthz", summary="Whether the service answers")
    async def healthz() -> dict[str, Any]:
        return {"status": "ok", "model": next(iter(services)), "version": __version__, "detectors": [*services]}

    @routes.get("/metrics", summary="Counts for Prometheus", response_class=PlainTextResponse, **described)
    async def measured() -> str:
        return metrics.text(_counts(services))

    @routes.get("/docs", include_in_schema=False)
    async def description() -> HTMLResponse:
        return HTMLResponse(docs_page(), headers={"content-security-policy": POLICY})

    return routes


def _route(services: Mapping[str, Service], name: str, endpoint: Endpoint) -> Any:
    # FastAPI reads the type of the body from the annotation, which is known at run time alone.
    async def route(request: Request, body: endpoint.body) -> Any:  # type: ignore[name-defined]
        return await answer(services, name, body, caller_of(request), request.is_disconnected)

    return route


def _counts(services: Mapping[str, Service]) -> dict[str, tuple[str, Mapping[str, float]]]:
    """What the detectors did, by the name of the count."""
    joined = [service.predictions for service in services.values()]
    working = sum(len(service.places) for service in services.values())
    verdicts = sum((service.verdicts for service in services.values()), Counter[tuple[str, str, str]]())
    by_kind = {
        f'{{endpoint="{endpoint}",contradiction="{called}",checked="{checked}"}}': n
        for (endpoint, called, checked), n in sorted(verdicts.items())
    }
    return {
        "cdconv_requests_working": ("Requests that are worked on.", {"": working}),
        "cdconv_rows_waiting": ("Rows that wait to be predicted.", {"": sum(each.waiting for each in joined)}),
        "cdconv_rows_total": ("Rows predicted.", {"": sum(each.rows for each in joined)}),
        "cdconv_rows_repeated_total": ("Rows asked for again, and known.", {"": sum(each.repeated for each in joined)}),
        "cdconv_passes_total": ("Forward passes.", {"": sum(each.passes for each in joined)}),
        "cdconv_verdicts_total": ("Verdicts, by endpoint, contradiction and whether all text was read.", by_kind),
    }


def _in_words(error: Exception) -> str:
    if not isinstance(error, RequestValidationError):
        return str(error)
    first = error.errors()[0]
    if first["type"] == "json_invalid":  # its place is a number of characters
        return f"the body is not JSON ({first['ctx']['error']})"
    if first["loc"] == ("body",) and first["type"] != "value_error":  # for instance a body that is sent as a form
        return "the body must be a JSON object, sent with the header content-type: application/json"
    return explain(error.errors())


def handlers(paths: tuple[str, ...] = ("/",)) -> dict[type[Exception], Any]:
    """The handlers of errors, which all answer ``{"error": ...}``.

    Args:
        paths: the beginnings of the paths for which unknown paths and failures are answered so; FastAPI answers the
            others.
    """

    async def http_error(request: Request, error: HTTPException) -> Response:
        if not request.url.path.startswith(paths):
            return await http_exception_handler(request, error)
        said = error.detail
        if isinstance(cause := error.__cause__, UnicodeDecodeError):
            said = f"the body is not in UTF-8 (from byte {cause.start} on)"
        return JSONResponse({"error": said}, error.status_code, error.headers)

    async def failure(request: Request, error: Exception) -> Response:
        if not request.url.path.startswith(paths):
            return PlainTextResponse("Internal Server Error", 500)
        return JSONResponse({"error": "the service failed; its log says why"}, 500)

    async def refusal(request: Request, error: Exception) -> Response:
        status = error.status if isinstance(error, ServiceError) else 422
        headers = {"retry-after": "2"} if isinstance(error, BusyError) else None
        return JSONResponse({"error": _in_words(error)}, status, headers)

    refused: dict[type[Exception], Any] = dict.fromkeys((InputError, RequestValidationError, ServiceError), refusal)
    return {**refused, HTTPException: http_error, Exception: failure}
