"""The command ``cdconv serve``: the REST service."""

from typing import Annotated, Any

import typer

from contradiction.commands.common import SHIPPED, ModelOption, demand_model
from contradiction.serving.limits import Limits

DEFAULT = Limits()


def serve(
    model: ModelOption = SHIPPED,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="The port to listen on.")] = 8000,
    token: Annotated[
        str | None,
        typer.Option(envvar="CDCONV_TOKEN", help="Callers have to send it as Authorization: Bearer TOKEN."),
    ] = None,
    threshold: Annotated[
        float | None, typer.Option(help="The probability from which a reply is called, where a request names none.")
    ] = None,
    prior: Annotated[
        float | None, typer.Option(help="The share of contradictions among your replies; use it with --threshold.")
    ] = None,
    max_body: Annotated[int, typer.Option(min=1, help="The most bytes of a request.")] = DEFAULT.body,
    max_messages: Annotated[int, typer.Option(min=1, help="The most messages of a chat.")] = DEFAULT.messages,
    max_cost: Annotated[int, typer.Option(min=1, help="The most characters read for a request.")] = DEFAULT.cost,
    timeout: Annotated[float, typer.Option(min=0.1, help="The most seconds for an answer.")] = DEFAULT.seconds,
    precision: Annotated[str, typer.Option(help="fp32; bf16, which is faster on some hardware.")] = "fp32",
) -> None:
    """Serves a detector over HTTP: /v1/judge, /v1/scan, /v1/rerank, /v1/check; /docs describes them."""
    import importlib.util

    from contradiction.errors import InputError
    from contradiction.page import check_address

    if any(importlib.util.find_spec(name) is None for name in ("fastapi", "uvicorn")):
        raise InputError('the service needs fastapi and uvicorn: pip install "cdconv[serve]"')
    demand_model(model)
    check_address(host, port)
    import uvicorn

    from contradiction.detector import ContradictionDetector
    from contradiction.serving.api import application
    from contradiction.serving.service import Service

    settings: dict[str, Any] = {
        name: value for name, value in (("threshold", threshold), ("prior", prior)) if value is not None
    }
    detector = ContradictionDetector.from_pretrained(model, precision=precision, **settings)
    service = Service(detector, Limits(max_body, max_messages, cost=max_cost, seconds=timeout))
    typer.echo(f"The service is at http://{host}:{port}/docs (Ctrl+C ends it)")
    uvicorn.run(application(service, token), host=host, port=port, log_level="warning", timeout_keep_alive=10)
