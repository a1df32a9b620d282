"""Folders that are replaced: whatever kills the process that does it, one of the two can be had."""

import subprocess
import sys

import pytest

from contradiction.io import files

# Replaces the folder of the second argument by that of the first, and dies after so many steps on the disk.
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
    assert {each.name for each in state.parent.iterdir()} == {"state"} | ({new.name} if left == "old" else set())


def test_what_nobody_was_killed_over_stays(tmp_path):
    for name in ("state", ".state.partial", ".state.old", "state.1.old", ".state.1.older", "best"):
        folder(tmp_path / name, name)
    before = sorted(tmp_path.rglob("*"))
    files.restore_folders(tmp_path)
    assert sorted(tmp_path.rglob("*")) == before
    files.restore_folders(tmp_path / "none")
