"""`cdconv detect --workers` gives the bytes of a single process."""

import os
from functools import partial
from multiprocessing import get_context
from queue import Queue

import psutil
import pytest
from helpers import processes
from helpers.chats import line
from test_writers import SMALL_CHUNKS, kept

from contradiction.chats import chunks, readers
from contradiction.chats.detection import Workers
from contradiction.detector import ContradictionDetector
from contradiction.errors import InputError
from contradiction.inference import base
from contradiction.io import environment


@pytest.fixture
def load(detect_model):
    return partial(ContradictionDetector.from_pretrained, detect_model)


@pytest.fixture
def quick_start(monkeypatch):
    """Workers are forked from a process that has imported the libraries. A new interpreter imports them for seconds."""
    monkeypatch.setattr("contradiction.chats.detection.get_context", lambda _: get_context("forkserver"))
    monkeypatch.setattr(*processes.connection())


def parts(file, size=8):
    chunks.CHUNK_WINDOWS, before = size, chunks.CHUNK_WINDOWS
    try:
        return list(chunks.split_chunks(readers.open_file(file)))
    finally:
        chunks.CHUNK_WINDOWS = before


def test_workers_give_the_results_of_one_process_in_order_until_one_is_killed(load, mixed, quick_start):
    todo = parts(mixed)
    detector = load()
    expected = [chunks.judge_chunk(detector, entries, "line") for entries in todo]
    arriving = Queue()
    with Workers(2, load, "line") as workers:
        judged = workers.judge(iter(arriving.get, None))
        results = []
        for entries in todo:
            arriving.put(entries)
            results.append(next(judged))  # hangs unless a result arrives before the next chunk is available
        ended = [*workers._pool._processes.values()]
        ended[0].kill()
        with pytest.raises(InputError, match="a worker process was killed; .*--resume continues"):
            for _ in range(1000):  # the other process goes on until the kill is noticed
                arriving.put(todo[0])
                next(judged)
    assert results == expected
    assert not any(process.is_alive() for process in ended)


@pytest.mark.parametrize("ending", [partial(os._exit, 1), partial(ContradictionDetector.from_pretrained, "no/model")])
def test_workers_that_cannot_start_print_one_line(ending, quick_start):
    with pytest.raises(InputError, match="worker .*killed|no/model: ") as error:
        Workers(1, ending, "line")
    assert "\n" not in str(error.value)


def test_a_run_killed_with_its_workers_resumes_to_the_bytes_of_one_process(
    run, sample_chats, exported_model, small_chunks, tmp_path
):
    file, whole, cut = (tmp_path / name for name in ("chats.jsonl", "whole.jsonl", "cut.jsonl"))
    file.write_text("\n".join(["{bad", *map(line, sample_chats[:150])]), encoding="utf-8")
    run("detect", *exported_model, file, "--out", whole)
    arguments = ("detect", file, *exported_model, "--out", cut)
    process = processes.start_cdconv(*arguments, "--workers", "2", before=SMALL_CHUNKS)
    processes.wait_for(lambda: cut.exists() and cut.stat().st_size >= 1000, process)
    children = psutil.Process(process._process.pid).children()
    workers = [child for child in children if any("spawn_main" in word for word in child.cmdline())]
    process.kill()
    process.wait()
    assert 0 < cut.stat().st_size < whole.stat().st_size
    assert len(workers) == 2
    assert not psutil.wait_procs(workers, timeout=300)[1], "they end with their parent"
    code, _, err = run(*arguments, "--resume")
    assert kept(cut) == kept(whole)
    assert (code, err.splitlines()[-1].split(", ")[0]) == (1, "cdconv: 150 chats")


def test_the_thread_count_respects_affinity_quota_and_omp_num_threads(monkeypatch, tmp_path):
    monkeypatch.setattr(environment, "QUOTA", tmp_path / "cpu.max")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert base.threads() == 8
    for quota, threads in (("max 100000", 8), ("250000 100000", 3), ("1000 100000", 1), ("9900000 100000", 8)):
        environment.QUOTA.write_text(quota, encoding="utf-8")
        assert base.threads() == threads
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert base.threads() == 2
