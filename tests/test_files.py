"""Replacing a folder: whenever the process is killed, the old or the new folder survives."""

import platform
import subprocess
import sys

import pytest

from contradiction.io import files

# Replaces the folder of the second argument with that of the first, and dies after the given number of disk operations.
DYING = """
import os, shutil, signal, sys
from pathlib import Path
from contradiction.io import files

def dying(real, left=[int(sys.argv[3])]):
    def step(*args, **kwargs):
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        left[0] -= 1
        return real(*args, **kwargs)
    return step

Path.rename, shutil.rmtree = dying(Path.rename), dying(shutil.rmtree)
files.replace_folder(Path(sys.argv[1]), Path(sys.argv[2]))
"""


def folder(path, text):
    path.mkdir(parents=True)
    (path / "file").write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(("steps", "left"), [(0, "old"), (1, "old"), (2, "new")])
def test_a_process_killed_while_it_replaces_a_folder_loses_neither(steps, left, tmp_path):
    state = folder(tmp_path / "run.partial" / "stage.partial" / "state", "old")
    new = folder(state.with_name(".state.partial"), "new")
    process = subprocess.run([sys.executable, "-c", DYING, new, state, str(steps)])
    assert process.returncode == -9
    assert state.exists() == (steps != 1)
    files.restore_folders(tmp_path / "run.partial")
    assert (state / "file").read_text(encoding="utf-8") == left
    assert {path.name for path in state.parent.iterdir()} == {"state"} | ({new.name} if left == "old" else set())


def test_files_not_left_by_a_killed_process_stay(tmp_path):
    for name in ("state", ".state.partial", ".state.old", "state.host-1.old", ".state.host-1.older", "best"):
        folder(tmp_path / name, name)
    before = sorted(tmp_path.rglob("*"))
    files.restore_folders(tmp_path)
    assert sorted(tmp_path.rglob("*")) == before
    files.restore_folders(tmp_path / "none")


def test_a_link_stays_and_its_target_is_replaced(tmp_path):
    folder(tmp_path / "real", "old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with files.new_folder(tmp_path / "link") as new:
        (new / "file").write_text("new", encoding="utf-8")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "file").read_text(encoding="utf-8") == "new"
    (tmp_path / "name").symlink_to(tmp_path / "real" / "file")
    files.write_text(tmp_path / "name", "newer")
    assert (tmp_path / "name").is_symlink()
    assert (tmp_path / "real" / "file").read_text(encoding="utf-8") == "newer"


KILLED = """
import os, signal, sys
from contradiction.io import files
with files.new_folder(sys.argv[1]) as folder:
    (folder / "half").touch()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_files_of_a_killed_process_are_removed_and_those_of_a_live_one_stay(tmp_path):
    out = folder(tmp_path / "out", "old")
    assert subprocess.run([sys.executable, "-c", KILLED, out]).returncode == -9
    [left] = [path for path in tmp_path.iterdir() if path != out]
    with files.new_folder(out) as first:
        assert not left.exists()
        with files.new_folder(out) as second:
            assert first.exists() and second != first
    assert list(tmp_path.iterdir()) == [out]


def test_a_partial_file_of_a_killed_process_is_removed(tmp_path):
    half = KILLED.replace("new_folder", "new_file").replace('(folder / "half")', "folder")
    assert subprocess.run([sys.executable, "-c", half, tmp_path / "out"]).returncode == -9
    [left] = tmp_path.iterdir()
    files.write_text(tmp_path / "another", "")
    assert left.exists()
    files.write_text(tmp_path / "out", "")
    assert {path.name for path in tmp_path.iterdir()} == {"out", "another"}


def test_two_threads_write_one_file_under_two_names_that_nobody_can_guess(tmp_path):
    with files.new_file(tmp_path / "out") as second:
        second.write_text("second", encoding="utf-8")
        with files.new_file(tmp_path / "out") as first:
            first.write_text("first", encoding="utf-8")
        assert (tmp_path / "out").read_text(encoding="utf-8") == "first"
    assert (tmp_path / "out").read_text(encoding="utf-8") == "second"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("machine", [platform.node(), "another.example"])
def test_the_old_folder_set_aside_by_a_killed_process_is_restored(machine, tmp_path):
    """Another machine may still be working on a shared disk. Only the holder of the lock of a run knows otherwise."""
    out, new = folder(tmp_path / "out.v1", "old"), folder(tmp_path / "new", "new")
    code = f"import platform; platform.node = lambda: {machine!r}\n{DYING}"
    assert subprocess.run([sys.executable, "-c", code, new, out, "1"]).returncode == -9
    with pytest.raises(ValueError, match="no"), files.new_folder(out):
        raise ValueError("no")
    assert out.exists() == (machine == platform.node())
    files.restore_folders(tmp_path)
    assert (out / "file").read_text(encoding="utf-8") == "old"
    assert sorted(tmp_path.iterdir()) == [new, out]
