"""A detection: all chats of an input, in one process or several, into an output that a killed run continues."""

import hashlib
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from multiprocessing import get_context, parent_process
from pathlib import Path
from queue import Queue
from threading import Event, Thread
from traceback import format_exception
from typing import Any, Self

from contradiction.chats.chunks import (
    Chats,
    Entry,
    JudgedChunk,
    OnChunk,
    Tally,
    count_windows,
    judge_chunk,
    note_single_replies,
    split_chunks,
)
from contradiction.chats.names import USUAL, Speakers
from contradiction.chats.writers import ResumableOutput, ShownOutput
from contradiction.detector import ContradictionDetector
from contradiction.errors import InputError
from contradiction.inference.base import AUTO, threads
from contradiction.io.files import RECORD, sha256_of
from contradiction.io.hub import revision
from contradiction.methods.llm_judge import LLMJudge, total_usage
from contradiction.methods.loading import chosen_precision, find_model, method_of
from contradiction.settings import Settings

# The types of files in a model folder that affect its verdicts; the card and the record of the training do not.
MODEL_FILES = (".bin", ".onnx", ".safetensors", ".json", ".model", ".txt")

Load = Callable[[], ContradictionDetector]
Usage = dict[str, Any] | None
Result = tuple[JudgedChunk, int, Usage]  # of a worker process, with its number, and what it has used so far


@dataclass(frozen=True)
class Detection:
    """What is judged with, and how.

    Attributes:
        model: a model folder or Hub id.
        settings: of the operator, by their names in :class:`contradiction.settings.Settings`.
        backend, precision, device: see :meth:`contradiction.detector.ContradictionDetector.from_pretrained`.
        speakers: the names of the two sides.
        scan: judges every reply of a chat, not only the last one.
        batch_size: windows per forward pass.
        workers: the number of processes; None for one, or on Ray for one on each core.
    """

    model: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    backend: str = "torch"
    precision: str = AUTO
    device: str | None = None
    speakers: Speakers = USUAL
    scan: bool = False
    batch_size: int = 32
    workers: int | None = None

    def __post_init__(self) -> None:
        # Here, so that all processes use the same one, and a continued run notices another.
        object.__setattr__(self, "precision", chosen_precision(self.model, self.precision, self.backend, self.device))

    @property
    def computes(self) -> bool:
        """Whether the detector computes here; a language model behind an endpoint does not."""
        return method_of(find_model(self.model)) is not LLMJudge

    def load(self) -> ContradictionDetector:
        """Loads the detector."""
        return ContradictionDetector.from_pretrained(
            self.model, device=self.device, precision=self.precision, backend=self.backend, **self.settings
        )

    def request(self, source: Path | str | None, **options: Any) -> dict[str, Any]:
        """What affects the verdicts on a file, as JSON: the model, the input, the settings, and further options.

        A model folder and the file, which may be no file or a digest, are identified by their content, not by their
        place; a model of the Hub by its commit.
        """
        settings, name = Settings(**self.settings), find_model(self.model)
        method = method_of(name)
        return {
            "model": _digest(_model_files(Path(name))) if Path(name).is_dir() else revision(name, method.MARKER),
            "input": _digest([source]) if isinstance(source, Path) else source,
            "backend": self.backend if self.computes else None,
            "precision": self.precision if self.computes else None,
            "scan": self.scan,
            **options,
            "users": [*self.speakers.users],
            "bots": [*self.speakers.bots],
            **asdict(settings),
            "categories": [*settings.categories],
        }

    def run(
        self, chats: Chats, output: ResumableOutput | ShownOutput, *, on_chunk: OnChunk,
        on_note: Callable[[str], Any], on_load: Callable[[], Any],
    ) -> tuple[Tally, Usage]:  # fmt: skip
        """Judges all chats; returns the counts, and what a judge used, as its ``usage`` gives it.

        ``on_note`` is called with a message for each rejected input, ``on_load`` when the detector is loaded.

        Raises:
            InputError: the detector cannot be loaded or judges no replies, the input cannot be read further, or a
                process is killed.
        """
        tally = Tally()
        with ExitStack() as stack:
            options: dict[str, Any] = {"scan": self.scan, "batch_size": self.batch_size}
            chunks = output.remaining(note_single_replies(split_chunks(chats, self.scan), chats), tally)
            judged: Iterable[JudgedChunk]
            if self.workers and self.workers > 1:
                workers = stack.enter_context(Workers(self.workers, self.load, chats.key, **options))
                judged, usage = workers.judge(chunks, on_chunk), workers.usage
            else:
                detector = self.load()
                detector.check_judges_replies()
                usage = detector.classifier.usage
                judged = (
                    judge_chunk(detector, entries, chats.key, on_batch=on_chunk(entries), **options)
                    for entries in chunks
                )
            on_load()
            for chunk in judged:
                tally.add(chunk.records, len(chunk.rejected))
                for record in chunk.rejected:
                    on_note(f"{chats.place(record[chats.key])}: {record['error']}")
                output.add(chunk)
        return tally, usage()


def _model_files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*") if file.suffix in MODEL_FILES and file.name != RECORD)


def _digest(files: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in files:
        digest.update(bytes.fromhex(sha256_of(path)))
    return digest.hexdigest()


class Workers:
    """Processes that each load the detector and judge one chunk at a time; a context manager that ends them.

    The chunks are those that one process would judge, so the verdicts are the same to the last digit. At most two
    chunks for each process are in memory. The threads that one process would compute with are divided among the
    processes.

    Args:
        count: the number of processes.
        load: loads the detector; it is sent to each process.
        key: ``line`` or ``row``, what the numbers of the input count.
        options: further ones of :func:`contradiction.chats.chunks.judge_chunk`.

    Raises:
        InputError: ``load`` raises it, or a process is killed.
    """

    def __init__(self, count: int, load: Load, key: str, **options: Any) -> None:
        self._count, self._scan = count, options.get("scan", False)
        self._usage: dict[int, Usage] = {}  # of each process
        begin = max(1, threads() // count), load, {"key": key, **options}
        # A fork would inherit threads that are in the middle of something.
        self._pool = ProcessPoolExecutor(count, get_context("spawn"), _begin_worker, begin)
        try:
            with self._kills_explained():
                for loaded in [self._pool.submit(_judge, []) for _ in range(count)]:
                    loaded.result()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the processes, also in the middle of a chunk."""
        processes = [*(self._pool._processes or {}).values()]
        self._pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.kill()
            process.join()

    def usage(self) -> Usage:
        """What the judges of all processes used for the chunks that are ready; None without a judge."""
        return total_usage(self._usage.values())

    def judge(self, chunks: Iterable[list[Entry]], on_chunk: OnChunk = lambda entries: None) -> Iterator[JudgedChunk]:
        """Judges chunks; yields the results in order, each as soon as it and all earlier ones are ready.

        The chunks are read in a separate thread, so a paused pipe does not delay results. ``on_chunk`` is called when
        all earlier chunks are ready.

        Raises:
            InputError: a chunk cannot be judged or read, or a process is killed.
        """
        pending: Queue[tuple[list[Entry], Future[Result]] | BaseException | None] = Queue(2 * self._count)
        ended = Event()

        def read() -> None:
            end: BaseException | None = None
            try:
                for entries in chunks:
                    if ended.is_set():
                        return
                    pending.put((entries, self._pool.submit(_judge, entries)))
            except BaseException as error:  # raised after the results of the chunks before it
                end = error
            pending.put(end)

        Thread(target=read, daemon=True).start()
        try:
            with self._kills_explained():
                while (item := pending.get()) is not None:
                    if isinstance(item, BaseException):
                        raise item
                    entries, future = item
                    on_batch = on_chunk(entries)
                    judged, process, self._usage[process] = future.result()
                    if on_batch:
                        on_batch(sum(count_windows(entry, self._scan) for entry in entries))
                    yield replace(judged, entries=entries)
        finally:
            ended.set()
            while not pending.empty():  # otherwise the reading thread would wait for room forever
                pending.get()

    @contextmanager
    def _kills_explained(self) -> Iterator[None]:
        try:
            yield
        except BrokenProcessPool:
            raise InputError(
                f"a worker process was killed; if there is too little memory, take fewer than --workers {self._count} "
                "or a smaller --batch-size; --resume continues a run with --out"
            ) from None


_worker: dict[str, Any] = {}  # of a worker process: how it loads its detector, the detector, and the options


def _begin_worker(share: int, load: Load, options: dict[str, Any]) -> None:
    """Begins a worker process, which loads its detector with the first chunk, so that an error is a result."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C also reaches the parent, which ends the workers
    os.environ["OMP_NUM_THREADS"] = str(share)  # read by libraries that are imported from here on
    if torch := sys.modules.get("torch"):  # a spawned process imports the main module again
        torch.set_num_threads(share)
    _worker.update(load=load, options=options)
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    if parent := parent_process():
        parent.join()
        os._exit(1)


def _judge(entries: list[Entry]) -> Result:
    """Judges a chunk in a worker process; the result is without the entries, which the parent has."""
    try:
        if "detector" not in _worker:
            _worker["detector"] = _worker["load"]()
            _worker["detector"].check_judges_replies()
        judged = judge_chunk(_worker["detector"], entries, **_worker["options"])
        return replace(judged, entries=[]), os.getpid(), _worker["detector"].classifier.usage()
    except InputError as error:
        raise InputError(str(error)) from None
    except Exception as error:  # not every class of error can be sent
        raise RuntimeError("".join(format_exception(error))) from None
