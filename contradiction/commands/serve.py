"""The commands ``cdconv serve``, ``cdconv space`` and ``cdconv review``: the service and the pages."""

import ipaddress
import os
from pathlib import Path
from typing import Annotated

import typer

from contradiction.chats.messages import Speakers
from contradiction.commands.common import (
    SHIPPED,
    BackendOption,
    BotNameOption,
    CategoryOption,
    DeviceOption,
    EncodingOption,
    MaxTurnsOption,
    ModelOption,
    PrecisionOption,
    PriorOption,
    RevisionOption,
    ThresholdOption,
    UserNameOption,
    existing_model,
    given_settings,
    limit_threads,
    say,
    say_precision,
    show,
)
from contradiction.errors import InputError
from contradiction.inputs.windows import MAX_TURNS
from contradiction.io.environment import check_installed
from contradiction.settings import Limits

DEFAULT = Limits()
LOOPBACK = "127.0.0.1"
TOKEN = "CDCONV_TOKEN"
PACKAGES = {"fastapi": "serve", "uvicorn": "serve"}  # each with the extra that installs it

HostOption = Annotated[str, typer.Option(help="The address to listen on.")]
PortOption = Annotated[int, typer.Option(min=1, max=65535, help="The port to listen on.")]


def serve(
    model: ModelOption = SHIPPED,
    revision: RevisionOption = None,
    host: HostOption = LOOPBACK,
    port: PortOption = 8000,
    token: Annotated[
        str | None,
        typer.Option(envvar=TOKEN, help="A secret that callers must send as Authorization: Bearer TOKEN."),
    ] = None,
    threshold: ThresholdOption = None,
    prior: PriorOption = None,
    category: CategoryOption = None,
    max_turns: MaxTurnsOption = MAX_TURNS,
    max_cost: Annotated[
        int, typer.Option(min=1, help="The maximum number of characters that the model reads for a request.")
    ] = DEFAULT.cost,
    timeout: Annotated[
        float, typer.Option(min=0.1, help="The maximum time for an answer, in seconds.")
    ] = DEFAULT.seconds,
    precision: PrecisionOption = "auto",
    backend: BackendOption = "torch",
    device: DeviceOption = None,
) -> None:
    """Serves a detector over HTTP: /v1/judge, /v1/scan, /v1/rerank, /v1/check, /v1/clauses; /docs describes them.

    A request can override --threshold, --prior, --category and --max-turns. If mcp is installed, /mcp is an MCP server.
    """
    from contradiction.page import address, check_address

    check_installed("the service", PACKAGES)
    _check_token(token)
    settings = given_settings(threshold=threshold, prior=prior, categories=category, max_turns=max_turns)
    model = existing_model(model, revision)
    if token is None and not _is_loopback(host):
        where = address(host, port)
        say(f"no token is set, so anyone who reaches {where} can use the service; set one with --token or {TOKEN}")
    check_address(host, port)
    import uvicorn

    from contradiction.detector import ContradictionDetector
    from contradiction.inference import chosen_precision
    from contradiction.serving.api import application
    from contradiction.serving.service import Service

    limit_threads(backend)
    chosen = chosen_precision(precision, backend, device)
    say_precision(chosen, precision)
    detector = ContradictionDetector.from_pretrained(
        model, device=device, precision=chosen, backend=backend, **settings
    )
    service = Service(detector, Limits(cost=max_cost, seconds=timeout))
    typer.echo(f"The service is at http://{address(host, port)}/docs (Ctrl+C ends it)")
    uvicorn.run(application(service, token), host=host, port=port, log_level="warning", timeout_keep_alive=10)


def _check_token(token: str | None) -> None:
    """Raises InputError for an empty token, which would protect nothing, and for a token that callers cannot send."""
    # An empty variable reaches the command as None.
    if token is not None and not token.strip():
        raise InputError(f"the token is empty; --token or {TOKEN} must hold the token that callers send")
    if token is not None and token != token.strip():
        raise InputError(f"the token begins or ends with a space, which HTTP drops; --token or {TOKEN} must have none")
    if token is None and TOKEN in os.environ:
        raise InputError(f"{TOKEN} is empty; it must hold the token that callers send, or be unset for no token")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def space(
    model: ModelOption = SHIPPED,
    other: Annotated[
        list[str] | None, typer.Option(help="One more detector that visitors can choose; can be repeated.")
    ] = None,
    bot_url: Annotated[
        str | None,
        typer.Option(
            envvar="CDCONV_BOT_URL",
            help="The address, including /v1, of an OpenAI-compatible chatbot that visitors chat with. "
            "CDCONV_BOT_KEY holds its key.",
        ),
    ] = None,
    bot_model: Annotated[
        str | None, typer.Option(envvar="CDCONV_BOT_MODEL", help="The model that the endpoint serves.")
    ] = None,
    host: HostOption = LOOPBACK,
    port: PortOption = 7860,
    device: DeviceOption = None,
) -> None:
    """Starts the demo page, on which people try a detector."""
    from contradiction.page import serve

    if bool(bot_url) != bool(bot_model):
        raise InputError("a bot needs both: --bot-url, the address of the endpoint, and --bot-model, what it serves")
    bot = (bot_url, bot_model) if bot_url and bot_model else None
    serve(existing_model(model), host=host, port=port, others=other or (), bot=bot, device=device)


def review(
    file: Annotated[Path, typer.Argument(help="A file of chats, as `cdconv detect` reads it.")],
    labels: Annotated[
        Path | None, typer.Option(help="The SQLite file of labels.", show_default="FILE.labels.sqlite")
    ] = None,
    spot_checks: Annotated[
        Path | None,
        typer.Option(
            help="A file of chats with known labels, as --export writes it. The page mixes them in without a mark."
        ),
    ] = None,
    encoding: EncodingOption = None,
    user_name: UserNameOption = None,
    bot_name: BotNameOption = None,
    verdicts: Annotated[
        Path | None, typer.Option(help="What `cdconv detect FILE --out` wrote. --sample chooses chats by it.")
    ] = None,
    sample: Annotated[
        int,
        typer.Option(
            min=3,
            help="With --verdicts, the number of chats to review: a third are the surest contradictions, a third the "
            "most doubtful chats, and the others random.",
        ),
    ] = 150,
    annotators: Annotated[
        int, typer.Option(min=1, max=2, help="How many people label each chat. 1: the label of one person is final.")
    ] = 2,
    export: Annotated[
        Path | None, typer.Option(help="Write the final labels to this file as JSON lines. The page is not started.")
    ] = None,
    host: HostOption = LOOPBACK,
    port: PortOption = 7861,
) -> None:
    """Starts a page on which people label the last reply of each chat: two people, and a third where they differ.

    Labels are in a SQLite file, so the page can be stopped and started again. With --export, the command writes the
    final labels for `cdconv adapt` and `cdconv train --data`, and shows the agreement and Cohen's kappa.
    """
    from contradiction.page import address, check_address
    from contradiction.serving.review_store import LabelStore

    if not file.is_file():
        raise InputError(f"{file}: no such file of chats")
    labels = labels or file.with_name(f"{file.name}.labels.sqlite")
    if export:
        return _export(export, file, labels, spot_checks, annotators)
    check_installed("the page", PACKAGES)
    check_address(host, port)
    import uvicorn

    from contradiction.serving import review

    speakers = Speakers(tuple(user_name or ()), tuple(bot_name or ()))
    chats = review.chats_of(file, say, encoding=encoding, speakers=speakers, verdicts=verdicts, sample=sample)
    checks = review.spot_checks_of(spot_checks, speakers) if spot_checks else []
    store = LabelStore(labels, annotators)
    say(f"{labels}: {store.add(chats, checks):,} chats added, {len(chats) + len(checks):,} in the files")
    hosts = (*review.HOSTS, host) if _is_loopback(host) else ("*",)
    if "*" in hosts:
        say(f"whoever reaches {address(host, port)} can read the chats and label them")
    typer.echo(f"The page is at http://{address(host, port)}/ (Ctrl+C ends it)")
    uvicorn.run(review.application(store, hosts), host=host, port=port, log_level="warning")


# The number of annotators -> what a final label needs.
_NEEDED = {
    1: "the page shows the chats",
    2: "two people must give a chat the same label, or a third decides; --annotators 1 takes the labels of one person",
}


def _export(export: Path, file: Path, labels: Path, spot_checks: Path | None, annotators: int) -> None:
    """Shows the agreement, and writes the final labels."""
    from contradiction.chats.writers import check_not_the_input
    from contradiction.io.lines import write_lines
    from contradiction.serving.review_store import LabelStore

    if not labels.is_file():
        raise InputError(f"{labels}: there are no labels yet; without --export this command starts the page")
    for source in filter(None, (file, labels, spot_checks)):
        if source.exists():
            check_not_the_input([export], source.stat(), f"--export {export}")
    store = LabelStore(labels, annotators)
    show(store.report().table(annotators))
    if not (records := list(store.export())):
        raise InputError(f"{labels}: nothing to export yet, because no chat has a final label; {_NEEDED[annotators]}")
    write_lines(export, records)
    typer.echo(f"{export}: {len(records):,} labelled chats; next: cdconv adapt {export}")
