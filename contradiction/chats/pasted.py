"""A chat as people paste it: a line a message, with or without who speaks, or JSON."""

import re
from typing import Any

from contradiction.chats import forms
from contradiction.conversation import ASSISTANT, USER
from contradiction.errors import InputError

USERS = ("用户", "问", "user", "human", "u")
BOTS = ("机器人", "助手", "答", "assistant", "chatbot", "bot", "b", "a")
SPEAKER = re.compile(rf"\s*(?:(?P<user>{'|'.join(USERS)})|(?:{'|'.join(BOTS)}))\s*\d*\s*[:：]\s*", re.IGNORECASE)


def read(text: str) -> list[dict[str, Any]]:
    """The messages of a pasted chat.

    Without any ``用户：`` or ``机器人：`` (``user:``, ``bot:``, ``u1:`` …) the lines alternate, and the user begins.
    With them, a line that names no speaker goes on with the message above it. What begins with a bracket is JSON.

    Raises:
        InputError: it is empty or JSON of no chat, or the first line says no speaker where others do.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        raise InputError("the chat is empty; it must be lines of text, the user's first, or JSON")
    if lines[0][0] in "[{":
        messages, _ = forms.from_value(forms.parse(text.strip()))
        return messages
    starts = [SPEAKER.match(line) for line in lines]
    if not any(starts):
        return [{"role": (USER, ASSISTANT)[index % 2], "content": line} for index, line in enumerate(lines)]
    if not starts[0]:
        marked = next(line for line, start in zip(lines, starts, strict=True) if start)
        raise InputError(
            f"{lines[0][:20]!r} does not say who speaks, but {marked[:20]!r} does; say it of all, or of none"
        )
    messages = []
    for line, start in zip(lines, starts, strict=True):
        if start:
            messages.append({"role": USER if start["user"] else ASSISTANT, "content": line[start.end() :]})
        else:
            messages[-1]["content"] += f"\n{line}"
    return messages
