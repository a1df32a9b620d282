"""Hides what other libraries print: progress bars of short work, and expected reports."""

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_data_bars() -> Iterator[None]:
    """Hides the progress bars of `datasets`."""
    from datasets import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

    before = are_progress_bars_disabled()
    disable_progress_bars()
    try:
        yield
    finally:
        if not before:
            enable_progress_bars()


@contextmanager
def no_model_bars(quiet: bool = True) -> Iterator[None]:
    """Hides the progress bars of `transformers`, but not with ``quiet=False``, for instance during a download."""
    from transformers.utils.logging import disable_progress_bar, enable_progress_bar, is_progress_bar_enabled

    before = is_progress_bar_enabled()
    if quiet:
        disable_progress_bar()
    try:
        yield
    finally:
        if quiet and before:
            enable_progress_bar()


@contextmanager
def no_model_warnings() -> Iterator[None]:
    """Hides the warnings of `transformers`, including the table of missing and unexpected weights."""
    from transformers.utils.logging import get_verbosity, set_verbosity, set_verbosity_error

    before = get_verbosity()
    set_verbosity_error()
    try:
        yield
    finally:
        set_verbosity(before)


@contextmanager
def no_hub_warnings() -> Iterator[None]:
    """Hides the warnings of `huggingface_hub`."""
    from huggingface_hub.utils.logging import get_verbosity, set_verbosity, set_verbosity_error

    before = get_verbosity()
    set_verbosity_error()
    try:
        yield
    finally:
        set_verbosity(before)


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
