"""Chats of any length: which windows are read, how they are put together, and what the verdict says of them."""

import math

import pytest
from chats import chat

from contradiction.conversation import is_chinese, read_turns
from contradiction.detector import ContradictionDetector
from contradiction.errors import InputError
from contradiction.inputs.windows import windows
from contradiction.labels import CATEGORIES, HISTORY, INTRA, LABELS, NON_CONTRADICTION
from contradiction.methods.checkpoint import CheckpointClassifier


@pytest.fixture(scope="module")
def long(sample_rows):
    """A chat of 24 short messages made of the sample's first turns, each of another context."""
    seen = {row["u1"]: row for row in sample_rows if len(row["u1"] + row["b1"]) < 24}
    return chat(*(text for row in list(seen.values())[:12] for text in (row["u1"], row["b1"])))


def spoken(*pairs):
    return [{"role": role, "content": text} for role, text in pairs]


def test_messages_in_a_row_by_one_side_are_one_utterance():
    messages = spoken(
        ("system", "你是客服"), ("assistant", "你好"), ("user", "在吗"), ("user", "问个事"), ("assistant", "在"),
        ("assistant", "请说"), ("user", "算了"),
    )  # fmt: skip
    first, second = read_turns(messages)
    assert (first.user, first.reply, first.user_messages, first.reply_messages) == ("", "你好", (), (1,))
    assert (second.user, second.reply) == ("在吗\n问个事", "在\n请说")
    assert (second.user_messages, second.reply_messages) == ((2, 3), (4, 5))


def test_the_text_parts_of_a_message_are_read_and_the_others_named(detector):
    parts = [
        {"type": "text", "text": "你养"},
        {"type": "image_url", "image_url": {}},
        {"type": "text", "text": "猫吗？"},
    ]
    messages = [{"role": "user", "content": parts}, *chat("", "养了一只橘猫", "叫什么？", "我没养过猫呀")[1:]]
    verdict = detector(messages)
    assert not verdict.checked
    assert verdict.reason == "messages[0] holds what is no text and was not read: 'image_url'"
    assert verdict.scores == detector(chat("你养\n猫吗？", *[m["content"] for m in messages[1:]])).scores


CALL = {"tool_calls": [{"id": "1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}]}


def test_tools_are_passed_over_and_a_call_alone_is_no_reply(detector):
    first, second, third, fourth = chat("你养猫吗？", "养了一只橘猫", "叫什么？", "我没养过猫呀")
    bare = [first, second, third, fourth]
    called = [
        first,
        {"role": "assistant", "content": None, **CALL},
        {"role": "tool", "tool_call_id": "1", "content": {"cats": 1}},
        {"role": "assistant", "function_call": {"name": "cat", "arguments": "{}"}},
        {"role": "function", "name": "cat", "content": None},
        second,
        third,
        {**fourth, **CALL},  # what is said beside a call is said
        {"role": "assistant", "content": "", **CALL},
    ]
    assert [(turn.reply, turn.reply_messages) for turn in read_turns(called)] == [
        ("养了一只橘猫", (5,)),
        ("我没养过猫呀", (7,)),
    ]
    verdict, expected = detector(called), detector(bare)
    assert (verdict.label, verdict.scores, verdict.reply) == (expected.label, expected.scores, (7,))
    assert verdict.checked


def test_null_is_as_good_as_empty_and_no_call_where_none_is_made(detector):
    messages = chat("你养猫吗？", "养了一只橘猫", "叫什么？", None)
    for more in ({}, {"tool_calls": None}, {"tool_calls": []}):
        verdict = detector([*messages[:3], {**messages[3], **more}])
        assert (verdict.label, verdict.reason, verdict.reply) == (None, "the reply holds no words", (3,))
    assert detector([*messages[:3], {"role": "assistant", "content": [], **CALL}]).reply == (1,)
    with pytest.raises(InputError, match=r"messages\[3\] has no 'content'"):
        detector([*messages[:3], {"role": "assistant", "tool_calls": []}])


@pytest.mark.parametrize(
    "refused",
    [
        {"content": None, "refusal": "我不能说"},
        {"content": [{"type": "refusal", "refusal": "我不能说"}]},
        {"content": "我不能说", "refusal": None},
    ],
)
def test_a_refusal_is_what_the_assistant_says(refused):
    [turn] = read_turns([{"role": "user", "content": "你养猫吗？"}, {"role": "assistant", **refused}])
    assert (turn.reply, turn.unread) == ("我不能说", None)


def test_windowed_reads_each_earlier_turn_with_the_turn_judged():
    turns = read_turns(chat(*"甲乙丙丁戊己"))
    assert [(tuple(each.row.values()), each.turn) for each in windows(turns, 2)] == [
        (("甲", "乙", "戊", "己"), 0),
        (("丙", "丁", "戊", "己"), 1),
    ]
    assert [each.turn for each in windows(turns, 2, max_turns=1)] == [1]


def test_structured_reads_pairs_of_replies_and_unstructured_all_at_once():
    turns = read_turns(chat(*"甲乙丙丁戊己"))
    assert [tuple(each.row.values()) for each in windows(turns, 2, "structured")] == [
        ("", "乙", "", "己"),
        ("", "丁", "", "己"),
    ]
    [whole] = windows(turns, 2, "unstructured")
    assert tuple(whole.row.values()) == (("甲", "乙", "丙"), "丁", "戊", "己")
    assert whole.turn is None


def test_earlier_replies_without_words_are_left_out():
    turns = read_turns(chat("甲", "乙", "丙", "……", "戊", "己"))
    [window] = windows(turns, 2)
    assert window.turn == 0
    # What the user said to the reply that says nothing is not lost.
    assert tuple(window.row.values()) == ("甲", "乙", "丙\n戊", "己")
    [alone] = windows(read_turns(chat("甲", "……", "丙", "丁")), 1)
    assert alone.opening
    assert tuple(alone.row.values()) == ("", "", "甲\n丙", "丁")


def test_the_whole_history_is_one_text_with_a_separator_between_utterances(detector):
    turns = read_turns(chat(*"甲乙丙丁戊己"))
    [whole] = windows(turns, 2, "unstructured")
    separator = detector.classifier.backend.tokenizer.sep_token
    assert detector.classifier.model_input(whole.row) == {"text": separator.join("甲乙丙丁戊"), "text_pair": "己"}


def test_a_long_chat_is_put_together_from_its_windows(detector, long):
    turns = read_turns(long)
    place = len(turns) - 1
    read = detector.classifier.predict([each.row for each in windows(turns, place)])
    history = [each.probabilities[HISTORY] for each in read]
    nearest = read[-1].probabilities
    verdict = detector(long)
    assert verdict.scores[HISTORY] == pytest.approx(max(history), abs=1e-6)
    assert max(history) > history[-1] + 0.01, "else the maximum is not told from the nearest"
    assert math.isclose(sum(verdict.scores.values()), 1, abs_tol=1e-6)
    # What is not history is shared as in the nearest window.
    assert verdict.scores[INTRA] / verdict.scores[NON_CONTRADICTION] == pytest.approx(
        nearest[INTRA] / nearest[NON_CONTRADICTION], rel=1e-4
    )
    assert verdict.reply == (23,)


def test_evidence_is_the_surest_window_and_the_others_above_the_threshold_follow(detector, long):
    sure = detector.with_settings(threshold=0.0, categories=[HISTORY])
    verdict = sure(long)
    assert verdict.label == HISTORY
    turns = read_turns(long)
    read = detector.classifier.predict([each.row for each in windows(turns, len(turns) - 1)])
    order = sorted(range(len(read)), key=lambda number: -read[number].probabilities[HISTORY])
    assert verdict.evidence == turns[order[0]].reply_messages
    assert [each.messages for each in verdict.further] == [turns[number].reply_messages for number in order[1:]]
    floor = read[order[2]].probabilities[HISTORY] - 1e-6
    assert len(detector.with_settings(threshold=floor, categories=[HISTORY])(long).further) == 2


def test_a_two_class_detector_names_evidence_only_where_it_reads_pairs(two_class, long):
    assert two_class.with_settings(threshold=0.0)(long).evidence == ()
    [index] = two_class.with_settings(threshold=0.0, windowing="structured")(long).evidence
    assert index % 2 == 1


def test_scan_judges_every_reply_as_if_it_were_the_last(detector, long):
    verdicts = detector.scan(long)
    assert [each.reply for each in verdicts] == [(index,) for index in range(1, 24, 2)]
    for index, verdict in zip(range(1, 24, 2), verdicts, strict=True):
        alone = detector(long[: index + 1])
        assert (verdict.label, verdict.evidence, verdict.reply) == (alone.label, alone.evidence, alone.reply)
        assert verdict.scores == pytest.approx(alone.scores, abs=1e-6)


def test_many_chats_are_scanned_as_one_by_one(detector, long):
    chats = [long[:6], long[2:20], long[:1], long]
    together = detector.scan_batch(chats, batch_size=5)
    assert [len(each) for each in together] == [3, 9, 0, 12]
    for messages, verdicts in zip(chats, together, strict=True):
        for one, other in zip(detector.scan(messages), verdicts, strict=True):
            assert one.label == other.label
            assert one.scores == pytest.approx(other.scores, abs=1e-6)


def test_windows_are_held_in_parts(detector, long, monkeypatch):
    whole = detector.scan(long)
    monkeypatch.setattr("contradiction.judge.CHUNK", 5)
    for one, other in zip(whole, detector.scan(long), strict=True):
        assert one.scores == pytest.approx(other.scores, abs=1e-6)


@pytest.mark.parametrize(("earlier", "said"), [("no cat at all, sorry, 我", "not in Chinese"), ("🙀", "no word that")])
def test_an_earlier_reply_that_cannot_be_read_is_said(detector, earlier, said):
    verdict = detector(chat("你养猫吗？", earlier, "它叫什么名字？", "它叫橘子"))
    assert not verdict.checked
    assert verdict.reason.startswith("messages[1] ") and said in verdict.reason


def test_no_other_reply_stands_in_for_one_that_was_cut(detector):
    messages = chat("很" * 80, "养了一只橘猫", "你好", "你好呀", "它叫什么名字？", "我没养过猫呀")
    first, second = detector.classifier.predict([each.row for each in windows(read_turns(messages), 2)])
    assert first.truncation and not second.truncation
    calls = detector.with_settings(threshold=0.0, categories=[HISTORY])
    surest_was_cut = first.probabilities[HISTORY] > second.probabilities[HISTORY]
    assert calls(messages).evidence == (() if surest_was_cut else (3,))
    reverse = [*messages[2:4], *messages[:2], *messages[4:]]
    first, second = detector.classifier.predict([each.row for each in windows(read_turns(reverse), 2)])
    assert calls(reverse).evidence == (() if second.probabilities[HISTORY] > first.probabilities[HISTORY] else (1,))


def test_a_batch_size_below_one_is_refused(detector, long):
    with pytest.raises(InputError, match="batch_size 0; it must be 1 or more"):
        detector.batch([long], batch_size=0)


def test_weights_that_are_no_numbers_are_never_fine(random_model, long):
    classifier = CheckpointClassifier.load(random_model("4-class"))
    classifier.backend.model.classifier.bias.data[0] = float("nan")
    with pytest.raises(InputError, match="scores that are no numbers"):
        ContradictionDetector(classifier)(long)


def test_categories_that_the_labels_do_not_tell_are_refused(two_class):
    with pytest.raises(InputError, match="the categories history are not among them"):
        two_class.with_settings(categories=[HISTORY])


def test_the_first_reply_is_judged_for_a_clash_within_it_alone(detector):
    verdict = detector(chat("你养猫吗？", "我养猫，我从来没养过猫"))
    assert verdict.label in (NON_CONTRADICTION, INTRA)
    assert [name for name, each in verdict.scores.items() if each] == [NON_CONTRADICTION, INTRA]
    assert verdict.checked


def test_a_two_class_detector_says_that_it_cannot_judge_the_first_reply(two_class):
    verdict = two_class(chat("你养猫吗？", "我养猫，我从来没养过猫"))
    assert (verdict.label, verdict.checked) == (None, False)
    assert "nothing was said before the reply" in verdict.reason


def test_a_chat_without_a_reply_has_nothing_to_judge(detector):
    verdict = detector([{"role": "user", "content": "在吗"}])
    assert (verdict.label, verdict.checked, verdict.reply) == (None, False, ())
    assert verdict.reason == "the chat holds no message by the assistant"


def test_max_turns_bounds_what_is_read_and_says_so(detector, long):
    verdict = detector.with_settings(max_turns=3)(long)
    assert not verdict.checked
    assert verdict.reason == "of 11 earlier turns only the last 3 were read, as max_turns asks"
    assert verdict.scores == pytest.approx(detector(long[-8:]).scores, abs=1e-6)
    assert detector.with_settings(max_turns=11)(long).checked


def test_a_history_too_long_for_one_input_is_cut_and_said(detector, long):
    verdict = detector.with_settings(windowing="unstructured")(long)
    assert "of the history were not read: the model reads at most 64" in verdict.reason


@pytest.mark.parametrize("windowing", ["windowed", "structured", "unstructured"])
def test_an_earlier_reply_that_the_model_cannot_read_is_said_in_every_reading(detector, windowing):
    messages = chat("你养猫吗？", "I have a cat", "它叫什么？", "叫小橘", "它几岁了？", "我没养过猫呀")
    verdict = detector.with_settings(windowing=windowing)(messages)
    assert (verdict.checked, verdict.label is None) == (False, False)
    assert verdict.reason == "messages[1] holds no word that the model knows"


def test_the_probability_is_what_a_threshold_is_held_against(detector, two_class, long):
    for judge in (detector, two_class, detector.with_settings(categories=[HISTORY])):
        probability = judge(long).probability
        assert judge.with_settings(threshold=probability)(long).is_contradiction
        assert not judge.with_settings(threshold=probability + 1e-6)(long).is_contradiction
    verdict = detector(long)
    assert verdict.probability == pytest.approx(1 - verdict.scores[NON_CONTRADICTION])
    assert detector(chat("在吗", "？！")).probability is None


def test_categories_are_a_set(two_class, detector):
    given = [HISTORY, *reversed(CATEGORIES)]
    assert two_class.with_settings(categories=given).settings == two_class.settings
    assert detector.with_settings(categories=[HISTORY, INTRA]).settings.categories == (INTRA, HISTORY)


@pytest.mark.parametrize(
    ("text", "chinese"),
    [
        ("我没养过猫", True),
        ("我用Python写API", True),
        ("18", True),
        ("😀", True),
        ("I have no cat", False),
        ("私は猫を飼っていません", False),
        ("고양이를 키우지 않아요", False),
        ("ok好", True),
    ],
)
def test_language_is_told_by_words(text, chinese):
    assert is_chinese(text) == chinese


def test_a_reply_in_another_language_is_never_called_fine(detector):
    verdict = detector(chat("你养猫吗？", "养了一只橘猫", "它叫什么名字？", "no cat at all, sorry, 我"))
    assert (verdict.label, verdict.checked) == (None, False)
    assert "not in Chinese" in verdict.reason


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"windowing": "whole"}, "windowing 'whole'; allowed are windowed, structured, unstructured"),
        ({"max_turns": 0}, "max_turns 0; it must be a whole number, 1 or more"),
        ({"threshold": 1.5}, "threshold 1.5; it must be a probability"),
        ({"threshold": "precision>80"}, "threshold 'precision>80'; it must be a probability from 0 to 1, or like"),
        ({"threshold": "precision>=0.8"}, "no precision was measured for it"),
        ({"prior": 0}, "prior 0; it must be a share between 0 and 1"),
        ({"prior": 0.03}, "a prior can only correct calibrated probabilities"),
        ({"categories": ["histories"]}, "category 'histories'; allowed are intra-sentence"),
        ({"categories": []}, "categories is empty"),
        ({"categories": "history"}, "categories is 'history'; it must be a list"),
        ({"threshold": True}, "threshold True; it must be a probability"),
        ({"threshold": [1]}, "threshold [1]; it must be a probability"),
        ({"prior": "0.03"}, "prior '0.03'; it must be a share"),
        ({"max_turns": 1.5}, "max_turns 1.5; it must be a whole number"),
        ({"max_turns": "3"}, "max_turns '3'; it must be a whole number"),
    ],
)
def test_a_wrong_setting_is_refused(detector, settings, said):
    with pytest.raises(InputError) as error:
        detector.with_settings(**settings)
    assert said in str(error.value)


def test_a_model_that_reads_two_replies_cannot_read_unstructured(random_model):
    classifier = CheckpointClassifier.load(random_model("4-class"), view="sentence-pair")
    with pytest.raises(InputError, match="needs u1"):
        ContradictionDetector(classifier).with_settings(windowing="unstructured")
    verdict = ContradictionDetector(classifier)(chat("你好", "你好呀"))
    assert (verdict.label, verdict.checked) == (None, False)


def test_categories_that_are_off_are_never_called(detector, long):
    only = detector.with_settings(categories=[INTRA])
    assert {each.label for each in only.scan(long)} <= {NON_CONTRADICTION, INTRA}
    assert {each.label for each in detector.scan(long)} - {NON_CONTRADICTION, INTRA}, "else it could not fail"


def test_label_names_are_those_of_the_task(detector, two_class):
    assert (detector.labels, two_class.labels) == (LABELS["4-class"], LABELS["2-class"])
