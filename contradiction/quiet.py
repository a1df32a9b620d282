"""Keeps the bars of other libraries off the terminal where the work is over before anyone could read them."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_data_bars() -> Iterator[None]:
    """Without the bars of `datasets`."""
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
    """Without the bars of `transformers`; with ``quiet=False`` nothing changes, so that a download shows its own."""
    from transformers.utils.logging import disable_progress_bar, enable_progress_bar, is_progress_bar_enabled

    before = is_progress_bar_enabled()
    if quiet:
        disable_progress_bar()
    try:
        yield
    finally:
        if quiet and before:
            enable_progress_bar()
