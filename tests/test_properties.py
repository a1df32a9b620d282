"""Properties of the verdicts on every chat, tested on thousands of generated chats."""

import random
from dataclasses import replace

import pytest
from helpers.chats import chat
from helpers.generated_chats import (
    HOSTILE,
    PLAIN,
    assert_alike,
    chats_of,
    check,
    judge,
    judged,
    many,
    seeds,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from contradiction.conversation import read_turns
from contradiction.detector import ContradictionDetector
from contradiction.inputs.views import CONVERSATION, model_input, row_of
from contradiction.labels import NON_CONTRADICTION
from contradiction.methods.checkpoint import CheckpointClassifier

texts = st.lists(st.text(st.characters(exclude_categories=()), max_size=12), min_size=4, max_size=12)


@pytest.fixture(scope="module")
def calibrated(detector, random_model):
    """Task -> a detector that knows its prior."""

    def load(task):
        classifier = CheckpointClassifier.load(random_model(task))
        classifier.rule = replace(classifier.rule, prior=0.37)
        return ContradictionDetector(classifier)

    return {task: load(task) for task in ("2-class", "4-class")}


@pytest.fixture(scope="module", params=["detector", "hierarchical"])
def judges(request):
    return request.getfixturevalue(request.param)


@settings(max_examples=25, **many)
@given(seeds, texts)
def test_every_chat_gives_a_sound_verdict(detector, hierarchical, seed, drawn):
    for judges, count in ((detector, 150), (hierarchical, 10)):
        chats = chats_of(seed, drawn, count)
        for messages, verdict in zip(chats, judge(judges, chats), strict=True):
            check(verdict, messages, judges.labels)


@settings(max_examples=6, **many)
@given(seed=seeds, drawn=texts)
def test_a_verdict_depends_on_its_chat_alone(judges, seed, drawn):
    chats = chats_of(seed, drawn, 40)
    together = judge(judges, chats)
    order = random.Random(seed).sample(range(len(chats)), len(chats))
    shuffled = judges.batch([chats[number] for number in order], batch_size=7)
    for number, verdict in zip(order, shuffled, strict=True):
        assert_alike(verdict, together[number])
    for messages, verdict in list(zip(chats, together, strict=True))[:10]:
        assert_alike(judges(messages), verdict)


@settings(max_examples=6, **many)
@given(seed=seeds, drawn=texts)
def test_a_scan_gives_each_reply_the_verdict_of_the_chat_up_to_it(judges, seed, drawn):
    chats = chats_of(seed, drawn, 20)
    scanned = judges.scan_batch(chats)
    pairs = [
        (messages[: verdict.reply[-1] + 1], verdict)
        for messages, verdicts in zip(chats, scanned, strict=True)
        for verdict in verdicts
    ]
    for (_, verdict), alone in zip(pairs, judge(judges, [prefix for prefix, _ in pairs]), strict=True):
        assert_alike(verdict, alone)
        assert verdict.reply == alone.reply


@settings(max_examples=10, **many)
@given(seeds, texts)
def test_a_system_message_changes_nothing_but_indices(detector, seed, drawn):
    draw = random.Random(seed)
    chats = chats_of(seed, drawn, 40)
    places = [draw.randrange(len(messages) + 1) for messages in chats]
    added = [
        [*messages[:place], {"role": "system", "content": "你是一只猫"}, *messages[place:]]
        for messages, place in zip(chats, places, strict=True)
    ]
    for place, one, other in zip(places, judge(detector, chats), judge(detector, added), strict=True):
        assert_alike(one, other)
        assert other.reply == tuple(index + (index >= place) for index in one.reply)
        if one.label == other.label:
            assert other.evidence == tuple(index + (index >= place) for index in one.evidence)


@settings(max_examples=10, **many)
@given(seeds)
def test_two_consecutive_messages_equal_one_with_a_line_break(detector, seed):
    draw = random.Random(seed)
    split, joined = [], []
    for _ in range(40):
        turns = [(("user", "assistant")[index % 2], draw.choices(PLAIN, k=draw.randrange(1, 4))) for index in range(4)]
        split.append([{"role": role, "content": text} for role, lines in turns for text in lines])
        joined.append([{"role": role, "content": "\n".join(lines)} for role, lines in turns])
    for one, other in zip(judge(detector, split), judge(detector, joined), strict=True):
        assert_alike(one, other)
        assert len(one.reply) >= len(other.reply) == 1


@pytest.mark.parametrize("task", ["2-class", "4-class"])
@settings(max_examples=4, **many)
@given(seed=seeds, drawn=texts)
def test_a_higher_threshold_calls_no_more_and_a_lower_prior_raises_no_probability(calibrated, task, seed, drawn):
    detector = calibrated[task]
    chats = chats_of(seed, drawn, 30)
    called = []
    for threshold in (0.0, 0.3, 0.5, 0.9, 1.0):
        verdicts = judge(detector.with_settings(threshold=threshold), chats)
        called.append({number for number, verdict in enumerate(verdicts) if verdict.contradiction})
    assert all(later <= earlier for earlier, later in zip(called, called[1:], strict=False))
    assert called[0] > called[-1], "otherwise the test could not fail"
    chances = []
    for prior in (0.9, 0.37, 0.05, 0.001):
        verdicts = judge(detector.with_settings(prior=prior), chats)
        chances.append([1 - verdict.scores.get(NON_CONTRADICTION, 1.0) for verdict in verdicts])
    for higher, lower in zip(chances, chances[1:], strict=False):
        assert all(after <= before + 1e-9 for before, after in zip(higher, lower, strict=True))


@settings(max_examples=6, **many)
@given(seeds, texts)
def test_one_earlier_turn_is_read_the_same_in_windows_and_as_a_whole(detector, seed, drawn):
    chats = [messages for messages in chats_of(seed, drawn, 80) if len(read_turns(messages)) == 2]
    whole = judge(detector.with_settings(windowing="unstructured"), chats)
    for one, other in zip(judge(detector, chats), whole, strict=True):
        assert_alike(one, other)


@settings(max_examples=100, **many)
@given(seeds, texts)
def test_no_message_can_forge_a_separator(detector, seed, drawn):
    tokenizer = detector.classifier.backend.tokenizer
    draw = random.Random(seed)
    drawn = [text.encode("utf-8", "replace").decode("utf-8") for text in (*drawn, *HOSTILE)]
    utterances = [f"我{draw.choice(drawn)}{draw.choice(('', '[SEP]', '[CLS]'))}" for _ in CONVERSATION]
    one = model_input(row_of(*utterances), CONVERSATION, tokenizer)
    ids = tokenizer(one["text"], one["text_pair"], verbose=False)["input_ids"]
    special = (tokenizer.sep_token_id, tokenizer.cls_token_id, tokenizer.pad_token_id)
    assert [ids.count(token) for token in special] == [4, 1, 0]


def test_chats_with_five_hundred_turns_or_messages_of_a_megabyte_are_judged(detector):
    long = chat(*(f"我养了{index}只猫" for index in range(1000)))
    parts = ("我没养过猫呀，", "猫 cat \0", "a", "\u0301", "😀")
    sizes = (10**6, *[10**5] * 4)
    huge = [chat(*[part * (size // len(part.encode()))] * 4) for part, size in zip(parts, sizes, strict=True)]
    verdicts = judge(detector.with_settings(max_turns=None), [long, *huge])
    for messages, verdict in zip([long, *huge], verdicts, strict=True):
        check(verdict, messages, detector.labels)
    assert verdicts[0].checked and verdicts[0].reply == (999,)
    assert not any(verdict.checked for verdict in verdicts[1:])
    assert (
        verdicts[1].reason
        == "only the last tokens of the history and of the reply were read: the model reads at most 64"
    )


def test_the_generated_chats_covered_every_kind(request):
    if test_every_chat_gives_a_sound_verdict.__name__ not in {item.name for item in request.session.items}:
        pytest.skip("counts the chats of the tests above, which were left out")
    assert judged["chats"] >= 5000
    assert judged["checked"] > 1000 and judged["labels"] - judged["checked"] > 100
