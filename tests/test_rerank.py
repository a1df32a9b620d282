"""Candidate replies ordered by increasing probability of a contradiction."""

import itertools

import pytest
from helpers.chats import chat
from helpers.recording import recording

from contradiction.candidates import TIE_DIGITS
from contradiction.errors import InputError
from contradiction.labels import CATEGORIES, CONTRADICTION

CHAT = chat("你养猫吗？", "养了一只橘猫", "你喝茶吗？", "我天天喝茶", "它叫什么名字？")


def answered(reply):
    return [*CHAT, {"role": "assistant", "content": reply}]


def contradiction_probability(verdict):
    return sum(score for name, score in verdict.scores.items() if name in (CONTRADICTION, *CATEGORIES))


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
        assert candidate.probability == pytest.approx(contradiction_probability(alone), abs=1e-5)
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
