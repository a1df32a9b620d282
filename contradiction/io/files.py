"""Writes files and folders under a temporary name and renames them; locks a path for one process at a time."""

import errno
import hashlib
import json
import os
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from contradiction.errors import InputError, first_line, kind_of

RECORD = "run.json"  # the record of a run, in the folder that it wrote or beside its file
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
_OLD = re.compile(r"\.(?P<name>.+)\.[^.]*-\d+\.old")  # the name that `replace_folder` gives the old folder


def check_file(path: str | Path) -> None:
    """Raises InputError if the path is a folder, so that no file can be written there."""
    if Path(path).is_dir():
        raise InputError(f"{path}: is a folder; name a file in it")


def check_folder(path: str | Path) -> None:
    """Raises InputError if the path is the working folder or above it, so that it cannot be replaced."""
    if Path.cwd().is_relative_to(Path(path).resolve()):
        raise InputError(f"{path}: the folder you are in cannot be replaced; name one inside it")


def check_new(path: str | Path, copied: Iterable[str | Path] = ()) -> None:
    """Raises InputError if the path exists, or is inside one of the folders that are ``copied`` into it."""
    if Path(path).exists():
        raise InputError(f"{path}: exists already; remove it, or name another folder")
    for folder in copied:
        if Path(path).resolve().is_relative_to(Path(folder).resolve()):
            raise InputError(f"{path}: is inside {folder}, and will hold a copy of it; name a folder outside")


@contextmanager
def errors_with_path(path: Path) -> Iterator[None]:
    """Adds the path to a write error that names no file, such as the error of a full disk."""
    try:
        yield
    except Exception as error:
        safetensors = sys.modules.get("safetensors")
        if safetensors and isinstance(error, safetensors.SafetensorError):  # which is no OSError
            raise OSError(errno.EIO, first_line(error), str(path)) from error
        if isinstance(error, OSError) and error.errno in _FULL and error.filename is None:
            error.filename = str(path)
        raise


@contextmanager
def new_file(path: str | Path) -> Iterator[Path]:
    """Yields a temporary name beside ``path`` and renames it to ``path`` if the block ends without an error.

    A symbolic link stays, and its target is written. Files that killed processes left beside it are removed.
    """
    path = followed(path)
    check_file(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    _sweep(path)
    partial = path.with_name(f".{path.name}.{_owner()}.partial")
    try:
        with errors_with_path(path):
            yield partial
            partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> None:
    """Writes a whole text in UTF-8."""
    with new_file(path) as partial:
        partial.write_text(text, encoding="utf-8", newline="\n")  # Windows too: digests and `sha256sum -c` read bytes


def write_json(path: str | Path, value: Mapping[str, Any]) -> None:
    """Writes a JSON object, one key per line, Chinese as it is."""
    lines = (f"{json.dumps(key)}: {json.dumps(content, ensure_ascii=False)}" for key, content in value.items())
    write_text(path, "{\n" + ",\n".join(lines) + "\n}\n")


def read_json(path: str | Path) -> dict[str, Any]:
    """Reads a JSON object in UTF-8; raises InputError if the file holds none."""
    try:
        value = json.loads(Path(path).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not JSON in UTF-8 ({error})") from None
    if not isinstance(value, dict):
        raise InputError(f"{path}: holds {kind_of(value)}; it must be a JSON object")
    return value


def sha256_of(path: str | Path) -> str:
    """The SHA-256 of a file, in hexadecimal digits; the file is read in parts, so it may be larger than the memory."""
    with Path(path).open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


@contextmanager
def new_folder(path: str | Path) -> Iterator[Path]:
    """Yields a temporary folder beside ``path``, which replaces ``path`` if the block ends without an error.

    A symbolic link stays, and its target is replaced. Folders that killed processes left beside it are removed.
    """
    path = followed(path)
    check_folder(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    _sweep(path)
    partial = Path(tempfile.mkdtemp(prefix=f".{path.name}.{_owner()}.", suffix=".partial", dir=path.parent))
    try:
        partial.chmod(0o755)
        with errors_with_path(path):
            yield partial
        for file in partial.rglob("*.safetensors"):  # safetensors makes them readable for the owner only
            file.chmod(0o644)
        replace_folder(partial, path)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def replace_folder(new: Path, path: Path) -> None:
    """Renames ``new`` to ``path``, and removes the old folder at ``path`` only after that.

    If the process is killed in between, :func:`restore_folders` repairs the folder.
    """
    old = path.with_name(f".{path.name}.{_owner()}.old")
    if path.exists():
        path.rename(old)
    try:
        new.rename(path)
    except OSError:
        if old.exists():
            old.rename(path)
        raise
    shutil.rmtree(old, ignore_errors=True)


def followed(path: str | Path) -> Path:
    """The target of a symbolic link; any other path unchanged."""
    path = Path(path)
    return path.resolve() if path.is_symlink() else path


def _owner() -> str:
    """A name of this process that no other process has, on any machine that may write in a folder."""
    return f"{_machine()}-{os.getpid()}"


def _machine() -> str:
    """The name of this machine; without dots, which separate the parts of a temporary name."""
    return platform.node().replace(".", "-")


def _sweep(path: Path) -> None:
    """Removes what killed processes of this machine left unfinished; repairs what :func:`replace_folder` left."""
    ours = rf"\.{re.escape(path.name)}\.{re.escape(_machine())}-(\d+)"
    unfinished, replaced = re.compile(rf"{ours}\.(.*\.)?partial"), re.compile(rf"{ours}\.old")
    for leftover in sorted(path.parent.iterdir()):
        if (match := unfinished.fullmatch(leftover.name)) and not _runs(int(match[1])):
            if leftover.is_dir():
                shutil.rmtree(leftover, ignore_errors=True)
            else:
                leftover.unlink(missing_ok=True)
        elif (match := replaced.fullmatch(leftover.name)) and not _runs(int(match[1])):
            if path.exists():
                shutil.rmtree(leftover, ignore_errors=True)
            else:
                leftover.rename(path)


def _runs(process: int) -> bool:
    """Whether a process with this number exists; True where that cannot be checked safely."""
    if os.name != "posix":
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # another user's process, or not the number of a process
        return True
    return True


def restore_folders(folder: Path) -> None:
    """Repairs everything in a folder that a process left when it was killed in :func:`replace_folder`.

    An old folder gets its name back if the new one is not there; otherwise it is removed. No other process may write
    in the folder at the same time.
    """
    for old in sorted(folder.rglob(".*.old")):
        if match := _OLD.fullmatch(old.name):
            path = old.with_name(match["name"])
            if path.exists():
                shutil.rmtree(old)
            else:
                old.rename(path)


class LockedError(InputError):
    """Another process holds the lock."""


@contextmanager
def locked(path: str | Path, wanted: bool = True, wait: bool = False) -> Iterator[None]:
    """Holds the lock of a path inside the block.

    The lock is a file beside ``path``, which need not exist. The file is removed when the block ends.

    Args:
        path: the path that is written.
        wanted: False locks nothing. If several processes work together, only one of them locks.
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
