"""Files and folders: written whole under a temporary name, read with the place of each line, and locked."""

import errno
import hashlib
import json
import os
import platform
import re
import secrets
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from contradiction.errors import InputError, first_line, kind_of, shown

RECORD = "run.json"  # the record of a run, in the folder that it wrote or beside its file
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
_OLD = re.compile(r"\.(?P<name>.+)\.[^.]*-\d+\.old")  # the name that `replace_folder` gives the old folder


def check_file(path: str | Path) -> None:
    """Raises InputError if the path is a folder, so that no file can be written there."""
    if Path(path).is_dir():
        raise InputError(f"{path}: is a folder; name a file in it")


def check_writable(path: Path) -> None:
    """Raises InputError if nothing can be written beside the path, so that no result of long work is lost there."""
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    try:
        tempfile.TemporaryFile(dir=folder).close()  # `os.access` says that root can write in /proc
    except OSError:
        raise InputError(f"{path}: no file can be written in {folder}; name another folder") from None


def check_new(path: str | Path, copied: Iterable[str | Path] = ()) -> None:
    """Raises InputError if the path exists, cannot be written, or is inside a folder that is ``copied`` into it."""
    if Path(path).exists():
        raise InputError(f"{path}: exists already; remove it, or name another folder")
    check_writable(followed(path))
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
    # Random, so that two threads do not write one file, and nobody who may write here leaves a link under the name.
    partial = path.with_name(f".{path.name}.{_owner()}.{secrets.token_hex(8)}.partial")
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
    """Writes a JSON object; see :func:`json_text`."""
    write_text(path, json_text(value))


def json_text(value: Mapping[str, Any]) -> str:
    """A JSON object, one key per line, Chinese as it is."""
    lines = (f"{json.dumps(key)}: {json.dumps(content, ensure_ascii=False)}" for key, content in value.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def read_json(path: str | Path) -> dict[str, Any]:
    """Reads a JSON object in UTF-8; raises InputError if the file holds none."""
    try:
        value = json.loads(Path(path).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not JSON in UTF-8 ({error})") from None
    if not isinstance(value, dict):
        raise InputError(f"{path}: holds {kind_of(value)}; it must be a JSON object")
    return value


def check_form(values: Mapping[str, Any], form: Mapping[str, Any], where: str | Path) -> None:
    """Raises InputError, which names the place and the key, unless a JSON object has some keys with values of a type.

    Args:
        values: the object; its other keys may hold anything.
        form: each key with the type and the default of its value, as ``pydantic.create_model`` takes them; with the
            default ``...`` the key is required.
        where: begins the message.
    """
    from pydantic import ValidationError, create_model

    try:
        create_model("Form", **form).model_validate(values, strict=True)
    except ValidationError as error:
        first: Any = error.errors(include_url=False)[0]
        key = ".".join(map(str, first["loc"]))
        if first["type"] == "missing":
            raise InputError(f"{where}: {key} is missing; it holds {', '.join(values) or 'nothing'}") from None
        wanted = first["msg"].replace("Input should", "it should")
        raise InputError(f"{where}: {key} is {shown(first['input'])}; {wanted}") from None


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
    if Path.cwd().is_relative_to(path.resolve()):
        raise InputError(f"{path}: the folder you are in cannot be replaced; name one inside it")
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


def _machine() -> str:
    """The name of this machine; without dots, which separate the parts of a temporary name."""
    return platform.node().replace(".", "-")


def _owner() -> str:
    """A name of this process that no other process has, on any machine that may write in a folder."""
    return f"{_machine()}-{os.getpid()}"


def _sweep(path: Path) -> None:
    """Removes what killed processes of this machine left unfinished; repairs what :func:`replace_folder` left."""
    begin, ours = f".{path.name}.{_machine()}-", re.compile(r"(\d+)\.((.*\.)?partial|old)")
    # Of a folder with many files, only a few names are looked at closely: a monitor is saved after each message.
    for name in sorted(entry.name for entry in os.scandir(path.parent) if entry.name.startswith(begin)):
        match, leftover = ours.fullmatch(name, len(begin)), path.with_name(name)
        if not match or _runs(int(match[1])):
            continue
        if match[2] == "old":
            _restore(leftover, path)
        elif leftover.is_dir():
            shutil.rmtree(leftover, ignore_errors=True)
        else:
            leftover.unlink(missing_ok=True)


def _restore(old: Path, path: Path) -> None:
    """Gives an old folder its name back if the new one is not there; otherwise removes it."""
    if path.exists():
        shutil.rmtree(old, ignore_errors=True)
    else:
        old.rename(path)


def _runs(process: int) -> bool:
    """Whether a process with this number exists; True where that cannot be checked safely."""
    with suppress(OSError, OverflowError):  # another user's process, or not the number of a process
        try:
            if os.name == "posix":
                os.kill(process, 0)
        except ProcessLookupError:
            return False
    return True


def restore_folders(folder: Path) -> None:
    """Repairs everything in a folder that a process left when it was killed in :func:`replace_folder`.

    No other process may write in the folder at the same time.
    """
    for old in sorted(folder.rglob(".*.old")):
        if match := _OLD.fullmatch(old.name):
            _restore(old, old.with_name(match["name"]))


class LockedError(InputError):
    """Another process holds the lock."""


@contextmanager
def locked(path: str | Path, wait: bool = False) -> Iterator[None]:
    """Holds the lock of a path, which need not exist: a file beside it, which is removed when the block ends.

    Raises:
        LockedError: another process holds the lock, and ``wait`` is false.
        InputError: no file can be written there.
    """
    path = Path(path)
    if not path.name:
        raise InputError(f"{path}: has no name of its own; name a file or folder inside it")
    check_writable(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    file = path.with_name(f".{path.name}.lock")
    # The operating system's lock on the file counts, not the file itself. It ends with the process that holds it, so a
    # killed run can be resumed at once.
    lock = FileLock(file)
    try:
        lock.acquire(blocking=wait)
    except Timeout:
        raise LockedError(f"{path}: another process is at work there; wait for it, or name another place") from None
    try:
        yield
    finally:
        # Removed while the lock is held: a process that has opened the file before sees that it is gone, and does not
        # take a lock that no other process would find. Windows cannot remove an open file; there filelock removes it.
        with suppress(PermissionError):
            file.unlink(missing_ok=True)
        lock.release()


def read_text(path: Path) -> str:
    """A text file in UTF-8, without a byte order mark; raises InputError for another encoding."""
    try:
        return path.read_bytes().decode("utf-8-sig")  # `Path.read_text` makes a lone carriage return a line end
    except ValueError as error:
        raise InputError(f"{path}: not UTF-8 ({error})") from None


def read_lines(path: Path) -> Iterator[tuple[str, str]]:
    """Each line that is not empty, with its place. Only a line feed ends a line: other separators are text."""
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if line.strip():
            yield f"{path}:{number}", line.rstrip("\r")


def read_objects(path: Path, *keys: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each object of JSON lines or of a JSON list, with its place; raises InputError if an object lacks a key."""
    for where, row in _json_rows(path):
        if not isinstance(row, Mapping):
            raise InputError(f"{where}: got {kind_of(row)}; a row is one JSON object")
        if missing := [key for key in keys if key not in row]:
            raise InputError(f"{where}: the key {missing[0]!r} is missing; the keys are {', '.join(map(str, row))}")
        yield where, row


def _json_rows(path: Path) -> Iterator[tuple[str, Any]]:
    text = read_text(path)
    whole = text.lstrip().startswith("[")
    for number, part in enumerate([text] if whole else text.split("\n"), start=1):
        if not part.strip():
            continue
        try:
            value = json.loads(part)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}:{number}: neither JSON lines nor a JSON list ({error})") from None
        if whole:
            yield from ((f"{path}:row {row}", item) for row, item in enumerate(value, start=1))
        else:
            yield f"{path}:{number}", value


def read_tsv(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Each row of a tab-separated table with a header. Unlike in CSV, quotes are part of the text."""
    header, *lines = (line.rstrip("\r").split("\t") for line in read_text(path).rstrip("\r\n").split("\n"))
    for number, cells in enumerate(lines, start=2):
        yield f"{path}:{number}", dict(zip(header, cells, strict=False))
