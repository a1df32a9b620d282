"""A build, a training run, a detection and a push, each killed at a random moment and then run again."""

import json
import os
import random
import shutil
import signal

from helpers import hub_client, processes
from helpers.chats import line
from helpers.data_repo import contents
from helpers.hub_server import Hub
from helpers.runs import TINY_TOML
from test_writers import SMALL_CHUNKS

KILLS = 20 if "CDCONV_FUZZ" in os.environ else 1  # for each command
SEED = random.randrange(10**6) if "CDCONV_FUZZ" in os.environ else 5
# After its imports the process dies after a number of seconds of CPU time, which does not depend on how busy the
# machine is. Like kill -9, the signal cannot be handled: no file is flushed, and no block is exited.
DYING = """
import signal, {module}
signal.setitimer(signal.ITIMER_PROF, {seconds})
"""
TOML = 'view = "flatten"\nconfig = "4-class"\nepochs = 1\nbatch_size = 16\nlearning_rate = 3e-3\n' + TINY_TOML


def kill_repeatedly(begin, module, seconds, check, restart, done=0):
    """Runs a command that dies at random moments until it has died `KILLS` times, and returns the moments.

    Args:
        begin: starts the process after some given code.
        module: the module that the process imports before its time starts.
        seconds: the moments lie within this CPU time, or within less if the command needs less.
        check: called after each death.
        restart: called after each run that finished.
        done: the exit code of a finished run.
    """
    chance, moments = random.Random(SEED), []
    while len(moments) < KILLS:
        moment = chance.uniform(0, seconds)
        process = begin(DYING.format(module=module, seconds=moment))
        _, stderr = process.communicate(timeout=1800)
        if process.returncode == done:
            seconds = max(moment / 2, 0.001)
            restart()
            continue
        assert process.returncode == -signal.SIGPROF, stderr
        moments.append(moment)
        check()
    return moments


def remove(folder):
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def test_a_killed_build_can_be_repeated_with_the_same_bytes(run, sample_repo, crossed_once, tmp_path):
    place, temporary = tmp_path / "place", tmp_path / "tmp"
    place.mkdir()
    temporary.mkdir()
    out, arguments = place / "cdconv", ("data", "build", "--source", "sample", "--out", place / "cdconv")
    shutil.copytree(sample_repo, out)  # of an earlier build

    def begin(before):
        return processes.start_cdconv(*arguments, before=before, env={**os.environ, "TMPDIR": str(temporary)})

    def whole_or_absent():
        assert not out.exists() or contents(out) == contents(sample_repo)

    moments = kill_repeatedly(begin, "datasets", 3, whole_or_absent, lambda: remove(place))
    assert run(*arguments)[0] == 0
    assert contents(out) == contents(sample_repo), (SEED, moments)
    assert [*place.iterdir(), *temporary.iterdir()] == [out], (SEED, moments)


def test_a_killed_training_resumes_to_the_same_bytes(run, sample_repo, tmp_path):
    recipe, place = tmp_path / "tiny.toml", tmp_path / "place"
    recipe.write_text(TOML, encoding="utf-8")
    place.mkdir()
    command, out = ("train", recipe, "--data", sample_repo, "--save-steps", 5, "--out"), place / "run"

    def result(folder):
        """All files except the card and the record, which contain times, and the epochs in the record."""
        files = contents(folder)
        files.pop("README.md")
        epochs = json.loads(files.pop("run.json"))["epochs"]
        return files, [(epoch["train_loss"], epoch["validation"]) for epoch in epochs]

    def begin(before):
        return processes.start_cdconv(*command, out, "--resume", before=before)

    assert run(*command, tmp_path / "whole")[0] == 0
    whole = result(tmp_path / "whole")

    def whole_or_absent():
        assert not (out / "README.md").exists() or result(out) == whole

    moments = kill_repeatedly(
        begin, "contradiction.training.loop, transformers", 2, whole_or_absent, lambda: remove(place)
    )
    assert run(*command, out, "--resume")[0] == 0
    assert result(out) == whole, (SEED, moments)
    assert [*place.iterdir()] == [out], (SEED, moments)


def test_a_killed_detection_resumes_to_the_same_bytes(detect, detect_model, sample_chats, small_chunks, tmp_path):
    file, place = tmp_path / "chats.jsonl", tmp_path / "place"
    place.mkdir()
    file.write_text("\n".join(["{bad", *map(line, sample_chats)] * 2), encoding="utf-8")
    whole, out = tmp_path / "whole.jsonl", place / "whole.jsonl"

    def result(out):
        return {path.name: path.read_bytes() for path in out.parent.glob("*.jsonl*")}

    def begin(before):
        options = ("--model", detect_model, "--out", out, "--resume", "--quiet")
        return processes.start_cdconv("detect", file, *options, before=SMALL_CHUNKS + before)

    assert detect(file, "--out", whole)[0] == 1
    expected = result(whole)
    del expected["chats.jsonl"]

    def a_beginning():
        for name, content in result(out).items():
            assert name.startswith(".") or expected[name].startswith(content)

    module = "contradiction.detector, transformers"
    moments = kill_repeatedly(
        begin, module, 2, a_beginning, lambda: remove(place), done=1
    )  # exit code 1, because inputs are rejected
    assert detect(file, "--out", out, "--resume")[0] == 1
    assert result(out) == expected, (SEED, moments)


def test_a_killed_push_leaves_all_files_or_none_and_can_be_repeated(quick_model, tmp_path):
    with Hub() as other:
        assert hub_client.push(other, tmp_path, "model", quick_model).returncode == 0
    [expected] = other.repos.values()
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    with Hub() as hub:
        environment = hub_client.environment(hub, TMPDIR=str(temporary))
        command = ("push", "model", quick_model, "--repo-id", "user/name")

        def begin(before):
            return processes.start_cdconv(*command, before=before, cwd=tmp_path, env=environment)

        def whole_or_empty():
            for repo in hub.repos.values():
                assert len(repo.commits) < 2 or repo.files == expected.files
                assert len(repo.commits) <= 2

        moments = kill_repeatedly(begin, "huggingface_hub.hf_api", 0.5, whole_or_empty, hub.repos.clear)
        assert hub_client.push(hub, tmp_path, "model", quick_model).returncode == 0
        [repo] = hub.repos.values()
        assert repo.files == expected.files, (SEED, moments)
        assert len(repo.commits) == 2
        assert [*temporary.iterdir()] == []
