"""`cdconv detect DIR --engine ray` gives the verdicts of one process, each once, whatever is killed. Needs Ray."""

import json
import re
import sys
import time
from contextlib import nullcontext
from dataclasses import asdict
from importlib.util import find_spec
from itertools import cycle
from threading import Thread
from types import SimpleNamespace

import psutil
import pyarrow as pa
import pytest
from helpers import processes
from helpers.chat_server import ChatServer
from helpers.chats import CHAT, TEXTS, chat
from pyarrow import parquet

from contradiction.chats import ray_engine, readers
from contradiction.chats.detection import Detection
from contradiction.errors import InputError

# Not with an import, because the address that Ray listens on is set before it.
needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="needs Ray")
SMALL_PARTS = "from contradiction.chats import ray_engine; ray_engine.PART_ROWS = 5\n"
LONG = [message for _ in range(1000) for message in CHAT[2:]]


@pytest.fixture(scope="module")
def folder(sample_chats, tmp_path_factory):
    """A folder with two Parquet files, one in a subfolder. One row holds no chat, and one has 1,000 turns."""
    folder = tmp_path_factory.mktemp("logs") / "chats"
    for name, chats in (("b.parquet", [None, LONG, *sample_chats[:50]]), ("day/a.parquet", sample_chats[50:140])):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        table = pa.table({"id": [f"c{number}" for number in range(len(chats))], "messages": chats})
        parquet.write_table(table, folder / name, row_group_size=7)
    return folder


def test_a_part_of_a_file_holds_its_rows(folder):
    whole = [*readers.open_parquet(folder / "b.parquet").arrivals[0]]
    for rows in (range(1, 6), range(6, 11), range(7, 8), range(50, 53)):
        part = readers.open_parquet(folder / "b.parquet", rows)
        assert part.total == len(rows)
        assert [*part.arrivals[0]] == [whole[number - 1] for number in rows]


def test_verdicts_are_not_written_into_the_input_folder_or_a_file(detect, folder, tmp_path):
    (tmp_path / "file").touch()
    for out, reason in (
        (folder / "verdicts", f"lies in {folder}; name a folder outside"),
        (tmp_path / "file", "is a file; --engine ray writes a folder"),
    ):
        code, _, [message] = detect(folder, "--engine", "ray", "--out", out)
        assert (code, f"--out {out}: {reason}" in message) == (2, True)
    assert not (folder / "verdicts").exists()


def test_a_detector_that_does_not_load_leaves_no_folder(folder, tmp_path):
    with pytest.raises(InputError, match="nowhere"):
        ray_engine.judge_folder(Detection(str(tmp_path / "nowhere")), folder, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def without_ray(monkeypatch):
    """A machine with two cores, on which Ray is not started, which takes seconds."""
    ray = SimpleNamespace(cluster_resources=lambda: {"CPU": 2.0}, __spec__=sys.__spec__)
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setattr(ray_engine, "cluster", lambda *_: nullcontext())


@pytest.mark.usefixtures("without_ray")
def test_the_usage_of_a_judge_is_the_sum_over_the_workers(run, judge, tmp_path, monkeypatch):
    def judged(arguments, parts, size, gpu):
        workers = cycle([ray_engine._Worker(*arguments) for _ in range(size)])
        return [next(workers)(asdict(part)) for part in parts]

    monkeypatch.setattr(ray_engine, "_run", judged)
    monkeypatch.setattr(ray_engine, "PART_ROWS", 3)
    (tmp_path / "chats").mkdir()
    chats = [{"messages": chat(*TEXTS[:3], f"{TEXTS[3]}{index}")} for index in range(10)]
    parquet.write_table(pa.Table.from_pylist(chats), tmp_path / "chats" / "a.parquet")
    with ChatServer(lambda body: '{"label": "history"}') as server:
        arguments = ("--model", judge(server), "--engine", "ray", "--out", tmp_path / "verdicts")
        code, _, err = run("detect", tmp_path / "chats", *arguments)
    assert (code, len(server.requests)) == (0, 10), err
    assert re.search(r"answers\W+10, 0 of them kept from an earlier run", err), err


@pytest.mark.usefixtures("without_ray")
def test_a_gpu_that_does_not_exist_prints_one_line_and_starts_no_run(detect, folder, tmp_path):
    options = ("--workers", "1", "--device", "cuda", "--precision", "fp16", "--out", tmp_path / "out")
    code, _, [message] = detect(folder, "--engine", "ray", *options)
    assert (code, "finds no GPU" in message) == (2, True)
    assert list(tmp_path.iterdir()) == []


@needs_ray
def test_a_run_with_a_killed_driver_and_worker_ends_with_each_verdict_once(
    run, exported_model, folder, tmp_path, monkeypatch
):
    monkeypatch.setattr(ray_engine, "PART_ROWS", 5)
    out = tmp_path / "verdicts"
    arguments = (*exported_model, "--engine", "ray", "--out", out)
    command = ("detect", folder, *arguments, "--workers", "1")
    driver = processes.start_cdconv(*command, before=SMALL_PARTS)
    try:
        assert processes.wait_for(out / "part-000001.parquet", driver), driver.communicate()[1][-2000:]
    finally:
        started = [
            child
            for child in psutil.Process(driver._process.pid).children(recursive=True)
            if not child.name().endswith("Agent")  # Ray's agents hold no work, and end after a minute
        ]
        driver.kill()
        driver.wait()
    finished = {path: path.stat().st_mtime_ns for path in out.glob("part-*")}
    ended, alive = psutil.wait_procs(started, timeout=60)
    assert not alive, "Ray ends with its driver"
    parts = ray_engine.parts_of(folder)
    assert 0 < len(finished) < len(parts)
    killed = []

    def kill_a_worker():
        until = time.monotonic() + 300
        while not killed and time.monotonic() < until:
            for child in psutil.Process().children(recursive=True):
                if child.name().startswith("ray::Map"):
                    child.kill()
                    killed.append(child.pid)
                    return
            time.sleep(0.05)

    killer = Thread(target=kill_a_worker)
    killer.start()
    code, _, err = run("detect", folder, *arguments, "--workers", "2", "--resume")
    killer.join()
    assert killed
    assert (code, err.splitlines()[-1].split(": ")[-1].split("; ")[-1]) == (1, f"1 input rejected → {out}"), err
    assert {path: path.stat().st_mtime_ns for path in finished} == finished, "finished files are not written again"
    assert sorted(path.name for path in out.iterdir()) == ["_request.json", *(part.output for part in parts)]
    rows = parquet.read_table(out).to_pylist()
    for name in ("b.parquet", "day/a.parquet"):
        own = sorted((row for row in rows if row["file"] == name), key=lambda row: row["row"])
        _, answers, _ = run("detect", *exported_model, folder / name)
        expected = [json.loads(line) for line in answers.splitlines()]
        judged = [row for row in own if row["error"] is None]
        assert [row["row"] for row in own] == list(range(1, parquet.read_metadata(folder / name).num_rows + 1))
        assert [row["label"] for row in judged] == [verdict["label"] for verdict in expected]
        assert [row["id"] for row in judged] == [verdict["id"] for verdict in expected]
        assert [row["evidence"] for row in judged] == [verdict["evidence"] for verdict in expected]
        scores = [dict(row["scores"]) for row in judged]
        assert scores == [pytest.approx(verdict["scores"], abs=2e-6) for verdict in expected]
    code, _, message = run("detect", folder, *arguments, "--resume", "--threshold", "0.4")
    assert (code, "was made with another threshold" in message) == (2, True)
