"""Starts Ray on this machine or joins a cluster, without usage statistics."""

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout

from contradiction.errors import InputError, first_line
from contradiction.io.cores import usable_cores
from contradiction.io.packages import check_installed
from contradiction.io.quiet import no_native_messages

OBJECT_STORE = 10**8  # bytes; only small results go through it


def check_ray() -> None:
    """Raises InputError where Ray is not installed."""
    check_installed("--engine ray", {"ray": "ray"})


@contextmanager
def cluster(address: str | None = None, cpus: int | None = None) -> Iterator[None]:
    """Joins a cluster, or starts Ray on this machine, where it listens on loopback alone.

    Args:
        address: the address of the cluster; by default Ray is started here, and ends with the block.
        cpus: how many tasks of one core run at the same time here; by default one for each core that this process may
            use.

    Raises:
        InputError: there is no such cluster, or the work that is done in the block is stopped by Ray.
    """
    check_ray()
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    os.environ.setdefault("RAY_DATA_LOG_LEVEL", "ERROR")
    if address is None:
        # Despite its name, the variable is read on Linux too: Ray then listens on loopback, and looks up no address.
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
        os.environ.setdefault("RAY_worker_niceness", "0")  # the priority of this process, and not the lowest
    import ray

    local = {"num_cpus": cpus or usable_cores(), "include_dashboard": False, "object_store_memory": OBJECT_STORE}
    try:
        with no_native_messages():  # one says that it reads RAY_BACKEND_LOG_LEVEL
            ray.init(**({"address": address} if address else local), logging_level=logging.ERROR, log_to_driver=False)
    except (ConnectionError, RuntimeError, ValueError) as error:
        where = f"--address {address}" if address else "Ray on this machine"
        raise InputError(f"{where}: cannot be reached ({first_line(error)})") from None
    try:
        with redirect_stdout(sys.stderr):  # Ray prints a message about each killed worker
            yield
    except ray.exceptions.RayError as error:
        raise InputError(f"--engine ray: stopped ({first_line(error)}); --resume continues") from error
    finally:
        ray.shutdown()
