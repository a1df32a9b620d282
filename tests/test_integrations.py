"""The detector inside DeepEval and garak, where they are installed."""

import importlib.util
import re
import sys

import pytest
from helpers.chats import TEXTS, chat

from contradiction.labels import HISTORY
from contradiction.paths import PACKAGE

ENGLISH = (*TEXTS[:3], "I never had a cat, 呀")


@pytest.fixture(scope="module")
def history_only(detector):
    """Calls every reply after the first a contradiction of the history."""
    return detector.with_settings(threshold=1e-6, categories=(HISTORY,))


@pytest.fixture
def metric(monkeypatch, tmp_path):
    """Makes a metric of DeepEval, without telemetry."""
    monkeypatch.chdir(tmp_path)  # it keeps results there
    monkeypatch.setenv("DEEPEVAL_TELEMETRY_OPT_OUT", "YES")
    pytest.importorskip("deepeval", reason="needs deepeval, see docs/probing.md")
    from contradiction.integrations.deepeval import ContradictionMetric

    return ContradictionMetric


def conversation(*texts):
    from deepeval.test_case import ConversationalTestCase, Turn

    return ConversationalTestCase(turns=[Turn(**message) for message in chat(*texts)])


@pytest.mark.parametrize(
    ("texts", "options", "score", "success"),
    [
        (TEXTS, {}, 0.5, False),
        (TEXTS, {"threshold": 0.5}, 0.5, True),
        (TEXTS[:2], {}, 1.0, True),
        (ENGLISH, {}, 1.0, False),
        (ENGLISH, {"allow_unchecked": True}, 1.0, True),
        (TEXTS[:1], {}, None, False),
        (TEXTS[:1], {"allow_unchecked": True}, None, True),
    ],
)
def test_the_score_is_the_share_of_consistent_replies(metric, history_only, texts, options, score, success):
    measured = metric(history_only, **options)
    assert measured.measure(conversation(*texts)) == score
    assert (measured.score, measured.is_successful()) == (score, success)
    assert ("! [3]" in measured.reason) == (len(texts) == 4)


def test_deepeval_evaluates_conversations_with_the_metric(metric, history_only):
    from deepeval import evaluate
    from deepeval.evaluate import DisplayConfig

    shown = DisplayConfig(show_indicator=False, print_results=False)
    cases = [conversation(*TEXTS), conversation(*TEXTS[:2])]
    results = evaluate(test_cases=cases, metrics=[metric(history_only)], display_config=shown).test_results
    measured = {len(result.turns): result.metrics_data[0] for result in results}
    assert {turns: (data.name, data.score, data.success) for turns, data in measured.items()} == {
        4: ("Contradiction", 0.5, False),
        2: ("Contradiction", 1.0, True),
    }
    assert "contradicts [1]" in measured[4].reason


@pytest.fixture
def garak_detector(history_only, monkeypatch):
    """The detector, loaded by garak as if its file were among the detectors of garak."""
    pytest.importorskip("garak", reason="needs garak, see docs/probing.md")
    import garak.detectors
    from garak import _config, _plugins

    name = "garak.detectors.contradiction"
    spec = importlib.util.spec_from_file_location(name, PACKAGE / "integrations" / "garak.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(garak.detectors, "contradiction", module, raising=False)
    spec.loader.exec_module(module)
    monkeypatch.setattr(_config.plugins, "detectors", {"contradiction": {"model": history_only}})
    return _plugins.load_plugin("detectors.contradiction.Contradiction")


def test_garak_names_the_paper_by_its_address():
    code = (PACKAGE / "integrations" / "garak.py").read_text(encoding="utf-8")
    readme = (PACKAGE.parent / "README.md").read_text(encoding="utf-8")
    addresses = [set(re.findall(r"https://aclanthology\.org/[\w.-]+", text)) for text in (code, readme)]
    assert addresses[0] == addresses[1] and len(addresses[0]) == 1


def test_garak_gets_a_score_for_each_output_of_an_attempt(garak_detector):
    from garak.attempt import Attempt, Conversation, Message, Turn

    turns = [Turn(message["role"], Message(message["content"], lang="zh")) for message in chat(*TEXTS[:3])]
    attempt = Attempt(prompt=Conversation(turns))
    attempt.outputs = [Message(TEXTS[3]), Message(ENGLISH[3]), None, Message("它叫咪咪")]
    assert garak_detector.detect(attempt) == [1.0, None, None, 1.0]
    assert len(attempt.outputs) == 4
    first = Attempt(prompt=Message(TEXTS[0], lang="zh"))
    first.outputs = [Message(TEXTS[1])]
    assert garak_detector.detect(first) == [0.0]
    assert garak_detector.detect(Attempt(prompt=Message(TEXTS[0], lang="zh"))) == []
