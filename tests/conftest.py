"""Shared fixtures: no network, separate Hugging Face caches, and data repos, made once per process.

A test that uses `release` or `release_repo` gets the marker `real_data`. It is skipped if `$CDCONV_FILE` is not set.
"""

import functools
import gc
import json
import os
import shutil
import signal
import tempfile
from io import BufferedReader, BytesIO, TextIOWrapper
from pathlib import Path

import pytest
import yaml
from helpers.chats import chat, line, objects, texts_of

pytest_plugins = ["helpers.browser", "helpers.corpora", "helpers.grids", "helpers.models", "helpers.scripted_judge"]

# Set before any Hugging Face import, because the libraries read these variables only once. Without separate caches,
# a test could read an earlier build and not notice that the current one is broken.
CACHE = Path(tempfile.mkdtemp(prefix="cdconv-tests-"))
for name in [name for name in os.environ if name.startswith("HF_") and name.endswith(("_CACHE", "_PATH", "_ENDPOINT"))]:
    del os.environ[name]
os.environ.update(HF_HUB_OFFLINE="1", HF_HOME=str(CACHE), HF_DATASETS_CACHE=str(CACHE / "datasets"))
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "True"  # as a page of Gradio sets it, so that processes can share imports
os.environ["CDCONV_PRECISION"] = "fp32"  # exact, so that results of several ways can be compared
os.environ["OMP_NUM_THREADS"] = "1"  # more threads do not help tiny models, and tests run in several processes


# The parser in C. The libraries of Hugging Face read cards with the one in Python, which takes two percent of the run.
yaml.SafeLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

# Prefixes of the names of test files that share something slow: a trained grid, the data repo of the release, a served
# page, a server of processes that import the libraries of Hugging Face anew. These files run in one process, so it is
# made once.
TOGETHER = (
    (
        "tests/test_checklists", "tests/test_data", "tests/test_paper_grid", "tests/test_probe_report",
        "tests/test_readme",
    ),
    ("tests/space/",),
    (
        "tests/test_cli", "tests/test_hub", "tests/test_killed", "tests/test_methods", "tests/test_metric_",
        "tests/test_upload",
    ),
)  # fmt: skip


def pytest_collection_modifyitems(items):
    for item in items:
        if "release" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.real_data)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid):
            file = super()._split_scope(nodeid)
            return next((names[0] for names in TOGETHER if file.startswith(names)), file)

    return Scheduling(config, log)


# Objects of imported libraries live until the end. Garbage collections that visit them take a tenth of the run.
gc.disable()


def pytest_collection_finish():
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
    gc.enable()


def pytest_configure():
    # A shell starts background processes with interrupts ignored. Processes that tests interrupt would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_unconfigure():
    shutil.rmtree(CACHE, ignore_errors=True)


@pytest.fixture(scope="session")
def release() -> Path:
    """The verified raw file of the release, from `$CDCONV_FILE`. Skips the test if the variable is not set."""
    named = os.environ.get("CDCONV_FILE")
    if not named:
        pytest.skip("needs the released raw file: set CDCONV_FILE")
    from contradiction import cdconv

    path = Path(named).resolve()
    cdconv.verify_checksum(path)
    return path


@pytest.fixture(scope="session")
def sample_repo(tmp_path_factory) -> Path:
    """The data repo of the embedded sample: a folder named `cdconv`. Copy it before you change it."""
    return _build("sample", tmp_path_factory.mktemp("sample"))


@pytest.fixture(scope="session")
def rows(sample_repo):
    """The training rows of the sample, with four labels."""
    from contradiction.data.splits import load_split

    return load_split(sample_repo, "4-class", "train")


@pytest.fixture(scope="session")
def other_repo(tmp_path_factory) -> Path:
    """The data repo of the sample without its last row: data that no test model was trained on."""
    from contradiction.paths import SAMPLE

    folder = tmp_path_factory.mktemp("other")
    rows = SAMPLE.read_text(encoding="utf-8").splitlines(keepends=True)
    (folder / "raw.jsonl").write_text("".join(rows[:-1]), encoding="utf-8")
    return _build(str(folder / "raw.jsonl"), folder)


@pytest.fixture(scope="session")
def release_repo(release, tmp_path_factory) -> Path:
    """The data repo of the released file: a folder named `cdconv`. Copy it before you change it."""
    return _build(str(release), tmp_path_factory.mktemp("release"))


@pytest.fixture(scope="session")
def checklists_repo(tmp_path_factory) -> Path:
    """The data repo of the sample with checklists. Copy it before you change it."""
    return _build("sample", tmp_path_factory.mktemp("checklists"), with_checklists=True)


def _build(source: str, parent: Path, **options) -> Path:
    from helpers.corpora import sharing_crossed

    from contradiction.data import build
    from contradiction.evaluation.tables import baseline_table

    with sharing_crossed():
        repo = build.build(build.find(source), parent / "cdconv", baselines=baseline_table(), **options)
    gc.freeze()  # the crossed corpora, which are shared until the end
    return repo


@pytest.fixture
def hub():
    """A Hub on 127.0.0.1."""
    from helpers.hub_server import Hub

    with Hub() as hub:
        yield hub


@pytest.fixture
def no_default_source(monkeypatch):
    """Unsets $CDCONV_FILE, so that the test does not depend on it."""
    monkeypatch.delenv("CDCONV_FILE", raising=False)


@pytest.fixture(scope="module", params=["sample", pytest.param("release", marks=pytest.mark.real_data)])
def kind(request) -> str:
    """The source of the data set: a test that uses it runs on the sample and on the release."""
    return request.param


@pytest.fixture(scope="module")
def raw_file(kind, request) -> Path:
    """The source of this kind."""
    from contradiction.paths import SAMPLE

    return SAMPLE if kind == "sample" else request.getfixturevalue("release")


@pytest.fixture(scope="module")
def repo(kind, request) -> Path:
    """The data repo built from `raw_file`."""
    return request.getfixturevalue(f"{kind}_repo")


@pytest.fixture(scope="module")
def lines(raw_file) -> list[dict]:
    """The parsed lines of `raw_file`."""
    return objects(raw_file)


@pytest.fixture(scope="session")
def sample_rows() -> list[dict]:
    """The rows of the embedded sample, as `cdconv.read_rows` gives them."""
    from contradiction import cdconv
    from contradiction.paths import SAMPLE

    return cdconv.read_rows(SAMPLE)


@pytest.fixture(scope="session")
def replies(sample_rows) -> list[str]:
    """Forty different short replies from the sample."""
    return list(dict.fromkeys(row["b2"] for row in sample_rows if len(row["b2"]) < 14))[:40]


@pytest.fixture(scope="session")
def get_command():
    """Typer's function of this name, but an application is read once instead of in each run of the command line."""
    import typer.main

    return functools.cache(typer.main.get_command)


@pytest.fixture
def run(monkeypatch, capsys, get_command):
    """Runs the command line in this process and returns exit code, stdout and stderr."""
    from contradiction import cli

    monkeypatch.setattr("typer.main.get_command", get_command)

    def call(*arguments, stdin=b"", terminal=False, app=cli.app, script=None):
        capsys.readouterr()  # discards earlier output
        monkeypatch.setattr("sys.argv", ["cdconv", *map(str, arguments)])
        typed = TextIOWrapper(BufferedReader(BytesIO(stdin)), encoding="utf-8")
        typed.isatty = lambda: terminal
        monkeypatch.setattr("sys.stdin", typed)
        with pytest.raises(SystemExit) as stopped:
            cli.main(cli.script(script) if script else app)
        out = capsys.readouterr()
        return stopped.value.code or 0, out.out, out.err

    return call


@pytest.fixture
def detect(run, detect_model):
    """Runs `cdconv detect` with a tiny model and returns exit code, the objects on stdout, and the lines of stderr."""

    def call(*arguments, stdin=b"", model=detect_model):
        code, out, err = run("detect", "--model", model, *arguments, stdin=stdin)
        return (
            code,
            out if "--table" in arguments else [json.loads(line) for line in out.splitlines()],
            err.splitlines(),
        )

    return call


@pytest.fixture(scope="session")
def sample_chats(sample_rows) -> list[list[dict]]:
    """The conversations of the sample as messages."""
    return [chat(*texts_of(row)) for row in sample_rows]


@pytest.fixture(scope="session")
def long_chat(sample_rows):
    """A chat of 24 short messages: first turns of the sample, each from another context."""
    by_first_turn = {row["u1"]: row for row in sample_rows if len(row["u1"] + row["b1"]) < 24}
    return chat(*(text for row in list(by_first_turn.values())[:12] for text in (row["u1"], row["b1"])))


@pytest.fixture
def small_chunks(monkeypatch):
    """Makes the detector judge inputs in chunks of 8 windows."""
    from contradiction.chats import chunks

    monkeypatch.setattr(chunks, "CHUNK_WINDOWS", 8)


@pytest.fixture(scope="session")
def mixed(sample_chats, tmp_path_factory) -> Path:
    """A file with valid, invalid and blank lines."""
    lines = [line(messages, id=index) for index, messages in enumerate(sample_chats[:45])]
    for index in range(0, len(lines), 9):
        lines[index] = "{bad" if index % 2 else ""
    lines += ["{bad"] * 12  # whole chunks without a valid line
    file = tmp_path_factory.mktemp("mixed") / "chats.jsonl"
    file.write_text("\n".join(lines), encoding="utf-8")
    return file
