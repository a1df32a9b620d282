"""A pasted chat: with and without speakers, as JSON, and what is none."""

import json

import pytest

from contradiction.chats import pasted
from contradiction.errors import InputError

MESSAGES = [{"role": "user", "content": "你好"}, {"role": "assistant", "content": "在的"}]


def test_without_speakers_lines_alternate_and_empty_ones_are_passed_over():
    assert pasted.read("\n 你好 \r\n\n在的\n") == MESSAGES
    assert [each["role"] for each in pasted.read("a\nb\nc")] == ["user", "assistant", "user"]


@pytest.mark.parametrize(
    ("user", "bot"),
    [("用户：", "机器人："), ("User: ", "BOT :"), ("u1:", "b1:"), ("问：", "答："), ("human:", "assistant：")],
)
def test_speakers_are_known_by_many_names(user, bot):
    assert pasted.read(f"{user}你好\n{bot} 在的") == MESSAGES


def test_a_bot_may_begin_and_a_line_without_a_speaker_goes_on_with_the_message_above():
    assert pasted.read("机器人：在的\n随时\n用户：你好\n用户：有人吗") == [
        {"role": "assistant", "content": "在的\n随时"},
        {"role": "user", "content": "你好"},
        {"role": "user", "content": "有人吗"},
    ]


def test_a_colon_later_in_a_line_names_no_speaker():
    assert [each["content"] for each in pasted.read("他说：你好\n时间是 8:00\nabout: no")] == [
        "他说：你好",
        "时间是 8:00",
        "about: no",
    ]


@pytest.mark.parametrize("value", [MESSAGES, {"messages": MESSAGES}])
def test_json_is_read_as_it_is(value):
    assert pasted.read(f" {json.dumps(value)}\n") == MESSAGES


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (" \n　", "the chat is empty; it must be lines of text"),
        ("你好\n机器人：在的", "'你好' does not say who speaks, but '机器人：在的' does; say it of all, or of none"),
        ("[1, 2", "not JSON"),
        ('{"text": "你好"}', "an object with the key text; a chat must be "),
    ],
)
def test_what_is_no_chat_is_said(text, message):
    with pytest.raises(InputError, match="^" + message.split("(")[0]):
        pasted.read(text)
