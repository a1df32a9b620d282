"""Files of lines: read with the place of each, written whole, or grown so that they survive a kill of the process."""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from contradiction.errors import InputError, kind_of
from contradiction.io.files import errors_with_path, new_file


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


def read_json_rows(path: Path) -> Iterator[tuple[str, Any]]:
    """Each value of JSON lines or of a JSON list, with its place."""
    text = read_text(path)
    whole = text.lstrip().startswith("[")
    parts = [text] if whole else text.split("\n")
    for number, part in enumerate(parts, start=1):
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


def read_objects(path: Path, *keys: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each object of a JSON file with its place; raises InputError for a value that is no object, or lacks a key."""
    for where, row in read_json_rows(path):
        if not isinstance(row, Mapping):
            raise InputError(f"{where}: got {kind_of(row)}; a row is one JSON object")
        if missing := [key for key in keys if key not in row]:
            raise InputError(f"{where}: the key {missing[0]!r} is missing; the keys are {', '.join(map(str, row))}")
        yield where, row


def read_tsv(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Each row of a tab-separated table with a header. Unlike in CSV, quotes are part of the text."""
    header, *lines = (line.rstrip("\r").split("\t") for line in read_text(path).rstrip("\r\n").split("\n"))
    for number, cells in enumerate(lines, start=2):
        yield f"{path}:{number}", dict(zip(header, cells, strict=False))


class LineFile:
    """A file of JSON values, one per line, that grows by whole lines.

    A killed process may leave an unfinished last line. It is not read, and :meth:`keep` removes it.

    Args:
        path: the file; the first line creates it.
        check: takes the value of a line; raises ValueError, LookupError or TypeError for a value of another kind.
        problem: what is wrong with such a line, for the error.
        durable: puts each line on the disk before the next one begins. The lines then survive a crash of the machine.
    """

    def __init__(self, path: Path, check: Callable[[Any], Any], problem: str, *, durable: bool = False) -> None:
        self.path = path
        self._check, self._problem, self._durable = check, problem, durable
        self._file: BinaryIO | None = None

    def add(self, values: Iterable[Any]) -> None:
        """Appends values and flushes them."""
        if lines := b"".join(map(to_json_line, values)):
            self._file = self._file or self.path.open("ab")
            with errors_with_path(self.path):
                self._file.write(lines)
                self._file.flush()
                if self._durable:
                    os.fsync(self._file.fileno())

    @property
    def begun(self) -> bool:
        """Whether anything was added."""
        return self._file is not None

    def close(self) -> None:
        """Closes the file."""
        if self._file:
            self._file.close()

    def read(self) -> Iterator[tuple[Any, int]]:
        """The values of the whole lines, and where each line ends in bytes.

        Raises:
            InputError: a line does not hold such a value.
        """
        end = 0
        with self.path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if not line.endswith(b"\n"):
                    return
                end += len(line)
                try:
                    value = json.loads(line)
                    self._check(value)
                except (ValueError, LookupError, TypeError, RecursionError):
                    raise InputError(f"{self.path}:{number}: {self._problem}") from None
                yield value, end

    def keep(self, wanted: Callable[[Any], bool] = lambda value: True) -> Iterator[Any]:
        """Yields the values before the first one that is not wanted, then removes all that follows from the file."""
        if not self.path.exists():
            return
        kept_bytes = 0
        for value, end in self.read():
            if not wanted(value):
                break
            kept_bytes = end
            yield value
        if kept_bytes < self.path.stat().st_size:  # the file may be one that can only be read
            with self.path.open("r+b") as file:
                file.truncate(kept_bytes)


def write_lines(path: str | Path, values: Iterable[Any]) -> None:
    """Writes a whole file of JSON values, one per line, and puts it on the disk."""
    with new_file(path) as partial, partial.open("wb") as file:
        file.writelines(map(to_json_line, values))
        file.flush()
        os.fsync(file.fileno())


def to_json_line(value: Any) -> bytes:
    """One line of JSON in UTF-8 with Chinese unescaped; invalid Unicode is escaped."""
    try:
        return json.dumps(value, ensure_ascii=False).encode("utf-8") + b"\n"
    except UnicodeEncodeError:
        return json.dumps(value).encode("ascii") + b"\n"
