"""The download of the released file, and the errors if it fails."""

import hashlib
import http.server
import threading

import datasets
import pytest

from contradiction import cdconv
from contradiction.data import build
from contradiction.paths import SAMPLE

pytestmark = pytest.mark.usefixtures("no_default_source")


class Server:
    """Serves one file on 127.0.0.1 with settable content, claimed length, and status of a GET."""

    def __init__(self):
        self.body, self.length, self.status, self.downloads = b"", None, 200, 0
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                gets = self.command == "GET"
                outer.downloads += gets
                self.send_response(outer.status if gets else 200)
                self.send_header("ETag", '"pinned"')
                self.send_header("Content-Length", str(outer.length or len(outer.body)))
                self.end_headers()
                if gets:
                    self.wfile.write(outer.body)

            do_HEAD = do_GET

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/cdconv.txt"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A server in place of the pinned URL, with a separate download cache."""
    served = Server()
    monkeypatch.setattr(cdconv, "URL", served.url)
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(datasets.config, "DOWNLOADED_DATASETS_PATH", tmp_path / "downloads")
    yield served
    served.server.shutdown()
    served.server.server_close()


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


def test_a_downloaded_file_is_not_downloaded_again(served_sample):
    assert build.find() == build.find()
    assert served_sample.downloads == 1


def cut_by_a_row(server):
    server.body = server.body[: server.body.rstrip(b"\n").rindex(b"\n") + 1]


def other_page(server):
    server.body = b"<html>Please log in</html>\n" * 9


def connection_lost(server):
    server.length = len(server.body)
    server.body = server.body[: server.length // 2]


def server_error(server):
    server.status = 500


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (cut_by_a_row, "SHA-256"),
        (other_page, ":1: not a line of UTF-8 JSON"),
        (connection_lost, "nor fetched from http://127.0.0.1"),
        (server_error, "nor fetched from http://127.0.0.1"),
    ],
)
def test_a_failed_download_is_one_line_builds_nothing_and_can_be_repeated(
    run, damage, message, served_sample, tmp_path
):
    """The address is pinned, so its ETag never changes: a bad copy in the cache would stay there forever."""
    whole = served_sample.body
    damage(served_sample)
    code, out, err = run("data", "build", "--out", tmp_path / "cdconv")
    *bars, line = err.rstrip("\n").splitlines()
    assert (code, out) == (2, "")
    assert line.startswith("cdconv: ") and message in line
    assert not any(bar.strip() for bar in bars if not bar.startswith("Downloading"))
    assert not (tmp_path / "cdconv").exists()
    served_sample.body, served_sample.length, served_sample.status = whole, None, 200
    assert build.find().path.read_bytes() == whole


def test_the_error_without_network_and_file_says_what_to_do(run, tmp_path):
    code, out, err = run("data", "build", "--out", tmp_path / "cdconv")
    assert (code, out, err.count("\n")) == (2, "", 1)
    for part in ("$CDCONV_FILE is not set", cdconv.URL, "--source names a file", "--source sample"):
        assert part in err
    assert list(tmp_path.iterdir()) == []
