"""Candidate replies ordered by the probability of a contradiction, and a reply checked against facts about the bot."""

import itertools

import pytest
from helpers.chats import chat
from helpers.recording import recording

from contradiction.candidates import TIE_DIGITS
from contradiction.detector import ContradictionDetector
from contradiction.errors import InputError
from contradiction.inputs.views import INTRODUCTION
from contradiction.labels import CONTRADICTION, HISTORY, INTRA, NON_CONTRADICTION, OTHER
from contradiction.methods.checkpoint import CheckpointClassifier
from contradiction.verdict import UNSURE

CHAT = chat("你养猫吗？", "养了一只橘猫", "你喝茶吗？", "我天天喝茶", "它叫什么名字？")


def answered(reply):
    return [*CHAT, {"role": "assistant", "content": reply}]


@pytest.mark.parametrize("kind", ["detector", "two_class", "hierarchical"])
def test_candidates_are_ordered_by_the_probability_of_a_contradiction(kind, request, replies):
    judge = request.getfixturevalue(kind)
    ranked = judge.rerank(CHAT, replies)
    assert sorted(candidate.index for candidate in ranked) == list(range(len(replies)))
    assert [candidate.index for candidate in ranked] != list(range(len(replies))), "otherwise the test could not fail"
    for candidate in ranked:
        alone = judge(answered(candidate.reply))
        assert candidate.reply == replies[candidate.index]
        assert (candidate.verdict.label, candidate.verdict.evidence, candidate.verdict.reply) == (
            alone.label,
            alone.evidence,
            (5,),
        )
        assert candidate.probability == pytest.approx(alone.probability, abs=1e-5)
    for before, after in itertools.pairwise(ranked):
        assert before.probability <= after.probability + 10**-TIE_DIGITS


def test_equal_texts_keep_their_order_and_are_judged_once(random_model):
    counting = recording(random_model("4-class"))
    ranked = counting.rerank(CHAT, ["我没养过猫呀", "叫小橘", "我没养过猫呀", "叫小橘", "我没养过猫呀"])
    order = [candidate.index for candidate in ranked]
    assert order in ([0, 2, 4, 1, 3], [1, 3, 0, 2, 4])
    # Two texts against two earlier turns, all in one stream.
    assert counting.classifier.counts() == [4]


def test_unread_candidates_come_after_read_ones_without_a_contradiction(detector):
    long = "我没养过猫呀" * 20
    given = ["……", long, "叫小橘", "I have no cat", "我没养过猫呀", "🦄" * 3]
    ranked = detector.with_settings(threshold=1.0).rerank(CHAT, given)
    assert {candidate.index for candidate in ranked[:2]} == {2, 4}
    assert [candidate.index for candidate in ranked[2:]] == [1, 0, 3, 5]
    assert [candidate.verdict.checked for candidate in ranked] == [True, True, False, False, False, False]
    assert [candidate.probability is None for candidate in ranked] == [False, False, False, True, True, True]
    assert ranked[2].verdict.label is not None


def test_contradictions_come_last(detector):
    given = ["我没养过猫呀", "……", "叫小橘", "我没养过猫呀" * 20, "I have no cat"]
    judge = detector.with_settings(threshold=0.0)
    ranked = judge.rerank(CHAT, given)
    assert [candidate.index for candidate in ranked[:2]] == [1, 4]
    assert [candidate.verdict.contradiction for candidate in ranked] == [None, None, True, True, True]
    by_probability = [candidate.probability for candidate in ranked[2:]]
    assert by_probability == sorted(by_probability)


def test_a_chat_may_end_with_the_result_of_a_tool(detector):
    call = {"role": "assistant", "content": "我查一下", "tool_calls": [{"id": "1", "type": "function"}]}
    result = {"role": "tool", "tool_call_id": "1", "content": "橘子"}
    [ranked] = detector.rerank([*CHAT, call, result], ["叫小橘"])
    assert ranked.verdict == detector([*CHAT, call, result, {"role": "assistant", "content": "叫小橘"}])
    assert ranked.verdict.reply == (5, 7)
    with pytest.raises(InputError, match=r"messages\[5\] is the assistant's"):
        detector.rerank([*CHAT, call], ["叫小橘"])


def test_an_empty_chat_is_an_empty_history(detector, two_class, replies):
    for judge, known in ((detector, True), (two_class, False)):
        ranked = judge.rerank([], replies[:5])
        assert all((candidate.verdict.label is not None) == known for candidate in ranked)
        assert {candidate.verdict.reply for candidate in ranked} == {(0,)}
    # Candidates that cannot be judged keep the order of the bot.
    assert [candidate.index for candidate in ranked] == list(range(5))
    assert "this is the first reply" in ranked[0].verdict.reason


@pytest.mark.parametrize(
    ("messages", "candidates", "message"),
    [
        (CHAT, [], "candidates is empty"),
        (CHAT, "叫小橘", "candidates is text; it must be a list of texts"),
        (CHAT, ["叫小橘", None], "candidates[1] is null; it must be text"),
        (CHAT[:4], ["叫小橘"], "messages[3] is the assistant's"),
    ],
)
def test_candidates_that_cannot_be_ranked_are_rejected(detector, messages, candidates, message):
    with pytest.raises(InputError) as error:
        detector.rerank(messages, candidates)
    assert message in str(error.value)


FACTS = ("我养了一只橘猫", "我天天喝茶", "我住在北京", "我是一名老师")


def history(judge, question, reply):
    """P(history) of the reply against each fact, straight from the classifier."""
    rows = [{"u1": INTRODUCTION, "b1": fact, "u2": question, "b2": reply} for fact in FACTS]
    return [judge.classifier.history_probability(prediction.scores) for prediction in judge.classifier.predict(rows)]


@pytest.mark.parametrize("kind", ["detector", "two_class", "hierarchical"])
def test_a_reply_is_compared_with_each_fact(kind, request):
    judge = request.getfixturevalue(kind)
    scores = history(judge, "你养猫吗？", "我没养过猫呀")
    order = sorted(range(len(FACTS)), key=lambda index: -scores[index])
    verdict = judge.check(FACTS, "我没养过猫呀", "你养猫吗？")
    label = CONTRADICTION if kind == "two_class" else HISTORY
    assert verdict.probability == verdict.scores[label] == pytest.approx(scores[order[0]], abs=1e-6)
    assert sum(verdict.scores.values()) == pytest.approx(1, abs=1e-6)
    assert verdict.label == (label if scores[order[0]] >= 0.5 else NON_CONTRADICTION)
    assert (verdict.checked, verdict.reply) == (True, ())
    floor = (scores[order[1]] + scores[order[2]]) / 2
    sure = judge.with_settings(threshold=floor).check(FACTS, "我没养过猫呀", "你养猫吗？")
    assert (sure.label, sure.evidence) == (label, (order[0],))
    assert [verdict.messages for verdict in sure.further] == [(order[1],)]
    high = judge.with_settings(threshold=min(1.0, scores[order[0]] + 1e-4))
    assert not high.check(FACTS, "我没养过猫呀", "你养猫吗？").evidence


def test_a_verdict_without_the_question_is_never_sure(detector):
    judges = [detector.with_settings(threshold=threshold) for threshold in (0.0, 1.0)]  # all and no contradictions
    asked = {judge.check(FACTS, "我没养过猫呀", "你养猫吗？").certainty for judge in judges}
    assert asked != {UNSURE}, "otherwise the test could not fail"
    for question in ("", " ", "？"):
        assert {judge.check(FACTS, "我没养过猫呀", question).certainty for judge in judges} == {UNSURE}
    assert detector.check([], "我没养过猫呀").certainty is None


def test_a_contradiction_within_the_reply_does_not_contradict_a_fact(detector, replies):
    verdicts = [detector.check(FACTS[:1], reply) for reply in replies]
    assert {verdict.label for verdict in verdicts} <= {NON_CONTRADICTION, HISTORY}
    rows = [{"u1": INTRODUCTION, "b1": FACTS[0], "u2": "", "b2": reply} for reply in replies]
    read = [prediction.scores for prediction in detector.classifier.predict(rows)]
    assert any(max(probabilities, key=probabilities.get) == INTRA for probabilities in read), (
        "otherwise the test could not fail"
    )


def test_every_fact_is_read_separately_whatever_the_settings(detector):
    plain = detector.check(FACTS, "我没养过猫呀", "你养猫吗？")
    for settings in ({"max_turns": 1}, {"windowing": "unstructured"}):
        assert detector.with_settings(**settings).check(FACTS, "我没养过猫呀", "你养猫吗？") == plain


def test_without_facts_there_is_nothing_to_check(detector):
    for facts in ([], ["", "……"]):
        verdict = detector.check(facts, "我没养过猫呀")
        assert (verdict.label, verdict.checked) == (None, False)
        assert verdict.reason == "there is no fact to compare the reply with"


def test_an_unreadable_fact_is_reported(detector):
    verdict = detector.check(["", "I have a cat, 我", *FACTS], "我没养过猫呀")
    assert verdict.reason.startswith("facts[1] is not in Chinese")
    assert not verdict.checked
    assert verdict.scores == pytest.approx(detector.check(FACTS, "我没养过猫呀").scores, abs=1e-6)
    only = detector.check(["I have a cat, 我"], "我没养过猫呀")
    assert (only.label, only.reason) == (None, verdict.reason.replace("facts[1]", "facts[0]"))
    long = detector.check(["我养了一只橘猫" * 20, *FACTS], "我没养过猫呀")
    assert "were not read" in long.reason


@pytest.mark.parametrize("reply", ["", "……", "I have no cat", "🦄"])
def test_an_unreadable_reply_never_passes(detector, reply):
    verdict = detector.check(FACTS, reply)
    assert (verdict.label, verdict.checked) == (None, False)
    assert verdict.reason.startswith("the reply ")


def test_only_detectors_that_compare_replies_can_check_facts(stages, detector, random_model):
    assert ContradictionDetector(stages[HISTORY]).check(FACTS, "我没养过猫呀").label in (OTHER, HISTORY)
    with pytest.raises(InputError, match=r"other, intra-sentence; .*fact"):
        ContradictionDetector(stages[INTRA]).check(FACTS, "我没养过猫呀")
    alone = ContradictionDetector(CheckpointClassifier.load(random_model("4-class"), view="reply-only"))
    with pytest.raises(InputError, match=r"reads b2; .*b1 and b2"):
        alone.check(FACTS, "我没养过猫呀")
    with pytest.raises(InputError, match="include history"):
        detector.with_settings(categories=[INTRA]).check(FACTS, "我没养过猫呀")


def test_a_fact_equal_to_the_reply_does_not_contradict_it(detector):
    verdict = detector.check(["我养了一只猫"], " 我养了一只猫 ")
    assert (verdict.label, verdict.reason) == (None, "the facts say the same as the reply")
    both = detector.check(["我养了一只猫", "我没养过猫"], "我养了一只猫")
    alone = detector.check(["我没养过猫"], "我养了一只猫")
    assert both.scores == pytest.approx(alone.scores, abs=1e-6)
    sure = detector.with_settings(threshold=0.0).check(["我养了一只猫", "我没养过猫"], "我养了一只猫")
    assert (sure.evidence, sure.further) == ((1,), ())
