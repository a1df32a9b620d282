"""Chats of any length: how windows are combined, and what the verdict says about them."""

import math

import pytest
from helpers.chats import chat

from contradiction import base_detector
from contradiction.conversation import read_turns
from contradiction.decision import Rule
from contradiction.detector import ContradictionDetector
from contradiction.errors import InputError
from contradiction.inputs.views import windows
from contradiction.labels import CATEGORIES, CONTRADICTION, HISTORY, INTRA, LABELS, NON_CONTRADICTION
from contradiction.methods.checkpoint import CheckpointClassifier
from contradiction.methods.composite import EnsembleClassifier
from contradiction.methods.loading import load_classifier
from contradiction.settings import Settings
from contradiction.verdict import Clash, Verdict


def test_a_long_chat_is_combined_from_its_windows(detector, long_chat):
    turns = read_turns(long_chat)
    place = len(turns) - 1
    read = detector.classifier.predict([window.row for window in windows(turns, place)])
    history = [prediction.scores[HISTORY] for prediction in read]
    nearest = read[-1].scores
    verdict = detector(long_chat)
    assert verdict.scores[HISTORY] == pytest.approx(max(history), abs=1e-6)
    assert max(history) > history[-1] + 0.01, "otherwise the maximum equals the nearest window"
    assert math.isclose(sum(verdict.scores.values()), 1, abs_tol=1e-6)
    # The other labels share the rest as in the nearest window.
    assert verdict.scores[INTRA] / verdict.scores[NON_CONTRADICTION] == pytest.approx(
        nearest[INTRA] / nearest[NON_CONTRADICTION], rel=1e-4
    )
    assert verdict.reply == (23,)


def test_evidence_is_the_most_probable_window_followed_by_others_above_the_threshold(detector, long_chat):
    sure = detector.with_settings(threshold=0.0, categories=[HISTORY])
    verdict = sure(long_chat)
    assert verdict.label == HISTORY
    turns = read_turns(long_chat)
    read = detector.classifier.predict([window.row for window in windows(turns, len(turns) - 1)])
    order = sorted(range(len(read)), key=lambda number: -read[number].scores[HISTORY])
    assert verdict.evidence == turns[order[0]].reply_messages
    assert [other.messages for other in verdict.further] == [turns[number].reply_messages for number in order[1:]]
    floor = verdict.further[1].score  # which reaches it
    assert len(detector.with_settings(threshold=floor, categories=[HISTORY])(long_chat).further) == 2


def test_a_verdict_that_rests_on_a_long_reply_is_unsure(detector, monkeypatch):
    short, long = "我没养过猫呀", "我没养过猫呀，" * 6
    cases = [
        (chat("你养猫吗？", "养了一只橘猫", "真的吗？", short), False),
        (chat("你养猫吗？", "养了一只橘猫", "真的吗？", long), True),
        (chat("你养猫吗？", long, "真的吗？", short), True),
        (chat(long, "养了一只橘猫", long, short), False),  # only replies count
    ]
    certainties = set()
    for threshold in (0.0, 1.0):  # a contradiction with evidence, and none
        judge = detector.with_settings(threshold=threshold, categories=[HISTORY])
        for messages, is_unsure in cases:
            with monkeypatch.context() as patched:
                patched.setattr(base_detector, "LONG_REPLY", 10**6)
                usual = judge(messages)
            certainties.add(usual.certainty)
            assert judge(messages).certainty == ("unsure" if is_unsure else usual.certainty)
    assert len(certainties) > 1


def test_a_two_class_detector_names_evidence_only_if_it_reads_pairs(two_class, long_chat):
    verdict = two_class.with_settings(threshold=0.0)(long_chat)
    assert verdict.contradiction and (verdict.evidence, verdict.further) == ((), ())
    [index] = two_class.with_settings(threshold=0.0, windowing="structured")(long_chat).evidence
    assert index % 2 == 1


def test_chats_are_read_when_the_windows_before_them_are_judged(detector, long_chat, monkeypatch):
    monkeypatch.setattr("contradiction.base_detector.CHUNK", 5)
    chats, read, read_by_batch = [read_turns(long_chat)] * 3, [], []
    verdicts = detector.judge_last_replies(
        (read.append(turns) or turns for turns in chats), on_batch=lambda _: read_by_batch.append(len(read))
    )
    assert (read_by_batch[0], len(verdicts)) == (1, 3)


@pytest.mark.parametrize("windowing", ["windowed", "structured", "unstructured"])
@pytest.mark.parametrize(
    ("text", "message"), [("no cat at all, sorry, 我", "not in Chinese"), ("I have a cat", "no word"), ("ꙮ", "no word")]
)
def test_a_reply_that_cannot_be_read_is_reported(detector, text, message, windowing):
    detector = detector.with_settings(windowing=windowing)
    earlier = detector(chat("你养猫吗？", text, "它叫什么？", "叫小橘", "它几岁了？", "我没养过猫呀"))
    assert earlier.label and not earlier.checked
    assert earlier.reason.startswith("messages[1] ") and message in earlier.reason
    judged = detector(chat("你养猫吗？", "养了一只橘猫", "它叫什么名字？", text))
    assert judged.label is None and not judged.checked and message in judged.reason


@pytest.mark.parametrize(("filler", "last", "cut_is_surest"), [("猫", "没有猫", True), ("我", "它叫橘子", False)])
def test_no_other_reply_replaces_a_truncated_one(detector, filler, last, cut_is_surest):
    messages = chat(filler * 80, "养了一只橘猫", "你好", "你好呀", "它叫什么名字？", last)
    first, second = detector.classifier.predict([window.row for window in windows(read_turns(messages), 2)])
    assert first.truncation and not second.truncation
    assert (first.scores[HISTORY] > second.scores[HISTORY]) == cut_is_surest
    calls = detector.with_settings(threshold=0.0, categories=[HISTORY])
    assert calls(messages).evidence == (() if cut_is_surest else (3,))
    reverse = [*messages[2:4], *messages[:2], *messages[4:]]
    assert calls(reverse).evidence == (() if cut_is_surest else (1,))


def test_a_batch_size_below_one_is_rejected(detector, long_chat):
    with pytest.raises(InputError, match="batch_size 0; .*1 or more"):
        detector.batch([long_chat], batch_size=0)


def test_nan_weights_raise_an_error(random_model, long_chat):
    classifier = CheckpointClassifier.load(random_model("4-class"))
    classifier.backend.model.classifier.bias.data[0] = float("nan")
    with pytest.raises(InputError, match="scores that are not finite"):
        ContradictionDetector(classifier)(long_chat)


def test_the_first_reply_is_judged_only_for_a_contradiction_within_it(detector):
    verdict = detector(chat("你养猫吗？", "我养猫，我从来没养过猫"))
    assert verdict.label in (NON_CONTRADICTION, INTRA)
    assert [name for name, score in verdict.scores.items() if score] == [NON_CONTRADICTION, INTRA]
    assert verdict.checked


def test_a_first_reply_has_a_threshold_of_its_own_unless_the_operator_sets_one(random_model):
    classifier, first = load_classifier(random_model("4-class")), chat("你养猫吗？", "我养猫，我从来没养过猫")
    classifier.rule = Rule(prior=0.4, opening=ContradictionDetector(classifier)(first).probability + 0.01)
    assert not ContradictionDetector(classifier)(first).contradiction
    assert ContradictionDetector(classifier, Settings(threshold=0.0))(first).contradiction
    # A prior moves the threshold with the probability.
    verdict = ContradictionDetector(classifier, Settings(prior=0.9))(first)
    assert not verdict.contradiction and verdict.probability > max(0.5, classifier.rule.opening)


def test_the_stages_of_the_reply_and_of_the_speaker_judge_by_the_nearest_window(stages):
    for category, stage in stages.items():
        read = [dict(zip(stage.labels, (1 - score, score), strict=True)) for score in (0.9, 0.4)]
        assert stage.combine_windows(read) == read[0 if category == HISTORY else -1]


def test_max_turns_limits_the_reading_and_reports_it(detector, long_chat):
    verdict = detector.with_settings(max_turns=3)(long_chat)
    assert not verdict.checked
    assert all(word in verdict.reason for word in ("the first 8 of 11 earlier turns", "max_turns"))
    assert verdict.scores == pytest.approx(detector(long_chat[-8:]).scores, abs=1e-6)
    assert detector.with_settings(max_turns=11)(long_chat).checked


def test_a_model_judges_the_language_that_it_was_trained_on(english_model, random_model):
    detector = ContradictionDetector.from_pretrained(english_model)
    english = chat("any pets ?", "i have a cat .", "nice .", "no cat .")
    verdict = detector(english)
    assert verdict.checked and verdict.label in LABELS["2-class"]
    assert EnsembleClassifier([detector.classifier, load_classifier(random_model("2-class"))]).chinese_only


def verdict(label, probability, **others):
    return Verdict(label, None, {}, probability, **others)


@pytest.mark.parametrize(
    ("label", "probability", "certainty"),
    [
        (HISTORY, 0.8, "sure"),
        (HISTORY, 0.79, "likely"),
        (HISTORY, 0.59, "unsure"),
        (NON_CONTRADICTION, 0.4, "likely"),
        (NON_CONTRADICTION, 0.41, "unsure"),
        (NON_CONTRADICTION, 0.85, "unsure"),  # below a high threshold: not called, but hardly consistent
    ],
)
def test_the_confidence_of_a_verdict_follows_from_the_probability_that_it_is_right(label, probability, certainty):
    assert verdict(label, probability).certainty == certainty


def test_a_kind_is_a_category_and_an_unjudged_or_partly_read_reply_is_never_sure():
    assert [verdict(name, 0.9).kind for name in CATEGORIES] == list(CATEGORIES)
    two_class, none = verdict(CONTRADICTION, 0.9), verdict(NON_CONTRADICTION, 0.1)
    assert [(one.contradiction, one.kind) for one in (two_class, none)] == [(True, None), (False, None)]
    assert verdict(NON_CONTRADICTION, 0.01, checked=False, reason="cut").certainty == "unsure"
    unjudged = Verdict(None, None, {}, checked=False, reason="empty")
    assert (unjudged.contradiction, unjudged.kind, unjudged.certainty) == (None, None, None)
    assert (unjudged.unsure().certainty, two_class.unsure().certainty, two_class.certainty) == (None, "unsure", "sure")


def test_a_record_rounds_every_probability():
    record = verdict(HISTORY, 0.12345678, further=(Clash((1,), 0.12345678),)).to_record()
    assert record["probability"] == record["further"][0]["score"] == 0.123457
