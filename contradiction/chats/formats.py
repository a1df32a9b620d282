"""The formats of one chat: a list of messages, a JSON object that holds one, or columns of a table."""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from contradiction.conversation import ASSISTANT, TOOLS, USER
from contradiction.errors import InputError, kind_of
from contradiction.inputs.views import CONVERSATION

ID = "id"
MESSAGES, SHAREGPT = ("messages",), ("conversations",)
KEYS = (MESSAGES, SHAREGPT, CONVERSATION)  # keys of an object, or names of columns; the first that is complete is read
CHAT = '{"messages": [...]}, {"conversations": [...]}, an object with u1, b1, u2 and b2, or a list of messages'
NOT_UTF8 = "not in UTF-8; save it as UTF-8, or convert it, for instance with iconv -f GB18030 -t UTF-8 (or -f UTF-16)"

# ShareGPT's names of the speakers -> roles.
SHAREGPT_ROLES = {
    "human": USER, "user": USER, "gpt": ASSISTANT, "assistant": ASSISTANT, "system": "system",
    "function_call": TOOLS[0], "observation": TOOLS[0], "tool": TOOLS[0],
}  # fmt: skip
MAX_NAMES = 12  # columns or keys that a message lists

NamedChat = tuple[Any, Any]  # messages that are not yet checked, and the id of the chat


def parse_json(text: bytes | str) -> Any:
    """Parses JSON; raises InputError if it is not valid, or if an object has one key twice."""
    try:
        return json.loads(
            text if isinstance(text, str) else text.decode("utf-8-sig"), object_pairs_hook=_object_of_pairs
        )
    except InputError:  # a ValueError
        raise
    except UnicodeDecodeError as error:
        raise InputError(f"not in UTF-8 (from byte {error.start} on)") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"not JSON ({error})") from None


def _object_of_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; of a key that stands twice Python would keep the last value without a word."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"not JSON to rely on: an object has the key {twice[:60]!r} twice")
    return found


def chat_from_json(value: object) -> NamedChat:
    """The chat that a JSON value holds.

    Raises:
        InputError: it holds no chat; the message names what it holds.
    """
    if isinstance(value, list):
        return _normalize(value), None
    if not isinstance(value, Mapping):
        raise InputError(f"{kind_of(value)}; a chat must be {CHAT}")
    if (keys := chat_keys(value.keys())) is None:
        raise InputError(f"an object with {_list_names(value.keys(), 'key')}; a chat must be {CHAT}")
    messages, name = chat_from_row(keys, value)
    if keys == MESSAGES and isinstance(messages, list):
        # A logged request holds its answer under "choices". Some logs hold it under "messages" too.
        messages = [*messages, *(answer for answer in _answer(value.get("choices")) if answer not in messages[-1:])]
    return messages, name


def _answer(choices: object) -> list[Any]:
    """The answer to a logged request, as a list of at most one message. Other data may hold other things here."""
    rows = choices if isinstance(choices, list) else []
    answers = [row["message"] for row in rows if isinstance(row, Mapping) and "message" in row]
    if len(answers) > 1:
        raise InputError(f"choices: {len(answers)} answers; a chat has one, so keep the one that was sent")
    return answers


def chat_keys(names: Collection[str]) -> tuple[str, ...] | None:
    """The names among these that hold a chat; None if there are none."""
    return next((keys for keys in KEYS if set(keys) <= set(names)), None)


def chat_columns(names: Sequence[str], where: str) -> tuple[str, ...]:
    """The columns of a table that hold a chat.

    Args:
        names: the names of all columns.
        where: the name of the table in error messages.

    Raises:
        InputError: there are none, or one that is read occurs twice.
    """
    keys = chat_keys(names)
    if keys is None:
        raise InputError(
            f"{where}: it has {_list_names(names, 'column')}; there must be {MESSAGES[0]}, {SHAREGPT[0]}, or "
            f"{', '.join(CONVERSATION)}"
        )
    for name in (*keys, ID):
        if (times := names.count(name)) > 1:
            raise InputError(f"{where}: {times} columns are called {name}; rename all but one")
    return keys


def chat_from_row(keys: tuple[str, ...], row: Mapping[str, Any]) -> NamedChat:
    """The chat of a row, from the columns that :func:`chat_keys` or :func:`chat_columns` found."""
    if keys == CONVERSATION:
        roles = (USER, ASSISTANT) * (len(keys) // 2)
        return [{"role": role, "content": row[name]} for role, name in zip(roles, keys, strict=True)], row.get(ID)
    messages = row[keys[0]]
    if isinstance(messages, str):  # as in a cell of CSV
        try:
            messages = parse_json(messages)
        except InputError as error:
            raise InputError(f"{keys[0]}: text that is {error}; it must be a list of messages") from None
    return _normalize(messages), row.get(ID)


def _normalize(messages: Any) -> Any:
    """A list of messages with ShareGPT's messages turned into ours; any other value unchanged."""
    if not isinstance(messages, list):
        return messages
    return [
        _from_sharegpt(message, f"messages[{index}]") if isinstance(message, Mapping) and "from" in message else message
        for index, message in enumerate(messages)
    ]


def _from_sharegpt(message: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    if "role" in message:
        return message
    speaker = message["from"]
    if not isinstance(speaker, str) or speaker not in SHAREGPT_ROLES:
        shown = repr(speaker[:60]) if isinstance(speaker, str) else kind_of(speaker)
        raise InputError(f"{where}: from {shown}; allowed are {', '.join(SHAREGPT_ROLES)}")
    if "value" not in message:
        raise InputError(f'{where} has no \'value\'; it must be {{"from": "human" or "gpt", "value": text}}')
    return {"role": SHAREGPT_ROLES[speaker], "content": message["value"]}


def _list_names(names: Collection[object], what: str) -> str:
    shown = [" ".join(str(name)[:60].split()) for name in names]
    if not shown:
        return f"no {what}s"
    more = f" and {len(shown) - MAX_NAMES} more" if len(shown) > MAX_NAMES else ""
    return f"the {what}{'s' * (len(shown) > 1)} {', '.join(shown[:MAX_NAMES])}{more}"


DELIMITERS = {"csv": ",", "tsv": "\t"}
_HINTS = {
    ",": "its first line names columns ({names}); --format csv reads it",
    "\t": "its first line names columns ({names}) with tabs between; --format tsv reads it",
    ";": "semicolons separate its columns ({names}); save it with commas, and --format csv reads it",
}


def hint_at_format(first_line: str, read_with: str | None = None) -> str | None:
    """A hint if the first line of an input is the header of a table in another format; else None.

    Args:
        first_line: the line.
        read_with: the delimiter that it was read with already.
    """
    for delimiter, hint in _HINTS.items():
        names = [name.strip().strip('"') for name in first_line.split(delimiter)]
        if delimiter != read_with and chat_keys(names):
            return hint.format(names=", ".join(names[:MAX_NAMES]))
    return None
