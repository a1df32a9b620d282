"""The data repo: what `cdconv data build` writes, what its card says, how it loads; whole, or not there."""

import ast
import contextlib
import errno
import hashlib
import http.server
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import datasets
import processes
import pytest
import yaml
from datasets import ClassLabel, Dataset, Value, load_dataset
from huggingface_hub import DatasetCard, DatasetCardData

import cdconv
from contradiction.data import build, sources, statistics
from contradiction.data.sources import SAMPLE, Source
from contradiction.data.splits import load_split
from contradiction.errors import InputError

ROOT = Path(__file__).parents[1]
CONFIGS = ["2-class", "4-class", "persona", "2-class-grouped", "4-class-grouped", "persona-grouped"]
IN_REPO = [*CONFIGS, "crossed"]  # which tests/test_crossed.py looks into
SPLITS = ["train", "validation", "test"]
UTTERANCES = ["u1", "b1", "u2", "b2"]
NAMES = {
    "2-class": ["non-contradiction", "contradiction"],
    "4-class": ["non-contradiction", "intra-sentence", "role-confusion", "history"],
    "persona": ["unrelated", "attributes", "opinions", "experiences"],
}
TRIGGERS = {
    "short": "短句",
    "inquiring-bot": "设问-bot",
    "inquiring-user": "设问-user",
    "inquiring-user-m": "设问-user-v2",
    "paraphrasing": "同义-回译",
    "perturb-synonym": "同义-同义词",
    "perturb-antonym": "反义-反义词",
    "perturb-negative": "反义-否定词",
}
FILES = ["1st", "2nd4", "3rd", "4nd", "5nd"]
# Rows of the release by config, split and label.
COUNTS = {
    "2-class": {"train": [4373, 2623], "validation": [1452, 880], "test": [1484, 848]},
    "4-class": {"train": [4373, 313, 451, 1859], "validation": [1452, 111, 161, 608], "test": [1484, 106, 153, 589]},
    "persona": {"train": [43, 880, 394, 542], "validation": [16, 285, 133, 174], "test": [9, 292, 130, 158]},
    "2-class-grouped": {"train": [4385, 2610], "validation": [1462, 870], "test": [1462, 871]},
    "4-class-grouped": {
        "train": [4385, 318, 459, 1833],
        "validation": [1462, 106, 153, 611],
        "test": [1462, 106, 153, 612],
    },
    "persona-grouped": {"train": [41, 875, 393, 524], "validation": [13, 291, 132, 175], "test": [14, 291, 132, 175]},
}


@pytest.fixture(autouse=True)
def no_default_source(monkeypatch):
    """No test here depends on whether $CDCONV_FILE is set outside."""
    monkeypatch.delenv("CDCONV_FILE", raising=False)


@pytest.fixture(scope="module", params=["sample", pytest.param("release", marks=pytest.mark.real_data)])
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def raw_file(kind, request):
    return SAMPLE if kind == "sample" else request.getfixturevalue("release")


@pytest.fixture(scope="module")
def repo(kind, request):
    return request.getfixturevalue(f"{kind}_repo")


@pytest.fixture(scope="module")
def lines(raw_file):
    return [json.loads(line) for line in raw_file.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def beside(repo, tmp_path, monkeypatch):
    """The working folder is one that holds the data repo `cdconv/` and `cdconv.py` beside it; gives a fresh cache."""
    home = tmp_path / "home"
    shutil.copytree(repo, home / "cdconv")
    shutil.copy(ROOT / "cdconv.py", home)
    monkeypatch.chdir(home)
    return str(tmp_path / "cache")


def write(path, lines):
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")
    return path


def contents(folder):
    """Every file below a folder, with its bytes."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def header(repo):
    """The card's YAML, and its body."""
    _, front, body = (repo / "README.md").read_text(encoding="utf-8").split("---\n", 2)
    return yaml.safe_load(front), body


def table_rows(body):
    """Cells of every table row in Markdown or on the terminal, as one string each, single spaced."""
    return {" ".join(line.replace("|", " ").split()) for line in body.splitlines()}


# --- what is built, and how it loads --------------------------------------------------------------------------------


def test_repo_holds_a_card_and_parquet_and_no_code(repo):
    plain = {re.sub(r"-[0-9a-f]{16}\.parquet$", ".parquet", name) for name in contents(repo)}
    assert plain == {
        "README.md",
        build.MARKER,
        *(f"{config}/{split}-00000-of-00001.parquet" for config in IN_REPO for split in SPLITS),
    }


def test_files_are_named_by_their_content(repo):
    for file in repo.rglob("*.parquet"):
        assert file.stem.endswith("-" + hashlib.sha256(file.read_bytes()).hexdigest()[:16])


def test_a_repo_built_anew_is_never_answered_with_the_old_rows(tmp_path):
    """`datasets` caches a local folder by its card alone; here even the sizes of all splits stay the same."""
    rows = SAMPLE.read_text(encoding="utf-8").splitlines(keepends=True)
    source, out = tmp_path / "own.jsonl", tmp_path / "cdconv"
    seen = []
    for mark in "甲乙":
        source.write_text("".join(row.replace('"b2": "', f'"b2": "{mark}') for row in rows), encoding="utf-8")
        build.build(sources.find(str(source)), out)
        seen.append(load_dataset(str(out), "4-class", split="test")["b2"][0][0])
    assert seen == ["甲", "乙"]


@pytest.mark.parametrize("config", CONFIGS)
def test_bare_name_loads_beside_the_module_with_every_row_and_type(config, lines, beside):
    loaded = load_dataset("cdconv", config, cache_dir=beside)
    task = config.removesuffix("-grouped")
    assert list(loaded) == SPLITS
    seen = []
    for side in loaded.values():
        assert list(side.features.items()) == [
            ("id", Value("int32")),
            *((column, Value("string")) for column in UTTERANCES),
            ("label", ClassLabel(names=NAMES[task])),
            ("trigger", ClassLabel(names=list(TRIGGERS))),
            ("bot", ClassLabel(names=["eva", "plato"])),
            ("batch", Value("int8")),
        ]
        for row in side.to_list():
            line = lines[row["id"] - 1]
            label = {"2-class": line["label"] > 0, "4-class": line["label"], "persona": line.get("persona")}[task]
            assert row["label"] == label
            assert [row[column] for column in UTTERANCES] == [line[column] for column in UTTERANCES]
            assert list(TRIGGERS.values())[row["trigger"]] == line["method"]
            assert ["eva", "plato"][row["bot"]] == line["model"]
            assert FILES[row["batch"] - 1] == line["file"]
            seen.append(row["id"])
    wanted = [number for number, line in enumerate(lines, start=1) if task != "persona" or line["label"] == 3]
    assert sorted(seen) == wanted


@pytest.mark.parametrize("config", CONFIGS)
def test_release_counts_of(config, release_repo, tmp_path):
    loaded = load_dataset(str(release_repo), config, cache_dir=str(tmp_path))
    found = {
        name: [Counter(side["label"])[label] for label in range(len(COUNTS[config][name]))]
        for name, side in loaded.items()
    }
    assert found == COUNTS[config]


def test_release_repo_keeps_the_authors_order(release_repo):
    ids = {split: load_split(release_repo, "4-class", split)["id"] for split in SPLITS}
    digests = {split: hashlib.sha256(",".join(map(str, each)).encode()).hexdigest()[:16] for split, each in ids.items()}
    assert digests == {"train": "93a48998d6f47cc6", "validation": "8cf34ed659d46c3a", "test": "92a48fea4d58137d"}


def test_without_a_name_the_config_is_4_class(beside):
    assert datasets.get_dataset_config_names("cdconv") == sorted(IN_REPO)
    loaded = load_dataset("cdconv", cache_dir=beside)
    assert {side.config_name for side in loaded.values()} == {"4-class"}
    assert loaded["test"].features["label"].names == NAMES["4-class"]


def test_streamed_rows_and_types_are_the_loaded_ones(beside):
    for config in ("4-class", "persona-grouped"):
        streamed = load_dataset("cdconv", config, streaming=True)
        loaded = load_dataset("cdconv", config, cache_dir=beside)
        assert list(streamed) == SPLITS
        for split in SPLITS:
            assert streamed[split].features == loaded[split].features
            assert list(streamed[split]) == loaded[split].to_list()


def test_recorded_sizes_are_checked_and_right(repo, tmp_path):
    for info in header(repo)[0]["dataset_info"]:
        config = info["config_name"]
        loaded = load_dataset(str(repo), config, cache_dir=str(tmp_path), verification_mode="all_checks")
        assert {each["name"]: each["num_examples"] for each in info["splits"]} == loaded.num_rows
        assert info["download_size"] == sum(file.stat().st_size for file in (repo / config).iterdir())
        assert info["dataset_size"] == sum(each["num_bytes"] for each in info["splits"])


def test_a_wrong_row_count_in_the_card_would_be_noticed(sample_repo, tmp_path):
    copy = shutil.copytree(sample_repo, tmp_path / "cdconv")
    card = copy / "README.md"
    card.write_text(re.sub(r"num_examples: \d+", "num_examples: 7", card.read_text(encoding="utf-8")), encoding="utf-8")
    with pytest.raises(datasets.exceptions.DatasetsError):
        load_dataset(str(copy), "4-class", cache_dir=str(tmp_path / "cache"))


def test_the_same_source_builds_the_same_bytes(sample_repo, tmp_path):
    again = build.build(Source(SAMPLE, "sample"), tmp_path / "again")
    assert contents(again) == contents(sample_repo)


def test_a_built_folder_is_as_open_as_any_other(sample_repo):
    assert sample_repo.stat().st_mode & 0o777 == 0o755


# --- the card -------------------------------------------------------------------------------------------------------


def test_card_lists_every_config_with_its_files_and_the_default(repo):
    front, _ = header(repo)
    assert {each["config_name"]: each["data_files"] for each in front["configs"]} == {
        config: [
            {"split": split, "path": str(next((repo / config).glob(f"{split}-*")).relative_to(repo))}
            for split in SPLITS
        ]
        for config in IN_REPO
    }
    assert [each["config_name"] for each in front["configs"] if each.get("default")] == ["4-class"]


def test_card_has_one_dataset_info_a_config_with_string_class_keys(repo):
    front, _ = header(repo)
    infos = {each["config_name"]: each for each in front["dataset_info"]}
    assert len(front["dataset_info"]) == len(IN_REPO)
    assert sorted(infos) == sorted(IN_REPO)
    for config, info in ((config, infos[config]) for config in CONFIGS):
        features = {each["name"]: each["dtype"] for each in info["features"]}
        names = {
            "label": NAMES[config.removesuffix("-grouped")],
            "trigger": list(TRIGGERS),
            "bot": ["eva", "plato"],
        }
        for column, expected in names.items():
            # Unquoted keys would come back as integers here, and as an error on the Hub.
            assert features[column]["class_label"]["names"] == {str(i): name for i, name in enumerate(expected)}
        assert {column: kind for column, kind in features.items() if column not in names} == {
            "id": "int32",
            **dict.fromkeys(UTTERANCES, "string"),
            "batch": "int8",
        }


def test_card_data_is_what_the_hub_knows(repo, kind):
    front, _ = header(repo)
    data = DatasetCardData(**front)
    assert yaml.safe_load(data.to_yaml()) == front
    assert DatasetCard.load(repo / "README.md").data.to_dict() == front
    assert front["language"] == ["zh"]
    assert front["license"] == {"release": "cc-by-nc-4.0", "sample": "cc0-1.0"}[kind]
    assert front["size_categories"] == [{"release": "10K<n<100K", "sample": "n<1K"}[kind]]
    assert front["task_categories"] == ["text-classification"]
    infos = datasets.info.DatasetInfosDict.from_dataset_card_data(data)
    assert infos["4-class"].features["label"] == ClassLabel(names=NAMES["4-class"])


def test_card_counts_the_leak(repo, lines):
    official = {split: load_split(repo, "4-class", split)["id"] for split in SPLITS}
    grouped = {split: load_split(repo, "4-class-grouped", split)["id"] for split in SPLITS}
    found = []
    for name, ids in (("official", official), ("grouped", grouped)):
        shares = []
        for columns in (("u1", "b1", "u2"), ("u1",)):
            sides = {split: [tuple(lines[n - 1][c] for c in columns) for n in each] for split, each in ids.items()}
            seen = set(sides["train"])
            shares.append(f"{100 * sum(each in seen for each in sides['test']) / len(sides['test']):.1f} %")
        found.append(" ".join((name, *shares)))
    assert set(found) <= table_rows(header(repo)[1])
    if len(lines) == 11_660:
        assert found == ["official 63.7 % 68.2 %", "grouped 0.0 % 0.0 %"]


@pytest.mark.parametrize("config", CONFIGS)
def test_card_counts_every_split_by_label(config, repo):
    rows = table_rows(header(repo)[1])
    for split in SPLITS:
        side = load_split(repo, config, split)
        count = Counter(side.features["label"].int2str(side["label"]))
        labels = ", ".join(f"{name} {count[name]:,}" for name in side.features["label"].names)
        assert f"{config} {split} {side.num_rows:,} {labels}" in rows


def test_sizes_are_given_for_the_configs_that_are_there_and_no_other(sample_rows):
    splits = {"": cdconv.official_split(sample_rows), "-grouped": cdconv.grouped_split(sample_rows)}
    rows = statistics.split_sizes(splits).rows
    assert [row[:2] for row in rows] == [(config, split) for config in CONFIGS for split in SPLITS]


def test_card_shows_a_conversation_of_every_category(repo, lines):
    body = header(repo)[1]
    shown = re.findall(r"\*\*(.+)\*\*\n\n> user: (.+)<br>\n> bot: (.+)<br>\n> user: (.+)<br>\n> bot: (.+)\n", body)
    assert [name for name, *_ in shown] == NAMES["4-class"]
    real = {tuple(line[column] for column in UTTERANCES): line["label"] for line in lines}
    assert [NAMES["4-class"][real[tuple(said)]] for _, *said in shown] == NAMES["4-class"]


def test_card_names_the_raw_form_of_every_trigger(sample_repo):
    said = table_rows(header(sample_repo)[1])
    for name, raw in TRIGGERS.items():
        assert any(row.startswith(f"{name} {raw} it ") for row in said), "a trigger, its raw name, and how u2 is made"


def test_card_of_the_release_names_its_source_licence_and_paper(release_repo):
    body = header(release_repo)[1]
    for part in (
        "# CDConv\n\n11,660 two-turn",
        "https://raw.githubusercontent.com/thu-coai/CDConv/2e88d215b2986a3719f9f63508e10a2e0fe72bfe/cdconv.txt",
        "ed8fe0ddb40afb36f9e19ea64c3eee7c319a22230a5b65444af44e8bbb122aab",
        "CC BY-NC 4.0",
        "@inproceedings{zheng-etal-2022-cdconv",
        "## Baselines\n",
        "| TF-IDF, context only |",
    ):
        assert part in body
    assert "not CDConv" not in body


def test_the_data_set_imports_only_the_vocabulary_io_and_itself():
    package = Path(build.__file__).parent
    imported = {
        node.module.split(".")[1]
        for file in package.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("contradiction.")
    }
    assert imported <= {"conversation", "errors", "labels", "paths", "io", "data"}


def test_card_of_the_sample_says_that_it_is_not_cdconv(sample_repo):
    front, body = header(sample_repo)
    assert front["pretty_name"] == "CDConv sample"
    assert "**This is not CDConv.**" in body
    for part in ("CC BY-NC", "@inproceedings", cdconv.SHA256, "## Baselines"):
        assert part not in body


def test_card_of_a_file_of_ones_own_claims_no_licence_and_no_origin(tmp_path):
    path = write(
        tmp_path / "mine.txt", [json.loads(line) for line in SAMPLE.read_text(encoding="utf-8").splitlines()][::-1]
    )
    source = sources.find(str(path))
    assert source == Source(path, "custom")
    front, body = header(build.build(source, tmp_path / "out"))
    assert front["license"] == "unknown"
    assert "**This is not the released CDConv" in body
    assert "`mine.txt`" in body
    assert str(tmp_path) not in body
    assert "## Licence" not in body
    for part in ("CC BY-NC", "@inproceedings", cdconv.SHA256):
        assert part not in body


# --- whole, or not there --------------------------------------------------------------------------------------------


@pytest.fixture
def broken_disk(monkeypatch):
    """The fourth Parquet file cannot be written."""
    to_parquet, written = Dataset.to_parquet, []

    def write(self, path, *args, **kwargs):
        if len(written) == 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        written.append(path)
        return to_parquet(self, path, *args, **kwargs)

    monkeypatch.setattr(Dataset, "to_parquet", write)
    return written


def test_a_crash_in_a_build_leaves_nothing(broken_disk, tmp_path):
    with pytest.raises(OSError, match="No space left"):
        build.build(Source(SAMPLE, "sample"), tmp_path / "cdconv")
    assert len(broken_disk) == 3
    assert list(tmp_path.iterdir()) == []


def test_a_crash_in_a_build_leaves_the_earlier_repo_alone(sample_repo, broken_disk, tmp_path):
    out = shutil.copytree(sample_repo, tmp_path / "cdconv")
    with pytest.raises(OSError, match="No space left"):
        build.build(Source(SAMPLE, "sample"), out)
    assert contents(out) == contents(sample_repo)
    assert list(tmp_path.iterdir()) == [out]


def test_a_card_that_cannot_be_made_leaves_the_earlier_repo_alone(sample_repo, tmp_path, monkeypatch):
    out = shutil.copytree(sample_repo, tmp_path / "cdconv")

    def fail(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(build, "data_set_card", fail)
    with pytest.raises(KeyboardInterrupt):
        build.build(Source(SAMPLE, "sample"), out)
    assert contents(out) == contents(sample_repo)
    assert list(tmp_path.iterdir()) == [out]


def test_a_rename_that_fails_brings_the_earlier_repo_back(sample_repo, tmp_path, monkeypatch):
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


def test_a_build_replaces_an_earlier_one_with_nothing_of_it_left(sample_repo, tmp_path):
    out = shutil.copytree(sample_repo, tmp_path / "cdconv")
    (out / "4-class" / "test-00001-of-00002.parquet").write_bytes(b"from an earlier build")
    build.build(Source(SAMPLE, "sample"), out)
    assert contents(out) == contents(sample_repo)
    assert list(tmp_path.iterdir()) == [out]


KILLED = """
import sys, time
from datasets import Dataset
from contradiction.data import build
from contradiction.data import sources

to_parquet, written = Dataset.to_parquet, []

def write(self, path, *args, **kwargs):
    to_parquet(self, path, *args, **kwargs)
    written.append(path)
    if len(written) == 3:
        print("three", flush=True)
        time.sleep(60)

Dataset.to_parquet = write
build.build(sources.find("sample"), sys.argv[1])
"""


def test_a_killed_build_leaves_nothing_under_the_final_name(sample_repo, tmp_path):
    fresh, earlier = tmp_path / "fresh" / "cdconv", tmp_path / "earlier" / "cdconv"
    shutil.copytree(sample_repo, earlier)
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    builds = [
        subprocess.Popen(
            [sys.executable, "-c", KILLED, str(out)],
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"TMPDIR": str(temporary)},
        )
        for out in (fresh, earlier)
    ]
    for process in builds:
        try:
            assert process.stdout.readline() == "three\n"  # it is in the middle
        finally:
            process.kill()
            process.communicate()
        assert process.returncode == -signal.SIGKILL
    assert not fresh.exists()
    assert contents(earlier) == contents(sample_repo)
    # What is left beside it does not stand in the way of the next build.
    build.build(Source(SAMPLE, "sample"), fresh)
    assert contents(fresh) == contents(sample_repo)


def file(out):
    out.write_text("mine", encoding="utf-8")


def folder(out):
    out.mkdir()
    (out / "thesis.txt").write_text("mine", encoding="utf-8")


def project(out):
    folder(out)
    (out / "README.md").write_text("# My project", encoding="utf-8")


def thesis(out):
    out.mkdir()
    (out / "README.md").write_text("dataset_info: my thesis", encoding="utf-8")


def not_text(out):
    out.mkdir()
    (out / "README.md").write_bytes(b"\xff\xfe not UTF-8")


@pytest.mark.parametrize("make", [file, folder, project, thesis, not_text])
def test_something_else_is_never_replaced(make, tmp_path):
    out = tmp_path / "out"
    make(out)
    before = out.read_bytes() if out.is_file() else contents(out)
    with pytest.raises(InputError, match=r"out: not a data repo, so it will not be replaced; name a new folder"):
        build.build(Source(SAMPLE, "sample"), out)
    assert (out.read_bytes() if out.is_file() else contents(out)) == before
    assert list(tmp_path.iterdir()) == [out]


DYING = """
import os, signal, sys
from contradiction.data import build, sources
def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)
build.{step} = die
build.build(sources.find("sample"), sys.argv[1])
"""


@pytest.mark.parametrize("step", ["write_split", "data_set_card"])
def test_of_a_killed_build_nothing_is_left_after_the_next(sample_repo, tmp_path, step):
    out, temporary = shutil.copytree(sample_repo, tmp_path / "cdconv"), tmp_path / "tmp"
    temporary.mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary)}
    code = f"import sys; sys.argv[1:] = [{str(out)!r}]\n" + DYING.format(step=step)
    assert processes.run(code, env=environment).returncode == -9
    assert contents(out) == contents(sample_repo)
    build.build(Source(SAMPLE, "sample"), out)
    assert contents(out) == contents(sample_repo)
    assert sorted(tmp_path.iterdir()) == [out, temporary]
    assert list(temporary.iterdir()) == []


def test_a_link_to_a_repo_stays_a_link(sample_repo, tmp_path):
    real = shutil.copytree(sample_repo, tmp_path / "real")
    (tmp_path / "cdconv").symlink_to(real)
    build.build(Source(SAMPLE, "sample"), tmp_path / "cdconv")
    assert (tmp_path / "cdconv").is_symlink()
    assert contents(real) == contents(sample_repo)


def test_an_empty_folder_is_filled(sample_repo, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    build.build(Source(SAMPLE, "sample"), out)
    assert contents(out) == contents(sample_repo)


def test_an_empty_working_folder_is_filled_or_refused_in_words(sample_repo, tmp_path, monkeypatch):
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.chdir(home)
    with contextlib.suppress(InputError):
        build.build(Source(SAMPLE, "sample"), Path())
    assert list(tmp_path.iterdir()) == [home]
    assert contents(home) in ({}, contents(sample_repo))


@pytest.mark.parametrize(
    ("labels", "what"), [((0,), "persona"), ((0, 3), "persona")], ids=["no history row", "one history row"]
)
def test_a_source_that_leaves_a_split_empty_is_refused_in_words(labels, what, tmp_path):
    """`persona` holds the history rows only; without enough of them one of its splits has no row."""
    sample = [json.loads(line) for line in SAMPLE.read_text(encoding="utf-8").splitlines()]
    chosen = [line for line in sample if line["label"] == 0] + [line for line in sample if line["label"] in labels[1:]][
        :1
    ]
    path = write(tmp_path / "raw.txt", chosen)
    with pytest.raises((InputError, cdconv.InvalidSourceError), match=what):
        build.build(sources.find(str(path)), tmp_path / "out")
    assert list(tmp_path.iterdir()) == [path]


# --- the download ---------------------------------------------------------------------------------------------------


class Server:
    """Serves one file on 127.0.0.1: its bytes, the length it claims, the status of each method."""

    def __init__(self):
        self.body, self.length, self.status = b"", None, {"HEAD": 200, "GET": 200}
        self.asked = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                outer.asked.append(self.command)
                self.send_response(outer.status[self.command])
                self.send_header("ETag", '"pinned"')
                self.send_header("Content-Length", str(outer.length or len(outer.body)))
                self.end_headers()
                if self.command == "GET":
                    self.wfile.write(outer.body)

            do_HEAD = do_GET

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/cdconv.txt"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A server in the place of the pinned URL, with a cache of its own for what is fetched."""
    served = Server()
    monkeypatch.setattr(cdconv, "URL", served.url)
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(datasets.config, "DOWNLOADED_DATASETS_PATH", tmp_path / "downloads")
    yield served
    served.close()


@pytest.fixture
def served_sample(server, monkeypatch):
    """The server holds the sample, and the sample is what counts as the release."""
    server.body = SAMPLE.read_bytes()
    monkeypatch.setattr(cdconv, "SHA256", hashlib.sha256(server.body).hexdigest())
    return server


def test_the_release_is_fetched_and_verified(server, release):
    server.body = release.read_bytes()
    found = sources.find()
    assert found.kind == "release"
    assert found.path != release
    assert found.path.read_bytes() == server.body


def test_what_was_fetched_once_is_not_fetched_again(served_sample):
    assert sources.find() == sources.find()
    assert served_sample.asked.count("GET") == 1


def test_builder_fetches_the_release_too(served_sample, tmp_path):
    builder = cdconv.CDConv(cache_dir=str(tmp_path / "cache"), config_name="4-class")
    builder.download_and_prepare()
    assert builder.as_dataset("train").num_rows == 288
    assert "GET" in served_sample.asked


def cut_by_a_row(server):
    server.body = server.body[: server.body.rstrip(b"\n").rindex(b"\n") + 1]


def cut_within_a_row(server):
    server.body = server.body[:-40]


def other_page(server):
    server.body = b"<html>Please log in</html>\n" * 9


def connection_lost(server):
    server.length = len(server.body)
    server.body = server.body[: server.length // 2]


def not_found(server):
    server.status = {"HEAD": 404, "GET": 404}


def server_error(server):
    server.status = {"HEAD": 200, "GET": 500}


def too_many_requests(server):
    server.status = {"HEAD": 200, "GET": 429}


def no_server(server):
    server.close()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (cut_by_a_row, "SHA-256"),
        (cut_within_a_row, ":478: not a line of UTF-8 JSON"),
        (other_page, ":1: not a line of UTF-8 JSON"),
        (connection_lost, "nor fetched from http://127.0.0.1"),
        (not_found, "nor fetched from http://127.0.0.1"),
        (server_error, "nor fetched from http://127.0.0.1"),
        (too_many_requests, "nor fetched from http://127.0.0.1"),
        (no_server, "nor fetched from http://127.0.0.1"),
    ],
)
def test_a_fetch_that_fails_is_one_line_and_builds_nothing(run, damage, message, served_sample, tmp_path):
    damage(served_sample)
    code, out, err = run("data", "build", "--out", tmp_path / "cdconv")
    *bars, line = err.rstrip("\n").splitlines()
    assert (code, out) == (2, "")
    assert line.startswith("cdconv: ")
    assert message in line
    assert not any(bar.strip() for bar in bars if not bar.startswith("Downloading"))
    assert not (tmp_path / "cdconv").exists()


@pytest.mark.parametrize("damage", [connection_lost, server_error, cut_by_a_row])
def test_a_fetch_that_failed_can_be_tried_again(damage, served_sample):
    """The address is pinned, so its ETag never changes: a bad copy that stayed in the cache would stay for good."""
    whole = served_sample.body
    damage(served_sample)
    with pytest.raises((InputError, cdconv.NonMatchingChecksumError)):
        sources.find()
    served_sample.body, served_sample.length, served_sample.status = whole, None, {"HEAD": 200, "GET": 200}
    assert sources.find().path.read_bytes() == whole


def test_without_network_and_file_the_error_says_what_to_do(run, tmp_path):
    code, out, err = run("data", "build", "--out", tmp_path / "cdconv")
    assert (code, out, err.count("\n")) == (2, "", 1)
    for part in ("$CDCONV_FILE is not set", cdconv.URL, "--source names a file", "--source sample"):
        assert part in err
    assert list(tmp_path.iterdir()) == []


# --- the command line -----------------------------------------------------------------------------------------------


def test_build_says_what_it_made_and_that_the_sample_is_not_cdconv(run, sample_repo, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = run("data", "build", "--source", "sample")
    assert code == 0
    assert out == f"cdconv: seven configs from {SAMPLE}\n"
    assert "the embedded sample" in err
    assert "not CDConv" in err
    assert contents(tmp_path / "cdconv") == contents(sample_repo)  # `cdconv` is the default


@pytest.mark.parametrize(
    ("source", "parts"),
    [
        ("nowhere.txt", ["nowhere.txt: no such file"]),
        ("no\nwhere.txt", ["no where.txt: no such file"]),
        ("bad.txt", ["bad.txt:6: column 'method' is 'short'; allowed are '短句'"]),
        ("few.txt", ["few.txt: 4 lines; at least 5 are needed"]),
        ("binary.txt", ["binary.txt:1: not a line of UTF-8 JSON"]),
        (".", [".: no such file"]),
    ],
)
@pytest.mark.parametrize("command", ["build", "stats"])
def test_a_bad_source_is_one_line_and_exit_code_2(run, command, source, parts, tmp_path, monkeypatch):
    sample = [json.loads(line) for line in SAMPLE.read_text(encoding="utf-8").splitlines()]
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "bad.txt", [*sample[:5], sample[5] | {"method": "short"}])
    write(tmp_path / "few.txt", sample[:4])
    (tmp_path / "binary.txt").write_bytes(b"\x00\xff\n" * 9)
    before = sorted(tmp_path.iterdir())
    code, out, err = run("data", command, "--source", source)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("cdconv: ")
    for part in parts:
        assert part in err
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("out", ["thesis", "thesis/text.txt", "thesis/text.txt/cdconv"])
def test_a_bad_out_folder_is_one_line_and_exit_code_2(run, out, tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "text.txt").write_text("mine", encoding="utf-8")
    code, stdout, err = run("data", "build", "--source", "sample", "--out", tmp_path / out)
    line = err.splitlines()[-1]
    assert (code, stdout) == (2, "")
    assert line.startswith("cdconv: ")
    assert str(tmp_path / "thesis") in line
    assert contents(tmp_path) == {"thesis/text.txt": b"mine"}


def test_the_installed_command_prints_an_error_as_one_line(tmp_path):
    """A process of its own: no traceback from a warning, a hook or the end of the interpreter either."""
    done = subprocess.run(
        [Path(sys.executable).with_name("cdconv"), "data", "build"],
        cwd=tmp_path,
        env=os.environ | {"CDCONV_FILE": str(SAMPLE)},
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert re.match(rf"cdconv: {re.escape(str(SAMPLE))}: SHA-256 is [0-9a-f]{{64}}, but the released", done.stderr)
    assert list(tmp_path.iterdir()) == []


# --- statistics -----------------------------------------------------------------------------------------------------


def test_table_3_of_the_release(run, release, monkeypatch):
    monkeypatch.setenv("CDCONV_FILE", str(release))
    code, out, err = run("data", "stats")
    assert (code, err) == (0, "")
    rows = table_rows(out)
    for line in """
        label eva plato all
        non-contradiction 3,233 (59.2 %) 4,076 (65.7 %) 7,309 (62.7 %)
        intra-sentence 386 (7.1 %) 144 (2.3 %) 530 (4.5 %)
        role-confusion 129 (2.4 %) 636 (10.3 %) 765 (6.6 %)
        history 1,710 (31.3 %) 1,346 (21.7 %) 3,056 (26.2 %)
        total 5,458 6,202 11,660
        unrelated 46 (2.7 %) 22 (1.6 %) 68 (2.2 %)
        attributes 835 (48.8 %) 622 (46.2 %) 1,457 (47.7 %)
        opinions 379 (22.2 %) 278 (20.7 %) 657 (21.5 %)
        experiences 450 (26.3 %) 424 (31.5 %) 874 (28.6 %)
        total 1,710 1,346 3,056
        short 1,121 7 342 46 1,516 26.1
        inquiring-bot 1,609 164 153 666 2,592 37.9
        inquiring-user 258 13 52 157 480 46.2
        inquiring-user-m 728 75 42 976 1,821 60.0
        paraphrasing 1,808 125 104 608 2,645 31.6
        perturb-synonym 664 43 30 219 956 30.5
        perturb-antonym 504 43 17 186 750 32.8
        perturb-negative 617 60 25 198 900 31.4
        u1 16.42 16.37 16.39
        b1 11.52 12.52 12.05
        u2 11.48 10.79 11.11
        b2 11.20 11.87 11.56
        official 63.7 % 68.2 %
        grouped 0.0 % 0.0 %
    """.strip().splitlines():
        assert line.strip() in rows
    for config, sides in COUNTS.items():
        for split, counts in sides.items():
            labels = ", ".join(
                f"{name} {count:,}" for name, count in zip(NAMES[config.removesuffix("-grouped")], counts, strict=True)
            )
            assert f"{config} {split} {sum(counts):,} {labels}" in rows


def test_stats_of_the_sample_are_counted_and_come_with_a_warning(run, sample_rows):
    code, out, err = run("data", "stats", "--source", "sample")
    assert code == 0
    assert "not CDConv" in err
    labels = Counter(row["label"] for row in sample_rows)
    eva = sum(row["bot"] == "eva" for row in sample_rows)
    rows = table_rows(out)
    assert f"total {eva} {len(sample_rows) - eva} {len(sample_rows)}" in rows
    assert any(row.startswith("history ") and row.endswith(f" {labels[3]} ({labels[3] / 4.78:.1f} %)") for row in rows)
    for column in UTTERANCES:
        length = sum(len(row[column]) for row in sample_rows) / len(sample_rows)
        assert any(row.startswith(f"{column} ") and row.endswith(f" {length:.2f}") for row in rows)


def test_stats_of_one_bot_leave_the_other_empty_and_do_not_fail(sample_rows):
    rows = [row for row in sample_rows if row["bot"] == "eva" and row["label"] == 0 and row["trigger"] != "short"]
    categories, persona, triggers, lengths = statistics.table3(rows)
    assert categories.rows[0] == ("non-contradiction", f"{len(rows)} (100.0 %)", "0", f"{len(rows)} (100.0 %)")
    assert persona.rows[-1] == ("total", "0", "0", "0")
    assert triggers.rows[0] == ("short", "0", "0", "0", "0", "0", "–")
    assert all(row[2] == "–" for row in lengths.rows)


def test_overlap_is_the_share_of_rows_whose_columns_all_match():
    train = [{"u1": "a", "b1": "b"}, {"u1": "c", "b1": "d"}]
    test = [{"u1": "a", "b1": "b"}, {"u1": "a", "b1": "d"}, {"u1": "a", "b1": "b"}, {"u1": "x", "b1": "b"}]
    sides = {"train": train, "test": test, "validation": test[3:]}
    assert statistics.overlap(sides, ("u1",)) == 0.75
    assert statistics.overlap(sides, ("u1", "b1")) == 0.5
    assert statistics.overlap(sides, ("u1",), "validation") == 0


def test_the_leak_is_counted_over_the_whole_context_and_over_its_first_utterance():
    train = [{"u1": "a", "b1": "b", "u2": "c"}]
    test = [
        *train,
        {"u1": "a", "b1": "b", "u2": "x"},
        {"u1": "a", "b1": "x", "u2": "c"},
        {"u1": "x", "b1": "b", "u2": "c"},
    ]
    sides = {"train": train, "test": test}
    assert statistics.leaks({"": sides}).rows == [("official", "25.0 %", "75.0 %")]
