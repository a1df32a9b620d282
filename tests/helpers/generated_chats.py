"""Generated chats of every kind, valid and invalid, and the properties of every verdict on them."""

import json
import random
from collections import Counter, OrderedDict, UserDict, deque
from dataclasses import asdict
from types import MappingProxyType

import pytest
from hypothesis import HealthCheck, Phase
from hypothesis import strategies as st

from contradiction.conversation import read_turns
from contradiction.errors import InputError
from contradiction.labels import HISTORY
from contradiction.verdict import Verdict

seeds = st.integers(0, 2**32)
# A chat made from a seed does not shrink. Trying to would only delay a failure by minutes.
many = {
    "phases": (Phase.generate,),
    "deadline": None,
    "derandomize": True,
    "database": None,
    "suppress_health_check": list(HealthCheck),
}
judged: Counter[str] = Counter()

LIMIT = 64  # tokens: the input limit of the tiny models
PLAIN = (
    "你养猫吗？", "养了一只橘猫", "它叫什么名字？", "我没养过猫呀", "18", "ok好", "我也喜欢你", "今天天气很好，去走走",
)  # fmt: skip
HOSTILE = (
    "", " ", "\n\t", "\0", "\r", "\x1b[31m我", "\u200b", "我\u200d你", "👨\u200d👩\u200d👧猫", "😀", "\u202e猫养我",
    "\u0301", "我\u0301", "e\u0301", "[SEP]", "[CLS]我", "</s>", "[PAD][UNK]", "[SEP", "[S\u200bEP]", "我[SEP]我[SEP]",
    "no cat", "私は猫", "고양이", "قطة", "𠮷𠮷", "\ue000", "\ufdd0", "\U0010ffff", "\ud800", "我\udfff", "猫" * 90,
    "我 " * 70, "a" * 300, "……", "１２３", "{{ x }}", "<b>我</b>", "%s",
)  # fmt: skip
PARTS = (
    {"type": "text", "text": "我养猫"}, {"type": "input_text", "text": "它"}, {"type": "image_url", "image_url": {}},
    {"type": "猫" * 99}, "我", {"text": "我"},
)  # fmt: skip
BROKEN_PARTS = (
    {"type": "text"}, {"type": "text", "text": None}, {}, None, 3, [], {"type": 3}, b"x", "\ud800",
)  # fmt: skip
DEEP: list = []
for _ in range(5000):
    DEEP = [DEEP]
NO_CONTENT = (
    3, 2.5, True, {}, {"text": "我"}, b"x", bytearray(b"x"), range(3), [DEEP], [10**5000], object(), [["我"]],
)  # fmt: skip
NO_ROLE = ("bot", "", None, 1, ["user"], {"user": 1}, "User", "user ", "\ud800", "x\ny" * 400, DEEP, 10**5000)
NO_MESSAGE = (
    None, "我", 3, [], ("user", "我"), b"", {}, {"role": "user"}, {"content": "我"}, {"Role": "user"}, DEEP,
)  # fmt: skip
NO_CHAT = (
    None, "我", b"x", 3, {}, {"messages": []}, [], (), set(), frozenset("ab"), 1.5, iter([]), range(2), bytearray(b"a"),
    DEEP,
)  # fmt: skip


class Odd(UserDict):
    """A mapping that is not a dict."""


def make_message(draw, drawn, sound):
    text = draw.choice(draw.choices((PLAIN, HOSTILE, drawn), (6, 1, 1))[0])
    content, role = text, draw.choices(("user", "assistant", "system", "developer"), (10, 10, 1, 1))[0]
    if draw.random() < 0.05:
        content = draw.choice((list, tuple))(draw.choices((*PARTS, text), k=draw.randrange(4)))
    if not sound and draw.random() < 0.04:
        broken = draw.randrange(4)
        if broken == 0:
            return draw.choice(NO_MESSAGE)
        if broken == 1:
            role = draw.choice(NO_ROLE)
        else:
            content = draw.choice(NO_CONTENT) if broken == 2 else [*draw.choices(PARTS, k=2), draw.choice(BROKEN_PARTS)]
    made = draw.choices((dict, OrderedDict, Odd, MappingProxyType), (20, 1, 1, 1))[0]
    if role == "assistant" and draw.random() < 0.05:
        return made({"role": role, "content": None, "tool_calls": draw.choice(([{"id": "1"}], [], None))})
    return made({"role": role, "content": content, "name": 3})


def make_chat(draw, drawn, sound=False):
    messages = [make_message(draw, drawn, sound) for _ in range(draw.choice((1, 2, 3, 4, 4, 4, 5, 6, 8)))]
    if len(messages) > 2 and draw.random() < 0.6:  # otherwise few chats would alternate
        for index, message in enumerate(messages):
            if type(message) is dict:
                message["role"] = ("user", "assistant")[index % 2]
    if sound:
        return messages
    if draw.random() < 0.03:
        return draw.choice(NO_CHAT)
    made = draw.choices((list, tuple, deque), (40, 2, 2))[0]
    return made(messages)


def chats_of(seed, drawn, number, sound=False):
    draw = random.Random(seed)
    made = [make_chat(draw, drawn, sound) for _ in range(number)]
    return [chat for chat in made if readable(chat)] if sound else made


def readable(messages):
    try:
        return read_turns(messages)
    except InputError:
        return False


def judge(detector, chats):
    """The verdict on each chat, or its error: one short line that names the chat and the place in it."""
    judged["chats"] += len(chats)
    answers, sound, left = {}, [], list(range(len(chats)))
    while left:
        try:
            answers.update(zip(left, detector.batch([chats[number] for number in left]), strict=True))
            break
        except InputError as error:
            message = str(error)
            assert isinstance(error, ValueError)
            assert len(message) <= 300 and message.isprintable(), message
            place = 0
            if len(left) > 1:
                number, _, message = message.partition(": ")
                place = int(number.removeprefix("chats[").removesuffix("]"))
            assert message.startswith("messages"), message
            answers[left[place]] = message
            sound, left = sound + left[:place], left[place + 1 :]  # the chats before the first bad one are sound
    answers.update(zip(sound, detector.batch([chats[number] for number in sound]), strict=True))
    results = [answers[number] for number in range(len(chats))]
    judged["errors"] += sum(isinstance(answer, str) for answer in results)
    judged["labels"] += sum(isinstance(answer, Verdict) and answer.label is not None for answer in results)
    judged["checked"] += sum(isinstance(answer, Verdict) and answer.checked for answer in results)
    return results


def text_of(message):
    content = message["content"] or ""
    parts = [content] if isinstance(content, str) else content
    return "".join(part if isinstance(part, str) else part.get("text", "") for part in parts)


def is_all_text(message):
    return isinstance(message["content"], str | None) or all(
        isinstance(part, str) or part.get("type", "text") in ("text", "input_text", "output_text")
        for part in message["content"]
    )


def count_han(text):
    return sum("\u4e00" <= character <= "\u9fff" for character in text)


def check(verdict, messages, labels):
    """Checks the properties of a verdict. It counts the text read in Han characters, each of which is a token."""
    assert isinstance(verdict, Verdict)
    json.dumps(asdict(verdict), ensure_ascii=False).encode("utf-8")
    assert (verdict.label is None) == (verdict.score is None) == (not verdict.scores)
    assert verdict.checked == (verdict.reason is None)
    assert verdict.reason is None or (verdict.reason.isprintable() and len(verdict.reason) <= 600)
    assert all(messages[index]["role"] == "assistant" for index in verdict.reply)
    if verdict.label is None:
        assert not verdict.checked and not verdict.evidence and not verdict.further
        return
    assert tuple(verdict.scores) == tuple(labels)
    assert verdict.score == verdict.scores[verdict.label]
    assert sum(verdict.scores.values()) == pytest.approx(1, abs=1e-6)
    assert all(0 <= score <= 1 for score in verdict.scores.values())
    first, last = verdict.reply[0], verdict.reply[-1]
    for group in (verdict.evidence, *(other.messages for other in verdict.further)):
        assert all(index < first and messages[index]["role"] == "assistant" for index in group)
    assert not verdict.evidence or verdict.label == HISTORY
    if verdict.checked:
        spoken_to = [index for index in range(last + 1) if messages[index]["role"] in ("user", "assistant")]
        assert all(is_all_text(messages[index]) for index in spoken_to)
        before = [index for index in spoken_to if index < first and messages[index]["role"] == "assistant"]
        turn = [index for index in spoken_to if index > max(before, default=-1)]
        turn_length = count_han("".join(text_of(messages[index]) for index in turn))
        assert turn_length <= LIMIT
        assert all(count_han(text_of(messages[index])) + turn_length <= LIMIT for index in before)


def assert_alike(one, other):
    assert one.checked == other.checked
    assert dict(one.scores) == pytest.approx(dict(other.scores), abs=1e-6)
    if one.label != other.label:
        first, second = sorted(one.scores.values())[-2:]
        assert second - first < 1e-5
