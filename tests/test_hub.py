"""What users get from the Hub: the real client libraries run against a Hub on 127.0.0.1.

The libraries read the address of the Hub and the offline mode at import, so each client is a separate process.
"""

import json
import re
import shutil
import sysconfig
from functools import partial

import pytest
from helpers.hub_client import NO_WAITING, OFFLINE, new_python, push, python, run
from helpers.hub_server import Commit, Hub, Repo
from helpers.runs import TINY, train
from huggingface_hub import constants

from contradiction import publishing
from contradiction.evaluation.model_card import write_cards
from contradiction.export import export_onnx
from contradiction.io import hub as hub_module
from contradiction.io import manifest
from contradiction.io.files import RECORD
from contradiction.labels import LABELS
from contradiction.methods.loading import load_rule
from contradiction.training.recipe import Recipe

REPOS = {
    ("dataset", "user/cdconv"): "datasets/user/cdconv",
    ("model", "user/tiny"): "user/tiny",
    ("model", "user/stages"): "user/stages",
    ("space", "user/evaluate_metric"): "spaces/user/evaluate_metric",
    ("space", "user/page"): "spaces/user/page",
}


@pytest.fixture(scope="module")
def hierarchy(sample_repo, tmp_path_factory):
    """A hierarchical model with its card."""
    recipe = Recipe.of(name="hierarchy", method="hierarchical", config="4-class", scratch=TINY, epochs=1)
    folder = train(recipe, data=sample_repo, out=tmp_path_factory.mktemp("models") / "hierarchy")
    write_cards(folder)
    return folder


@pytest.fixture(scope="module")
def published(quick_model, hierarchy, sample_repo, tmp_path_factory):
    """A Hub with one repo of each of the four kinds, and the output of the pushes. Tests do not change it."""
    with Hub() as hub:
        home = tmp_path_factory.mktemp("home")
        printed = {
            "user/cdconv": push(hub, home, "dataset", "--folder", sample_repo, "--any-data", repo="user/cdconv"),
            "user/tiny": push(hub, home, "model", quick_model, "--dataset", "user/cdconv", repo="user/tiny"),
            "user/stages": push(hub, home, "model", hierarchy, repo="user/stages"),
            "user/evaluate_metric": push(hub, home, "metric", repo="user/evaluate_metric"),
            "user/page": push(hub, home, "space", "--model", "user/tiny", repo="user/page"),
        }
        hub.printed = {id: answer.stdout for id, answer in printed.items()}
        assert [answer.stderr for answer in printed.values()] == [""] * len(printed)
        yield hub


@pytest.fixture
def client(published, tmp_path):
    """Runs Python in a new process with an empty folder and cache. Its last line of output is JSON."""
    return partial(python, published, tmp_path)


@pytest.mark.parametrize(("kind", "id"), REPOS)
def test_a_push_creates_the_repo_with_one_commit_and_prints_its_address(published, kind, id):
    repo = published.repos[kind, id]
    first, second = repo.commits
    assert first.title == "initial commit"
    assert second.title
    assert published.printed[id] == f"{published.url}/{REPOS[kind, id]}\n"
    assert not repo.private


def test_load_dataset_reads_the_pushed_configs_with_class_labels_and_streams_them(client, sample_repo):
    result = client("""
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
    assert result["sizes"] == {split: len(rows) for split, rows in local.items()}
    assert result["names"] == result["default"] == list(LABELS["4-class"])
    assert result["first"] == local["test"][0]
    assert result["streamed"] == list(load_dataset(str(sample_repo), "persona", split="test"))


def test_a_detector_of_the_hub_is_saved_completely(client, published, tmp_path):
    client("""
import json
from contradiction import ContradictionDetector
for name in ("tiny", "stages"):
    ContradictionDetector.from_pretrained(f"user/{name}").save_pretrained(f"saved/{name}")
    ContradictionDetector.from_pretrained(f"saved/{name}")
print(json.dumps(None))""")
    for name in ("tiny", "stages"):
        saved = tmp_path / "saved" / name
        files = {path.relative_to(saved).as_posix(): path.read_bytes() for path in saved.rglob("*") if path.is_file()}
        pushed = published.repos["model", f"user/{name}"].files
        assert files == {path: content for path, content in pushed.items() if path != ".gitattributes"}


def test_the_code_on_a_pushed_card_runs_from_the_hub_alone_and_prints_what_the_card_says(client, published):
    texts = [published.repos["model", id].files["README.md"].decode() for id in ("user/tiny", "user/stages")]
    blocks = [block for text in texts for block in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)]
    comments = [re.search(r"^# (.+)$", block, flags=re.MULTILINE)[1] for block in blocks]
    outputs = client(f"""
import contextlib, io, json
printed = io.StringIO()
with contextlib.redirect_stdout(printed):
    for block in {blocks!r}:
        exec(block, {{}})
print(json.dumps(printed.getvalue().splitlines()))""")
    assert outputs == comments
    assert len(comments) == 4


def test_a_run_of_a_detector_of_the_hub_is_known_by_its_commit_also_before_the_download(client, published):
    requests = client("""
import json
from contradiction.chats.detection import Detection
detection = Detection("user/tiny")
before = detection.request(None)
detection.load()
print(json.dumps([before, detection.request(None)]))""")
    assert requests[0] == requests[1]
    assert requests[0]["model"] == published.repos["model", "user/tiny"].commits[-1].sha


LOADED = """
import json
from contradiction import ContradictionDetector
from contradiction.errors import InputError
try:
    rule = ContradictionDetector.from_pretrained(NAME, view=VIEW).classifier.rule
    print(json.dumps(rule.biases))
except InputError as error:
    print(json.dumps(str(error)))"""


IN_PART = """
import json
from transformers import AutoModelForSequenceClassification, AutoTokenizer
for kind in AutoTokenizer, AutoModelForSequenceClassification:
    kind.from_pretrained("user/tiny")
print(json.dumps(None))"""


def loaded(name="user/tiny", view=None):
    return LOADED.replace("NAME", repr(name)).replace("VIEW", repr(view))


def test_a_detector_cached_by_transformers_loads_offline_with_its_rule(client, quick_model):
    client(IN_PART)
    rule = load_rule(quick_model)
    assert rule.biases
    assert client(OFFLINE + loaded()) == rule.biases


def test_a_busy_hub_does_not_drop_the_rule_of_a_detector(published, client):
    published.busy = r"/config.json$"
    try:
        refused = client(NO_WAITING + loaded())
    finally:
        published.busy = r"(?!)"
    assert "user/tiny: the cache holds no config.json" in refused
    assert "(the Hub answers 429)" in refused


def test_a_foreign_checkpoint_loads_offline_from_the_cache_as_it_is(hub, quick_model, tmp_path):
    files = {path.name: path.read_bytes() for path in quick_model.iterdir() if path.name != RECORD}
    config = json.loads(files["config.json"])
    del config["cdconv_view"], config["cdconv_decision"]
    hub.repos["model", "user/tiny"] = Repo(
        False, [Commit("plain", files | {"config.json": json.dumps(config).encode()})]
    )
    assert python(hub, tmp_path, IN_PART) is None
    code = "from contradiction.training import record\nrecord.of_model('user/tiny'); record.of_model('user/tiny')\n"
    done = run(hub, tmp_path, OFFLINE + code + loaded(view="flatten"))
    assert json.loads(done.stdout.splitlines()[-1]) == {}
    lines = [line for line in done.stderr.splitlines() if "user/tiny" in line]
    assert sum("its record cannot be fetched" in line for line in lines) == 1, "the record is fetched once"


def test_a_revision_loads_its_own_files_and_a_changed_file_is_named(hub, quick_model, tmp_path):
    files = {path.name: path.read_bytes() for path in quick_model.iterdir() if path.is_file()}
    config = json.loads(files["config.json"])
    config["cdconv_decision"]["biases"] = {"history": 2.0}
    first, changed = (
        Commit("first", files),
        Commit("changed", files | {"config.json": json.dumps(config).encode()}),
    )
    unlisted = Commit("unlisted", {name: file for name, file in changed.files.items() if name != manifest.NAME})
    hub.repos["model", "user/tiny"] = Repo(False, [first, changed, unlisted])
    rule = load_rule(quick_model).biases
    revisions = f"@{first.sha}", "", f"@{changed.sha}", "@v9"
    code = "".join(loaded(f"user/tiny{revision}") for revision in revisions)
    code += LOADED.replace("view=VIEW", f"revision={first.sha!r}").replace("NAME", "'user/tiny'")
    by_name, latest, refused, unknown, by_argument = map(json.loads, run(hub, tmp_path, code).stdout.splitlines())
    assert by_name == by_argument == rule != latest == {"history": 2.0}
    assert "config.json: has changed since SHA256SUMS" in refused
    assert "user/tiny: has no revision 'v9'" in unknown
    assert python(hub, tmp_path, OFFLINE + loaded(f"user/tiny@{first.sha}")) == rule


def test_an_exported_file_is_pushed_with_the_model_and_runs_from_the_hub(hub, quick_model, sample_rows, tmp_path):
    folder = shutil.copytree(quick_model, tmp_path / "exported")
    export_onnx(folder, "onnx", sample_rows[:8])
    push(hub, tmp_path, "model", folder, repo="user/fast")
    scores = """
import json
from contradiction import ContradictionDetector
detector = ContradictionDetector.from_pretrained(MODEL, backend=WAY)
texts = "你好 我养猫 猫呢 没猫".split()
chat = [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(texts)]
print(json.dumps([type(detector.classifier.backend).NAME, detector(chat).probability]))
"""
    [(kind, fast), (torch, exact)] = [
        python(hub, tmp_path, scores.replace("MODEL", repr(name)).replace("WAY", repr(backend)))
        for name, backend in (("user/fast", "onnx"), (str(quick_model), "torch"))
    ]
    assert (kind, torch) == ("onnx", "torch")
    assert fast == pytest.approx(exact, abs=1e-4)


def test_evaluate_loads_the_pushed_metric(client):
    scores = client("""
import json, evaluate
metric = evaluate.load("user/evaluate_metric", "4-class", module_type="metric")
print(json.dumps(metric.compute(predictions=["history", 0, 1], references=[3, 1, 1], bootstrap=100)))""")
    from evaluate_metric.evaluate_metric import score

    assert scores == score([3, 1, 1], ["history", 0, 1], "4-class", bootstrap=100)


def test_a_snapshot_of_the_space_equals_the_upload_and_builds_the_page_with_its_requirements_alone(published, tmp_path):
    tree = tmp_path / "tree"
    variables = published.repos["space", "user/page"].variables
    code = f"""
import json, os, sys
sys.modules.update(dict.fromkeys("accelerate cdconv datasets evaluate scipy sklearn".split()))
sys.path.insert(0, {sysconfig.get_paths()["purelib"]!r})
from huggingface_hub import snapshot_download
snapshot_download("user/page", repo_type="space", local_dir={str(tree)!r})
sys.path.insert(0, {str(tree)!r})
os.environ.update({variables!r}, GRADIO_ANALYTICS_ENABLED="False")
import app, contradiction
from contradiction.serving.service import Service
page = app.build({{'quick': Service(contradiction.ContradictionDetector.from_pretrained(app.MODEL))}})
others = [name for name in ("cdconv", "evaluate_metric") if sys.modules.get(name)]
print(json.dumps([type(page).__name__, contradiction.__file__, others]))"""
    # -I and -S: only the installed packages, neither this checkout nor an editable install.
    output = new_python(published, tmp_path, code, "-I", "-S")
    assert output == ["Blocks", str(tree / "contradiction" / "__init__.py"), []]
    sent = publishing.space("user/page", "user/tiny").files
    paths = {path.relative_to(tree).as_posix() for path in tree.rglob("*") if path.is_file()}
    paths = {name for name in paths if not name.startswith(".") and "__pycache__" not in name}
    assert paths == set(sent)
    for name, content in sent.items():
        assert (tree / name).read_bytes() == (content if isinstance(content, bytes) else content.read_bytes())
    assert variables == {"CDCONV_MODEL": "user/tiny"} and b"models:\n- user/tiny\n" in sent["README.md"]


def test_without_the_hub_a_block_is_offline(monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")  # nothing answers there
    with hub_module.quick_hub():
        with hub_module.quick_hub():
            pass
        assert constants.HF_HUB_OFFLINE
    assert not constants.HF_HUB_OFFLINE
