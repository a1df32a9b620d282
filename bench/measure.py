"""The chats that are measured, and ways to do the same thing side by side: in turn within each round."""

import os
import platform
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from contradiction import cdconv
from contradiction.conversation import alternating
from contradiction.inference.base import threads
from contradiction.io.tables import Table
from contradiction.paths import SAMPLE

Chat = Sequence[Mapping[str, str]]


@cache
def rows() -> list[dict[str, Any]]:
    """The rows of ``$CDCONV_FILE``, else those of the embedded sample."""
    return cdconv.read_rows(Path(os.environ.get("CDCONV_FILE") or SAMPLE))


def conversations(count: int) -> list[Chat]:
    """Conversations of two turns, each once."""
    return [alternating(row[column] for column in cdconv.UTTERANCES) for row in rows()[:count]]


def long_chat(turns: int, seed: int) -> Chat:
    """A chat of as many turns, made of the first turns of as many conversations, drawn by the seed."""
    firsts = list({row["u1"]: row for row in rows()}.values())
    chosen = random.Random(seed).sample(firsts, turns)
    return alternating(text for row in chosen for text in (row["u1"], row["b1"]))


PACKAGES = (
    "torch", "transformers", "onnxruntime", "openvino", "sentence-transformers", "tokenizers", "numpy", "ray",
)  # fmt: skip
# The instructions that the speed of an encoder depends on.
FLAGS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16", "amx_int8")


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
            started = time.perf_counter()
            way()
            seconds[name].append(time.perf_counter() - started)
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
