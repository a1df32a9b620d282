"""Counts the cores that this process may use."""

import math
import os
from pathlib import Path

QUOTA = Path("/sys/fs/cgroup/cpu.max")  # the time of all cores together and the period, both in microseconds


def usable_cores() -> int:
    """How many cores this process may use: those of its affinity, and no more than the quota of its container."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = QUOTA.read_text(encoding="utf-8").split()
        return max(1, min(cores, math.ceil(int(quota) / int(period))))
    except (OSError, ValueError):  # no container of this kind, or "max"
        return cores
