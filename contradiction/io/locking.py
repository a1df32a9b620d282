"""One process at a time: a lock on what a run trains or writes, held as long as that goes on."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from contradiction.errors import InputError


class TakenError(InputError):
    """Another process is at work there."""


@contextmanager
def locked(path: str | Path, wanted: bool = True, wait: bool = False) -> Iterator[None]:
    """Inside the block no other process gets the lock of ``path``.

    The lock is a file beside ``path``, which need not exist; it is gone when the block ends, however it ends.

    Args:
        path: what is worked at.
        wanted: False locks nothing, for all but one of several processes that work together.
        wait: until another process is done.

    Raises:
        TakenError: another process has it, and it is not to be waited for.
    """
    if not wanted:
        yield
        return
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    file = path.with_name(f".{path.name}.lock")
    # The operating system's lock on the file, not the file, is what counts: it ends with the process that holds it, so
    # a killed run can be resumed at once, though its file stays until the next one ends.
    lock = FileLock(file)
    try:
        lock.acquire(blocking=wait)
    except Timeout:
        raise TakenError(f"{path}: another process is at work there; wait for it, or name another place") from None
    try:
        yield
    finally:
        # While it is still held: whoever opened it before sees then that it is no longer there, and does not take a
        # lock that nobody else would find.
        with suppress(PermissionError):  # Windows removes no open file; there filelock does it on release
            file.unlink(missing_ok=True)
        lock.release()
