"""The service for assistants: its requests as tools of an MCP server, under the path ``/mcp``."""

import json
import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from importlib.util import find_spec
from typing import Any

from pydantic import ValidationError
from starlette.routing import Route

from contradiction import __version__
from contradiction.errors import InputError, shown
from contradiction.serving.endpoints import ENDPOINTS, answer, caller_of, explain
from contradiction.serving.predictions import FailedError, ServiceError
from contradiction.serving.service import Service

LOG = logging.getLogger(__name__)
PATH = "/mcp"
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
    return [Route(PATH, StreamableHTTPASGIApp(manager))], lambda app: manager.run()


async def _answered(services: Mapping[str, Service], name: str, arguments: dict[str, Any], caller: str) -> Any:
    if name not in ENDPOINTS:
        raise InputError(f"tool {shown(name)} does not exist; the tools are {', '.join(ENDPOINTS)}")
    try:
        body = ENDPOINTS[name].body.model_validate(arguments)
        # As JSON has it: lists where Python has tuples.
        return json.loads(json.dumps(await answer(services, name, body, caller)))
    except ValidationError as error:
        raise InputError(explain(error.errors(), ENDPOINTS[name].body)) from None
    except (InputError, ServiceError):
        raise
    except Exception:
        LOG.exception("a tool failed")  # not sent, because it may name files
        raise FailedError from None
