"""The commands that open a port: ``cdconv serve``, ``space`` and ``review``."""

import importlib
import ipaddress
import os
import socket
import sys
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

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
    given_settings,
    limit_threads,
    say,
    say_precision,
    show,
    speakers_of,
)
from contradiction.errors import InputError
from contradiction.inputs.views import MAX_TURNS
from contradiction.io.environment import check_installed
from contradiction.io.hub import pinned
from contradiction.paths import SPACE
from contradiction.settings import Limits

DEFAULT = Limits()
LOOPBACK = "127.0.0.1"
TOKEN = "CDCONV_TOKEN"
PACKAGES = {"fastapi": "serve", "uvicorn": "serve"}  # each with the extra that installs it
SAMPLE = 150  # replies

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
    check_installed("the service", PACKAGES)
    _check_token(token)
    settings = given_settings(threshold=threshold, prior=prior, categories=category, max_turns=max_turns)
    model = pinned(model, revision)
    if token is None and not _is_loopback(host):
        where = _address(host, port)
        say(f"no token is set, so anyone who reaches {where} can use the service; set one with --token or {TOKEN}")
    _check_address(host, port)
    import uvicorn

    from contradiction.detector import ContradictionDetector
    from contradiction.methods.loading import chosen_precision
    from contradiction.serving.api import application
    from contradiction.serving.service import Service

    limit_threads(backend)
    chosen = chosen_precision(model, precision, backend, device)
    say_precision(chosen, precision)
    detector = ContradictionDetector.from_pretrained(
        model, device=device, precision=chosen, backend=backend, **settings
    )
    service = Service(detector, Limits(cost=max_cost, seconds=timeout))
    typer.echo(f"The service is at http://{_address(host, port)}/docs (Ctrl+C ends it)")
    app = application(service, token, local=_is_local(host))
    uvicorn.run(app, host=host, port=port, log_level="warning", timeout_keep_alive=10)


def _check_token(token: str | None) -> None:
    """Raises InputError for an empty token, which would protect nothing, and for a token that callers cannot send."""
    given = os.environ.get(TOKEN) if token is None else token  # an empty variable reaches the command as None
    if given is not None and (not given or given != given.strip()):
        raise InputError(
            f"the token is empty, or begins or ends with a space, which HTTP drops; --token or {TOKEN} must hold what "
            "callers send"
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_local(host: str) -> bool:
    """Whether only this machine may ask; a proxy on this machine may pass on the requests of others."""
    return _is_loopback(host) and "FORWARDED_ALLOW_IPS" not in os.environ


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
    """Starts the demo page, on which visitors try a detector."""
    if bool(bot_url) != bool(bot_model):
        raise InputError("a bot needs both: --bot-url, the address of the endpoint, and --bot-model, what it serves")
    check_installed("the page", {"gradio": "space"})
    _check_address(host, port)
    # Gradio reads this when it is imported. Otherwise it sends usage statistics to its developers.
    os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
    from contradiction.detector import ContradictionDetector

    app = page()
    bot = app.bots.Bot(bot_url, bot_model) if bot_url else None
    detectors = [ContradictionDetector.from_pretrained(name, device=device) for name in (model, *(other or ()))]
    for detector in detectors:
        if detector.task not in ("2-class", "4-class"):
            raise InputError(f"{detector.name}: judges no replies; the page needs a 2-class or a 4-class detector")
    app.launch(detectors[0], host=host, port=port, others=detectors[1:], bot=bot, local=_is_local(host))


def page() -> ModuleType:
    """The module of the page, ``space/app.py``, loaded as the Hub runs it: with its folder on the path."""
    if str(SPACE) not in sys.path:
        sys.path.insert(0, str(SPACE))
    return importlib.import_module("app")


def _check_address(host: str, port: int) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host, port), family=family).close()
    except (OSError, TypeError) as error:  # the latter for a name that is not UTF-8
        # The brackets repeat the address.
        reason = (getattr(error, "strerror", None) or str(error)).partition(" (")[0].lower()
        raise InputError(f"{_address(host, port)}: {reason}; --host and --port choose another address") from None


def _address(host: str, port: int) -> str:
    """Host and port as written in a URL: an IPv6 address is in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def review(
    file: Annotated[Path, typer.Argument(help="A file of chats, as `cdconv detect` reads it.")],
    labels: Annotated[
        Path | None, typer.Option(help="The file that keeps the labels.", show_default="FILE.review.jsonl")
    ] = None,
    spot_checks: Annotated[
        Path | None,
        typer.Option(
            help="A file of chats with known labels, as --export writes it. The page mixes them in, unmarked."
        ),
    ] = None,
    encoding: EncodingOption = None,
    user_name: UserNameOption = None,
    bot_name: BotNameOption = None,
    verdicts: Annotated[
        Path | None,
        typer.Option(
            help="The output of `cdconv detect`. --sample chooses by these verdicts: the last replies, or with the "
            "verdicts of --scan any replies."
        ),
    ] = None,
    sample: Annotated[
        int | None,
        typer.Option(
            min=3,
            show_default=str(SAMPLE),
            help="With --verdicts, the number of replies to review: one third the surest contradictions, one third the "
            "most doubtful replies, and one third random ones.",
        ),
    ] = None,
    annotators: Annotated[
        int, typer.Option(min=1, max=2, help="How many people label each chat. 1: the label of one person is final.")
    ] = 2,
    export: Annotated[
        Path | None, typer.Option(help="Write the final labels to this file as JSON lines. The page is not started.")
    ] = None,
    host: HostOption = LOOPBACK,
    port: PortOption = 7861,
) -> None:
    """Starts a page on which people label the last reply of each chat. A third person decides if the first two differ.

    Each label is saved at once, so the page can be stopped and started again. With --export, the command writes the
    final labels for `cdconv adapt` and `cdconv train --data`, and shows the agreement and Cohen's kappa.
    """
    from contradiction.serving.review_store import LabelStore

    if not file.is_file():
        raise InputError(f"{file}: no such file of chats")
    if sample and not verdicts:
        raise InputError(f"--sample {sample}: chooses replies by their verdicts; name the file with --verdicts")
    labels = labels or file.with_name(f"{file.name}.review.jsonl")
    if export:
        return _export(export, file, labels, spot_checks, annotators)
    check_installed("the page", PACKAGES)
    _check_address(host, port)
    import uvicorn

    from contradiction.io.files import locked
    from contradiction.serving import review

    speakers = speakers_of(user_name, bot_name)
    chats = review.chats_of(file, say, encoding, speakers, verdicts, sample or SAMPLE)
    checks = review.spot_checks_of(spot_checks, speakers) if spot_checks else []
    with locked(labels):
        store = LabelStore(labels, annotators)
        say(f"{labels}: {store.add(chats, checks):,} chats added, {len(chats) + len(checks):,} in the files")
        hosts = (*review.HOSTS, host) if _is_loopback(host) else ("*",)
        if "*" in hosts:
            say(f"whoever reaches {_address(host, port)} can read the chats and label them")
        typer.echo(f"The page is at http://{_address(host, port)}/ (Ctrl+C ends it)")
        uvicorn.run(review.application(store, hosts), host=host, port=port, log_level="warning")


def _export(export: Path, file: Path, labels: Path, spot_checks: Path | None, annotators: int) -> None:
    """Shows the agreement, and writes the final labels."""
    from contradiction.chats.writers import check_not_the_input
    from contradiction.io.line_files import write_lines
    from contradiction.serving.review_store import LabelStore

    if not labels.is_file():
        raise InputError(f"{labels}: there are no labels yet; without --export this command starts the page")
    for source in filter(None, (file, labels, spot_checks)):
        if source.exists():
            check_not_the_input([export], source.stat(), f"--export {export}")
    store = LabelStore(labels, annotators)
    show(store.report())
    if not (records := store.export()):
        raise InputError(f"{labels}: nothing to export yet, because no chat has a final label")
    write_lines(export, records)
    typer.echo(f"{export}: {len(records):,} labelled chats; next: cdconv adapt {export}")
