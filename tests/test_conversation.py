"""From chat messages to turns."""

from copy import deepcopy

import numpy as np
import pytest
from helpers.chats import TEXTS, chat

from contradiction import conversation
from contradiction.conversation import (
    Turn,
    is_blank,
    is_chinese,
    is_foreign,
    list_messages,
    read_chats,
    read_message,
    read_turns,
    spoken_messages,
    unfinished_turns,
)
from contradiction.errors import InputError


def test_blank_texts_are_recognised():
    markup = ("<br/>", "[微笑]", "（笑）", "*微笑着看向你*", "<|im_end|>", "---")
    assert all(is_blank(text) for text in ("", " ", "……", "!?", "\u3000", "😀", "\u200b", *markup))
    assert not any(is_blank(text) for text in ("好", "a", "1", "+", "[我]"))


def sides_and_texts(*pairs):
    return [{"role": role, "content": text} for role, text in pairs]


def test_consecutive_messages_of_one_side_form_one_utterance():
    messages = sides_and_texts(
        ("system", "你是客服"), ("assistant", "你好"), ("user", "在吗"), ("user", "问个事"), ("assistant", "在"),
        ("assistant", "请说"), ("user", "算了"),
    )  # fmt: skip
    first, second = read_turns(messages)
    assert (first.user, first.reply, first.user_messages, first.reply_messages) == ("", "你好", (), (1,))
    assert (second.user, second.reply) == ("在吗\n问个事", "在\n请说")
    assert (second.user_messages, second.reply_messages) == ((2, 3), (4, 5))
    assert spoken_messages(messages) == messages[1:]
    assert spoken_messages([*messages, {"role": "system", "content": ""}], instructions=True) == messages


@pytest.mark.parametrize("role", ["user", "assistant"])
def test_what_one_side_says_in_a_row_is_joined_once(role, monkeypatch):
    made, make = [], Turn.__init__

    def count(turn, *arguments, **options):
        make(turn, *arguments, **options)
        made.append(len(turn.user) + len(turn.reply))

    monkeypatch.setattr(Turn, "__init__", count)
    [turn] = unfinished_turns([{"role": role, "content": "你好"}] * 1000)
    assert (turn.user or turn.reply) == "\n".join(["你好"] * 1000)
    assert (turn.user_messages or turn.reply_messages) == tuple(range(1000))
    assert sum(made) <= 2 * len(turn.user or turn.reply)


def test_what_a_chat_shares_with_the_one_before_is_read_once(monkeypatch):
    messages = sides_and_texts(
        ("system", "你是客服"), ("assistant", "你好"), ("user", "在吗"), ("tool", "无"), ("user", "问个事"),
        ("assistant", "在"), ("assistant", "请说"), ("system", "简短"), ("user", "算了"), ("assistant", "好"),
    )  # fmt: skip
    ends = [*range(1, 11), *range(10, 0, -1), 4, 7, 3, 10, 5]
    chats = [[*messages[:end], *chat("嗯", f"好{end}")] for end in ends]
    edited = [messages[0], {**messages[1], "content": "您好"}, *messages[2:]]
    chats += [messages[:3], messages[:5], messages, edited]
    expected = [read_turns(one) for one in deepcopy(chats)]
    read = []
    monkeypatch.setattr(conversation, "read_message", lambda *each: read.append(each) or read_message(*each))
    assert list(read_chats(chats)) == expected
    answers = [[*messages, {"role": "assistant", "content": f"好{number}"}] for number in range(100)]
    read.clear()
    assert [turns[-1].reply for turns in read_chats(answers)] == [f"好\n好{number}" for number in range(100)]
    assert len(read) <= len(messages) + 4 * len(answers), "the last turn and the answer"


def test_text_parts_of_a_message_are_read_and_other_parts_are_reported(detector):
    parts = [
        {"type": "text", "text": "你养"},
        {"type": "image_url", "image_url": {}},
        {"type": "text", "text": "猫吗？"},
    ]
    messages = [{"role": "user", "content": parts}, *chat("", "养了一只橘猫", "叫什么？", "我没养过猫呀")[1:]]
    verdict = detector(messages)
    assert not verdict.checked
    assert verdict.reason.startswith("messages[0] ") and verdict.reason.endswith(": 'image_url'")
    assert verdict.scores == detector(chat("你养\n猫吗？", *[m["content"] for m in messages[1:]])).scores


def test_null_content_counts_as_empty_and_null_tool_calls_as_none(detector):
    messages = chat("你养猫吗？", "养了一只橘猫", "叫什么？", None)
    for more in ({}, {"tool_calls": None}, {"tool_calls": []}):
        verdict = detector([*messages[:3], {**messages[3], **more}])
        assert (verdict.label, verdict.reason, verdict.reply) == (None, "the reply holds no words", (3,))
    with pytest.raises(InputError, match=r"messages\[3\] has no 'content'"):
        detector([*messages[:3], {"role": "assistant", "tool_calls": []}])


def test_three_words_that_outnumber_han_characters_are_foreign():
    foreign = (
        "I have no cat",
        "no cat at all, 我",
        "私は猫を飼っていません",
        "고양이를 키우지 않아요",
        "Is it https://a.cn/b there",
        "HELLO MY NAME IS JOHN 好",
    )
    assert all(map(is_foreign, foreign)) and not any(map(is_chinese, foreign))
    chinese = "我没养过猫", "我用Python写API", "18"
    assert all(map(is_chinese, chinese)) and not any(map(is_foreign, chinese))


def test_names_short_answers_and_urls_are_not_foreign():
    urls = "看这里 https://example.com/a/b?c=d", "看www.example.com/a/b这里"
    assert not any(map(is_foreign, ("<div><span>我养猫</span></div>", "iPhone", "我用 iPhone 15 Pro Max", *urls)))


def test_an_array_of_messages_is_a_list(detector):
    messages = chat(*TEXTS)
    parts = np.array([{"type": "text", "text": TEXTS[-1]}], dtype=object)
    array = np.array([*messages[:3], {**messages[3], "content": parts}], dtype=object)
    assert detector(array) == detector(iter(messages)) == detector(messages)
    assert detector.rerank(array[:3], np.array(["它叫橘子"])) == detector.rerank(messages[:3], ["它叫橘子"])
    for value in (np.array(3), 3, "你好", b"", bytearray(), {"role": "user"}, None):
        with pytest.raises(InputError, match="messages is .*; it must be a list"):
            list_messages(value)
