"""Fresh processes, and workers."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
from measure import Measured, conversations
from pyarrow import parquet

from contradiction import ContradictionDetector
from contradiction.chats import ray_engine, readers
from contradiction.chats.chunks import Chats, Entry, split_chunks
from contradiction.chats.detection import Detection, Workers
from contradiction.errors import InputError
from contradiction.io.tables import Table

# A small process starts the measured one: Linux counts the memory of a parent as that of its child.
SMALL = """
import json, os, subprocess, sys, time
started = time.perf_counter()
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
_, status, used = os.wait4(process.pid, 0)
print(json.dumps([time.perf_counter() - started, used.ru_maxrss, os.waitstatus_to_exitcode(status)]))
"""


def workers(model: Path, *, rows: int, rounds: int) -> Measured:
    """Replies a second with one and two workers of one thread each, without the time to load the model."""
    load = partial(ContradictionDetector.from_pretrained, model, device="cpu")
    rates: dict[str, list[float]] = {}
    left_out = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "chats"
        folder.mkdir()
        table = pa.table({"messages": conversations(rows)})
        for number in range(2):
            parquet.write_table(table, folder / f"{number}.parquet")
        ray_engine.PART_ROWS = max(1, rows // 8)
        for number in range(rounds):
            for count in (1, 2):
                rates.setdefault(f"--workers {count}", []).append(_processes(load, folder / "0.parquet", count))
                try:
                    rate = _ray(model, folder, Path(name) / f"{number}-{count}", count)
                    rates.setdefault(f"--engine ray --workers {count}", []).append(rate)
                except InputError as error:
                    left_out.append(str(error))
    values = {name: statistics.median(series) for name, series in rates.items()}
    gains = {
        name: statistics.median(b / a for a, b in zip(series, rates[name.replace("1", "2")], strict=True))
        for name, series in rates.items()
        if name.endswith("1")
    }
    body = [(name, f"{rate:.0f}", "") for name, rate in values.items()]
    body += [(f"two instead of one, {name.removesuffix(' 1')}", "", f"{gain:.2f}") for name, gain in gains.items()]
    return Measured(
        [Table("Workers of one thread", ("way", "conversations per second", "times"), body)],
        {**values, "gains": gains},
        left_out,
    )


def _processes(load: partial, file: Path, count: int) -> float:
    """Conversations per second with ``--workers``."""
    opened = readers.open_file(file)
    one_thread_each = patch.dict(os.environ, OMP_NUM_THREADS=str(count))
    with one_thread_each, Workers(count, load, opened.key) as pool:
        started = time.perf_counter()
        done = sum(len(chunk.records) for chunk in pool.judge(_small(opened)))
        return done / (time.perf_counter() - started)


def _small(opened: Chats) -> Iterator[list[Entry]]:
    """Chunks of a quarter of the usual size, so that two workers end together."""
    for chunk in split_chunks(opened):
        for first in range(0, len(chunk), 256):
            yield chunk[first : first + 256]


def _ray(model: Path, folder: Path, out: Path, count: int) -> float:
    """Conversations per second with ``--engine ray``, from the moment that each worker has done a part."""
    times: list[float] = []
    detection = Detection(str(model), workers=count)
    ray_engine.judge_folder(detection, folder, out, on_parts=lambda *_: times.append(time.perf_counter()))
    rows = [part.last - part.first + 1 for part in ray_engine.parts_of(folder)]
    return sum(rows[count:]) / (times[-1] - times[count - 1])


def startup(model: Path, *, rounds: int) -> Measured:
    """Seconds and memory of fresh processes, each in turn."""
    chat = json.dumps(conversations(1)[0], ensure_ascii=False)
    cdconv = ["-m", "contradiction"]
    ways = {
        "cdconv --help": [*cdconv, "--help"],
        "import contradiction": ["-c", "from contradiction import ContradictionDetector"],
        "first verdict, torch": [*cdconv, "detect", "--text", chat, "--model", str(model)],
        "first verdict, onnx": [*cdconv, "detect", "--text", chat, "--model", str(model), "--backend", "onnx"],
    }
    runs: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, arguments in ways.items():
            once = _process(arguments)
            if number:  # the first reads the files from the disk
                runs[name].append(once)
    body, values = [], {}
    for name, pairs in runs.items():
        seconds, megabytes = (statistics.median(column) for column in zip(*pairs, strict=True))
        body.append((name, f"{seconds:.2f}", f"{megabytes:.0f}"))
        values[name] = {"seconds": seconds, "MB": megabytes}
    return Measured([Table("Fresh processes", ("what", "seconds", "peak memory, MB"), body)], values)


def _process(arguments: list[str]) -> tuple[float, float]:
    """The seconds of a process and the most memory it held, in MB."""
    command = [sys.executable, "-c", SMALL, sys.executable, *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    seconds, kilobytes, code = json.loads(done.stdout)
    if code:
        raise SystemExit(f"{arguments[:3]}: exit code {code}")
    return seconds, kilobytes / 1000
