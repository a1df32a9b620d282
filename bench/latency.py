"""Milliseconds for the last reply of one chat, by its turns, for each backend.

A monitor does the same work for a new reply: one window for each earlier turn.
"""

from pathlib import Path

import chats
import measure as timing
import numpy as np
from measure import Measured
from throughput import detectors

from contradiction.io.tables import Table

TURNS = (2, 10, 30)


def measure(model: Path, *, replies: int) -> Measured:
    """Measures replies to chats that no backend has seen; the backends take turns."""
    by_backend, left_out = detectors(model)
    body, values = [], {}
    for turns in TURNS:
        seconds: dict[str, list[float]] = {name: [] for name in by_backend}
        for number in range(-2, replies):  # the first two warm up
            chat = chats.long_chat(turns, 100 * turns + number)
            for name, detector in by_backend.items():
                started = timing.clock()
                detector(chat)
                if number >= 0:
                    seconds[name].append(timing.clock() - started)
        for name, times in seconds.items():
            half, most = (1000 * np.quantile(times, (0.5, 0.95), method="inverted_cdf")).tolist()
            body.append((name, str(turns), f"{half:.0f}", f"{most:.0f}"))
            values[f"{name}, {turns} turns"] = {"p50 ms": half, "p95 ms": most}
    return Measured(
        [Table("Milliseconds for the last reply", ("backend", "turns", "p50", "p95"), body)], values, left_out
    )
