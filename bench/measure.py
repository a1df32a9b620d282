"""Ways to do the same thing, measured side by side: in turn within each round, so that a slow moment slows all."""

import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from contradiction.inference.base import threads
from contradiction.io.tables import Table

PACKAGES = (
    "torch", "transformers", "onnxruntime", "openvino", "sentence-transformers", "tokenizers", "numpy", "ray",
)  # fmt: skip
# The instructions that the speed of an encoder depends on.
FLAGS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16", "amx_int8")

# Seconds of the clock; or CPU seconds of one thread, for a busy machine.
clock: Callable[[], float] = time.perf_counter


@dataclass(frozen=True)
class Measured:
    """The measurements of a module: as tables for people, as values for programs, and what could not be measured."""

    tables: Sequence[Table]
    values: Mapping[str, Any]
    left_out: Sequence[str] = field(default=())


def in_turn(ways: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """The seconds of each way in each round; a first round, which warms up, does not count."""
    for way in ways.values():
        way()
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            started = clock()
            way()
            seconds[name].append(clock() - started)
    return seconds


def ratio(slow: Sequence[float], fast: Sequence[float]) -> float:
    """How many times faster one way is: the median of the ratios within the rounds."""
    return statistics.median(a / b for a, b in zip(slow, fast, strict=True))


def environment() -> dict[str, Any]:
    """The machine and the versions."""
    flags, name = set(), platform.processor()
    info = Path("/proc/cpuinfo")
    for line in info.read_text(encoding="utf-8").splitlines() if info.exists() else ():
        key, _, value = line.partition(":")
        if key.strip() == "flags":
            flags = set(value.split())
        elif key.strip() == "model name":
            name = value.strip()
    return {
        "processor": name,
        "flags": [flag for flag in FLAGS if flag in flags],
        "threads": threads(),
        "torch threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "versions": {package: version for package in PACKAGES if (version := _version(package))},
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
