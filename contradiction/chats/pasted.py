"""A chat as text: pasted into a field or an option, or a transcript in a file."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from contradiction.chats.encodings import decode
from contradiction.chats.formats import Entry, NamedChat, chat_from_json, make_entry, parse_json
from contradiction.chats.speakers import SYSTEM_ROLES, TEXT_ROLES
from contradiction.conversation import alternating
from contradiction.errors import InputError, kind_of

SPEAKER = re.compile(r"[\s*]*(?P<name>[^\W\d_]{1,10})(?P<number>\d*)[\s*]*[:：][\s*]*")
JSON = re.compile(r"\[\s*[{\]]|\{\s*[\"}]")


def read_pasted(text: str) -> list[Any]:
    """The messages of a pasted chat.

    Without speakers the lines alternate, and the user begins. With ``用户：`` and ``机器人：``, or other names of
    ``TEXT_ROLES``, a line without a speaker continues the message above it. JSON is an object, a list, or a message on
    each line.

    Raises:
        InputError: the text is empty, is JSON that holds no chat, names unknown speakers, or names a speaker in later
            lines but not in the first.
    """
    lines = [line.strip() for line in re.split(r"\r\n?|\n", text) if line.strip()]
    if not lines:
        raise InputError("the chat is empty; it must be lines of text, the user's first, or JSON")
    if JSON.match("\n".join(lines)):
        return _from_json(lines)
    names, roles = _speakers(lines, TEXT_ROLES)
    if not roles:
        unknown = [name for name, count in names.items() if count > 1]
        if len(unknown) > 1 and sum(names.values()) == len(lines):
            raise InputError(f"unknown speakers {', '.join(unknown[:4])}; write 用户： or 机器人： before each message")
        return alternating(lines)
    if not _has_speaker(lines[0], roles):
        raise InputError(
            f"{lines[0][:20]!r} does not say who speaks, but later lines do ({min(roles)}); say it in every line"
        )
    return _messages(lines, roles)


def begins_transcript(line: str) -> bool:
    """Whether a line is the first one of a transcript: it begins with a known speaker, as in ``用户：你好``."""
    _, roles = _speakers([line], TEXT_ROLES | SYSTEM_ROLES)
    return _has_speaker(line, roles)


def read_transcripts(file: Iterable[bytes], where: str) -> Iterator[Entry]:
    """The chats of the lines of a transcript: each message begins with its speaker, and an empty line ends a chat.

    Raises:
        InputError: it is not in UTF-8, or it is JSON.
    """
    block: list[str] = []
    first = end = 0
    for number, line in enumerate(file, 1):
        text = decode(line, f"{where}:{number}", number == 1).strip()
        if number == 1 and JSON.match(text):
            raise InputError(f"{where}: its first line is JSON; --format jsonl reads one chat in each line")
        if not text and block:
            yield make_entry(first, end, _from_transcript, "\n".join(block))
            block = []
        end += len(line)
        if text:
            first = first if block else number
            block.append(text)
    if block:
        yield make_entry(first, end, _from_transcript, "\n".join(block))


def _from_transcript(text: str) -> NamedChat:
    lines = text.split("\n")
    _, roles = _speakers(lines, TEXT_ROLES | SYSTEM_ROLES)
    if not _has_speaker(lines[0], roles):
        raise InputError(
            f"{lines[0][:20]!r} names no known speaker; a chat begins with 用户： or 机器人：, as in 用户：你好"
        )
    return _messages(lines, roles), None


def _messages(lines: list[str], roles: Mapping[str, str]) -> list[dict[str, str]]:
    """The messages of lines, the first of which has a speaker; a line without a speaker continues the one above it."""
    messages: list[dict[str, str]] = []
    for line in lines:
        match = SPEAKER.match(line)
        if match and (role := roles.get(_name(match))):
            messages.append({"role": role, "content": line[match.end() :]})
        else:
            messages[-1]["content"] += f"\n{line}"
    return messages


def _speakers(lines: list[str], known: Mapping[str, str]) -> tuple[Counter[str], dict[str, str]]:
    """How often each name stands where a speaker would, and the roles of the known names."""
    names = Counter(_name(match) for line in lines if (match := SPEAKER.match(line)))
    return names, {name: role for name in names if (role := _role(name, names, known))}


def _has_speaker(line: str, roles: Mapping[str, str]) -> bool:
    match = SPEAKER.match(line)
    return match is not None and _name(match) in roles


def _name(match: re.Match[str]) -> str:
    """The name of a speaker; names with a number end in 1."""
    return match["name"].lower() + ("1" if match["number"] else "")


def _role(name: str, names: Counter[str], known: Mapping[str, str]) -> str | None:
    """The role of a speaker; None if the name is unknown, or a lone letter that may be part of the text.

    "u" and "b" count with a number only, and "a" only where there is "q" as well.
    """
    is_ambiguous = name in ("u", "b") or (name in ("q", "a") and not {"q", "a"} <= names.keys())
    return None if is_ambiguous else known.get(name.removesuffix("1"))


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
