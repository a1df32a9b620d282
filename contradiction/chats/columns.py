"""The columns of a table, or the keys of an object, that hold a chat; upper and lower case are the same."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from contradiction.errors import InputError
from contradiction.inputs.views import CONVERSATION

ID = "id"
MESSAGES, SHAREGPT = ("messages",), ("conversations",)
# The last turn in the rows of LLaMA-Factory (alpaca) and ms-swift; "history" has the earlier turns.
ALPACA, SWIFT = ("instruction", "output"), ("query", "response")
INPUT, HISTORY = "input", "history"
# Keys of an object, or names of columns; the first that is complete is read.
KEYS = (MESSAGES, SHAREGPT, CONVERSATION, ALPACA, SWIFT)
MAX_NAMES = 12  # columns or keys that a message lists

# The names of the columns of a table with one message in each row. The first that occurs is read.
CHAT_NAMES = (
    "session_id", "conversation_id", "chat_id", "dialogue_id", "dialog_id", "thread_id", "session", "conversation",
    "chat", "dialogue", "dialog", "thread", "会话id", "对话id", "会话编号", "对话编号", "会话", "对话", ID,
)  # fmt: skip
ROLE_NAMES = ("role", "speaker", "sender", "from", "author", "角色", "说话人", "发送者", "发送方")
CONTENT_NAMES = ("content", "text", "message", "utterance", "value", "内容", "消息", "消息内容", "文本")


@dataclass(frozen=True)
class MessageColumns:
    """The columns of a table with one message in each row: the chat, who speaks, and the text."""

    chat: str
    role: str
    content: str


def chat_keys(names: Collection[str]) -> tuple[str, ...] | None:
    """The first of ``KEYS`` that is complete among these names; None if there is none."""
    return next((keys for keys in KEYS if set(keys) <= set(names)), None)


def further_keys(keys: tuple[str, ...]) -> tuple[str, ...]:
    """The names that are read beside ``keys`` where they occur."""
    more = (INPUT, HISTORY) if keys == ALPACA else (HISTORY,) if keys == SWIFT else ()
    return (ID, *more)


def check_whole_chats(names: Sequence[str], where: str = "") -> None:
    """Raises InputError if the names of a row of LLaMA-Factory or ms-swift say that it is one turn of a chat."""
    if HISTORY not in names and (session := _first(names, [name for name in CHAT_NAMES if name != ID])):
        raise InputError(
            f"{where}it has {session} but no {HISTORY}; a row holds a whole chat, with the earlier turns in {HISTORY}"
        )


def usual_case(names: Sequence[str]) -> list[str]:
    """The names in which those that are read have the case that is expected: ``Messages`` -> ``messages``."""
    known = {name for keys in KEYS for name in (*keys, *further_keys(keys))}
    return [name if name.lower() not in known or name.lower() in names else name.lower() for name in names]


def chat_columns(names: Sequence[str], where: str) -> tuple[str, ...]:
    """The columns of a table that hold a chat, among names as :func:`usual_case` gives them.

    Raises:
        InputError: there are none, one that is read occurs twice, or a row is one turn of a chat.
    """
    keys = chat_keys(names)
    if keys is None:
        raise InputError(
            f"{where}: it has {list_names(names, 'column')}; there must be {MESSAGES[0]}, {SHAREGPT[0]}, or "
            f"{', '.join(CONVERSATION)}, or {' and '.join(ALPACA)}, or {' and '.join(SWIFT)}; or, in CSV and TSV with "
            f"one message in each row, {CHAT_NAMES[0]}, {ROLE_NAMES[0]} and {CONTENT_NAMES[0]}"
        )
    _check_unique(names, (*keys, *further_keys(keys)), where)
    if keys in (ALPACA, SWIFT):
        check_whole_chats(names, f"{where}: ")
    return keys


def message_columns(names: Sequence[str], where: str) -> MessageColumns | None:
    """The columns of a table with one message in each row; None if it is another table.

    Raises:
        InputError: there are speakers and texts but no chats, or a column that is read occurs twice.
    """
    chat, role, content = (_first(names, known) for known in (CHAT_NAMES, ROLE_NAMES, CONTENT_NAMES))
    keys = chat_keys(usual_case(names))
    if role is None or content is None or (keys and (keys not in (ALPACA, SWIFT) or chat is None)):
        return None
    if chat is None:
        raise InputError(
            f"{where}: it has {list_names(names, 'column')}, so each row is a message; a column {CHAT_NAMES[0]} must "
            "say which chat the row belongs to"
        )
    _check_unique(names, (chat, role, content), where)
    return MessageColumns(chat, role, content)


def _first(names: Sequence[str], known: Sequence[str]) -> str | None:
    """The name that comes first among the known ones; session_id, Session-ID and sessionId are one name."""
    plain = {_plain(name): name for name in reversed(names)}
    return next((plain[_plain(name)] for name in known if _plain(name) in plain), None)


def _plain(name: str) -> str:
    return re.sub(r"[\s_-]", "", name).lower()


def _check_unique(names: Sequence[str], read: Sequence[str], where: str) -> None:
    for name in read:
        if (times := names.count(name)) > 1:
            raise InputError(f"{where}: {times} columns are called {name}; rename all but one")


def list_names(names: Collection[object], noun: str) -> str:
    """Names of columns or keys, as an error message shows them."""
    shown = [" ".join(str(name)[:60].split()) for name in names]
    if not shown:
        return f"no {noun}s"
    more = f" and {len(shown) - MAX_NAMES} more" if len(shown) > MAX_NAMES else ""
    return f"the {noun}{'s' * (len(shown) > 1)} {', '.join(shown[:MAX_NAMES])}{more}"


DELIMITERS = {"csv": ",", "tsv": "\t"}
_HINTS = {
    ",": "its first line names columns ({names}); --format csv reads it",
    "\t": "its first line names columns ({names}) with tabs between; --format tsv reads it",
    ";": "semicolons separate its columns ({names}); save it with commas, and --format csv reads it",
}


def hint_at_format(first_line: str, read_with: str | None = None) -> str | None:
    """A hint if the first line of an input is the header of a table with another delimiter; else None."""
    for delimiter, hint in _HINTS.items():
        names = [name.strip().strip('"') for name in first_line.split(delimiter)]
        if delimiter != read_with and _is_header(names):
            return hint.format(names=", ".join(names[:MAX_NAMES]))
    return None


def _is_header(names: Sequence[str]) -> bool:
    is_message = all(_first(names, known) for known in (CHAT_NAMES, ROLE_NAMES, CONTENT_NAMES))
    return is_message or chat_keys(usual_case(names)) is not None
