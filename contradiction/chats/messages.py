"""One message in the shape of any tool, as ``{"role": ..., "content": ...}``."""

from collections.abc import Mapping, Sequence
from typing import Any

from contradiction.chats import names
from contradiction.chats.speakers import KNOWN, REMEDY, USUAL, Speakers
from contradiction.chats.times import newest_first
from contradiction.errors import InputError, shown


def read_messages(values: Sequence[Any], speakers: Speakers = USUAL) -> list[Any]:
    """The messages of a list, at the same places.

    The shapes are those of OpenAI (chat completions and Responses), Anthropic, Gemini, ShareGPT, LangChain, ChatGPT's
    and Telegram's exports, and any objects with one of ``names.SPEAKERS`` and one of ``names.TEXTS``. A value without
    a speaker stays as it is; :func:`contradiction.conversation.read_message` skips or refuses it.

    Raises:
        InputError: a speaker is unknown, or the messages have times and the newest is the first.
    """
    messages = [_read(value, f"messages[{index}]", speakers) for index, value in enumerate(values)]
    times = [value for value in values if isinstance(value, Mapping)]
    speakers.check_one_bot(_speaker(_unwrapped(value), speakers)[1] for value in times)
    if times and (key := names.first(times[0], names.TIMES)) and newest_first([one.get(key) for one in times]):
        raise InputError(f"the messages begin with the newest, by {key}; they must begin with the oldest")
    return messages


def is_message(value: object) -> bool:
    """Whether an object names a speaker, as a message does, and holds no list of messages, as a chat does."""
    if not isinstance(value, Mapping) or any(isinstance(value.get(name), list | Mapping) for name in names.MESSAGES):
        return False
    return _speaker(_unwrapped(value), USUAL)[1] is not None


def _read(value: Any, where: str, speakers: Speakers) -> Any:
    if not isinstance(value, Mapping):
        return value
    value = _unwrapped(value)
    key, speaker = _speaker(value, speakers)
    if not isinstance(speaker, str):
        return value
    if (role := speakers.role_of(speaker)) is None:
        raise InputError(f"{where}: {key} {shown(speaker)} is no known speaker ({KNOWN}); {REMEDY}")
    rest = {name: value[name] for name in value if name != key}
    given = [name for name in rest if rest[name] is not None]
    if (text := "content" if "content" in given else names.first(given, names.TEXTS)) is not None:
        rest["content"] = _content(rest.pop(text), is_text=text == "text")
    return {**rest, "role": role}


def _unwrapped(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """A message of LangChain, which some dumps keep inside another object."""
    if isinstance(value.get("kwargs"), Mapping) and isinstance(value.get("id"), list) and value["id"]:
        return {"type": str(value["id"][-1]), **{k: v for k, v in value["kwargs"].items() if k != "type"}}
    if isinstance(value.get("data"), Mapping) and "type" in value:
        return {**value["data"], "type": value["type"]}
    return value


def _speaker(value: Mapping[str, Any], speakers: Speakers) -> tuple[str | None, Any]:
    """The key of the speaker and the speaker; ``type`` counts only if it names one, as in LangChain."""
    given = [name for name in value if value[name] is not None]
    key = names.first(given, names.SPEAKERS)
    if key is not None:
        speaker = value[key]
        return key, speaker.get("role") or speaker.get("name") if isinstance(speaker, Mapping) else speaker
    kind = value.get("type")
    return ("type", kind) if speakers.role_of(kind) in ("user", "assistant", "system") else (None, None)


def _content(content: Any, *, is_text: bool) -> Any:
    """The content as text or as a list of parts."""
    if isinstance(content, Mapping):  # of garak and of ChatGPT's export
        content = content.get("parts", content.get("text"))
    if is_text and isinstance(content, list):  # of Telegram: pieces of one text with their styles
        return "".join(str(part.get("text", "")) if isinstance(part, Mapping) else str(part) for part in content)
    return content
