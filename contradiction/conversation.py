"""Chat messages <-> turns, and what counts as a usable chat and as text that can be judged."""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from reprlib import Repr
from typing import Any

from contradiction.errors import InputError, kind_of

USER, ASSISTANT = "user", "assistant"
TOOLS = ("tool", "function")
UNSAID = ("system", "developer", *TOOLS)  # not said by either side, and so not read
ROLES = (USER, ASSISTANT, *UNSAID)
CALLS = ("tool_calls", "function_call")
MESSAGE = '{"role": "user" or "assistant", "content": text}'
TEXT_PARTS = {"text": "text", "input_text": "text", "output_text": "text", "refusal": "refusal"}  # type -> its key

Messages = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Turn:
    """What the user said and the reply to it; several messages in a row by one side are one utterance.

    Attributes:
        user: the user's text, empty where the assistant spoke first.
        reply: the assistant's text.
        user_messages: indices in the chat of the messages that make up ``user``.
        reply_messages: likewise of ``reply``.
        unread: what of these messages is no text, in words; None where all is.
    """

    user: str
    reply: str
    user_messages: tuple[int, ...]
    reply_messages: tuple[int, ...]
    unread: str | None = None


@dataclass(frozen=True)
class Utterance:
    """One message, as text.

    Attributes:
        role: one of ``ROLES``.
        text: what it says; empty of a tool's, whatever that holds.
        unread: what of it is no text, in words; None where all is.
        unsaid: whether neither side says anything by it: an instruction, a call of a tool, or what the tool gave.
    """

    role: str
    text: str
    unread: str | None = None
    unsaid: bool = False


def read_turns(messages: Messages) -> list[Turn]:
    """Cuts a chat of any length into turns.

    Passed over are messages by the system and by tools, those of the assistant that only call a tool, and what the user
    says after the last reply.

    Args:
        messages: dicts with ``role`` (one of ``ROLES``) and ``content`` (text, a list of parts, of which those of text
            are read, or None, which is as good as empty).

    Raises:
        InputError: it is no such list; the message names the index, what stands there, and what would be right.
    """
    if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Sequence):
        raise InputError(f"messages is {kind_of(messages)}; it must be a list of {MESSAGE}")
    if not messages:
        raise InputError(f"messages is empty; it must be a list of {MESSAGE}")
    turns: list[Turn] = []
    for index, message in enumerate(messages):
        add_message(turns, read_message(message, f"messages[{index}]"), index)
    if turns and not turns[-1].reply_messages:
        turns.pop()
    return turns


def add_message(turns: list[Turn], said: Utterance, index: int) -> None:
    """Takes the next message into the turns of a chat; the last of them may so still lack its reply."""
    if said.unsaid:
        return
    last = turns[-1] if turns else None
    if last is None or (said.role == USER and last.reply_messages):
        last = Turn("", "", (), ())
        turns.append(last)
    unread = last.unread or said.unread
    if said.role == USER:
        turns[-1] = Turn(_join(last.user, said.text), "", (*last.user_messages, index), (), unread)
    else:
        reply = _join(last.reply, said.text)
        turns[-1] = Turn(last.user, reply, last.user_messages, (*last.reply_messages, index), unread)


def _join(before: str, text: str) -> str:
    return f"{before}\n{text}" if before and text else before or text


def read_message(message: object, where: str) -> Utterance:
    """Checks one message.

    Raises:
        InputError: it is none; the message begins with ``where``.
    """
    if not isinstance(message, Mapping):
        raise InputError(f"{where} is {kind_of(message)}; it must be {MESSAGE}")
    if "role" not in message:
        raise InputError(f"{where} has no 'role'; it must be {MESSAGE}")
    role = message["role"]
    if role not in ROLES:
        raise InputError(f"{where}: role {_short(role)}; allowed are {', '.join(ROLES)}")
    if role in TOOLS:
        return Utterance(role, "", unsaid=True)
    calls = role == ASSISTANT and any(message.get(key) for key in CALLS)
    if "content" not in message and not calls:
        raise InputError(f"{where} has no 'content'; it must be {MESSAGE}")
    said = _read_content(role, message, where)
    return replace(said, unsaid=role in UNSAID or (calls and is_blank(said.text) and said.unread is None))


def _read_content(role: str, message: Mapping[str, Any], where: str) -> Utterance:
    content = message.get("content")
    if content is None:  # as where a tool is called; what the assistant refuses may then stand under a key of its own
        refusal = message.get("refusal")
        content = refusal if role == ASSISTANT and isinstance(refusal, str) else ""
    if isinstance(content, str):
        return Utterance(role, _valid(content, where))
    if isinstance(content, Sequence) and not isinstance(content, bytes | bytearray):
        return _from_parts(role, content, where)
    raise InputError(f"{where}: content is {kind_of(content)}; it must be text, or a list of parts")


def _from_parts(role: str, parts: Sequence[object], where: str) -> Utterance:
    texts, others = [], []
    for number, part in enumerate(parts):
        place = f"{where}: content[{number}]"
        if isinstance(part, str):
            texts.append(_valid(part, place))
            continue
        if not isinstance(part, Mapping) or not isinstance(part.get("type"), str):
            raise InputError(f'{place} is {_short(part)}; a part must be {{"type": "text", "text": text}}')
        if part["type"] not in TEXT_PARTS:
            others.append(_short(part["type"]))
        elif isinstance(text := part.get(TEXT_PARTS[part["type"]]), str):
            texts.append(_valid(text, place))
        else:
            raise InputError(f"{place}: its text is {kind_of(text)}; it must be text")
    unread = f"{where} holds what is no text and was not read: {_few(others)}" if others else None
    return Utterance(role, "\n".join(texts), unread)


def _few(names: Sequence[str]) -> str:
    first, *more = dict.fromkeys(names)
    return f"{first} and {len(more)} other kinds" if len(more) > 2 else ", ".join([first, *more])


def _valid(text: str, where: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(
            f"{where}: content holds a lone surrogate at character {error.start}; it must be valid Unicode"
        ) from None
    return text


def is_blank(text: str) -> bool:
    """Whether a text says nothing: no letter, digit or symbol, only spaces, punctuation, marks, control characters."""
    return all(unicodedata.category(character)[0] in "ZPCM" for character in set(text))


# A Han character is about a word of its own, as is a character of the scripts that write syllables; of other scripts it
# is the run of letters.
_HAN = "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_SYLLABLES = "\u3040-\u30ff\uac00-\ud7af\u0e00-\u0e7f"
_CHINESE = re.compile(f"[{_HAN}]")
_OTHER = re.compile(rf"[{_SYLLABLES}]|[^\W\d_{_HAN}{_SYLLABLES}]+")


def is_chinese(text: str) -> bool:
    """Whether at least half of the words are Han characters; true of text without any letter, such as a number."""
    return len(_CHINESE.findall(text)) >= len(_OTHER.findall(text))


_REPR = Repr()  # with a bound on depth, at which repr fails
_REPR.maxstring = _REPR.maxother = _REPR.maxlong = 60


def _short(value: object) -> str:
    try:
        shown = " ".join(_REPR.repr(value).split())
    except ValueError:  # an integer of more digits than Python prints
        return kind_of(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
