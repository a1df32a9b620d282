"""Chats in the reports of garak: a chat for each output of each attempt."""

from collections.abc import Iterator, Mapping
from typing import Any

from contradiction.chats.entries import Entry, make_entries
from contradiction.chats.json_text import parse_json
from contradiction.chats.records import Chat
from contradiction.chats.streams import decode
from contradiction.conversation import ASSISTANT, USER
from contradiction.errors import InputError, kind_of

GARAK = "garak"


def read_report(content: bytes, where: str) -> list[Entry]:
    """The chats of a report, ``NAME.report.jsonl``.

    Args:
        content: the report.
        where: the name of the file in error messages.

    Raises:
        InputError: the file is not in UTF-8 or not JSON, or the conversations or outputs of an attempt are not a list.
    """
    outputs = _outputs([*_values(decode(content, where), where)], where)
    if not outputs:
        raise InputError(f"{where}: holds no attempt with an output; a report of garak is named NAME.report.jsonl")
    return [entry for number, chat in enumerate(outputs, 1) for entry in make_entries(number, number, _as_list, chat)]


def _as_list(chat: Chat) -> list[Chat]:
    return [chat]


def _values(text: str, where: str) -> Iterator[tuple[int, Any]]:
    """The values of the lines, each with its number."""
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                yield number, parse_json(line)
            except InputError as error:
                raise InputError(f"{where}:{number}: {error}") from None


def _outputs(values: list[tuple[int, Any]], where: str) -> list[Chat]:
    """A chat for each output of each attempt. A report has each attempt twice: when made, and when evaluated."""
    attempts = {
        str(value.get("uuid") or number): (number, value)
        for number, value in values
        if isinstance(value, Mapping) and value.get("entry_type") == "attempt"
    }
    return [
        Chat(messages, f"{name}/{output}")
        for name, (number, attempt) in attempts.items()
        for output, messages in enumerate(_conversations(attempt, f"{where}:{number}"))
    ]


def _conversations(attempt: Mapping[str, Any], where: str) -> list[list[dict[str, Any]]]:
    """The chats of an attempt that have an answer."""
    if conversations := _list(attempt, "conversations", where):
        chats = [_turns(conversation) for conversation in conversations]
    else:  # reports of older versions have the prompt and its outputs
        prompt, outputs = _turns(attempt.get("prompt")), _list(attempt, "outputs", where)
        chats = [[*prompt, {"role": ASSISTANT, "content": _text(output)}] for output in outputs if output is not None]
    return [chat for chat in chats if any(message["role"] == ASSISTANT for message in chat)]


def _list(attempt: Mapping[str, Any], name: str, where: str) -> list[Any]:
    value = attempt.get(name)
    if value is not None and not isinstance(value, list):
        raise InputError(f"{where}: {name} is {kind_of(value)}; it must be a list")
    return value or []


def _turns(value: Any) -> list[dict[str, Any]]:
    if isinstance(value, Mapping) and isinstance(value.get("turns"), list):
        turns = [turn for turn in value["turns"] if isinstance(turn, Mapping)]
        return [{"role": turn.get("role"), "content": _text(turn.get("content"))} for turn in turns]
    return [{"role": USER, "content": _text(value)}]


def _text(value: Any) -> Any:
    """The text of a message, which is text alone or an object with it."""
    return value.get("text") if isinstance(value, Mapping) else value
