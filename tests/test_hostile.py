"""Loading a damaged or malicious model folder raises one line. It runs no code, uses no network, and never guesses."""

import json
import re
import shutil
import sys

import pytest
from helpers import processes
from helpers.chats import CHAT, line
from helpers.hostile_models import ONLY_BY_MANIFEST, OUTSIDE, REFUSED, ensemble

from contradiction.data.splits import load_split
from contradiction.decision import Rule
from contradiction.detector import ContradictionDetector
from contradiction.errors import InputError
from contradiction.io import manifest
from contradiction.methods.loading import load_classifier, save_rule, write_manifests


@pytest.fixture(scope="module")
def good(random_model, tmp_path_factory):
    """A model folder with a rule and a manifest."""
    folder = shutil.copytree(random_model("4-class"), tmp_path_factory.mktemp("good") / "model")
    save_rule(folder, Rule(biases={"history": 0.1}))
    write_manifests(folder)
    return folder


@pytest.fixture
def folder(good, tmp_path):
    return shutil.copytree(good, tmp_path / "model")


def refusal(folder):
    with pytest.raises(InputError) as error:
        ContradictionDetector.from_pretrained(folder)
    assert "\n" not in str(error.value)
    assert str(folder) in str(error.value)
    assert not (folder.parent / "mark").exists(), "code ran"
    return str(error.value)


def test_a_good_folder_loads_and_sha256sum_can_read_its_manifest(folder):
    assert ContradictionDetector.from_pretrained(folder)(CHAT).checked
    lines = (folder / manifest.NAME).read_text(encoding="utf-8").splitlines()
    names = {line.split("  ")[1] for line in lines}
    assert names == {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}
    assert all(line == f"{manifest.sha256(folder / name)}  {name}" for line in lines for name in [line[66:]])


@pytest.mark.parametrize("name", REFUSED)
def test_a_hostile_folder_raises_one_line_without_a_manifest(name, folder):
    (folder / manifest.NAME).unlink()
    REFUSED[name](folder)
    refusal(folder)


@pytest.mark.parametrize("name", [*ONLY_BY_MANIFEST, "config absent", "weights absent", "weights a pointer"])
def test_a_changed_folder_is_rejected_and_the_error_names_the_file(name, folder):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    {**REFUSED, **ONLY_BY_MANIFEST}[name](folder)
    after = {path.name: path.read_bytes() for path in folder.iterdir()}
    changed = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    message = refusal(folder)
    assert any(str(folder / name) in message for name in changed) or "no config.json" in message


@pytest.mark.parametrize("name", ONLY_BY_MANIFEST)
def test_changes_that_only_a_manifest_reveals_run_no_code_without_one(name, folder):
    (folder / manifest.NAME).unlink()
    ONLY_BY_MANIFEST[name](folder)
    try:
        ContradictionDetector.from_pretrained(folder)(CHAT)
    except InputError as error:
        assert "\n" not in str(error)
    assert not (folder.parent / "mark").exists()


@pytest.mark.parametrize("names", OUTSIDE)
def test_members_stay_inside_their_folder(names, good, tmp_path):
    folder = tmp_path / "ensemble"
    ensemble(folder, good, names)
    assert "lies outside the folder" in refusal(folder)


@pytest.mark.parametrize(
    ("name", "values", "problem"),
    [
        ("ensemble.json", {"members": "member"}, "members is 'member'; it should be a valid list"),
        ("ensemble.json", {"members": ["member", None]}, "members.1 is None; it should be a valid string"),
        ("ensemble.json", {"members": []}, "members is .*at least 1 item"),
        ("ensemble.json", {"members": ["member"], "calibrated": "no"}, "calibrated is 'no'; it should be a valid bool"),
        ("cascade.json", {"parts": {}, "low": 0.2, "high": 0.8}, "parts is {}; it should be a valid list"),
        ("cascade.json", {"parts": ["member"] * 2, "low": True, "high": 0.8}, "low is True; it should be a valid num"),
        ("cascade.json", {"parts": ["member"] * 2, "low": 0.2}, "high is missing; it holds parts, low"),
    ],
)
def test_a_damaged_file_of_parts_is_named_with_its_key(name, values, problem, good, tmp_path):
    shutil.copytree(good, tmp_path / "parts" / "member")
    (tmp_path / "parts" / name).write_text(json.dumps(values), encoding="utf-8")
    assert re.match(f"{tmp_path / 'parts' / name}: {problem}", refusal(tmp_path / "parts"))


def test_damage_to_a_member_is_detected_and_named(good, tmp_path):
    ensemble(tmp_path / "ensemble", good, ["member", "second"])
    folder = tmp_path / "ensemble"
    shutil.copytree(good, folder / "second")
    write_manifests(folder)
    load_classifier(folder)
    ONLY_BY_MANIFEST["weights with a byte flipped"](folder / "second")
    assert str(folder / "second" / "model.safetensors") in refusal(folder)


def test_a_new_rule_is_listed_and_earlier_damage_is_still_detected(folder):
    ONLY_BY_MANIFEST["weights with a byte flipped"](folder)
    save_rule(folder, Rule(biases={"history": 0.2}))
    assert "model.safetensors" in refusal(folder)


def test_an_invalid_manifest_is_rejected(folder):
    for content in (b"\xff", b"nothing", b"0" * 64 + b"  ../../etc/passwd"):
        (folder / manifest.NAME).write_bytes(content)
        assert f"{folder / manifest.NAME}: holds no digests" in refusal(folder)


def test_a_chat_on_stdin_cannot_confirm_running_code(folder, tmp_path):
    (folder / manifest.NAME).unlink()
    REFUSED["config code of its own"](folder)
    done = processes.cdconv("detect", "-", "--model", folder, stdin="y\n" + line())
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"cdconv: {folder}: asks for code of its own")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "mark").exists()


calls: list[str] = []
watched = False


def watch(event, arguments):
    if watched and event.startswith("socket."):
        calls.append(f"{event} {arguments[1:]}")


def test_no_load_opens_a_socket(good, sample_repo, tmp_path, monkeypatch):
    from huggingface_hub import constants

    global watched
    ensemble(tmp_path / "ensemble", good, ["member", "second"])
    shutil.copytree(good, tmp_path / "ensemble" / "second")
    sys.addaudithook(watch)  # also sees files opened in C
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    watched = True
    try:
        ContradictionDetector.from_pretrained(good)(CHAT)
        ContradictionDetector.from_pretrained(tmp_path / "ensemble")(CHAT)
        load_split(sample_repo, "4-class", "test")
    finally:
        watched = False
    assert calls == []


def test_a_missing_rule_is_rejected_until_a_new_one_is_written(folder, run, sample_repo):
    (folder / manifest.NAME).unlink()
    REFUSED["rule absent"](folder)
    assert "its decision rule is missing" in refusal(folder)
    assert run("calibrate", folder, "--data", sample_repo)[0] == 0
    assert ContradictionDetector.from_pretrained(folder)(CHAT).checked


def test_a_model_that_never_had_a_rule_loads_with_a_notice(folder):
    (folder / manifest.NAME).unlink()
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config = {key: value for key, value in config.items() if not key.startswith("cdconv_")}  # as transformers writes it
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    code = "from contradiction import ContradictionDetector as Detector\n"
    code += f"print(Detector.from_pretrained({str(folder)!r}, view='flatten')({CHAT!r}).checked)"
    done = processes.run(code)
    assert (done.returncode, done.stdout) == (0, "True\n")
    assert done.stderr.startswith(f"{folder}: has no decision rule")
    assert done.stderr.count("\n") == 1
