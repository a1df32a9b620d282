"""Generated chats of every kind, and the properties of every verdict on them."""

import json
import random
from collections import Counter, OrderedDict, UserDict
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


class Odd(UserDict):
    """A mapping that is not a dict."""


def make_message(draw, drawn):
    text = draw.choice(draw.choices((PLAIN, HOSTILE, drawn), (6, 1, 1))[0])
    content, role = text, draw.choices(("user", "assistant", "system", "developer"), (10, 10, 1, 1))[0]
    if draw.random() < 0.05:
        content = draw.choice((list, tuple))(draw.choices((*PARTS, text), k=draw.randrange(4)))
    made = draw.choices((dict, OrderedDict, Odd, MappingProxyType), (20, 1, 1, 1))[0]
    if role == "assistant" and draw.random() < 0.05:
        return made({"role": role, "content": None, "tool_calls": [{"id": "1"}]})
    return made({"role": role, "content": content, "name": 3})


def make_chat(draw, drawn):
    messages = [make_message(draw, drawn) for _ in range(draw.choice((1, 2, 3, 4, 4, 4, 5, 6, 8)))]
    if len(messages) > 2 and draw.random() < 0.6:  # otherwise few chats would alternate
        for index, message in enumerate(messages):
            if type(message) is dict:
                message["role"] = ("user", "assistant")[index % 2]
    return messages


def chats_of(seed, drawn, number):
    """Chats that can be read, most of ``number``: the others hold invalid Unicode."""
    draw = random.Random(seed)
    return [chat for chat in (make_chat(draw, drawn) for _ in range(number)) if readable(chat)]


def readable(messages):
    try:
        return read_turns(messages)
    except InputError:
        return False


def judge(detector, chats):
    verdicts = detector.batch(chats)
    judged["chats"] += len(chats)
    judged["labels"] += sum(verdict.label is not None for verdict in verdicts)
    judged["checked"] += sum(verdict.checked for verdict in verdicts)
    return verdicts


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
