"""A full disk or a read-only folder gives one line that names the place and exit code 2, and changes nothing."""

import os
import shutil
import subprocess
from contextlib import contextmanager

import pytest
from helpers.chats import line
from helpers.data_repo import contents
from helpers.runs import TINY_RECIPE, full_disk

from contradiction.data.splits import load_split
from contradiction.errors import InputError

# Command -> the maximum file size in bytes on the full disk. Each command writes something before it reaches that.
LIMITS = {"build": 200_000, "training": 20_000, "evaluation": 2_000, "export": 20_000, "rule": 300, "card": 500}


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    path = tmp_path_factory.mktemp("recipes") / "tiny.toml"
    path.write_text(TINY_RECIPE, encoding="utf-8")
    return path


@pytest.fixture
def place(quick_model, sample_repo, tmp_path):
    """A folder with a model in it. The data is in the cache of `datasets`, which is elsewhere."""
    load_split(sample_repo, "4-class", "train")
    shutil.copytree(quick_model, tmp_path / "place" / "model")
    return tmp_path / "place"


@contextmanager
def read_only(folder):
    """Makes a folder read-only, also for the superuser, who can ignore file modes."""
    if os.getuid():
        folder.chmod(0o555)
        try:
            yield
        finally:
            folder.chmod(0o755)
        return
    mounted = subprocess.run(["mount", "--bind", folder, folder], capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"mounting is not permitted here: {mounted.stderr.strip()}")
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", folder], check=True)
        yield
    finally:
        subprocess.run(["umount", "-l", folder], check=True, timeout=20)


def arguments(command, place, recipe, repo):
    return {
        "build": ["data", "build", "--source", "sample", "--out", place / "new"],
        "training": ["train", recipe, "--data", repo, "--out", place / "new"],
        "evaluation": ["evaluate", place / "model", "--data", repo, "--json", place / "new.json"],
        "export": ["export", place / "model", "--out", place / "new"],
        "rule": ["calibrate", place / "model", "--data", repo],
        "card": ["card", place / "model"],
    }[command]


@pytest.mark.parametrize("command", LIMITS)
@pytest.mark.parametrize("how", ["full", "read-only"])
def test_a_failed_write_prints_one_line_and_changes_nothing(how, command, run, place, recipe, sample_repo):
    before = contents(place)
    with full_disk(LIMITS[command]) if how == "full" else read_only(place):
        code, _, err = run(*arguments(command, place, recipe, sample_repo))
    last = err.splitlines()[-1]
    assert (code, last.startswith("cdconv: "), "Traceback" in err) == (2, True, False), err
    assert str(place) in last
    left = contents(place)
    left.pop("new.partial/run.json", None)  # from a training run that has not started
    assert left == before


def test_a_place_where_nothing_can_be_written_is_found_before_the_work(run, place):
    with read_only(place):
        for command in (
            ("evaluate", "nowhere", "--json", place / "new.json"),
            ("cascade", "nowhere", "nowhere", "--out", place / "new"),
            ("calibrate", place / "model", "--data", "nowhere"),
        ):
            code, _, err = run(*command)
            assert (code, f"no file can be written in {place}" in err) == (2, True), err


def test_a_detection_stopped_by_a_full_disk_can_be_resumed(detect, sample_chats, small_chunks, tmp_path):
    file, out, whole = (tmp_path / name for name in ("chats.jsonl", "out.jsonl", "whole.jsonl"))
    file.write_text("\n".join(map(line, sample_chats[:40])), encoding="utf-8")
    assert detect(file, "--out", whole)[0] == 0
    with full_disk(whole.stat().st_size // 2):
        code, _, err = detect(file, "--out", out)
    assert (code, len(err)) == (2, 1)
    assert str(out) in err[0]
    assert out.stat().st_size <= whole.stat().st_size // 2
    assert detect(file, "--out", out, "--resume")[0] == 0
    assert out.read_bytes() == whole.read_bytes()


def test_chats_and_a_model_in_a_read_only_folder_can_be_used(detect, place):
    file = place / "chats.jsonl"
    file.write_text("{bad\n" + line(), encoding="utf-8")
    with read_only(place):
        code, answers, err = detect(file, model=place / "model")
        assert (code, [answer["line"] for answer in answers]) == (1, [2])
        assert [message for message in err if f"{file}.rejected.jsonl: " in message and "only shown here" in message]
        code, _, [expected_message] = detect(file, "--out", place / "verdicts.jsonl", model=place / "model")
        assert code == 2
        assert f"{place / 'verdicts.jsonl'}: no file can be written in {place}; " in expected_message
    assert {path.name for path in place.iterdir()} == {"model", "chats.jsonl"}


def test_a_full_disk_under_the_datasets_cache_is_reported(sample_repo, tmp_path, monkeypatch):
    repo = shutil.copytree(sample_repo, tmp_path / "cdconv")
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    message = rf"^{repo}: config '4-class' cannot be loaded \(.*too large"
    with full_disk(2_000), pytest.raises(InputError, match=message) as error:
        load_split(repo, "4-class", "test")
    assert "\n" not in str(error.value)
