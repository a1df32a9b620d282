"""The command ``cdconv serve``: the REST service."""

import ipaddress
import os
from typing import Annotated, Any

import typer

from contradiction.commands.common import SHIPPED, ModelOption, RevisionOption, demand_model, say
from contradiction.errors import InputError
from contradiction.io.hub import pinned
from contradiction.serving.limits import Limits

DEFAULT = Limits()
TOKEN = "CDCONV_TOKEN"


def serve(
    model: ModelOption = SHIPPED,
    revision: RevisionOption = None,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="The port to listen on.")] = 8000,
    token: Annotated[
        str | None,
        typer.Option(envvar=TOKEN, help="A secret that callers must send as Authorization: Bearer TOKEN."),
    ] = None,
    threshold: Annotated[
        str | None,
        typer.Option(
            help="The probability from which a reply is called, or 'precision>=0.8'; a request may name another one."
        ),
    ] = None,
    prior: Annotated[
        float | None, typer.Option(help="The fraction of contradictions among your replies; use it with --threshold.")
    ] = None,
    max_body: Annotated[int, typer.Option(min=1, help="The maximum size of a request in bytes.")] = DEFAULT.body,
    max_messages: Annotated[int, typer.Option(min=1, help="The maximum messages of a chat.")] = DEFAULT.messages,
    max_cost: Annotated[int, typer.Option(min=1, help="The maximum characters to read for a request.")] = DEFAULT.cost,
    timeout: Annotated[float, typer.Option(min=0.1, help="The maximum seconds for an answer.")] = DEFAULT.seconds,
    precision: Annotated[str, typer.Option(help="fp32; bf16, which is faster on some hardware.")] = "fp32",
) -> None:
    """Serves a detector over HTTP: /v1/judge, /v1/scan, /v1/rerank, /v1/check, /v1/clauses; /docs describes them."""
    import importlib.util

    from contradiction.page import check_address

    if any(importlib.util.find_spec(name) is None for name in ("fastapi", "uvicorn")):
        raise InputError('the service needs fastapi and uvicorn: pip install "cdconv[serve]"')
    _check_token(token)
    settings = _settings(threshold=threshold, prior=prior)
    demand_model(model)
    model = pinned(model, revision)
    if token is None and not _is_loopback(host):
        say(f"there is no token, so whoever reaches {host}:{port} may ask; --token or {TOKEN} sets one")
    check_address(host, port)
    import uvicorn

    from contradiction.detector import ContradictionDetector
    from contradiction.serving.api import application
    from contradiction.serving.service import Service

    detector = ContradictionDetector.from_pretrained(model, precision=precision, **settings)
    service = Service(detector, Limits(max_body, max_messages, cost=max_cost, seconds=timeout))
    typer.echo(f"The service is at http://{host}:{port}/docs (Ctrl+C ends it)")
    uvicorn.run(application(service, token), host=host, port=port, log_level="warning", timeout_keep_alive=10)


def _check_token(token: str | None) -> None:
    """Raises InputError for an empty token, which would ask nothing of callers."""
    # An empty variable reaches the command as None.
    if token is not None and not token.strip():
        raise InputError(f"the token is empty; --token or {TOKEN} must hold the token that callers send")
    if token is None and TOKEN in os.environ:
        raise InputError(f"{TOKEN} is empty; it must hold the token that callers send, or be unset for no token")


def _settings(**options: Any) -> dict[str, Any]:
    """The settings that are given, checked before the model is loaded."""
    from contradiction.settings import Settings

    settings = {name: value for name, value in options.items() if value is not None}
    Settings(**settings)
    return settings


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
