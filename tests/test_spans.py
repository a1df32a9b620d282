"""Locating a contradiction in the replies: clauses, the contradictory pair, and its spans in the messages."""

import math
from itertools import combinations, product

import pytest
from helpers.chats import chat
from helpers.recording import recording
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contradiction.conversation import read_message
from contradiction.detector import ContradictionDetector
from contradiction.errors import InputError
from contradiction.inputs.views import INTRODUCTION, row_of
from contradiction.labels import CONTRADICTION, HISTORY, INTRA, NON_CONTRADICTION, ROLE
from contradiction.methods.checkpoint import CheckpointClassifier
from contradiction.spans import MAX_CLAUSES, clauses
from contradiction.verdict import Verdict


@pytest.fixture(scope="module")
def detector(random_model):
    return recording(random_model("4-class"))


def text_at(messages, span):
    return read_message(messages[span.message], "").text[span.start : span.end]


def history_probability(detector, *rows):
    predictions = detector.classifier.predict([row_of(*row) for row in rows])
    return [detector.classifier.history_probability(prediction.scores) for prediction in predictions]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("我养猫，我没养过猫呀。", ["我养猫", "我没养过猫呀"]),
        ("我养猫,真的! 不骗你?嗯", ["我养猫", "真的", "不骗你", "嗯"]),
        ("我养猫\u3000我没养过\n好", ["我养猫", "我没养过", "好"]),
        ("我身高1.75米，8:30起床", ["我身高1.75米", "8:30起床"]),
        ("我喜欢Hello Kitty, 也听A.R. Rahman", ["我喜欢Hello Kitty", "也听A.R", "Rahman"]),
        ("我喜欢猫、狗和阿尔伯特·爱因斯坦", ["我喜欢猫、狗和阿尔伯特·爱因斯坦"]),
        ("“我养猫。”他说……", ["“我养猫", "”他说"]),
        ("，，。！", []),
        ("😀！好", ["好"]),
    ],
)
def test_clauses_are_delimited_by_punctuation_and_spaces(text, expected):
    assert [text[start:end] for start, end in clauses(text)] == expected


@given(st.text("我猫a1,.，。!? \n、……\u3000😀", max_size=30))
def test_clauses_are_ordered_disjoint_and_lose_no_word(text):
    spans = clauses(text)
    assert all(start < end for start, end in spans)
    assert all(before[1] < after[0] for before, after in combinations(spans, 2))
    kept = "".join(text[start:end] for start, end in spans)
    assert [result for result in kept if result in "我猫a1"] == [
        character for character in text if character in "我猫a1"
    ]


def test_the_model_decides_among_pairs_with_equally_many_common_characters(detector):
    parts = ["养了橘猫", "很乖", "没养过", "很坏", "天天喝茶"]  # 养 and 很 are common to two clauses each
    messages = chat("你养猫吗？", "，".join(parts))
    clash = detector.locate(messages, Verdict(INTRA, 0.9, {}, reply=(1,)))
    pairs = [(parts[0], parts[2]), (parts[1], parts[3])]
    scores = history_probability(detector, *((INTRODUCTION, one, "你养猫吗？", other) for one, other in pairs))
    assert (text_at(messages, clash.earlier), text_at(messages, clash.later)) == pairs[scores.index(max(scores))]
    assert abs(scores[0] - scores[1]) > 1e-4, "otherwise the pairs are a tie for the model too"
    messages = chat("你养猫吗？", "我养了一只橘猫，它很乖，我没养过猫呀，天天喝茶")
    detector.classifier.calls.clear()
    clash = detector.locate(messages, Verdict(INTRA, 0.9, {}, reply=(1,)))
    assert (text_at(messages, clash.earlier), text_at(messages, clash.later)) == ("我养了一只橘猫", "我没养过猫呀")
    assert not detector.classifier.calls, "one pair has the most common characters"


def log_odds(probability):
    return math.log(probability / (1 - probability))


def best_pair(detector, old, new, u1, u2):
    """The pair of clauses that contradict each other most, each reply joined by commas."""
    scores = {}
    for first, second in product(old, new):
        texts = (first, "，".join(old), "，".join(left for left in old if left != first) or first)
        others = (second, "，".join(new), "，".join(left for left in new if left != second) or second)
        alone, without_first, without_second = history_probability(
            detector, (u1, texts[0], u2, others[0]), (u1, texts[2], u2, others[1]), (u1, texts[1], u2, others[2])
        )
        scores[first, second] = log_odds(alone) - (log_odds(without_first) + log_odds(without_second)) / 2
    return max(scores, key=scores.get)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (["养了一只橘猫", "很乖", "你呢"], ["我没养过猫呀", "我喜欢喝茶"]),
        (["我喜欢喝茶", "养了一只橘猫"], ["你呢"]),
        (["很乖"], ["天天喝茶", "我没养过猫呀", "你呢"]),
    ],
)
def test_for_history_the_pair_with_the_highest_score_is_located(detector, old, new):
    messages = chat("你养猫吗？", "，".join(old), "它叫什么？", "，".join(new))
    clash = detector.locate(messages, Verdict(HISTORY, 0.9, {}, evidence=(1,), reply=(3,)))
    assert detector.classifier.counts()[-1] == len(old) * len(new) + len(old) + len(new)
    found = (text_at(messages, clash.earlier), text_at(messages, clash.later))
    assert found == best_pair(detector, old, new, "你养猫吗？", "它叫什么？")
    assert (clash.earlier.message, clash.later.message) == (1, 3)


def test_a_single_clause_or_no_contradiction_gives_nothing_to_locate(detector):
    messages = chat("你养猫吗？", "养了一只橘猫", "它叫什么？", "我没养过猫呀")
    for verdict in (
        Verdict(INTRA, 0.9, {}, reply=(3,)),
        Verdict(ROLE, 0.9, {}, reply=(3,)),
        Verdict(NON_CONTRADICTION, 0.9, {}, reply=(3,)),
        Verdict(CONTRADICTION, 0.9, {}, reply=(3,)),
        Verdict(None, None, {}, checked=False, reply=(3,)),
    ):
        assert detector.locate(messages, verdict) is None
    assert detector.locate(chat("在吗")) is None
    history = Verdict(HISTORY, 0.9, {}, evidence=(1,), reply=(3,))
    for replies in (("～", "我没养过猫呀，喝茶"), ("养了一只橘猫，很乖", "~"), ("～", "～")):
        assert detector.locate(chat("你养猫吗？", replies[0], "它叫什么？", replies[1]), history) is None


def test_replies_of_too_many_clauses_are_rejected_before_anything_is_read(detector):
    long = "我，" * (MAX_CLAUSES + 1)
    chats = {INTRA: chat("在吗", "在", "你好", long), HISTORY: chat("你好", long, "你好", "没有")}
    for label, messages in chats.items():
        evidence = (1,) if label == HISTORY else ()
        verdict = Verdict(label, 0.9, {}, evidence=evidence, reply=(len(messages) - 1,))
        with pytest.raises(InputError, match=f"{MAX_CLAUSES + 1} clauses"):
            detector.locate(messages, verdict)


def test_by_default_locate_computes_the_verdict(detector):
    messages = chat("你养猫吗？", "养了一只橘猫，很乖", "它叫什么？", "我没养过猫呀，喝茶")
    sure = detector.with_settings(threshold=0.0, categories=[HISTORY])
    assert detector.with_settings(threshold=1.0).locate(messages) is None
    assert sure.locate(messages) == sure.locate(messages, sure(messages))
    assert sure.locate(messages).verdict == sure(messages)


def test_spans_point_into_the_text_as_it_was_written(detector):
    earlier, later = "<p>**养了**一只&nbsp;橘猫[微笑]</p>", "好。<thinking>想想</thinking>*挠头* 我\u200b没养过[1]"
    messages = chat("你养猫吗？", earlier, "它叫什么？", later)
    clash = detector.locate(messages, Verdict(HISTORY, 0.9, {}, evidence=(1,), reply=(3,)))
    assert text_at(messages, clash.earlier) in ("养了**一只", "橘猫")
    assert text_at(messages, clash.later) in ("好", "我\u200b没养过")


PARTS = st.sampled_from(["我养猫", "没有，", "。真的！", "", " ", "好 的", "，，", "\n是的\n"])
RUN = st.lists(PARTS, min_size=1, max_size=4)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(old=RUN, new=RUN)
def test_spans_are_clauses_of_the_messages_also_for_consecutive_messages(detector, old, new):
    messages = [{"role": "user", "content": "在吗"}]
    messages += [{"role": "assistant", "content": text} for text in ["对", *old]]
    messages += [{"role": "user", "content": "真的吗"}]
    messages += [{"role": "assistant", "content": text} for text in ["不对", *new]]
    first, second = tuple(range(1, 2 + len(old))), tuple(range(3 + len(old), len(messages)))
    between = detector.locate(messages, Verdict(HISTORY, 0.9, {}, evidence=first, reply=second))
    within = detector.locate(messages, Verdict(INTRA, 0.9, {}, reply=second))
    assert between.earlier.message in first
    for span in (between.earlier, between.later, *((within.earlier, within.later) if within else ())):
        assert (span.start, span.end) in clauses(messages[span.message]["content"])
    if within:
        assert within.earlier.message in second
        assert (within.earlier.message, within.earlier.end) < (within.later.message, within.later.start)


def test_a_verdict_that_does_not_match_the_chat_is_rejected(detector, random_model):
    messages = chat("你养猫吗？", "养了一只橘猫", "它叫什么？", "我没养过猫呀")
    with pytest.raises(InputError, match=r"\(1,\).*\(3,\)"):
        detector.locate(messages, Verdict(INTRA, 0.9, {}, reply=(1,)))
    with pytest.raises(InputError, match=r"\(2,\) as evidence"):
        detector.locate(messages, Verdict(HISTORY, 0.9, {}, evidence=(2,), reply=(3,)))
    alone = ContradictionDetector(CheckpointClassifier.load(random_model("4-class"), view=INTRA))
    with pytest.raises(InputError, match="reads u2, b2; locating clauses needs b1"):
        alone.locate(messages)
