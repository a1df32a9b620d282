"""A reply checked against facts about the bot."""

import pytest

from contradiction.detector import ContradictionDetector
from contradiction.errors import InputError
from contradiction.inputs.views import INTRODUCTION
from contradiction.labels import CATEGORIES, CONTRADICTION, HISTORY, INTRA, NON_CONTRADICTION, OTHER
from contradiction.methods.checkpoint import CheckpointClassifier
from contradiction.verdict import UNSURE

FACTS = ("我养了一只橘猫", "我天天喝茶", "我住在北京", "我是一名老师")


def contradiction_probability(verdict):
    return sum(score for name, score in verdict.scores.items() if name in (CONTRADICTION, *CATEGORIES))


def history(judge, question, reply):
    """P(history) of the reply against each fact, straight from the classifier."""
    rows = [{"u1": INTRODUCTION, "b1": fact, "u2": question, "b2": reply} for fact in FACTS]
    return [
        judge.classifier.history_probability(prediction.probabilities) for prediction in judge.classifier.predict(rows)
    ]


@pytest.mark.parametrize("kind", ["detector", "two_class", "hierarchical"])
def test_a_reply_is_compared_with_each_fact(kind, request):
    judge = request.getfixturevalue(kind)
    scores = history(judge, "你养猫吗？", "我没养过猫呀")
    order = sorted(range(len(FACTS)), key=lambda index: -scores[index])
    verdict = judge.check(FACTS, "我没养过猫呀", "你养猫吗？")
    label = CONTRADICTION if kind == "two_class" else HISTORY
    assert contradiction_probability(verdict) == verdict.scores[label] == pytest.approx(scores[order[0]], abs=1e-6)
    assert sum(verdict.scores.values()) == pytest.approx(1, abs=1e-6)
    assert verdict.label == (label if scores[order[0]] >= 0.5 else NON_CONTRADICTION)
    assert (verdict.checked, verdict.reply) == (True, ())
    floor = (scores[order[1]] + scores[order[2]]) / 2
    sure = judge.with_settings(threshold=floor).check(FACTS, "我没养过猫呀", "你养猫吗？")
    assert (sure.label, sure.evidence) == (label, (order[0],))
    assert [verdict.messages for verdict in sure.further] == [(order[1],)]
    assert (
        not judge.with_settings(threshold=min(1.0, scores[order[0]] + 1e-4))
        .check(FACTS, "我没养过猫呀", "你养猫吗？")
        .evidence
    )


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
    read = [prediction.probabilities for prediction in detector.classifier.predict(rows)]
    assert any(max(probabilities, key=probabilities.get) == INTRA for probabilities in read), (
        "otherwise the test could not fail"
    )


def test_every_fact_is_read_separately_whatever_the_settings(detector):
    plain = detector.check(FACTS, "我没养过猫呀", "你养猫吗？")
    for settings in ({"max_turns": 1}, {"windowing": "structured"}, {"windowing": "unstructured"}):
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
