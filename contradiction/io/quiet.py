"""Hides what other libraries print: progress bars of short work, and expected reports."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib.util import find_spec
from typing import Any


def no_data_bars() -> AbstractContextManager[None]:
    """Hides the progress bars of `datasets`."""
    import datasets

    hidden = datasets.are_progress_bars_disabled()
    return nullcontext() if hidden else _between(datasets.disable_progress_bars, datasets.enable_progress_bars)


def no_model_bars() -> AbstractContextManager[None]:
    """Hides the progress bars of `transformers`."""
    logging = _model_logging()
    shown = logging.is_progress_bar_enabled()
    return _between(logging.disable_progress_bar, logging.enable_progress_bar) if shown else nullcontext()


def no_model_warnings() -> AbstractContextManager[None]:
    """Hides the warnings of `transformers`, including the table of missing and unexpected weights."""
    return _errors_only(_model_logging())


def _model_logging() -> Any:
    if find_spec("torch") is None:  # transformers would warn of it, but whoever runs exported files needs no torch
        os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
    from transformers.utils import logging

    return logging


def no_hub_warnings() -> AbstractContextManager[None]:
    """Hides the warnings of `huggingface_hub`."""
    from huggingface_hub.utils import logging

    return _errors_only(logging)


@contextmanager
def no_native_messages() -> Iterator[None]:
    """Hides what native code writes to stderr, for instance at its start; errors that Python raises stay."""
    stderr, devnull = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 2)
    try:
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(devnull)


def _errors_only(logging: Any) -> AbstractContextManager[None]:
    """Limits a library to errors; ``logging`` is its module of that name."""
    before = logging.get_verbosity()
    return _between(logging.set_verbosity_error, lambda: logging.set_verbosity(before))


@contextmanager
def _between(begin: Callable[[], Any], end: Callable[[], Any]) -> Iterator[None]:
    begin()
    try:
        yield
    finally:
        end()
