"""A build is complete or absent, and bad sources and folders give one line."""

import errno
import json
import os
import shutil
import signal
from pathlib import Path

import pytest
from helpers import processes
from helpers.data_repo import contents, write

from contradiction import cdconv
from contradiction.data import build
from contradiction.data.build import Source
from contradiction.errors import InputError
from contradiction.paths import SAMPLE

pytestmark = pytest.mark.usefixtures("no_default_source", "crossed_once")


def test_a_failed_rename_restores_the_earlier_repo(sample_repo, tmp_path, monkeypatch):
    out = shutil.copytree(sample_repo, tmp_path / "cdconv")
    rename = Path.rename

    def fail(self, target):
        if self.name.endswith(".partial"):
            raise OSError(errno.EIO, "Input/output error")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises(OSError, match="Input/output"):
        build.build(Source(SAMPLE, "sample"), out)
    assert contents(out) == contents(sample_repo)
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize(
    "inside",
    [
        None,  # a file, not a folder
        {"thesis.txt": b"mine"},
        {"README.md": b"dataset_info: my thesis"},
        {"README.md": b"\xff\xfe not UTF-8"},
    ],
)
def test_what_is_not_a_data_repo_is_never_replaced(inside, tmp_path):
    out = tmp_path / "out"
    if inside is None:
        out.write_bytes(b"mine")
    else:
        out.mkdir()
    for name, content in (inside or {}).items():
        (out / name).write_bytes(content)
    before = contents(tmp_path)
    with pytest.raises(InputError, match=r"out: not a data repo, .*name a new folder"):
        build.build(Source(SAMPLE, "sample"), out)
    assert contents(tmp_path) == before


DYING = """
import os, signal, sys
from contradiction.data import build
def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)
build.data_set_card = die
build.build(build.find("sample"), sys.argv[1])
"""


def test_a_killed_build_leaves_nothing_under_the_final_name_and_the_next_one_cleans_up(sample_repo, tmp_path):
    out, temporary = shutil.copytree(sample_repo, tmp_path / "cdconv"), tmp_path / "tmp"
    temporary.mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary)}
    for folder in (out, tmp_path / "fresh" / "cdconv"):
        code = f"import sys; sys.argv[1:] = [{str(folder)!r}]\n" + DYING
        assert processes.run(code, env=environment).returncode == -signal.SIGKILL
        assert list(folder.parent.glob("*.partial")), "the process was not killed in the middle"
    assert not folder.exists()
    shutil.rmtree(folder.parent)
    assert contents(out) == contents(sample_repo)
    build.build(Source(SAMPLE, "sample"), out)
    assert contents(out) == contents(sample_repo)
    assert sorted(tmp_path.iterdir()) == [out, temporary]
    assert list(temporary.iterdir()) == []


def test_a_link_to_a_repo_stays_one_all_of_the_repo_is_replaced_and_an_empty_folder_is_filled(sample_repo, tmp_path):
    real = shutil.copytree(sample_repo, tmp_path / "real")
    (tmp_path / "cdconv").symlink_to(real)
    (real / "4-class" / "test-00001-of-00002.parquet").write_bytes(b"from an earlier build")
    (tmp_path / "empty").mkdir()
    for out in (tmp_path / "cdconv", tmp_path / "empty"):
        build.build(Source(SAMPLE, "sample"), out)
        assert contents(out) == contents(sample_repo)
    assert (tmp_path / "cdconv").is_symlink() and contents(real) == contents(sample_repo)


def test_a_source_that_leaves_a_split_empty_is_rejected_with_a_reason(tmp_path):
    """`persona` holds only the history rows. Without enough of them one of its splits is empty."""
    sample = [json.loads(line) for line in SAMPLE.read_text(encoding="utf-8").splitlines()]
    path = write(tmp_path / "raw.txt", [line for line in sample if line["label"] == 0])
    with pytest.raises((InputError, cdconv.InvalidSourceError), match="persona"):
        build.build(build.find(str(path)), tmp_path / "out")
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("no\nwhere.txt", "no where.txt: no such file"),
        ("bad.txt", "bad.txt:6: column 'method' is 'short'; allowed are '短句'"),
        ("binary.txt", "binary.txt:1: not a line of UTF-8 JSON"),
        (".", ".: no such file"),
    ],
)
def test_a_bad_source_prints_one_line_and_exits_with_2(run, source, message, tmp_path, monkeypatch):
    sample = [json.loads(line) for line in SAMPLE.read_text(encoding="utf-8").splitlines()]
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "bad.txt", [*sample[:5], sample[5] | {"method": "short"}])
    (tmp_path / "binary.txt").write_bytes(b"\x00\xff\n" * 9)
    before = sorted(tmp_path.iterdir())
    code, out, err = run("data", "build", "--source", source)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("cdconv: ") and message in err
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("out", ["thesis", "thesis/text.txt", "thesis/text.txt/cdconv"])
def test_a_bad_out_folder_prints_one_line_and_exits_with_2(run, out, tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "text.txt").write_text("mine", encoding="utf-8")
    code, stdout, err = run("data", "build", "--source", "sample", "--out", tmp_path / out)
    line = err.splitlines()[-1]
    assert (code, stdout) == (2, "")
    assert line.startswith("cdconv: ")
    assert str(tmp_path / "thesis") in line
    assert contents(tmp_path) == {"thesis/text.txt": b"mine"}
