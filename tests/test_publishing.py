"""Publishing, with the real client libraries against a Hub on 127.0.0.1, each in a process of its own.

The libraries read the Hub's address, the token and the offline mode when they are imported.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from functools import partial
from pathlib import Path

import pytest
from hub_server import Commit, Hub, Repo
from transformers import BertForSequenceClassification

from contradiction import paths, publishing
from contradiction.errors import InputError
from contradiction.inputs.views import HIERARCHICAL
from contradiction.io.files import write_json
from contradiction.labels import LABELS, STAGES
from contradiction.reports.model_cards import model_card
from contradiction.training import record

CDCONV = Path(sys.executable).with_name("cdconv")
NEVER = ("HF_HUB_OFFLINE", "HF_TOKEN", "HF_DATASETS_CACHE", "CDCONV_MODEL")
REPOS = {
    ("dataset", "user/cdconv"): "datasets/user/cdconv",
    ("model", "user/tiny"): "user/tiny",
    ("model", "user/stages"): "user/stages",
    ("space", "user/evaluate_metric"): "spaces/user/evaluate_metric",
    ("space", "user/page"): "spaces/user/page",
}
NO_WAITING = "import time; time.sleep = lambda seconds: None\n"  # the library waits between its retries


@pytest.fixture(scope="module")
def model(quick_model):
    return quick_model


@pytest.fixture(scope="module")
def hierarchy(model, tmp_path_factory):
    """A hierarchical model whose stages are the tiny one with other labels."""
    folder = tmp_path_factory.mktemp("models") / "hierarchy"
    for stage, labels in STAGES.items():
        place = shutil.copytree(model, folder / stage)
        stand_in = BertForSequenceClassification.from_pretrained(place, num_labels=2, ignore_mismatched_sizes=True)
        stand_in.config.id2label = dict(enumerate(labels))
        stand_in.save_pretrained(place)
        run = record.read(place)
        request = run["request"]
        values = {**request["recipe"], "target": stage, "view": stage, "name": stage}
        write_json(place / record.NAME, {**run, "request": {**request, "recipe": values}})
        (place / "decision.json").unlink()
        model_card(place).save(place / "README.md")
    (folder / "stages.json").write_text(json.dumps({"stages": list(STAGES)}), encoding="utf-8")
    asked = {**request, "recipe": {**values, "view": HIERARCHICAL, "target": None}}
    record.write_stages(folder, request=asked, stages=list(STAGES))
    model_card(folder).save(folder / "README.md")
    return folder


@pytest.fixture
def hub():
    with Hub() as hub:
        yield hub


@pytest.fixture(scope="module")
def published(model, hierarchy, sample_repo, tmp_path_factory):
    """A Hub to which all four kinds were pushed, and what that printed; tests do not change it."""
    with Hub() as hub:
        home = tmp_path_factory.mktemp("home")
        printed = {
            "user/cdconv": push(hub, home, "dataset", "--folder", sample_repo, "--any-data", repo="user/cdconv"),
            "user/tiny": push(hub, home, "model", model, "--dataset", "user/cdconv", repo="user/tiny"),
            "user/stages": push(hub, home, "model", hierarchy, repo="user/stages"),
            "user/evaluate_metric": push(hub, home, "metric", repo="user/evaluate_metric"),
            "user/page": push(hub, home, "space", "--model", "user/tiny", repo="user/page"),
        }
        hub.printed = {id: answer.stdout for id, answer in printed.items()}
        assert [answer.stderr for answer in printed.values()] == [""] * len(printed)
        yield hub


@pytest.fixture
def client(published, tmp_path):
    """Runs Python in a fresh process, in an empty folder and cache; what it prints last is JSON."""

    return partial(python, published, tmp_path)


def python(hub, home, code, *options, **variables):
    return json.loads(process(hub, home, code, *options, **variables).stdout.splitlines()[-1])


def process(hub, home, code, *options, **variables):
    command = [sys.executable, *options, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, cwd=home, env=environment(hub, home, **variables))
    assert done.returncode == 0, done.stderr
    return done


def environment(hub, home, **variables):
    kept = {name: value for name, value in os.environ.items() if name not in NEVER and "proxy" not in name.lower()}
    own = {"HF_HOME": str(home), "HF_UPDATE_DOWNLOAD_COUNTS": "0"}
    return kept | own | hub.environment | variables


def push(hub, home, kind, *arguments, repo="user/name", before="", **variables):
    code = f"{before}import sys; from contradiction.cli import main; sys.argv[0] = 'cdconv'; main()"
    command = [sys.executable, "-c", code, "push", kind, *map(str, arguments), "--repo-id", repo]
    return subprocess.run(command, capture_output=True, text=True, cwd=home, env=environment(hub, home, **variables))


def assert_refused(answer, *said):
    assert (answer.returncode, answer.stdout) == (2, ""), answer
    [line] = [line for line in answer.stderr.splitlines() if line.startswith("cdconv: ")]
    assert "Traceback" not in answer.stderr
    assert [each for each in said if each not in line] == [], line


# What lies on the Hub, as its users get it.


@pytest.mark.parametrize(("kind", "id"), REPOS)
def test_a_push_makes_the_repo_with_one_commit_and_prints_its_address(published, kind, id):
    repo = published.repos[kind, id]
    first, second = repo.commits
    assert first.title == "initial commit"
    assert second.title
    assert published.printed[id] == f"{published.url}/{REPOS[kind, id]}\n"
    assert not repo.private


def test_load_dataset_reads_the_pushed_configs_with_class_labels_and_streams_them(client, sample_repo):
    found = client("""
import json
from datasets import load_dataset
data = load_dataset("user/cdconv", "4-class")
streamed = load_dataset("user/cdconv", "persona", split="test", streaming=True)
print(json.dumps({
    "sizes": {split: len(rows) for split, rows in data.items()},
    "names": data["test"].features["label"].names,
    "first": data["test"][0],
    "streamed": list(streamed),
    "default": load_dataset("user/cdconv", split="test").features["label"].names,
}))""")
    from datasets import load_dataset

    local = load_dataset(str(sample_repo), "4-class")
    assert found["sizes"] == {split: len(rows) for split, rows in local.items()}
    assert found["names"] == found["default"] == list(LABELS["4-class"])
    assert found["first"] == local["test"][0]
    assert found["streamed"] == list(load_dataset(str(sample_repo), "persona", split="test"))


def test_pipeline_and_detector_score_with_the_pushed_model_as_with_the_folder(client, model):
    found = client(f"""
import json
from transformers import pipeline
from contradiction import ContradictionDetector
texts = ["你养猫吗？", "养了一只橘猫", "它叫什么名字？", "我没养过猫呀"]
chat = [{{"role": ("user", "assistant")[i % 2], "content": text}} for i, text in enumerate(texts)]
scores, verdicts = [], []
for name in ("user/tiny", {str(model)!r}):
    classify = pipeline("text-classification", model=name, top_k=None)
    before = classify.tokenizer.sep_token.join(texts[:3])
    scores.append(classify([{{"text": before, "text_pair": texts[3]}}], truncation=True))
    detector = ContradictionDetector.from_pretrained(name)
    verdict = detector(chat)
    verdicts.append([verdict.label, verdict.scores, detector.classifier.uncalibrated(verdict.scores)])
print(json.dumps([scores, verdicts]))""")
    [[[pushed], [local]], [pushed_verdict, local_verdict]] = found
    assert pushed == local
    assert pushed_verdict == local_verdict
    # The decision rule came along: it calibrates what the pipeline gives as it is.
    assert pushed_verdict[1] != pytest.approx(pushed_verdict[2], abs=1e-3)
    assert {each["label"]: each["score"] for each in pushed} == pytest.approx(pushed_verdict[2], abs=1e-5)
    assert set(pushed_verdict[1]) == set(LABELS["4-class"])


def test_the_code_on_a_pushed_card_runs_for_who_has_only_the_hub_and_prints_what_the_card_says(client, published):
    cards = [("user/tiny", "README.md"), ("user/stages", "README.md"), ("user/stages", "history/README.md")]
    texts = [published.repos["model", id].files[name].decode() for id, name in cards]
    blocks = [block for text in texts for block in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)]
    said = [re.search(r"^# (.+)$", block, flags=re.MULTILINE)[1] for block in blocks]
    found = client(f"""
import contextlib, io, json
printed = io.StringIO()
with contextlib.redirect_stdout(printed):
    for block in {blocks!r}:
        exec(block, {{}})
print(json.dumps(printed.getvalue().splitlines()))""")
    assert found == said
    assert len(said) == 6


def test_a_pushed_card_links_the_data_that_the_user_names_and_else_none(published, model, tmp_path):
    from huggingface_hub import ModelCard

    assert ModelCard(published.repos["model", "user/tiny"].files["README.md"].decode()).data.datasets == ["user/cdconv"]
    shipped_card = publishing.model(paths.SHIPPED, "you/name").card
    assert shipped_card.data.datasets is None
    assert "datasets:" not in str(shipped_card).split("---")[1]
    linked = publishing.model(paths.SHIPPED, "you/name", dataset="you/cdconv")
    assert {each.dataset_type for each in linked.card.data.eval_results} == {"you/cdconv"}
    assert b"- you/cdconv" in linked.files["README.md"]
    with pytest.raises(InputError, match="Hub id"):
        publishing.model(paths.SHIPPED, "you/name", dataset="cdconv")


def test_a_push_changes_nothing_of_a_card_but_names_and_nothing_in_the_folder(model):
    own = (model / "README.md").read_bytes()
    sent = publishing.model(model, "you/name")
    assert (model / "README.md").read_bytes() == own
    assert sent.files["README.md"].decode().replace("you/name", model.name) == own.decode()


def test_a_hierarchical_detector_is_found_by_its_hub_id(client, hierarchy):
    found = client(f"""
import json
from contradiction import ContradictionDetector
chat = [{{"role": ("user", "assistant")[i % 2], "content": text}} for i, text in enumerate("甲乙丙丁")]
detectors = [ContradictionDetector.from_pretrained(name) for name in ("user/stages", {str(hierarchy)!r})]
print(json.dumps([type(detectors[0].classifier).__name__, *(detector(chat).scores for detector in detectors)]))""")
    assert found[0] == "HierarchicalClassifier"
    assert found[1] == found[2]


def test_stages_that_cannot_be_fetched_are_one_clear_line(published, client):
    published.busy = r"/history/model.safetensors$"
    try:
        refused = client(NO_WAITING + loaded("user/stages"))
    finally:
        published.busy = r"(?!)"
    assert refused.startswith("user/stages: not all of it could be fetched from the Hub (")


LOADED = """
import json
from contradiction import ContradictionDetector
from contradiction.errors import InputError
try:
    rule = ContradictionDetector.from_pretrained(NAME, view=VIEW).classifier.rule
    print(json.dumps(rule.offsets))
except InputError as error:
    print(json.dumps(str(error)))"""
IN_PART = """
import json
from transformers import AutoModelForSequenceClassification, AutoTokenizer
for each in AutoTokenizer, AutoModelForSequenceClassification:
    each.from_pretrained("user/tiny")
print(json.dumps(None))"""
ALL = """
import json
from huggingface_hub import snapshot_download
snapshot_download("user/tiny")
print(json.dumps(None))"""


def loaded(name="user/tiny", view=None):
    return LOADED.replace("NAME", repr(name)).replace("VIEW", repr(view))


def test_a_detector_in_the_cache_without_its_rule_is_refused_offline_and_one_with_it_is_not(client, model):
    rule = json.loads((model / "decision.json").read_text("utf-8"))["offsets"]
    assert rule
    client(IN_PART)
    refused = client(loaded(), HF_HUB_OFFLINE="1")
    assert "user/tiny: the cache holds no decision.json" in refused
    assert "(offline); `hf download user/tiny` fetches all of it" in refused
    client(ALL)
    assert client(loaded(), HF_HUB_OFFLINE="1") == rule


def test_a_detector_once_loaded_is_loaded_offline_with_its_rule(client, model):
    online = client(loaded())
    assert online == json.loads((model / "decision.json").read_text("utf-8"))["offsets"]
    assert client(loaded(), HF_HUB_OFFLINE="1") == online


@pytest.mark.parametrize(("file", "before"), [("decision.json", IN_PART), ("stages.json", None)])
def test_a_hub_that_is_busy_costs_no_detector_its_rule(published, client, file, before):
    if before:
        client(before)
    published.busy = rf"/{file}$"
    try:
        refused = client(NO_WAITING + loaded())
    finally:
        published.busy = r"(?!)"
    assert f"user/tiny: the cache holds no {file}" in refused
    assert "(the Hub answers 429)" in refused


def test_a_checkpoint_that_is_none_of_ours_is_loaded_offline_as_it_lies_in_the_cache(hub, model, tmp_path):
    files = {
        path.name: path.read_bytes() for path in model.iterdir() if path.name not in ("decision.json", record.NAME)
    }
    config = json.loads(files["config.json"])
    del config["cdconv_view"]
    hub.repos["model", "user/tiny"] = Repo(
        False, [Commit("plain", files | {"config.json": json.dumps(config).encode()})]
    )
    assert python(hub, tmp_path, IN_PART) is None
    asked = (
        "from contradiction.training import record\n"
        "record.of_model('user/tiny'); record.of_model('user/tiny', 'prune.json')\n"
    )
    done = process(hub, tmp_path, asked + loaded(view="flatten"), HF_HUB_OFFLINE="1")
    assert json.loads(done.stdout.splitlines()[-1]) == {}
    [line] = [line for line in done.stderr.splitlines() if "user/tiny" in line]
    assert "cannot be asked for its record" in line


def test_a_name_of_which_nothing_is_in_the_cache_is_no_model_offline(client):
    assert "neither a model folder nor a model on the Hub" in client(loaded("user/other"), HF_HUB_OFFLINE="1")


def test_evaluate_loads_the_pushed_metric(client):
    found = client("""
import json, evaluate
metric = evaluate.load("user/evaluate_metric", "4-class", module_type="metric")
print(json.dumps(metric.compute(predictions=["history", 0, 1], references=[3, 1, 1], bootstrap=100)))""")
    from evaluate_metric.evaluate_metric import score

    assert found == score([3, 1, 1], ["history", 0, 1], "4-class", bootstrap=100)


def test_a_snapshot_of_the_space_is_what_was_sent_and_builds_the_page_without_the_checkout(client, published, tmp_path):
    tree = tmp_path / "tree"
    # -I and -S: neither this checkout nor what pip made importable in place, only the installed packages.
    variables = published.repos["space", "user/page"].variables
    found = client(
        f"""
import json, os, sys
sys.path.insert(0, {sysconfig.get_paths()["purelib"]!r})
from huggingface_hub import snapshot_download
snapshot_download("user/page", repo_type="space", local_dir={str(tree)!r})
sys.path.insert(0, {str(tree)!r})
os.environ.update({variables!r}, GRADIO_ANALYTICS_ENABLED="False")
import app, contradiction
page = app.build(contradiction.ContradictionDetector.from_pretrained(app.MODEL))
others = [name for name in ("cdconv", "evaluate_metric") if name in sys.modules]
print(json.dumps([type(page).__name__, contradiction.__file__, others]))""",
        "-I",
        "-S",
    )
    assert found == ["Blocks", str(tree / "contradiction" / "__init__.py"), []]
    sent = publishing.space("user/tiny").files
    there = {path.relative_to(tree).as_posix() for path in tree.rglob("*") if path.is_file()}
    there = {name for name in there if not name.startswith(".") and "__pycache__" not in name}
    assert there == set(sent)
    for name, content in sent.items():
        assert (tree / name).read_bytes() == (content if isinstance(content, bytes) else content.read_bytes())


def test_the_space_knows_its_detector_by_variable_and_by_card(published):
    from huggingface_hub import SpaceCard

    repo = published.repos["space", "user/page"]
    card, own = (
        SpaceCard(text.decode()) for text in (repo.files["README.md"], (paths.SPACE / "README.md").read_bytes())
    )
    assert repo.variables == {"CDCONV_MODEL": "user/tiny"}
    assert card.data.to_dict() == own.data.to_dict() | {"models": ["user/tiny"]}
    assert card.text == own.text


def test_a_hub_without_variables_gets_the_space_and_the_user_is_told_what_to_set(hub, tmp_path):
    hub.lack = "/variables"
    answer = push(hub, tmp_path, "space", "--model", "user/tiny")
    assert (answer.returncode, answer.stdout) == (0, f"{hub.url}/spaces/user/name\n")
    assert "set CDCONV_MODEL to user/tiny in the settings of the Space" in answer.stderr
    assert len(hub.repos["space", "user/name"].commits) == 2


# Pushing again, in private, or into trouble.


def test_a_second_push_makes_a_commit_only_of_what_has_changed(hub, model, tmp_path):
    folder = shutil.copytree(model, tmp_path / "model")
    push(hub, tmp_path, "model", folder)
    again = push(hub, tmp_path, "model", folder)
    repo = hub.repos["model", "user/name"]
    assert (again.returncode, again.stdout) == (0, f"{hub.url}/user/name: nothing has changed\n")
    assert len(repo.commits) == 2
    (folder / "README.md").write_text((folder / "README.md").read_text("utf-8") + "\nMore.\n", encoding="utf-8")
    assert push(hub, tmp_path, "model", folder).returncode == 0
    assert len(repo.commits) == 3
    assert repo.files["README.md"] != repo.commits[1].files["README.md"]
    assert sum(command == "PUT" for command, _ in hub.requests) == 1


def test_a_push_deletes_what_an_earlier_one_left_and_says_so(hub, model, tmp_path):
    push(hub, tmp_path, "model", model)
    repo = hub.repos["model", "user/name"]
    stale = {"stages.json": b"{}", "history/model.safetensors": b"weights"}
    own = {"picture.png": b"a user's own"}
    repo.commits.append(Commit("an earlier push", repo.files | stale | own))
    answer = push(hub, tmp_path, "model", model)
    assert answer.returncode == 0
    for name in stale:
        assert name in answer.stderr
    assert set(repo.files) == {".gitattributes", *own, *publishing.model(model).files}
    assert len(repo.commits) == 4
    assert "deleted" not in push(hub, tmp_path, "model", model).stderr
    assert len(repo.commits) == 4


def test_private_arrives_and_is_not_promised_of_a_repo_that_is_public(hub, tmp_path):
    where = "user/evaluate_metric"
    assert push(hub, tmp_path, "metric", "--private", repo=where).returncode == 0
    repo = hub.repos["space", where]
    assert repo.private
    repo.private = False
    assert_refused(push(hub, tmp_path, "metric", "--private", repo=where), f"{where}: exists and is public")
    assert len(repo.commits) == 2


@pytest.mark.parametrize(
    ("variables", "repo", "said"),
    [
        ({"HF_TOKEN": "hf_wrong"}, "user/evaluate_metric", ("the Hub does not know this token", "hf auth login")),
        ({"HF_TOKEN": ""}, "user/evaluate_metric", ("no token", "hf auth login")),
        ({}, "someone/evaluate_metric", ("may not write there", "hf auth login")),
        ({"HF_HUB_OFFLINE": "1"}, "user/evaluate_metric", ("unset HF_HUB_OFFLINE",)),
        ({"HF_ENDPOINT": "http://127.0.0.1:9"}, "user/evaluate_metric", ("the connection to the Hub failed",)),
    ],
)
def test_who_cannot_publish_is_told_in_one_line_what_to_do(hub, tmp_path, variables, repo, said):
    answer = push(hub, tmp_path, "metric", repo=repo, **variables)
    assert_refused(answer, repo, *said)
    assert answer.stderr.count("\n") == 1
    assert hub.repos == {}


def test_a_card_that_the_hub_refuses_makes_no_repo(hub, model, tmp_path):
    folder = shutil.copytree(model, tmp_path / "model")
    card = folder / "README.md"
    card.write_text(card.read_text("utf-8").replace("cc0-1.0", "mine"), encoding="utf-8")
    assert_refused(push(hub, tmp_path, "model", folder), "user/name", '"license" is not valid')
    assert hub.repos == {}


@pytest.mark.parametrize("drop", ["/commit/", "/large/"])
def test_a_connection_that_breaks_during_an_upload_leaves_no_commit(hub, model, tmp_path, drop):
    hub.drop = drop
    assert_refused(
        push(hub, tmp_path, "model", model, before=NO_WAITING), "the connection to the Hub failed", "push again"
    )
    assert [commit.title for commit in hub.repos["model", "user/name"].commits] == ["initial commit"]
    hub.drop = r"(?!)"
    assert push(hub, tmp_path, "model", model).returncode == 0
    assert len(hub.repos["model", "user/name"].commits) == 2


def test_a_dry_run_lists_the_files_with_sizes_and_asks_nobody(hub, model, sample_repo, tmp_path):
    for kind, arguments, upload in [
        ("model", [model], publishing.model(model, "user/evaluate_metric")),
        ("dataset", ["--folder", sample_repo, "--any-data"], publishing.data_set(sample_repo, any_data=True)),
        ("metric", [], publishing.metric("user/evaluate_metric")),
        ("space", ["--model", "user/tiny"], publishing.space("user/tiny")),
    ]:
        answer = push(hub, tmp_path, kind, *arguments, "--dry-run", repo="user/evaluate_metric", HF_TOKEN="")
        assert (answer.returncode, answer.stderr.count("also deletes")) == (0, 1)
        *listed, total = [line.split() for line in answer.stdout.splitlines()]
        assert {name: int(size.replace(",", "")) for size, name in listed} == upload.sizes()
        assert int(total[0].replace(",", "")) == sum(upload.sizes().values())
    assert hub.requests == []
    assert list(tmp_path.iterdir()) == []


# What is checked before anything is sent.


def broken(model, tmp_path, *remove, card=None):
    folder = shutil.copytree(model, tmp_path / "model")
    for name in remove:
        (folder / name).unlink()
    if card is not None:
        (folder / "README.md").write_text(card, encoding="utf-8")
    return folder


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json", "model.safetensors", "README.md"])
def test_a_model_folder_without_a_part_is_refused_by_its_name(model, tmp_path, name):
    with pytest.raises(InputError, match=name.replace("model.safetensors", "no weights")):
        publishing.model(broken(model, tmp_path, name))


@pytest.mark.parametrize("card", ["", "# No metadata\n", "---\na: [\n---\n", "---\n- a list\n---\n", "---\nno end\n"])
def test_a_card_without_metadata_is_refused(model, tmp_path, card):
    with pytest.raises(InputError, match=r"README\.md: not a valid card"):
        publishing.model(broken(model, tmp_path, card=card))


def test_a_hierarchical_model_needs_every_stage_and_is_sent_whole(model, tmp_path):
    folder = tmp_path / "stages"
    for stage in ("first", "second"):
        shutil.copytree(model, folder / stage)
    write_json(folder / "stages.json", {"stages": ["first", "second"]})
    shutil.copy(model / "README.md", folder)
    assert {"README.md", "stages.json", "second/model.safetensors"} < set(publishing.model(folder).files)
    (folder / "second" / "config.json").unlink()
    with pytest.raises(InputError, match=r"second: no config\.json"):
        publishing.model(folder)
    write_json(folder / "stages.json", {"steps": []})
    with pytest.raises(InputError, match=r'stages\.json: must be {"stages": \[folder'):
        publishing.model(folder)


def test_the_sample_is_not_published_as_cdconv(sample_repo):
    with pytest.raises(InputError, match="its card calls it 'CDConv sample'.*--any-data"):
        publishing.data_set(sample_repo)
    assert "CDConv sample" in publishing.data_set(sample_repo, any_data=True).message


@pytest.mark.real_data
def test_the_release_is_published_without_more_ado(release_repo):
    assert publishing.data_set(release_repo).message.startswith("CDConv: 6 configs")


def test_a_data_repo_with_code_or_without_its_parquet_is_refused(sample_repo, tmp_path):
    folder = shutil.copytree(sample_repo, tmp_path / "cdconv")
    (folder / "cdconv.py").write_text("", encoding="utf-8")
    with pytest.raises(InputError, match=r"cdconv\.py: a data repo holds no code"):
        publishing.data_set(folder, any_data=True)
    (folder / "cdconv.py").unlink()
    shutil.rmtree(folder / "persona")
    with pytest.raises(InputError, match="no Parquet at persona/train-.*'persona'"):
        publishing.data_set(folder, any_data=True)
    (folder / "README.md").write_text("---\npretty_name: CDConv\n---\n", encoding="utf-8")
    with pytest.raises(InputError, match="names no configs"):
        publishing.data_set(folder)


@pytest.mark.parametrize("repo_id", ["name", "user/", "/name", "a/b/c", "user/na me", "user/a--b", "用户/name"])
@pytest.mark.parametrize("check", [publishing.check_repo_id, publishing.space])
def test_a_malformed_id_is_refused(repo_id, check):
    with pytest.raises(InputError, match="Hub id"):
        check(repo_id)


def test_the_metric_keeps_its_name_because_evaluate_looks_for_a_file_named_like_the_repo():
    with pytest.raises(InputError, match="USER/evaluate_metric"):
        publishing.metric("user/metric")


def test_a_folder_is_no_detector_of_a_space(model, monkeypatch):
    monkeypatch.chdir(model.parent.parent)
    with pytest.raises(InputError, match="a folder here"):
        publishing.space(f"{model.parent.name}/{model.name}")


def test_caches_and_what_is_not_finished_are_never_sent(model, tmp_path):
    folder = shutil.copytree(model, tmp_path / "model")
    for name in (
        ".cache/a",
        "__pycache__/a.pyc",
        "b.partial",
        ".b.7.partial/c",
        "sub/.hidden",
        "run.partial/d",
        "x.lock",
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("", encoding="utf-8")
    assert publishing.model(folder).files.keys() == publishing.model(model).files.keys()


def test_the_space_holds_the_page_and_the_library_and_nothing_else():
    names = set(publishing.space().files)
    assert {
        "app.py",
        "README.md",
        "requirements.txt",
        "contradiction/__init__.py",
        "contradiction/data/sample.jsonl",
    } < names
    page = {path.name for path in paths.SPACE.iterdir() if path.is_file()}
    assert {name.partition("/")[0] for name in names} == {*page, "contradiction"}
    assert not any(name.startswith("tests/") or "/test_" in name or "__pycache__" in name for name in names)
    # The packages within it, and what is no Python.
    assert {"contradiction/commands/detect.py", "contradiction/training/loop.py"} < names
    assert {"contradiction/templates/analysis.html", "contradiction/templates/model_card.md"} < names


def test_a_mistake_is_one_line_and_exit_code_2(hub, tmp_path):
    for arguments, said in [
        (["model", "no/such/folder"], "no/such/folder: no such folder"),
        (["dataset"], "cdconv: cdconv: no such folder"),
        (["metric"], "USER/evaluate_metric"),
    ]:
        answer = push(hub, tmp_path, *arguments)
        assert_refused(answer, said)
        assert answer.stderr.count("\n") == 1
    assert hub.requests == []
