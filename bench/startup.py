"""Seconds and memory of fresh processes: help, import, the first verdict."""

import json
import statistics
import subprocess
import sys
from pathlib import Path

import chats
from measure import Measured

from contradiction.io.tables import Table

# A small process starts the measured one: Linux counts the memory of a parent as that of its child.
SMALL = """
import json, os, subprocess, sys, time
started = time.perf_counter()
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
_, status, used = os.wait4(process.pid, 0)
print(json.dumps([time.perf_counter() - started, used.ru_maxrss, os.waitstatus_to_exitcode(status)]))
"""


def measure(model: Path, *, rounds: int) -> Measured:
    """Starts each process in turn."""
    chat = json.dumps(chats.conversations(1)[0], ensure_ascii=False)
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
            once = _run(arguments)
            if number:  # the first reads the files from the disk
                runs[name].append(once)
    body, values = [], {}
    for name, pairs in runs.items():
        seconds, megabytes = (statistics.median(column) for column in zip(*pairs, strict=True))
        body.append((name, f"{seconds:.2f}", f"{megabytes:.0f}"))
        values[name] = {"seconds": seconds, "MB": megabytes}
    return Measured([Table("Fresh processes", ("what", "seconds", "peak memory, MB"), body)], values)


def _run(arguments: list[str]) -> tuple[float, float]:
    """The seconds of a process and the most memory it held, in MB."""
    command = [sys.executable, "-c", SMALL, sys.executable, *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    seconds, kilobytes, code = json.loads(done.stdout)
    if code:
        raise SystemExit(f"{arguments[:3]}: exit code {code}")
    return seconds, kilobytes / 1000
