"""Files of JSON lines: one that grows by whole lines, and whole ones."""

import json
import os
from collections.abc import Callable, Iterable, Iterator
from io import FileIO
from pathlib import Path
from typing import Any

from contradiction.errors import InputError
from contradiction.io.files import errors_with_path, new_file


class LineFile:
    """A file of JSON values, one per line, that grows by whole lines.

    A killed process may leave an unfinished last line. It is not read, and :meth:`keep` removes it.

    Args:
        path: the file; the first line creates it.
        check: takes the value of a line, after the lines before it were yielded; raises ValueError, LookupError or
            TypeError for a value of another kind.
        problem: what is wrong with such a line, for the error; an InputError of ``check`` says it itself.
        durable: puts each line on the disk before the next one begins. The lines then survive a crash of the machine.
    """

    def __init__(self, path: Path, check: Callable[[Any], Any], problem: str, *, durable: bool = False) -> None:
        self.path = path
        self._check, self._problem, self._durable = check, problem, durable
        self._file: FileIO | None = None

    def add(self, values: Iterable[Any]) -> None:
        """Appends all values, or none after an OSError; that is FileNotFoundError if somebody has removed the file."""
        if lines := b"".join(map(to_json_line, values)):
            if self._file and not self.path.exists():
                raise FileNotFoundError(f"{self.path} was removed")
            # A buffer would keep the lines of a failed call, and write them again with the next one.
            self._file = self._file or self.path.open("ab", buffering=0)
            end, rest = self._file.seek(0, os.SEEK_END), memoryview(lines)
            with errors_with_path(self.path):
                try:
                    while rest:
                        rest = rest[self._file.write(rest) :]
                    if self._durable:
                        os.fsync(self._file.fileno())
                except OSError:
                    self._file.truncate(end)
                    raise

    def close(self) -> None:
        """Closes the file."""
        if self._file:
            self._file.close()

    def read(self) -> Iterator[tuple[Any, int]]:
        """The values of the whole lines, and where each ends in bytes; raises InputError for one of another kind."""
        end = 0
        with self.path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if not line.endswith(b"\n"):
                    return
                end += len(line)
                try:
                    value = json.loads(line)
                    self._check(value)
                except (ValueError, LookupError, TypeError, RecursionError) as error:
                    why = error if isinstance(error, InputError) else self._problem
                    raise InputError(f"{self.path}:{number}: {why}") from None
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
