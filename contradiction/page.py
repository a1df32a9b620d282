"""Starts the page in ``space/app.py``, which is a Space of its own and so no part of the package."""

import importlib.util
import os
from pathlib import Path

from contradiction.detector import ContradictionDetector
from contradiction.errors import InputError

APP = Path(__file__).resolve().parents[1] / "space" / "app.py"


def serve(model: str | Path, *, host: str, port: int) -> None:
    """Loads a detector and serves the page until interrupted.

    Raises:
        InputError: the model cannot be loaded, gradio is not installed, or this is no checkout.
        OSError: the port is taken.
    """
    # Gradio reads this when imported: a page on one's own machine tells nobody that it was started.
    os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
    if importlib.util.find_spec("gradio") is None:
        raise InputError('the page needs gradio: pip install "cdconv[space]"')
    spec = importlib.util.spec_from_file_location("cdconv_space", APP)
    if not APP.is_file() or spec is None or spec.loader is None:
        raise InputError(f"{APP}: no such file; the page is part of the repository, not of the installed package")
    app = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(app)
    app.launch(ContradictionDetector.from_pretrained(model), host=host, port=port)
