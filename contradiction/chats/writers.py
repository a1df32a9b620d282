"""What a long run of ``cdconv detect`` keeps: its answers, what it rejected, and what it was asked, to continue it."""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO
from weakref import finalize

from contradiction.chats.readers import Entry
from contradiction.chats.streams import Answered, Record, Tally, to_line
from contradiction.errors import InputError
from contradiction.io.files import read_json, write_json
from contradiction.io.hub import fetched
from contradiction.io.locking import locked
from contradiction.methods.loading import METHODS

# What of a model folder bears on its verdicts; its card and the record of its training do not.
READ = (".bin", ".json", ".model", ".onnx", ".safetensors", ".txt")
RECORD = "run.json"


class LineFile:
    """A file of JSON objects, one a line, that grows by whole lines.

    Args:
        path: of the file; it is made with the first line.
        key: under which an object holds its number; numbers rise.
    """

    def __init__(self, path: Path, key: str) -> None:
        self.path, self.key = path, key
        self._file: BinaryIO | None = None

    def add(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Appends objects; they are out of this process when it returns."""
        if lines := b"".join(map(to_line, records)):
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

    def keep(self, until: int) -> Iterator[Record]:
        """Gives the objects up to a number, then cuts off what comes after them."""
        kept = 0
        for record, end in self.read():
            if record[self.key] > until:
                break
            kept = end
            yield record
        if self.path.exists():
            with self.path.open("r+b") as file:
                file.truncate(kept)


class AnswerFiles:
    """The answers in FILE, what was rejected in FILE.rejected.jsonl, what was asked for in FILE.run.json.

    Both files of lines grow part by part of the input, the rejected first. A run that was killed continues with the
    part that holds its last answer: this part is cut off, torn lines and what was rejected since with it, and judged
    anew, so that the files end as if nothing had been. They are locked until the last part is judged, because two
    processes would each add the same answers.

    Args:
        path: FILE.
        key: ``line`` or ``row``, what the numbers of the input count.
        run: what was asked for; see :func:`request`.
        resume: continues an unfinished run; of a finished one the last part is judged anew, to the same end.

    Attributes:
        replaced: whether a new run took the place of what was rejected before.

    Raises:
        InputError: there is such a file and it is not to be continued, it was made by another run, or another process
            is at it.
    """

    def __init__(self, path: Path, key: str, run: Mapping[str, Any], resume: bool) -> None:
        with ExitStack() as held:
            held.enter_context(locked(path))
            self._begin(path, key, run, resume)
            self._release = held.pop_all().close
        finalize(self, self._release)  # where an error ends the run before its last part

    def _begin(self, path: Path, key: str, run: Mapping[str, Any], resume: bool) -> None:
        self.answers, self.rejected = LineFile(path, key), LineFile(rejected(path), key)
        self.replaced = False
        asked = record(path)
        if resume and asked.exists():
            _demand_same(path, read_json(asked), run)
        elif path.exists() and path.stat().st_size:
            wrong = f"no {asked.name} lies beside it" if resume else "it is there already; --resume continues it"
            raise InputError(f"{path}: {wrong}; another name starts a new one")
        else:
            # Lines of another run are none that a later --resume could go by.
            self.replaced = self.rejected.path.exists()
            self.rejected.path.unlink(missing_ok=True)
            write_json(asked, run)
        path.touch()
        self.last = max((record[key] for record, _ in self.answers.read()), default=0)

    def left(self, parts: Iterable[list[Entry]], tally: Tally) -> Iterator[list[Entry]]:
        """The parts of the input that are still to be judged; what stays of an earlier run is counted."""
        until, begun = 0, False
        for part in parts:
            if not begun and part[-1].number < self.last:
                until = part[-1].number
                continue
            if not begun:
                tally.add(self.answers.keep(until), sum(1 for _ in self.rejected.keep(until)))
                begun = True
            yield part
        self._release()

    def add(self, answered: Answered) -> None:
        """Writes what is said of a part."""
        self.rejected.add(answered.rejected)
        self.answers.add(answered.records)


def rejected(path: Path) -> Path:
    """Where that goes which cannot be judged."""
    return path.with_name(f"{path.name}.rejected.jsonl")


def record(path: Path) -> Path:
    """Where that goes which was asked for."""
    return path.with_name(f"{path.name}.{RECORD}")


def demand_apart(path: Path, source: os.stat_result) -> None:
    """Sees to it that a run does not write over its own input.

    Args:
        path: FILE.
        source: what the system says of the input, which may be an open file without a name.

    Raises:
        InputError: FILE, or what lies beside it, is the input, by whatever name.
    """
    for each in (path, rejected(path), record(path)):
        if each.exists() and os.path.samestat(each.stat(), source):
            raise InputError(f"{each}: is the input, and --out {path} would write there; name another file")


def request(model: str, file: Path | None, **options: Any) -> dict[str, Any]:
    """What a run was asked for, to compare it with another: model and input by what they are, not by where they lie.

    Args:
        model: folder or Hub id.
        file: the input; None where it is no file.
        options: whatever else bears on the verdicts.
    """
    return {"model": _model_digest(model), "input": _digest([file]) if file else None, **options}


def _model_digest(model: str) -> str:
    folder = Path(model)
    if not folder.is_dir():
        # Whatever its files are, they lie together in the cache once it is loaded.
        found = next(filter(None, (fetched(model, method.MARKER) for method in METHODS)), None)
        folder = found.parent if found else folder
    files = (file for file in folder.rglob("*") if file.suffix in READ and file.name != RECORD)
    return _digest(sorted(files))


def _digest(files: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in files:
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def _demand_same(path: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    for name in now:
        if before.get(name) == now[name]:
            continue
        what = (
            f"another {name}"
            if name in ("model", "input")
            else f"{name} {_word(before.get(name))}, not {_word(now[name])}"
        )
        raise InputError(
            f"{path}: was made with {what}; --resume continues only the same run, another name starts a new one"
        )


def _word(value: object) -> str:
    return "unset" if value is None else json.dumps(value, ensure_ascii=False)
