"""Outputs of verdicts: a stream of JSON lines, or files that a killed run can be continued from."""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO
from weakref import finalize

from contradiction.chats.chunks import JudgedChunk, Tally, Test, filter_verdicts, to_json_line
from contradiction.chats.entries import Entry
from contradiction.chats.line_files import REPLACED, LineFile, RejectedFile, rejected_path
from contradiction.chats.request import RECORD, check_same_request
from contradiction.errors import InputError
from contradiction.io.files import read_json, write_json
from contradiction.io.locking import locked


class ShownOutput(ABC):
    """Shows verdicts and keeps none.

    Args:
        rejected: takes the rejected inputs.
        only: shows only verdicts that pass one of these tests; all if empty.
    """

    def __init__(self, rejected: RejectedFile | None, only: Sequence[Test] = ()) -> None:
        self._rejected, self._only = rejected, only

    @property
    def rejected_path(self) -> Path | None:
        """The file of the rejected inputs."""
        return self._rejected.path if self._rejected else None

    def remaining(self, chunks: Iterable[list[Entry]], tally: Tally) -> Iterable[list[Entry]]:
        """All chunks."""
        return chunks

    def add(self, chunk: JudgedChunk) -> None:
        """Shows the verdicts on a chunk."""
        if self._rejected:
            self._rejected.add(chunk.rejected)
        self.show(filter_verdicts(chunk, self._only) if self._only else chunk)

    @abstractmethod
    def show(self, chunk: JudgedChunk) -> None:
        """Shows a chunk after the verdicts were filtered."""


class StreamOutput(ShownOutput):
    """Writes verdicts as JSON lines to a stream."""

    def __init__(self, stream: BinaryIO, rejected: RejectedFile | None, only: Sequence[Test] = ()) -> None:
        super().__init__(rejected, only)
        self._stream = stream

    def show(self, chunk: JudgedChunk) -> None:
        """Writes the records of a chunk."""
        self._stream.write(b"".join(map(to_json_line, chunk.records)))
        self._stream.flush()


class ResumableOutput:
    """Writes verdicts to FILE, rejected inputs to FILE.rejected.jsonl, and the request to FILE.run.json.

    Both files of lines grow chunk by chunk, the rejected inputs first. A killed run continues with the chunk that holds
    its last verdict: the lines of this chunk are removed and it is judged again. So the files end as if the run had
    never stopped. They are locked until the last chunk is judged.

    Args:
        path: FILE.
        key: ``line`` or ``row``, what the numbers of the input count.
        request: see ``contradiction.chats.request.request``.
        resume: continues an unfinished run. Of a finished run the last chunk is judged again, with the same result.
        on_note: called with a message for the user.

    Attributes:
        rejected_path: FILE.rejected.jsonl.

    Raises:
        InputError: FILE exists and is not to be continued, another request made it, or another process writes it.
    """

    def __init__(
        self, path: Path, key: str, request: Mapping[str, Any], resume: bool, on_note: Callable[[str], Any] = str
    ) -> None:
        self.rejected_path = rejected_path(path)
        with ExitStack() as stack:
            stack.enter_context(locked(path))
            self._begin(path, key, request, resume, on_note)
            self._release = stack.pop_all().close
        finalize(self, self._release)  # if an error ends the run before its last chunk

    def _begin(
        self, path: Path, key: str, request: Mapping[str, Any], resume: bool, on_note: Callable[[str], Any]
    ) -> None:
        self._verdicts, self._rejected = LineFile(path, key), LineFile(self.rejected_path, key)
        record = record_path(path)
        if resume and record.exists():
            check_same_request(path, read_json(record), request)
        elif path.exists() and path.stat().st_size:
            wrong = f"no {record.name} is beside it" if resume else "it exists already; --resume continues it"
            raise InputError(f"{path}: {wrong}; another name starts a new one")
        else:
            # Lines of another run would mislead a later --resume.
            if self._rejected.path.exists():
                self._rejected.path.unlink()
                on_note(f"{self._rejected.path}: {REPLACED}")
            write_json(record, request)
        path.touch()
        self._last = max((row[key] for row, _ in self._verdicts.read()), default=0)

    def remaining(self, chunks: Iterable[list[Entry]], tally: Tally) -> Iterator[list[Entry]]:
        """The chunks that are still to be judged; counts the verdicts of an earlier run that stay."""
        until, done, begun = 0, 0, False
        for chunk in chunks:
            if not begun and chunk[-1].number < self._last:
                until = chunk[-1].number
                done += len(chunk)
                continue
            if not begun:
                rejected = sum(1 for _ in self._rejected.truncate_after(until))
                tally.add(self._verdicts.truncate_after(until), rejected)
                if (found := tally.chats + rejected) != done:
                    raise InputError(
                        f"{self._verdicts.path}: up to {self._verdicts.key} {until} there are {done:,} inputs, and "
                        f"{found:,} answers in it and in {self.rejected_path.name}; lines were removed or added, so "
                        "start anew under another name"
                    )
                begun = True
            yield chunk
        self._release()

    def add(self, chunk: JudgedChunk) -> None:
        """Writes the verdicts on a chunk."""
        self._rejected.add(chunk.rejected)
        self._verdicts.add(chunk.records)


def record_path(path: Path) -> Path:
    """The file with the request of the run that wrote ``path``."""
    return path.with_name(f"{path.name}.{RECORD}")


def check_not_the_input(path: Path, source: os.stat_result) -> None:
    """Makes sure that a run does not overwrite its own input.

    Args:
        path: FILE of the output.
        source: ``os.stat`` of the input, which may be an open file without a name.

    Raises:
        InputError: FILE, or a file beside it, is the input, by whatever name.
    """
    for file in (path, rejected_path(path), record_path(path)):
        if file.exists() and os.path.samestat(file.stat(), source):
            raise InputError(f"{file}: is the input, and --out {path} would overwrite it; name another file")
