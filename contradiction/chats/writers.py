"""Outputs of verdicts: JSON lines on a stream, a table, or files that a killed run of the same request can continue."""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

from contradiction.chats.chunks import Entry, JudgedChunk, Tally, filter_verdicts
from contradiction.conversation import text_at
from contradiction.errors import InputError
from contradiction.io.files import RECORD, read_json, write_json
from contradiction.io.line_files import LineFile, to_json_line
from contradiction.io.tables import Table, console

MAX_CELL = 500  # characters in a cell of a table


def line_file(path: Path, key: str, *, of_verdicts: bool) -> LineFile:
    """A file of verdicts or of rejected inputs; ``key`` is the key of an object's number, and numbers rise."""

    def check(record: Mapping[str, Any]) -> None:
        if not isinstance(record[key], int):
            raise TypeError
        if of_verdicts:
            Tally().add([record])  # an error for a record that holds no verdict

    return LineFile(path, check, "not a line that `cdconv detect --out` wrote")


def rejected_path(path: Path) -> Path:
    """The file of the inputs that were rejected, beside an input or beside an output."""
    return path.with_name(f"{path.name}.rejected.jsonl")


def continues(path: Path, record: Path, request: Callable[[], Mapping[str, Any]], resume: bool) -> bool:
    """Whether a run goes on with the verdicts in ``path``; ``record`` holds the request that they were made with.

    Raises:
        InputError: another request made them, or ``path`` holds anything and ``resume`` is false.
    """
    if resume and record.is_file():
        before, now = read_json(record), request()
        if name := next((name for name in now if before.get(name) != now[name]), None):
            raise InputError(
                f"{path}: was made with another {name}; --resume continues only the same run, another name starts a "
                "new one"
            )
        return True
    if path.exists() and (any(path.iterdir()) if path.is_dir() else path.stat().st_size):
        problem = f"there is no {record.name}" if resume else "it exists already; --resume continues it"
        raise InputError(f"{path}: {problem}; another name starts a new one")
    return False


class ShownOutput:
    """Shows verdicts, and writes the rejected inputs of a file, the ``source``, to ``FILE.rejected.jsonl`` beside it.

    Such a file of an earlier run is replaced, but only if something is rejected. If it cannot be written, the run goes
    on without it. ``only`` are the kinds of verdicts that are shown, see
    :func:`contradiction.chats.chunks.filter_verdicts`; none stands for all. ``rejected_path`` is None if the chats come
    through a pipe, or once the file cannot be written.
    """

    def __init__(
        self,
        show: Callable[[JudgedChunk], Any],
        source: Path | None,
        key: str,
        only: Collection[str],
        on_note: Callable[[str], Any],
    ) -> None:
        self._show, self._key, self._only, self._on_note = show, key, only, on_note
        self.rejected_path = rejected_path(source) if source else None
        self._rejected: LineFile | None = None  # once something is rejected

    def remaining(self, chunks: Iterable[list[Entry]], tally: Tally) -> Iterable[list[Entry]]:
        """All chunks."""
        return chunks

    def add(self, chunk: JudgedChunk) -> None:
        """Shows the verdicts on a chunk."""
        if chunk.rejected and self.rejected_path:
            try:
                if self._rejected is None:
                    _remove(self.rejected_path, self._on_note)
                    self._rejected = line_file(self.rejected_path, self._key, of_verdicts=False)
                self._rejected.add(chunk.rejected)
            except OSError as error:  # for instance in a folder in which only others may write
                self._on_note(f"{self.rejected_path}: {error.strerror}; rejected inputs are only shown here")
                self.rejected_path = None
        self._show(filter_verdicts(chunk, self._only) if self._only else chunk)


def _remove(path: Path, on_note: Callable[[str], Any]) -> None:
    """Removes the rejected inputs of another run, and says so."""
    if path.exists():
        path.unlink()
        on_note(f"{path}: existed already; the inputs rejected now replace it")


def write_records(stream: BinaryIO, chunk: JudgedChunk) -> None:
    """Writes the records of a chunk to a stream as JSON lines."""
    stream.write(b"".join(map(to_json_line, chunk.records)))
    stream.flush()


class VerdictTable:
    """Verdicts as rows of a table for the terminal."""

    def __init__(self) -> None:
        self._rows: list[tuple[str, ...]] = []

    def add(self, chunk: JudgedChunk) -> None:
        """Adds a row for each verdict: the chat, the reply, the decision, and what is contradicted; with indices."""
        usable = [entry for entry in chunk.entries if not entry.error]
        for entry, verdicts in zip(usable, chunk.verdicts, strict=True):
            for verdict in verdicts:
                chance = "" if verdict.probability is None else f"{verdict.probability:.2f}"
                reply, earlier = (
                    "\n".join(f"[{index}] {text_at(entry.messages, [index])}" for index in indices)
                    for indices in (verdict.reply, verdict.evidence)
                )
                why = "; ".join(filter(None, (earlier, verdict.reason)))  # what was not read, also beside evidence
                cells = (entry.name, reply, verdict.label or "not judged", verdict.certainty or "", why, chance)
                self._rows.append(tuple(cell if len(cell) <= MAX_CELL else f"{cell[:MAX_CELL]}…" for cell in cells))

    def print(self) -> None:
        """Prints the table."""
        header = ("chat", "reply", "verdict", "certainty", "contradicts, or why unchecked", "probability")
        console(wraps=True).print(Table("", header, self._rows, texts=5, wraps=True).rich())


class ResumableOutput:
    """Writes verdicts to FILE, rejected inputs to FILE.rejected.jsonl, and the request to FILE.run.json.

    Both files of lines grow chunk by chunk, the rejected inputs first. A killed run continues with the chunk that holds
    its last verdict: the lines of this chunk are removed and it is judged again. So the files end as if the run had
    never stopped. A finished run judges its last chunk again, with the same result. Whoever uses an output holds the
    lock of FILE.

    ``request`` gives what affects the verdicts, see :meth:`contradiction.chats.detection.Detection.request`; it reads
    the whole input.
    """

    def __init__(
        self,
        path: Path,
        key: str,
        request: Callable[[], Mapping[str, Any]],
        resume: bool,
        on_note: Callable[[str], Any],
    ) -> None:
        self.rejected_path, self._key, self._request, self._on_note = rejected_path(path), key, request, on_note
        self._verdicts = line_file(path, key, of_verdicts=True)
        self._rejected = line_file(self.rejected_path, key, of_verdicts=False)
        self._continues = continues(path, record_path(path), request, resume)

    def remaining(self, chunks: Iterable[list[Entry]], tally: Tally) -> Iterator[list[Entry]]:
        """The chunks that are still to be judged; counts the verdicts of an earlier run that stay."""
        path = self._verdicts.path
        if not self._continues:
            _remove(self.rejected_path, self._on_note)  # lines of another run would mislead a later --resume
            write_json(record_path(path), self._request())
        path.touch()
        last = max((row[self._key] for row, _ in self._verdicts.read()), default=0)
        chunks, until, expected = iter(chunks), 0, 0
        for chunk in chunks:
            if chunk[-1].number >= last:
                chunks = chain([chunk], chunks)
                break
            until, expected = chunk[-1].number, expected + len(chunk)
        rejected = sum(1 for _ in self._keep(self._rejected, until))
        tally.add(self._keep(self._verdicts, until), rejected)
        if (answered := tally.chats + rejected) != expected:
            raise InputError(
                f"{path}: up to {self._key} {until} there are {expected:,} inputs and {answered:,} answers; lines were "
                "removed or added, so start anew under another name"
            )
        yield from chunks

    def _keep(self, file: LineFile, number: int) -> Iterator[Mapping[str, Any]]:
        return file.keep(lambda row: row[self._key] <= number)

    def add(self, chunk: JudgedChunk) -> None:
        """Writes the verdicts on a chunk."""
        self._rejected.add(chunk.rejected)
        self._verdicts.add(chunk.records)


def record_path(path: Path) -> Path:
    """The file with the request of the run that wrote ``path``."""
    return path.with_name(f"{path.name}.{RECORD}")


def check_not_the_input(files: Iterable[Path], source: os.stat_result, option: str) -> None:
    """Raises InputError if one of the files that a run writes is its input, under any name.

    The input is known by its ``os.stat``, because it may be an open file without a name.
    """
    for file in files:
        if file.exists() and os.path.samestat(file.stat(), source):
            raise InputError(f"{file}: is the input, and {option} would overwrite it; name another file")
