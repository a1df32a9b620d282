"""Chat messages <-> turns, and what counts as a usable chat."""

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from contradiction.errors import InputError

ROLES = ("user", "assistant")
MESSAGE = '{"role": "user" or "assistant", "content": text}'


@dataclass(frozen=True)
class Turn:
    """A user message and the reply to it, with their positions in the chat."""

    user: str
    reply: str
    user_index: int
    reply_index: int


def read_turns(messages: Sequence[Mapping[str, Any]]) -> list[Turn]:
    """Cuts a chat into turns.

    Args:
        messages: dicts with ``role`` (user, then assistant, in turn) and ``content``.

    Raises:
        InputError: it is no such list; the message names the index, what stands there, and what would be right.
    """
    if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Sequence):
        raise InputError(f"messages is a {type(messages).__name__}; it must be a list of {MESSAGE}")
    if not messages:
        raise InputError(f"messages is empty; it must be a list of {MESSAGE}")
    contents = [_content(message, index) for index, message in enumerate(messages)]
    if len(contents) % 2:
        raise InputError(
            f"messages ends with messages[{len(contents) - 1}] by the user; the last one must be the assistant's reply"
        )
    return [Turn(contents[index], contents[index + 1], index, index + 1) for index in range(0, len(contents), 2)]


def _content(message: object, index: int) -> str:
    where = f"messages[{index}]"
    if not isinstance(message, Mapping):
        raise InputError(f"{where} is a {type(message).__name__}; it must be {MESSAGE}")
    for key in ("role", "content"):
        if key not in message:
            raise InputError(f"{where} has no {key!r}; it must be {MESSAGE}")
    role, expected = message["role"], ROLES[index % 2]
    if role not in ROLES:
        raise InputError(f"{where}: role {_short(role)}; allowed are {', '.join(ROLES)}")
    if role != expected:
        raise InputError(
            f"{where}: role {role!r} where {expected!r} is due; user and assistant speak in turn, the user first"
        )
    content = message["content"]
    if not isinstance(content, str):
        raise InputError(f"{where}: content is a {type(content).__name__}; it must be text")
    try:
        content.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(
            f"{where}: content holds a lone surrogate at character {error.start}; it must be valid Unicode"
        ) from None
    return content


def is_blank(text: str) -> bool:
    """Whether a text says nothing: no letter, digit or symbol, only spaces, punctuation and control characters."""
    return all(unicodedata.category(character)[0] in "ZPC" for character in text)


def _short(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
