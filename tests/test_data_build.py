"""A build is complete or absent, bad sources and folders give one line, and a download is verified."""

import errno
import hashlib
import http.server
import shutil
import threading
from pathlib import Path

import datasets
import pytest
from helpers.chats import objects
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
        {".cdconv": b"", "thesis.parquet": b"mine"},
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


def test_the_sample_does_not_replace_data_of_another_source(run, other_repo, tmp_path):
    out = shutil.copytree(other_repo, tmp_path / "cdconv")
    code, shown, err = run("data", "build", "--source", "sample", "--out", out)
    assert (code, shown, err.count("\n")) == (2, "", 1)
    assert f"{out}: holds 'CDConv, from a file of your own'" in err and f"--out {out}-sample" in err
    assert contents(out) == contents(other_repo)


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
    sample = objects(SAMPLE)
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
    sample = objects(SAMPLE)
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "bad.txt", [*sample[:5], sample[5] | {"method": "short"}])
    (tmp_path / "binary.txt").write_bytes(b"\x00\xff\n" * 9)
    before = sorted(tmp_path.iterdir())
    code, out, err = run("data", "build", "--source", source)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("cdconv: ") and message in err
    assert sorted(tmp_path.iterdir()) == before


# The download of the released file


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers with the content, the claimed length, and the status of a GET that its server has."""

    def do_GET(self):
        server, gets = self.server, self.command == "GET"
        server.downloads += gets
        self.send_response(server.status if gets else 200)
        self.send_header("ETag", '"pinned"')
        self.send_header("Content-Length", str(server.length or len(server.body)))
        self.end_headers()
        if gets:
            self.wfile.write(server.body)

    do_HEAD = do_GET

    def log_message(self, *_):
        pass


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A server in place of the pinned URL, with a separate download cache."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.body, server.length, server.status, server.downloads = b"", None, 200, 0
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        monkeypatch.setattr(cdconv, "URL", f"http://127.0.0.1:{server.server_port}/cdconv.txt")
        monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(datasets.config, "DOWNLOADED_DATASETS_PATH", tmp_path / "downloads")
        yield server
        server.shutdown()


@pytest.fixture
def served_sample(server, monkeypatch):
    """The server provides the sample, and the sample counts as the release."""
    server.body = SAMPLE.read_bytes()
    monkeypatch.setattr(cdconv, "SHA256", hashlib.sha256(server.body).hexdigest())
    return server


def test_the_release_is_downloaded_and_verified(server, release):
    server.body = release.read_bytes()
    path = build.find()
    assert path.kind == "release"
    assert path.path != release
    assert path.path.read_bytes() == server.body


WHOLE = SAMPLE.read_bytes()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ({"body": WHOLE[: WHOLE.rstrip(b"\n").rindex(b"\n") + 1]}, "SHA-256"),
        ({"body": b"<html>Please log in</html>\n" * 9}, ":1: not a line of UTF-8 JSON"),
        ({"body": WHOLE[: len(WHOLE) // 2], "length": len(WHOLE)}, "nor fetched from http://127.0.0.1"),
        ({"status": 500}, "nor fetched from http://127.0.0.1"),
    ],
    ids=["cut by a row", "another page", "connection lost", "error of the server"],
)
def test_a_failed_download_is_one_line_builds_nothing_and_can_be_repeated(
    run, damage, message, served_sample, tmp_path
):
    """The address is pinned, so its ETag never changes: a bad copy in the cache would stay there forever."""
    vars(served_sample).update(damage)
    code, out, err = run("data", "build", "--out", tmp_path / "cdconv")
    *bars, line = err.rstrip("\n").splitlines()
    assert (code, out) == (2, "")
    assert line.startswith("cdconv: ") and message in line
    assert not any(bar.strip() for bar in bars if not bar.startswith("Downloading"))
    assert not (tmp_path / "cdconv").exists()
    vars(served_sample).update(body=WHOLE, length=None, status=200, downloads=0)
    assert build.find() == build.find() and build.find().path.read_bytes() == WHOLE
    assert served_sample.downloads == 1


def test_the_error_without_network_and_file_says_what_to_do(run, tmp_path):
    code, out, err = run("data", "build", "--out", tmp_path / "cdconv")
    assert (code, out, err.count("\n")) == (2, "", 1)
    for part in ("$CDCONV_FILE is not set", cdconv.URL, "--source names a file", "--source sample"):
        assert part in err
    assert list(tmp_path.iterdir()) == []
