"""Pasted chats: with and without speakers, as JSON, and malformed."""

import json

import pytest

from contradiction.chats.readers import read_pasted
from contradiction.errors import InputError

MESSAGES = [{"role": "user", "content": "你好"}, {"role": "assistant", "content": "在的"}]


def test_without_speakers_lines_alternate_and_empty_ones_are_skipped():
    assert read_pasted("\n 你好 \r\n\n在的\n") == MESSAGES
    assert [turn["role"] for turn in read_pasted("a\nb\nc")] == ["user", "assistant", "user"]


@pytest.mark.parametrize(
    ("user", "bot"), [("顾客:", "客服："), ("u1:", "b1:"), ("Q：", "A："), ("**用户**：", "**助手**: ")]
)
def test_speakers_are_recognised_by_many_names(user, bot):
    assert read_pasted(f"{user}你好\n{bot} 在的") == MESSAGES


def test_a_bot_may_begin_and_a_line_without_a_speaker_continues_the_message_above():
    assert read_pasted("机器人：在的\n随时，时间：全天\n用户：你好\n用户：有人吗") == [
        {"role": "assistant", "content": "在的\n随时，时间：全天"},
        {"role": "user", "content": "你好"},
        {"role": "user", "content": "有人吗"},
    ]


@pytest.mark.parametrize("line", ["他说：你好", "时间是 8:00", "about: no", "B：第二个", "[微笑] 你好", "[10:32] 在"])
def test_what_only_looks_like_a_speaker_or_like_json_is_text(line):
    assert [turn["content"] for turn in read_pasted(f"选哪个？\n{line}")] == ["选哪个？", line]
    assert read_pasted(line) == [{"role": "user", "content": line}]


@pytest.mark.parametrize("text", [json.dumps({"messages": MESSAGES}, indent=2), "\r\n".join(map(json.dumps, MESSAGES))])
def test_pasted_json_is_read_as_messages(text):
    assert read_pasted(f" {text}\n") == MESSAGES


def test_pasted_json_may_hold_separators_of_lines():
    messages = [{"role": "user", "content": "一行\u2028又一行\x85再一行"}, {"role": "assistant", "content": "好"}]
    assert read_pasted("\n".join(json.dumps(message, ensure_ascii=False) for message in messages)) == messages


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (" \n　", "the chat is empty; it must be lines of text"),
        ("你好\n机器人：在的", "'你好' does not say who speaks"),
        ("A：你好\nB：在的\nA：嗯\nB：好", "unknown speakers A, B; write 用户： or 机器人："),
        ("小王 10:22\n你好\n小李 10:23\n在的", "unknown speakers 小王, 小李"),
        ('{"role": "user"}\n[', "not JSON"),
        ('{"text": "你好"}', "an object with the key text; a chat must be "),
    ],
)
def test_text_that_is_not_a_chat_is_reported(text, message):
    with pytest.raises(InputError) as error:
        read_pasted(text)
    assert str(error.value).startswith(message)
