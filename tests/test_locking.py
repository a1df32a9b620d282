"""Only one process at a time works in a place, and several can share a grid."""

import os
import subprocess
import sys

import pytest
from helpers import processes
from helpers.chats import line
from helpers.runs import TINY_TOML, train

from contradiction.errors import InputError
from contradiction.io.files import LockedError, locked
from contradiction.training.recipe import load_recipe

TOML = '{}\nconfig = "4-class"\nepochs = {}\nbatch_size = 16\nlearning_rate = 3e-3\n' + TINY_TOML
METHODS = {"flatten": 'view = "flatten"', "hierarchical": 'method = "hierarchical"'}
MANY = 10_000  # epochs, so that the run lasts until it is killed
HOLD = (
    "import sys, time; from contradiction.io.files import locked\n"
    "with locked(sys.argv[1]): print('held', flush=True); time.sleep(600)"
)


def recipe(folder, view, epochs):
    path = folder / f"{view}-{epochs}.toml"
    path.write_text(TOML.format(METHODS[view], epochs), encoding="utf-8")
    return path


def holds_state(folder):
    """Whether a training run has saved its state below a folder in which it is still writing and renaming."""
    return any("state" in folders for _, folders, _ in os.walk(folder))  # walk() skips what has just been removed


def kill(process):
    process.kill()
    process.wait()


@pytest.fixture
def lock_holder():
    """Locks a path in another process until that is killed, and returns the process."""
    holders = []

    def hold(path):
        process = subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True)
        holders.append(process)
        assert process.stdout.readline() == "held\n"
        return process

    yield hold
    for process in holders:
        kill(process)


@pytest.mark.parametrize("view", METHODS)
def test_a_second_process_is_rejected_and_a_killed_one_leaves_no_lock(view, sample_repo, tmp_path):
    out = tmp_path / "run"

    def second():
        train(load_recipe(recipe(tmp_path, view, 1)), data=sample_repo, out=out, resume=True)

    first = processes.start_cdconv("train", recipe(tmp_path, view, MANY), "--data", sample_repo, "--out", out)
    try:
        assert processes.wait_for(lambda: holds_state(tmp_path / "run.partial"), first), first.communicate()[1]
        with pytest.raises(LockedError, match=f"^{out}: another process .*another place$"):
            second()
        assert first.poll() is None
    finally:
        kill(first)
    # The folder is free, so its recipe is checked now.
    with pytest.raises(InputError, match=r"run\.partial: .*another recipe"):
        second()


def test_a_lock_is_released_however_the_block_ends(tmp_path):
    with pytest.raises(KeyboardInterrupt), locked(tmp_path / "run"):
        with pytest.raises(LockedError), locked(tmp_path / "run"):
            pass
        raise KeyboardInterrupt
    assert not list(tmp_path.iterdir())
    with locked(tmp_path / "run"):
        pass


@pytest.mark.skipif(sys.platform != "linux", reason="/proc takes no files, even of root")
@pytest.mark.parametrize("wait", [False, True])
def test_a_folder_that_takes_no_files_is_not_taken_for_a_lock_that_another_process_holds(wait):
    with pytest.raises(InputError, match="^/proc/x: no file can be written in /proc"), locked("/proc/x", wait):
        pass


def test_a_lock_on_a_deleted_file_does_not_count(tmp_path, lock_holder):
    """One process ends after a second has opened its file. Then a third creates a new file."""
    import fcntl

    with locked(tmp_path / "run"):
        opened = (tmp_path / ".run.lock").open("rb")
    with opened:
        fcntl.flock(opened, fcntl.LOCK_EX)  # the file that the first has removed
        lock_holder(tmp_path / "run")
        with pytest.raises(LockedError), locked(tmp_path / "run"):
            pass


def grid(encoder, data, out, *more):
    return (
        "table4", "--backbone", encoder, "--data", data, "--out", out, "--seeds", "1",
        "--methods", "sentence-pair,flatten", "--configs", "4-class", "--set", "epochs=1", *more,
    )  # fmt: skip


def test_two_grids_in_one_folder_train_each_cell_once_and_the_last_writes_the_full_table(
    encoder, sample_repo, tmp_path
):
    out = tmp_path / "out"
    arguments = grid(encoder, sample_repo, out)
    both = [processes.start_module("paper.reproduce", *arguments) for _ in range(2)]
    outputs = [process.communicate(timeout=300) for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    assert sum(line.count("epoch 1/1") for line, _ in outputs) == 2
    assert len(list(out.glob("*seed*.test.json"))) == 2
    assert "Missing" not in (out / "table4.md").read_text(encoding="utf-8")
    assert not list(out.rglob("*.lock"))


def test_a_cell_locked_by_another_process_is_skipped_and_the_rest_runs(
    encoder, lock_holder, sample_repo, tmp_path, reproduce
):
    out = tmp_path / "out"
    options = grid(encoder, sample_repo, out)
    holder = lock_holder(out / "sentence-pair-4-class-encoder-seed1")
    code, _, err = reproduce(*options)
    assert code == 0 and "sentence-pair-4-class-encoder-seed1: skipped, another process works on it\n" in err
    assert [path.name for path in out.glob("*seed*.test.json")] == ["flatten-4-class-encoder-seed1.test.json"]
    assert "Missing: sentence-pair-4-class-encoder-seed1." in (out / "table4.md").read_text(encoding="utf-8")
    kill(holder)
    assert "cell 1 of 1: sentence-pair" in reproduce(*options)[2]
    assert "Missing" not in (out / "table4.md").read_text(encoding="utf-8")
    assert not list(out.rglob("*.lock"))


def test_verdicts_are_appended_by_one_process_at_a_time(lock_holder, run, quick_model, tmp_path):
    chats, out = tmp_path / "chats.jsonl", tmp_path / "verdicts.jsonl"
    chats.write_text(f"{line()}\n" * 3, encoding="utf-8")
    command = ("detect", chats, "--model", quick_model, "--out", out)
    assert run(*command)[0] == 0
    whole = out.read_bytes()
    holder = lock_holder(out)
    for options in ((), ("--resume",)):
        code, _, err = run(*command, *options)
        assert code == 2 and err.startswith(f"cdconv: {out}: another process") and err.count("\n") == 1
    assert out.read_bytes() == whole
    kill(holder)
    for options, done in ((("--resume", "--threshold", "0.4"), 2), (("--resume",), 0)):  # an error releases the file
        assert run(*command, *options)[0] == done
    assert out.read_bytes() == whole
    assert not list(tmp_path.glob(".*.lock"))
