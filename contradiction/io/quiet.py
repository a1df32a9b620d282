"""Hides what other libraries print: progress bars of short work, and expected reports."""

import logging
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
def no_load_report() -> Iterator[None]:
    """Hides the table of missing and unexpected keys that `transformers` logs."""

    def wanted(record: logging.LogRecord) -> bool:
        return "LOAD REPORT" not in record.getMessage()

    logger = logging.getLogger("transformers.modeling_utils")
    logger.addFilter(wanted)
    try:
        yield
    finally:
        logger.removeFilter(wanted)
