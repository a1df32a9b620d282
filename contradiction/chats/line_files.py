"""Files of JSON lines that grow: the verdicts on an input, and the inputs that were rejected."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from contradiction.chats.chunks import Record, to_json_line
from contradiction.errors import InputError

REPLACED = "existed already; the inputs rejected now replace it"


class LineFile:
    """A file of JSON objects, one a line, that grows by whole lines.

    Args:
        path: the file; the first line creates it.
        key: the key of an object's number; numbers rise.
    """

    def __init__(self, path: Path, key: str) -> None:
        self.path, self.key = path, key
        self._file: BinaryIO | None = None

    def add(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Appends objects and flushes them."""
        if lines := b"".join(map(to_json_line, records)):
            self._file = self._file or self.path.open("ab")
            self._file.write(lines)
            self._file.flush()

    @property
    def begun(self) -> bool:
        """Whether anything was added."""
        return self._file is not None

    def read(self) -> Iterator[tuple[Record, int]]:
        """The objects of the whole lines, and where each line ends in bytes.

        Raises:
            InputError: a line is no such object.
        """
        if not self.path.exists():
            return
        end = 0
        with self.path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if not line.endswith(b"\n"):
                    return
                end += len(line)
                try:
                    record = json.loads(line)
                    int(record[self.key])
                except (ValueError, KeyError, TypeError):
                    raise InputError(f"{self.path}:{number}: not a line that `cdconv detect --out` wrote") from None
                yield record, end

    def truncate_after(self, number: int) -> Iterator[Record]:
        """Gives the objects up to a number, then removes the objects after them from the file."""
        kept = 0
        for record, end in self.read():
            if record[self.key] > number:
                break
            kept = end
            yield record
        if self.path.exists():
            with self.path.open("r+b") as file:
                file.truncate(kept)


class RejectedFile:
    """The inputs of a file that were rejected, in ``FILE.rejected.jsonl`` beside it.

    A file of an earlier run is replaced, but only if something is rejected. If the file cannot be written, the run goes
    on without it.

    Args:
        source: the input file.
        key: ``line`` or ``row``, what the numbers of the input count.
        on_note: called with a message for the user.

    Attributes:
        path: the file; None if it cannot be written.
    """

    def __init__(self, source: Path, key: str, on_note: Callable[[str], Any]) -> None:
        self._file, self._on_note = LineFile(rejected_path(source), key), on_note
        self.path: Path | None = self._file.path

    def add(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Appends rejected inputs."""
        records = list(records)
        if not records or self.path is None:
            return
        try:
            if not self._file.begun and self.path.exists():
                self.path.unlink()
                self._on_note(f"{self.path}: {REPLACED}")
            self._file.add(records)
        except OSError as error:  # for instance in a folder in which only others may write
            self._on_note(f"{self.path}: {error.strerror}; rejected inputs are only shown here")
            self.path = None


def rejected_path(path: Path) -> Path:
    """The file of the inputs that were rejected, beside an input or beside an output."""
    return path.with_name(f"{path.name}.rejected.jsonl")
