"""Pushing to a Hub on 127.0.0.1: repeated, private, and failing pushes."""

import shutil

import pytest
from helpers.hub_client import NO_WAITING, OFFLINE, UNREACHABLE, push, python
from helpers.hub_server import TOKEN, Commit

from contradiction import publishing
from contradiction.errors import InputError
from contradiction.io.hub import push as push_upload

REPO = "user/evaluate_metric"


def assert_refused(answer, *said):
    assert (answer.returncode, answer.stdout) == (2, ""), answer
    [line] = [line for line in answer.stderr.splitlines() if line.startswith("cdconv: ")]
    assert "Traceback" not in answer.stderr
    assert [part for part in said if part not in line] == [], line


def test_a_second_push_commits_only_changes(hub, quick_model, tmp_path):
    folder = shutil.copytree(quick_model, tmp_path / "model")
    push(hub, tmp_path, "model", folder)
    again = push(hub, tmp_path, "model", folder)
    repo = hub.repos["model", "user/name"]
    assert (again.returncode, again.stdout) == (0, f"{hub.url}/user/name: nothing has changed\n")
    assert (len(repo.commits), again.stderr) == (2, "")
    (folder / "README.md").write_text((folder / "README.md").read_text("utf-8") + "\nMore.\n", encoding="utf-8")
    assert push(hub, tmp_path, "model", folder).returncode == 0
    assert (len(repo.commits), repo.files["README.md"].endswith(b"More.\n")) == (3, True)
    assert sum(command == "PUT" for command, _ in hub.requests) == 1


PUSH_TO_HUB = """
import json
from contradiction import ContradictionDetector
from contradiction.errors import InputError
detector = ContradictionDetector.from_pretrained(FOLDER)
try:
    print(json.dumps(detector.push_to_hub("user/other", OPTIONS)))
except InputError as error:
    print(json.dumps(str(error)))"""


def push_to_hub(hub, home, folder, options="", **variables):
    return python(hub, home, PUSH_TO_HUB.replace("FOLDER", repr(str(folder))).replace("OPTIONS", options), **variables)


def test_push_to_hub_sends_what_the_command_sends(hub, quick_model, tmp_path):
    push(hub, tmp_path, "model", quick_model, "--dataset", "user/cdconv")
    assert push_to_hub(hub, tmp_path, quick_model, 'dataset="user/cdconv"') == f"{hub.url}/user/other"
    [name, other] = [hub.repos["model", f"user/{name}"] for name in ("name", "other")]
    assert {path: content.replace(b"user/other", b"user/name") for path, content in other.files.items()} == name.files
    assert [commit.title for commit in other.commits] == [commit.title for commit in name.commits]
    assert not other.private


def test_push_to_hub_takes_a_token_a_message_and_private(hub, quick_model, tmp_path):
    assert "no token to publish with" in push_to_hub(hub, tmp_path, quick_model, HF_TOKEN="")
    options = f"private=True, commit_message='First try', token={TOKEN!r}"
    assert push_to_hub(hub, tmp_path, quick_model, options, HF_TOKEN="") == f"{hub.url}/user/other"
    repo = hub.repos["model", "user/other"]
    assert (repo.private, repo.commits[-1].title) == (True, "First try")


def test_a_push_deletes_files_of_an_earlier_one_and_reports_it(hub, quick_model, tmp_path):
    push(hub, tmp_path, "model", quick_model)
    repo = hub.repos["model", "user/name"]
    stale = {"stages.json": b"{}", "history/model.safetensors": b"weights"}
    own = {"picture.png": b"a user's own"}
    repo.commits.append(Commit("an earlier push", repo.files | stale | own))
    answer = push(hub, tmp_path, "model", quick_model)
    assert answer.returncode == 0 and all(name in answer.stderr for name in stale)
    assert set(repo.files) == {".gitattributes", *own, *publishing.model(quick_model, REPO).files}
    assert len(repo.commits) == 4


def test_private_is_applied_and_rejected_for_an_existing_public_repo(hub, tmp_path):
    where = "user/evaluate_metric"
    assert push(hub, tmp_path, "metric", "--private", repo=where).returncode == 0
    repo = hub.repos["space", where]
    assert repo.private
    repo.private = False
    assert_refused(push(hub, tmp_path, "metric", "--private", repo=where), f"{where}: exists and is public")
    assert len(repo.commits) == 2


@pytest.mark.parametrize(
    ("options", "messages"),
    [
        ({"HF_TOKEN": "hf_wrong"}, ("the Hub does not know this token", "hf auth login")),
        ({"HF_TOKEN": ""}, ("no token", "hf auth login")),
        ({"repo": "someone/evaluate_metric"}, ("may not write there", "hf auth login")),
        ({"before": OFFLINE}, ("unset HF_HUB_OFFLINE",)),
        ({"before": UNREACHABLE}, ("the connection to the Hub failed",)),
    ],
)
def test_missing_permission_prints_one_line_that_says_what_to_do(hub, tmp_path, options, messages):
    options = {"repo": REPO, **options}
    answer = push(hub, tmp_path, "metric", **options)
    assert_refused(answer, options["repo"], *messages)
    assert answer.stderr.count("\n") == 1
    assert hub.repos == {}


def test_a_card_that_the_hub_rejects_creates_no_repo(hub, quick_model, tmp_path):
    folder = shutil.copytree(quick_model, tmp_path / "model")
    card = folder / "README.md"
    card.write_text(card.read_text("utf-8").replace("cc0-1.0", "mine"), encoding="utf-8")
    assert_refused(push(hub, tmp_path, "model", folder), "user/name", '"license" is not valid')
    assert hub.repos == {}


@pytest.mark.parametrize("drop", ["/commit/", "/large/"])
def test_a_broken_connection_during_an_upload_leaves_no_commit(hub, quick_model, tmp_path, drop):
    hub.drop = drop
    assert_refused(
        push(hub, tmp_path, "model", quick_model, before=NO_WAITING), "the connection to the Hub failed", "push again"
    )
    assert [commit.title for commit in hub.repos["model", "user/name"].commits] == ["initial commit"]
    hub.drop = r"(?!)"
    assert push(hub, tmp_path, "model", quick_model).returncode == 0
    assert len(hub.repos["model", "user/name"].commits) == 2


def test_a_dry_run_lists_the_files_with_sizes_and_sends_nothing(run, quick_model, sample_repo, monkeypatch):
    monkeypatch.setattr("contradiction.io.hub.push", lambda *_, **__: pytest.fail("it sends"))
    for kind, arguments, upload in [
        ("model", [quick_model], publishing.model(quick_model, REPO)),
        ("dataset", ["--folder", sample_repo, "--any-data"], publishing.dataset(sample_repo, REPO, any_data=True)),
        ("metric", [], publishing.metric(REPO)),
        ("space", ["--model", "user/tiny"], publishing.space(REPO, "user/tiny")),
    ]:
        code, out, err = run("push", kind, *arguments, "--repo-id", REPO, "--dry-run")
        assert (code, err.count("also deletes")) == (0, 1)
        *listed, total = [line.split() for line in out.splitlines()]
        assert {name: int(size.replace(",", "")) for size, name in listed} == upload.sizes()
        assert int(total[0].replace(",", "")) == sum(upload.sizes().values())


def test_push_gives_the_address_and_says_whether_anything_has_changed(hub, monkeypatch):
    for name, value in (("ENDPOINT", hub.url), ("HF_HUB_OFFLINE", False)):
        monkeypatch.setattr(f"huggingface_hub.constants.{name}", value)
    for has_changed in (True, False):
        result = push_upload(publishing.metric(REPO), REPO, token=TOKEN)
        assert (result.url, result.changed, result.deleted) == (f"{hub.url}/spaces/{REPO}", has_changed, ())
    with pytest.raises(InputError, match="the Hub does not know this token"):
        push_upload(publishing.metric(REPO), REPO, token="hf_other")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(InputError, match="the offline mode is on"):
        push_upload(publishing.metric(REPO), REPO, token=TOKEN)
