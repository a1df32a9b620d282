"""Writing so that nothing half-written is left under a final name."""

import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from contradiction.errors import InputError, kind_of

_OLD = re.compile(r"\.(?P<name>.+)\.\d+\.old")  # what `replace_folder` calls a folder while its name changes hands


def check_file(path: str | Path) -> None:
    """Raises InputError where no file can be written because a folder is there."""
    if Path(path).is_dir():
        raise InputError(f"{path}: is a folder; name a file in it")


def check_folder(path: str | Path) -> None:
    """Raises InputError where no folder can be written because it would replace the one that the process is in."""
    if Path.cwd().is_relative_to(Path(path).resolve()):
        raise InputError(f"{path}: the folder you are in cannot be replaced; name one inside it")


@contextmanager
def new_file(path: str | Path) -> Iterator[Path]:
    """A temporary name beside ``path``: what is written there takes its place when the block ends well."""
    path = Path(path)
    check_file(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> None:
    """Writes a whole text in UTF-8."""
    with new_file(path) as partial:
        partial.write_text(text, encoding="utf-8")


def write_json(path: str | Path, value: Mapping[str, Any]) -> None:
    """Writes a JSON object, one key a line, Chinese as it is."""
    lines = (f"{json.dumps(key)}: {json.dumps(each, ensure_ascii=False)}" for key, each in value.items())
    write_text(path, "{\n" + ",\n".join(lines) + "\n}\n")


def read_json(path: str | Path) -> dict[str, Any]:
    """Reads a JSON object in UTF-8; raises InputError, naming the file, where it is none."""
    try:
        value = json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path}: not JSON in UTF-8 ({error})") from None
    if not isinstance(value, dict):
        raise InputError(f"{path}: holds {kind_of(value)}; it must be a JSON object")
    return value


@contextmanager
def new_folder(path: str | Path) -> Iterator[Path]:
    """A temporary folder beside ``path``: takes its place when the block ends well, and goes away when it does not."""
    path = Path(path)
    check_folder(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".partial", dir=path.parent))
    try:
        partial.chmod(0o755)
        yield partial
        for file in partial.rglob("*.safetensors"):  # which the library writes for the owner alone
            file.chmod(0o644)
        replace_folder(partial, path)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def replace_folder(new: Path, path: Path) -> None:
    """Renames ``new`` to ``path``; what stood at ``path`` is removed only once the new one is there.

    Not every system can do both in one step: what a process leaves that is killed in between, :func:`put_back` mends.
    """
    old = path.with_name(f".{path.name}.{os.getpid()}.old")
    if path.exists():
        path.rename(old)
    try:
        new.rename(path)
    except OSError:
        if old.exists():
            old.rename(path)
        raise
    shutil.rmtree(old, ignore_errors=True)


def put_back(folder: Path) -> None:
    """Undoes, anywhere in a folder, what a process left that was killed while it replaced a folder.

    What it had not yet put another in the place of gets its name again; what it was about to remove goes. Whoever asks
    must be alone at work in the folder.
    """
    for old in sorted(folder.rglob(".*.old")):
        if found := _OLD.fullmatch(old.name):
            path = old.with_name(found["name"])
            if path.exists():
                shutil.rmtree(old)
            else:
                old.rename(path)
