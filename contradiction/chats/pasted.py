"""A chat as people paste it: a line for each message, with or without the speaker, or JSON."""

import re
from collections import Counter
from typing import Any

from contradiction.chats.formats import chat_from_json, parse_json
from contradiction.conversation import ASSISTANT, USER
from contradiction.errors import InputError, kind_of

# The name before a colon -> the role. "u" and "b" count with a number only, and "a" only where there is "q" as well.
ROLES = {
    **dict.fromkeys(("用户", "顾客", "客户", "问", "user", "human", "customer", "u", "q"), USER),
    **dict.fromkeys(("机器人", "助手", "客服", "答", "ai", "assistant", "bot", "chatbot", "b", "a"), ASSISTANT),
}
SPEAKER = re.compile(r"[\s*]*(?P<name>[^\W\d_]{1,10})(?P<number>\d*)[\s*]*[:：][\s*]*")
JSON = re.compile(r"\[\s*[{\]]|\{\s*[\"}]")


def read(text: str) -> list[Any]:
    """The messages of a pasted chat.

    Without speakers the lines alternate, and the user begins. With ``用户：`` and ``机器人：``, or other names of
    ``ROLES``, a line without a speaker continues the message above it. JSON is an object, a list, or a message a line.

    Raises:
        InputError: the text is empty, is JSON that holds no chat, names unknown speakers, or names a speaker in later
            lines but not in the first.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        raise InputError("the chat is empty; it must be lines of text, the user's first, or JSON")
    if JSON.match("\n".join(lines)):
        return _from_json(lines)
    matches = [SPEAKER.match(line) for line in lines]
    names = Counter(_name(match) for match in matches if match)
    roles = {name: role for name in names if (role := _role(name, names))}
    if not roles:
        unknown = [name for name, count in names.items() if count > 1]
        if len(unknown) > 1 and sum(names.values()) == len(lines):
            raise InputError(f"who are {', '.join(unknown[:4])}? 用户： and 机器人： are known before a message")
        return [{"role": (USER, ASSISTANT)[index % 2], "content": line} for index, line in enumerate(lines)]
    messages: list[dict[str, Any]] = []
    for line, match in zip(lines, matches, strict=True):
        if match and (role := roles.get(_name(match))):
            messages.append({"role": role, "content": line[match.end() :]})
        elif messages:
            messages[-1]["content"] += f"\n{line}"
        else:
            raise InputError(
                f"{line[:20]!r} does not say who speaks, but later lines do ({min(roles)}); say it in every line"
            )
    return messages


def _name(match: re.Match[str]) -> str:
    """The name of a speaker; names with a number end in 1."""
    return match["name"].lower() + ("1" if match["number"] else "")


def _role(name: str, names: Counter[str]) -> str | None:
    """The role of a speaker; None if the name is unknown, or a lone letter that may be part of the text."""
    is_lone = name in ("u", "b") or (name in ("q", "a") and not {"q", "a"} <= names.keys())
    return None if is_lone else ROLES.get(name.removesuffix("1"))


def _from_json(lines: list[str]) -> list[Any]:
    try:
        value = parse_json("\n".join(lines))
    except InputError:
        if len(lines) == 1 or not all(line[0] == "{" for line in lines):
            raise
        value = [parse_json(line) for line in lines]
    messages, _ = chat_from_json(value)
    if not isinstance(messages, list):
        raise InputError(f"messages is {kind_of(messages)}; it must be a list")
    return messages
