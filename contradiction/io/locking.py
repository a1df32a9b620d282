"""A lock on a path, so that one process at a time trains or writes there."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from contradiction.errors import InputError


class LockedError(InputError):
    """Another process holds the lock."""


@contextmanager
def locked(path: str | Path, wanted: bool = True, wait: bool = False) -> Iterator[None]:
    """Holds the lock of a path inside the block.

    The lock is a file beside ``path``, which need not exist. The file is removed when the block ends.

    Args:
        path: the path that is written.
        wanted: False locks nothing. Of several processes that work together, one locks.
        wait: wait until another process releases the lock.

    Raises:
        LockedError: another process holds the lock, and ``wait`` is false.
    """
    if not wanted:
        yield
        return
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    file = path.with_name(f".{path.name}.lock")
    # The operating system's lock on the file counts, not the file itself. It ends with the process that holds it, so a
    # killed run can be resumed at once. The file it leaves is removed when the next run ends.
    lock = FileLock(file)
    try:
        lock.acquire(blocking=wait)
    except Timeout:
        raise LockedError(f"{path}: another process is at work there; wait for it, or name another place") from None
    try:
        yield
    finally:
        # Removed while the lock is still held. A process that has opened the file before then sees that it is gone, and
        # does not take a lock that no other process would find.
        with suppress(PermissionError):  # Windows cannot remove an open file; there filelock removes it on release
            file.unlink(missing_ok=True)
        lock.release()
