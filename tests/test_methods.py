"""The registry of methods: a new method is one class that works with everything else."""

import json

import pytest
from helpers import processes
from helpers.chats import chat
from helpers.pages import ROOT, blocks

from contradiction import publishing
from contradiction.data.splits import load_split
from contradiction.decision import Rule
from contradiction.detector import ContradictionDetector
from contradiction.errors import InputError
from contradiction.evaluation.evaluate import evaluate
from contradiction.methods import loading
from contradiction.methods.loading import (
    fit_rule,
    load_classifier,
    load_rule,
    method_of,
    save_rule,
)

CODE = blocks(ROOT / "docs" / "extending.md", "python")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The model folder of the method on the page about extending, with a card."""
    monkeypatch.setattr(loading, "METHODS", [*loading.METHODS])
    monkeypatch.chdir(tmp_path)
    exec("".join(CODE[:2]), {})
    (tmp_path / "negation" / "README.md").write_text("---\nlicense: mit\n---\n# Negation\n", encoding="utf-8")
    return tmp_path / "negation"


def test_a_new_method_can_be_calibrated_and_evaluated(folder, sample_repo):
    rule = fit_rule(folder, load_split(sample_repo, "2-class", "validation"))
    save_rule(folder, rule)
    assert load_rule(folder) == rule == load_classifier(folder).rule != Rule()
    result = evaluate(ContradictionDetector.from_pretrained(folder), data=sample_repo, config="2-class")
    assert result["rule"] == rule.without_curve()
    assert len(result["predictions"]) == len(load_split(sample_repo, "2-class", "test"))


def test_a_new_method_lists_the_files_of_its_folder(folder, monkeypatch):
    assert set(publishing.model(folder, "you/name").files) == {"negation.json", "README.md"}
    monkeypatch.setattr(method_of(folder), "FILES", ("words.txt",))
    with pytest.raises(InputError, match=r"words\.txt"):
        publishing.model(folder, "you/name")


PLUGIN = """
from contradiction.inference import base

@base.register
class NoBackend(base.Backend):
    NAME = "plugged-in"
"""


def test_a_package_adds_a_method_and_a_backend_by_entry_points(tmp_path, sample_repo):
    package, folder = tmp_path / "site", tmp_path / "negation"
    info = package / "plugin-1.dist-info"
    info.mkdir(parents=True)
    folder.mkdir()
    (package / "plugin_negation.py").write_text(CODE[0] + PLUGIN, encoding="utf-8")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin\nVersion: 1\n", encoding="utf-8")
    groups = ("[contradiction.methods]", "[contradiction.backends]")
    points = [f"{group}\nnegation = plugin_negation" for group in groups]
    (info / "entry_points.txt").write_text("\n".join(points), encoding="utf-8")
    (folder / "negation.json").write_text('{"words": ["没"]}', encoding="utf-8")
    messages = json.dumps(chat("你养猫吗？", "养了", "叫什么？", "没养过"), ensure_ascii=False)
    command = ("detect", "--model", folder, "--text", messages)
    options = {"before": f"import sys; sys.path.insert(0, {str(package)!r})\n", "new_imports": True}
    done = processes.cdconv(*command, **options)
    assert json.loads(done.stdout)["label"] == "contradiction", done.stderr
    other = processes.cdconv(*command, "--backend", "unknown", **options)
    assert other.returncode == 2 and "plugged-in" in other.stderr
