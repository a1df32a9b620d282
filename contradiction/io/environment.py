"""What surrounds this program: the installed packages, the cores that it may use, and what other libraries print."""

import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from contradiction.errors import InputError


def check_installed(user: str, packages: Mapping[str, str]) -> None:
    """Raises InputError if a package that a ``user`` needs is missing; each package has the extra that installs it.

    The command installs a checkout in place: this project is in no package index, where its name may be somebody
    else's, and a copy of the package would not find the shipped detector.
    """
    if missing := [package for package in packages if find_spec(package) is None]:
        names, extras = " and ".join(missing), ",".join(dict.fromkeys(packages[package] for package in missing))
        raise InputError(
            f'{user} needs {names}, not installed here; run `pip install -e ".[{extras}]"` in a checkout of this '
            "project"
        )


QUOTA = Path("/sys/fs/cgroup/cpu.max")  # the time of all cores together and the period, both in microseconds


def usable_cores() -> int:
    """How many cores this process may use: those of its affinity, and no more than the quota of its container."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = QUOTA.read_text(encoding="utf-8").split()
        return max(1, min(cores, math.ceil(int(quota) / int(period))))
    except (OSError, ValueError):  # no container of this kind, or "max"
        return cores


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
