"""A chat as people paste it: a line a message, with or without who speaks, or JSON."""

import re
from collections import Counter
from typing import Any

from contradiction.chats import formats
from contradiction.conversation import ASSISTANT, USER
from contradiction.errors import InputError, kind_of

# Who speaks, by the name before a colon; "u" and "b" stand before a number, "a" answers "q".
ROLES = {
    **dict.fromkeys(("用户", "顾客", "客户", "问", "user", "human", "customer", "u", "q"), USER),
    **dict.fromkeys(("机器人", "助手", "客服", "答", "ai", "assistant", "bot", "chatbot", "b", "a"), ASSISTANT),
}
SAID_BY = re.compile(r"[\s*]*(?P<name>[^\W\d_]{1,10})(?P<number>\d*)[\s*]*[:：][\s*]*")
JSON = re.compile(r"\[\s*[{\]]|\{\s*[\"}]")


def read(text: str) -> list[Any]:
    """The messages of a pasted chat.

    Without names before a colon the lines alternate, and the user begins. With ``用户：`` and ``机器人：``, or what
    else ``ROLES`` knows, a line without a name goes on with the message above it. JSON is an object, a list, or
    messages line by line.

    Raises:
        InputError: it is empty or JSON of no chat, its names are not known, or the first line has none where others do.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        raise InputError("the chat is empty; it must be lines of text, the user's first, or JSON")
    if JSON.match("\n".join(lines)):
        return _from_json(lines)
    found = [SAID_BY.match(line) for line in lines]
    names = Counter(_name(each) for each in found if each)
    roles = {name: role for name in names if (role := _role(name, names))}
    if not roles:
        strangers = [name for name, count in names.items() if count > 1]
        if len(strangers) > 1 and sum(names.values()) == len(lines):
            raise InputError(f"who are {', '.join(strangers[:4])}? 用户： and 机器人： are known before a message")
        return [{"role": (USER, ASSISTANT)[index % 2], "content": line} for index, line in enumerate(lines)]
    messages: list[dict[str, Any]] = []
    for line, each in zip(lines, found, strict=True):
        if each and (role := roles.get(_name(each))):
            messages.append({"role": role, "content": line[each.end() :]})
        elif messages:
            messages[-1]["content"] += f"\n{line}"
        else:
            raise InputError(f"{line[:20]!r} does not say who speaks, but later lines do ({min(roles)}); say it of all")
    return messages


def _name(found: re.Match[str]) -> str:
    return found["name"].lower() + ("1" if found["number"] else "")


def _role(name: str, names: Counter[str]) -> str | None:
    """The role of a name; a letter has one before a number, or as question and answer."""
    plain = name.removesuffix("1")
    lone = name in ("u", "b") or (name in ("q", "a") and not {"q", "a"} <= names.keys())
    return None if lone else ROLES.get(plain)


def _from_json(lines: list[str]) -> list[Any]:
    try:
        value = formats.parse("\n".join(lines))
    except InputError:
        if len(lines) == 1 or not all(line[0] == "{" for line in lines):
            raise
        value = [formats.parse(line) for line in lines]
    messages, _ = formats.from_value(value)
    if not isinstance(messages, list):
        raise InputError(f"messages is {kind_of(messages)}; it must be a list")
    return messages
