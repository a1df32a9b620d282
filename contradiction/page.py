"""Starts the page, ``space/app.py``. The folder is a Hugging Face Space of its own."""

import importlib
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from contradiction.detector import ContradictionDetector
from contradiction.errors import InputError
from contradiction.io.environment import check_installed
from contradiction.paths import SPACE


def serve(
    model: str | Path,
    *,
    host: str,
    port: int,
    others: Sequence[str | Path] = (),
    bot: tuple[str, str] | None = None,
    device: str | None = None,
) -> None:
    """Loads detectors and serves the page until interrupted.

    Args:
        model: the detector that is chosen first.
        host: the address to listen on.
        port: the port to listen on.
        others: more detectors, between which visitors choose.
        bot: the address of an endpoint that speaks OpenAI's chat completions, and the model that it serves: a chatbot
            that visitors chat with. The variable CDCONV_BOT_KEY holds its key.
        device: the device of the detectors; by default a GPU where there is one.

    Raises:
        InputError: gradio is not installed, the address is not free, or a model cannot be loaded.
    """
    check_ready(host, port)
    # Gradio reads this when it is imported. Otherwise it sends usage statistics to its developers.
    os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
    module = app()
    connected = module.bots.Bot(*bot) if bot else None
    detectors = [ContradictionDetector.from_pretrained(name, device=device) for name in (model, *others)]
    for detector in detectors:
        if detector.task not in ("2-class", "4-class"):
            labels = ", ".join(detector.labels)
            raise InputError(
                f"{detector.name}: its labels are {labels}; the page needs a 2-class or a 4-class detector"
            )
    module.launch(detectors[0], host=host, port=port, others=detectors[1:], bot=connected)


def app() -> ModuleType:
    """The module of the page, loaded as the Hub runs it: with its folder on the path."""
    if str(SPACE) not in sys.path:
        sys.path.insert(0, str(SPACE))
    return importlib.import_module("app")


def check_ready(host: str, port: int) -> None:
    """Raises InputError if gradio is not installed, or the address is not free; called before slow work."""
    check_installed("the page", {"gradio": "space"})
    check_address(host, port)


def address(host: str, port: int) -> str:
    """Host and port as written in a URL: an IPv6 address is in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def check_address(host: str, port: int) -> None:
    """Raises InputError if an address is not free; called before a model is loaded."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host, port), family=family).close()
    except OSError as error:
        reason = (error.strerror or str(error)).partition(" (")[0].lower()  # the brackets repeat the address
        raise InputError(f"{address(host, port)}: {reason}; --host and --port choose another address") from None
