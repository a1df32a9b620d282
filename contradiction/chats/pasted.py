"""A chat that somebody pasted into a field or an option: JSON or lines of text."""

from typing import Any

from contradiction.chats.json_text import JSON, parse_json
from contradiction.chats.records import Chat, read_chat
from contradiction.chats.speakers import USUAL, Speakers
from contradiction.chats.transcripts import read_lines
from contradiction.errors import InputError, kind_of


def read_pasted(text: str, speakers: Speakers = USUAL) -> list[Any]:
    """The messages of a pasted chat.

    Without speakers the lines alternate, and the user begins. With ``用户：`` and ``机器人：``, or other known names, a
    line without a speaker continues the message above it. JSON is an object, a list, or a message on each line.

    Raises:
        InputError: the text is empty, is JSON that holds no chat, names unknown speakers, or names a speaker in later
            lines but not in the first.
    """
    messages = pasted_chat(text, speakers).messages
    if not isinstance(messages, list):
        raise InputError(f"messages is {kind_of(messages)}; it must be a list")
    return messages


def pasted_chat(text: str, speakers: Speakers = USUAL) -> Chat:
    """The same chat with the id that its JSON gives it."""
    if not JSON.match(text.lstrip()):
        return Chat(read_lines(text, speakers))
    try:
        value = parse_json(text.strip())
    except InputError:
        # Only a line feed ends a line of JSON; other separators are text.
        lines = [line.strip() for line in text.split("\n") if line.strip()]
        if len(lines) == 1 or not all(line[0] == "{" for line in lines):
            raise
        value = [parse_json(line) for line in lines]
    return read_chat(value, speakers)
