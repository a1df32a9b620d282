"""The assertion for chatbot tests."""

import re

import pytest
from helpers.chats import CHAT, TEXTS, chat

from contradiction.labels import HISTORY
from contradiction.paths import SHIPPED
from contradiction.testing import assert_consistent, load


@pytest.fixture(scope="module")
def history_only(detector):
    """Calls every reply after the first a history contradiction, so that the report is known."""
    return detector.with_settings(threshold=0.0, categories=(HISTORY,))


def failure(messages, **options):
    with pytest.raises(AssertionError) as error:
        assert_consistent(messages, **options)
    return str(error.value)


def test_a_contradictory_chat_fails_and_is_shown_with_marks(history_only):
    score = history_only(CHAT).score
    assert failure(CHAT, detector=history_only, scan=False).splitlines() == [
        "1 of 1 replies contradictory",
        "  [0] user: 你养猫吗？",
        "> [1] assistant: 养了一只橘猫   <- contradicted by [3]",
        "  [2] user: 它叫什么名字？",
        f"! [3] assistant: 我没养过猫呀   <- history {score:.2f}, contradicts [1]",
    ]


def test_scan_judges_every_reply_and_the_default_only_the_last(history_only):
    long = [*CHAT, *chat("那狗呢？", "养了两条狗")]
    for scan, judged in ((True, ["[1]", "[3]", "[5]"]), (False, ["[5]"])):
        report = failure(long, detector=history_only, scan=scan)
        assert re.findall(r"^! (\[\d\])", report, flags=re.MULTILINE) == judged


def test_an_unjudged_reply_fails_with_its_reason_unless_allowed(detector):
    english = chat(*TEXTS[:3], "I never had a cat, 呀")
    report = failure(english, detector=detector, threshold=1.0)
    assert report.splitlines()[0] == "1 of 2 replies unchecked"
    assert re.search(r"^! \[3\] .* <- not checked: the reply is not in Chinese", report, flags=re.MULTILINE)
    assert_consistent(english, detector=detector, threshold=1.0, allow_unchecked=True)


def test_a_chat_without_a_reply_does_not_pass(detector):
    only = chat("你养猫吗？")
    assert "not checked: the chat holds no message by the assistant" in failure(only, detector=detector)
    assert_consistent(only, detector=detector, allow_unchecked=True)


def test_the_first_reply_may_be_unjudged_only_if_others_are_judged(two_class):
    first, second = two_class.scan(CHAT)
    assert (first.label, second.checked) == (None, True)
    assert_consistent(CHAT, detector=two_class, threshold=1.0)
    assert "this is the first reply" in failure(CHAT[:2], detector=two_class, threshold=1.0)


def test_a_detector_is_loaded_once_from_its_name_or_the_variable_or_else_the_shipped_one(random_model, monkeypatch):
    folder = random_model("4-class")
    monkeypatch.setenv("CDCONV_MODEL", str(folder))
    assert load(None) is load(folder) is load(str(folder)) and load(None).name == str(folder)
    monkeypatch.setenv("CDCONV_MODEL", "")
    assert load(None) is load(SHIPPED)
    verdict = load(None)(CHAT)
    assert f"<- {verdict.label} {verdict.probability:.2f}" in failure(CHAT)
