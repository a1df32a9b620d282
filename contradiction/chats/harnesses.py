"""Chats in the formats of two test harnesses: the test cases of DeepEval, and the reports of garak."""

from collections.abc import Iterator, Mapping
from typing import Any

from contradiction.chats.encodings import decode
from contradiction.chats.formats import Entry, NamedChat, make_entry, parse_json
from contradiction.conversation import ASSISTANT, USER, alternating
from contradiction.errors import InputError, kind_of

DEEPEVAL, GARAK = "deepeval", "garak"
HARNESSES = (DEEPEVAL, GARAK)


def read_harness(content: bytes, where: str, format: str) -> list[Entry]:
    """The chats of a file.

    Args:
        content: for ``deepeval``, a JSON list or JSON lines of test cases: conversational ones with ``turns``, and
            others with ``input`` and ``actual_output``. For ``garak``, a report, ``NAME.report.jsonl``: a chat for each
            output of each attempt.
        where: the name of the file in error messages.
        format: one of ``HARNESSES``.

    Raises:
        InputError: the file is not in UTF-8 or not JSON, or the conversations or outputs of an attempt are not a list.
    """
    values = list(_values(decode(content, where), where))
    if format == DEEPEVAL:
        return [make_entry(number, number, _test_case, value) for number, (_, value) in enumerate(values, 1)]
    outputs = _outputs(values, where)
    if not outputs:
        raise InputError(f"{where}: holds no attempt with an output; a report of garak is named NAME.report.jsonl")
    return [make_entry(number, number, lambda chat: chat, output) for number, output in enumerate(outputs, 1)]


def _values(text: str, where: str) -> Iterator[tuple[int, Any]]:
    """The values, each with its line number, or with its position in a list."""
    if text.lstrip().startswith("["):
        yield from enumerate(_parsed(text, where), 1)
        return
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield number, _parsed(line, f"{where}:{number}")


def _parsed(text: str, where: str) -> Any:
    try:
        return parse_json(text)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def _test_case(value: Any) -> NamedChat:
    if not isinstance(value, Mapping):
        raise InputError(f"{kind_of(value)}; a test case is an object")
    name = value.get("name")
    if (turns := value.get("turns")) is not None:
        return (parse_json(turns) if isinstance(turns, str) else turns), name  # saved files have them as text
    reply = value.get("actual_output", value.get("actualOutput"))
    if "input" not in value or reply is None:
        raise InputError("a test case with neither turns, nor input and actual_output")
    return alternating((value["input"], reply)), name


def _outputs(values: list[tuple[int, Any]], where: str) -> list[NamedChat]:
    """A chat for each output of each attempt. A report has each attempt twice: when made, and when evaluated."""
    attempts = {
        str(value.get("uuid") or number): (number, value)
        for number, value in values
        if isinstance(value, Mapping) and value.get("entry_type") == "attempt"
    }
    return [
        (messages, f"{name}/{output}")
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
