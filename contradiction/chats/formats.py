"""The forms in which one chat comes: a list of messages, an object that holds one, columns."""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from contradiction.conversation import ASSISTANT, TOOLS, USER
from contradiction.errors import InputError, kind_of
from contradiction.inputs.views import CONVERSATION

ID = "id"
MESSAGES, SHAREGPT = ("messages",), ("conversations",)
KEYS = (MESSAGES, SHAREGPT, CONVERSATION)  # of an object or of columns; the first that is there is read
CHAT = '{"messages": [...]}, {"conversations": [...]}, an object with u1, b1, u2 and b2, or a list of messages'
NOT_UTF8 = "not in UTF-8; save it so, or convert it, for instance with iconv -f GB18030 -t UTF-8 (or -f UTF-16)"

# Who speaks, in ShareGPT's words.
SPEAKERS = {
    "human": USER, "user": USER, "gpt": ASSISTANT, "assistant": ASSISTANT, "system": "system",
    "function_call": TOOLS[0], "observation": TOOLS[0], "tool": TOOLS[0],
}  # fmt: skip
SHOWN = 12  # names of columns or keys in a message

Named = tuple[Any, Any]  # messages, not yet checked, and what the input calls the chat


def parse(text: bytes | str) -> Any:
    """What JSON holds; raises InputError where it is none."""
    try:
        return json.loads(text if isinstance(text, str) else text.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise InputError(f"not in UTF-8 (from byte {error.start} on)") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"not JSON ({error})") from None


def from_value(value: object) -> Named:
    """The chat of a value of JSON.

    Raises:
        InputError: it holds none; the message names what it holds.
    """
    if isinstance(value, list):
        return _messages(value), None
    if not isinstance(value, Mapping):
        raise InputError(f"{kind_of(value)}; a chat must be {CHAT}")
    if (keys := held(value.keys())) is None:
        raise InputError(f"an object with {_listed(value.keys(), 'key')}; a chat must be {CHAT}")
    messages, name = from_row(keys, value)
    if keys == MESSAGES and isinstance(messages, list):
        # Some logs hold it in both places.
        messages = [*messages, *(each for each in _answer(value.get("choices")) if each not in messages[-1:])]
    return messages, name


def _answer(choices: object) -> list[Any]:
    """The message that a logged request was answered with; other data has other things under ``choices``."""
    listed = choices if isinstance(choices, list) else []
    answers = [each["message"] for each in listed if isinstance(each, Mapping) and "message" in each]
    if len(answers) > 1:
        raise InputError(f"choices: {len(answers)} answers; a chat has one, so leave the one that was said")
    return answers


def held(names: Collection[str]) -> tuple[str, ...] | None:
    """Those of the names that hold a chat; None where there is none."""
    return next((keys for keys in KEYS if set(keys) <= set(names)), None)


def columns(names: Sequence[str], where: str) -> tuple[str, ...]:
    """The columns that hold a chat.

    Raises:
        InputError: there are none, or one that is read is there twice.
    """
    found = held(names)
    if found is None:
        raise InputError(
            f"{where}: it has {_listed(names, 'column')}; there must be {MESSAGES[0]}, {SHAREGPT[0]}, or "
            f"{', '.join(CONVERSATION)}"
        )
    for name in (*found, ID):
        if (times := names.count(name)) > 1:
            raise InputError(
                f"{where}: {times} columns are called {name}; only one of them can be read, rename the others"
            )
    return found


def from_row(keys: tuple[str, ...], row: Mapping[str, Any]) -> Named:
    """The chat of a row, under the names that :func:`held` or :func:`columns` found."""
    if keys == CONVERSATION:
        roles = (USER, ASSISTANT) * (len(keys) // 2)
        return [{"role": role, "content": row[name]} for role, name in zip(roles, keys, strict=True)], row.get(ID)
    messages = row[keys[0]]
    if isinstance(messages, str):  # as in a cell of CSV
        try:
            messages = parse(messages)
        except InputError as error:
            raise InputError(f"{keys[0]}: text that is {error}; it must be a list of messages") from None
    return _messages(messages), row.get(ID)


def _messages(messages: Any) -> Any:
    """The messages, those in ShareGPT's words in ours; what is no list of them, as it is."""
    if not isinstance(messages, list):
        return messages
    return [
        _spoken(each, f"messages[{index}]") if isinstance(each, Mapping) and "from" in each else each
        for index, each in enumerate(messages)
    ]


def _spoken(message: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    if "role" in message:
        return message
    speaker = message["from"]
    if not isinstance(speaker, str) or speaker not in SPEAKERS:
        said = repr(speaker[:60]) if isinstance(speaker, str) else kind_of(speaker)
        raise InputError(f"{where}: from {said}; allowed are {', '.join(SPEAKERS)}")
    if "value" not in message:
        raise InputError(f'{where} has no \'value\'; it must be {{"from": "human" or "gpt", "value": text}}')
    return {"role": SPEAKERS[speaker], "content": message["value"]}


def _listed(names: Collection[object], what: str) -> str:
    shown = [str(name)[:60] for name in names]
    if not shown:
        return f"no {what}s"
    more = f" and {len(shown) - SHOWN} more" if len(shown) > SHOWN else ""
    return f"the {what}{'s' * (len(shown) > 1)} {', '.join(shown[:SHOWN])}{more}"


DELIMITERS = {"csv": ",", "tsv": "\t"}
_OTHERS = {
    ",": "its first line names columns ({names}); --format csv reads it",
    "\t": "its first line names columns ({names}) with tabs between; --format tsv reads it",
    ";": "its columns ({names}) are parted by semicolons; save it with commas, and --format csv reads it",
}


def other_form(first: str, but: str | None = None) -> str | None:
    """What to do where the first line of an input is the header of another form; None where it is none.

    Args:
        first: the line.
        but: a delimiter by which it was read already.
    """
    for delimiter, said in _OTHERS.items():
        names = [name.strip().strip('"') for name in first.split(delimiter)]
        if delimiter != but and held(names):
            return said.format(names=", ".join(names[:SHOWN]))
    return None
