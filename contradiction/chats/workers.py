"""Judges chunks in several processes of one machine: in order, in bounded memory; a killed process is replaced."""

import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from queue import Queue
from threading import Event, Lock, Thread
from traceback import format_exception
from typing import Any, Self

from contradiction.chats.chunks import JudgedChunk, OnChunk, judge_chunk
from contradiction.chats.entries import Entry
from contradiction.detector import ContradictionDetector
from contradiction.errors import InputError
from contradiction.inference.base import OnBatch, threads

TRIES = 3  # attempts for a chunk whose worker is killed each time
GONE = (EOFError, OSError)  # raised by a connection whose other end was killed

Load = Callable[[], ContradictionDetector]
_Pending = tuple[list[Entry], Future[JudgedChunk], Queue[int | None]]  # the last one: the windows of each forward pass


class Workers:
    """Processes that each load the detector and judge one chunk at a time; a context manager that ends them.

    The chunks are those that one process would judge, so the verdicts are the same to the last digit. At most two
    chunks for each process are in memory. The threads that one process would compute with are divided among
    the processes.

    Args:
        count: the number of processes.
        load: loads the detector; it is sent to each process.
        key, scan, batch_size: see :func:`contradiction.chats.chunks.judge_chunk`.
        on_note: called with a message where a worker was killed.

    Raises:
        InputError: ``load`` raises it, or a process is killed while it loads.
    """

    def __init__(
        self,
        count: int,
        load: Load,
        key: str,
        *,
        scan: bool = False,
        batch_size: int = 32,
        on_note: Callable[[str], Any] = str,
    ) -> None:
        self._count, self._key, self._on_note = count, key, on_note
        share = max(1, threads() // count)
        self._start = lambda: _Worker(share, load, {"key": key, "scan": scan, "batch_size": batch_size})
        self._workers = [self._start() for _ in range(count)]  # all load at the same time
        self._idle: Queue[_Worker] = Queue()
        self._threads = ThreadPoolExecutor(count)
        self._closed, self._replacing = False, Lock()
        try:
            for worker in self._workers:
                worker.wait()
                self._idle.put(worker)
        except BaseException as error:
            self.close()
            if isinstance(error, GONE):
                raise InputError(f"a worker process was killed while it loaded the model; {_memory(count)}") from None
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the processes, also in the middle of a chunk."""
        with self._replacing:  # otherwise a process that starts now would outlive the others
            self._closed = True
            for worker in self._workers:
                worker.kill()
        self._threads.shutdown(cancel_futures=True)

    def judge(self, chunks: Iterable[list[Entry]], on_chunk: OnChunk | None = None) -> Iterator[JudgedChunk]:
        """Judges chunks; yields the results in order, each as soon as it and all earlier ones are ready.

        Args:
            chunks: the chunks; they are read in a separate thread, so a paused pipe does not delay results.
            on_chunk: see :func:`contradiction.chats.chunks.judge_in_turn`. It is called when all earlier chunks are
                ready; what is already done of the chunk is then counted at once.

        Raises:
            InputError: a chunk cannot be judged or read, or the processes are killed again and again.
        """
        pending: Queue[_Pending | BaseException | None] = Queue(2 * self._count)
        ended = Event()

        def read() -> None:
            end: BaseException | None = None
            try:
                for entries in chunks:
                    if ended.is_set():
                        return
                    done: Queue[int | None] = Queue()
                    future = self._threads.submit(self._judge, entries, done.put)
                    future.add_done_callback(partial(_end, done))
                    pending.put((entries, future, done))
            except BaseException as error:  # raised after the results of the chunks before it
                end = error
            pending.put(end)

        Thread(target=read, daemon=True).start()
        try:
            while (item := pending.get()) is not None:
                if isinstance(item, BaseException):
                    raise item
                entries, future, done = item
                on_batch = on_chunk(entries) if on_chunk else None
                while (windows := done.get()) is not None:
                    if on_batch:
                        on_batch(windows)
                yield replace(future.result(), entries=entries)
        finally:
            ended.set()
            while not pending.empty():  # otherwise the reading thread would wait for room forever
                pending.get()

    def _judge(self, entries: list[Entry], on_batch: OnBatch) -> JudgedChunk:
        worker = self._idle.get()
        try:
            for _ in range(TRIES):
                try:
                    return worker.judge(entries, on_batch)
                except GONE:
                    if self._closed:
                        raise
                    numbers = f"{self._key}s {entries[0].number} to {entries[-1].number}"
                    self._on_note(f"a worker process was killed; another one judges {numbers} again")
                    worker = self._replace(worker)
            raise InputError(f"{numbers}: the worker process was killed {TRIES} times; {_memory(self._count)}")
        finally:
            self._idle.put(worker)

    def _replace(self, worker: "_Worker") -> "_Worker":
        """Replaces a killed process; raises EOFError if all processes are being ended."""
        with self._replacing:
            if self._closed:
                raise EOFError
            self._workers.remove(worker)
            worker = self._start()
            self._workers.append(worker)
        with suppress(*GONE):
            worker.wait()
        return worker


def _end(done: "Queue[int | None]", _: Future[JudgedChunk]) -> None:
    """Ends the counts of the windows of a chunk, also where it failed or was cancelled."""
    done.put(None)


def _memory(count: int) -> str:
    return f"if there is too little memory, take fewer than --workers {count} or a smaller --batch-size"


class _Worker:
    """A process and the connection to it."""

    def __init__(self, share: int, load: Load, options: dict[str, Any]) -> None:
        context = get_context("spawn")  # a fork would inherit threads that are in the middle of something
        self._connection, other = context.Pipe()
        self._process = context.Process(target=_work, args=(other, share, load, options), daemon=True)
        self._process.start()
        other.close()  # so that the end of the process ends the connection

    def wait(self) -> None:
        """Waits until the process has loaded its detector; raises the error of the loading."""
        self._receive()

    def judge(self, entries: list[Entry], on_batch: OnBatch) -> JudgedChunk:
        """Judges a chunk in the process; the result is without the entries."""
        self._connection.send(entries)
        while isinstance(received := self._receive(), int):
            on_batch(received)
        return received

    def kill(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.join()

    def _receive(self) -> Any:
        received = self._connection.recv()
        if isinstance(received, BaseException):
            raise received
        return received


def _work(connection: Connection, share: int, load: Load, options: dict[str, Any]) -> None:
    """Runs a worker process: loads the detector, then judges chunks until the connection ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C also reaches the parent, which ends the workers
    os.environ["OMP_NUM_THREADS"] = str(share)  # read by libraries that are imported from here on
    if torch := sys.modules.get("torch"):  # a spawned process imports the main module again
        torch.set_num_threads(share)

    def answer(compute: Callable[[], Any]) -> Any:
        try:
            return compute()
        except InputError as error:
            return error
        except Exception as error:  # not every class of error can be sent
            return RuntimeError("".join(format_exception(error)))

    with suppress(*GONE):  # the parent was killed
        detector = answer(partial(_load, load))
        connection.send(detector if isinstance(detector, Exception) else None)
        while True:
            entries = connection.recv()
            connection.send(answer(partial(_judge, detector, entries, {**options, "on_batch": connection.send})))


def _load(load: Load) -> ContradictionDetector:
    detector = load()
    detector.check_judges_replies()
    return detector


def _judge(detector: ContradictionDetector, entries: list[Entry], options: dict[str, Any]) -> JudgedChunk:
    """The result without the entries, which the parent has."""
    return replace(judge_chunk(detector, entries, **options), entries=[])
