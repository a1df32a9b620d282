"""Chat messages to turns, and the checks that a chat is usable."""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby, takewhile
from operator import is_
from typing import Any

from contradiction.errors import InputError, kind_of, shown
from contradiction.markup import Extract, plain
from contradiction.spoken import has_unspoken_keys, is_folded, is_unspoken_item, said

USER, ASSISTANT = "user", "assistant"
TOOLS = ("tool", "function")
INSTRUCTIONS = ("system", "developer")
ROLES = (USER, ASSISTANT, *INSTRUCTIONS, *TOOLS)
CALLS = ("tool_calls", "function_call")
MESSAGE = '{"role": "user" or "assistant", "content": text}'
# The type of a content part -> the key of its text.
TEXT_PARTS = {"text": "text", "input_text": "text", "output_text": "text", "refusal": "refusal"}
TRANSCRIPT = "transcript"  # the key of what a spoken part says

Messages = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Turn:
    """A user's utterance and the reply to it; several messages in a row by one side are one utterance.

    Attributes:
        user: the text of the user, empty if the assistant spoke first.
        reply: the text of the assistant.
        user_messages: the indices in the chat of the messages that make up ``user``.
        reply_messages: the indices of the messages that make up ``reply``.
        unread: which content of these messages is not text and was not read; None if all of it is text.
    """

    user: str
    reply: str
    user_messages: tuple[int, ...]
    reply_messages: tuple[int, ...]
    unread: str | None = None

    @property
    def end(self) -> int:
        """The number of messages up to the last one of this turn."""
        return (self.reply_messages or self.user_messages)[-1] + 1

    @cached_property
    def has_words(self) -> bool:
        """Whether the reply holds words; kept, because every later reply of the chat asks."""
        return not is_blank(self.reply)


@dataclass(frozen=True)
class Utterance:
    """One message as text.

    Attributes:
        role: one of ``ROLES``.
        text: the text; empty for a message by a tool.
        unread: which content of the message is not text and was not read; None if all of it is text.
        skipped: whether the message belongs to no turn: an instruction, a thought, or the use of a tool.
    """

    role: str
    text: str
    unread: str | None = None
    skipped: bool = False

    @property
    def said(self) -> Extract:
        """What of the text is said to the other side: without the thoughts and calls of the assistant."""
        return said(self.text) if self.role == ASSISTANT else Extract.whole(self.text)


def chat_to_text(messages: Iterable[Mapping[str, str]]) -> str:
    """Messages as one text, with the speaker before each: ``user: hi assistant: hello``."""
    return " ".join(f"{message['role']}: {message['content']}" for message in messages)


def read_turns(messages: Messages) -> list[Turn]:
    """Splits a chat of any length into turns.

    Messages of the system and of tools, messages and parts that only think or call a tool, thoughts within a text of
    the assistant, and user messages after the last reply are skipped; see ``contradiction.spoken``.

    Args:
        messages: dicts with ``role`` (one of ``ROLES``) and ``content``: text, a list of parts (only parts of text are
            read), or None, which counts as empty. Arrays and other iterables count as lists.

    Raises:
        InputError: a message is not usable; the error names its index, its value, and what is allowed.
    """
    return next(read_chats([messages]))


def read_chats(chats: Iterable[Messages]) -> Iterator[list[Turn]]:
    """The turns of each chat, see :func:`read_turns`. What chats share with the one before them is read once."""
    before: list[Any] = []
    turns: list[Turn] = []
    for chat in chats:
        if not (messages := list_messages(chat)):
            raise InputError(f"messages is empty; it must be a list of {MESSAGE}")
        shared = sum(1 for _ in takewhile(bool, map(is_, before, messages)))
        while turns and turns[-1].end > shared:
            turns.pop()
        rest = range(turns[-1].end if turns else 0, len(messages))
        add_messages(turns, ((index, read_message(messages[index], f"messages[{index}]")) for index in rest))
        before = messages
        yield turns[:-1] if turns and not turns[-1].reply_messages else [*turns]


def unfinished_turns(messages: Messages) -> list[Turn]:
    """Like :func:`read_turns`, of a list that may be empty; the last turn may lack its reply."""
    turns: list[Turn] = []
    add_messages(turns, ((index, read_message(each, f"messages[{index}]")) for index, each in enumerate(messages)))
    return turns


def spoken_messages(messages: Messages, *, instructions: bool = False) -> list[dict[str, str]]:
    """What both sides say to each other, as text, and perhaps what the bot is told.

    Raises:
        InputError: a message is not usable.
    """
    read = [read_message(message, f"messages[{index}]") for index, message in enumerate(messages)]
    return [
        {"role": message.role, "content": message.said.text}
        for message in read
        if not message.skipped or (instructions and message.role in INSTRUCTIONS and message.text)
    ]


def alternating(texts: Iterable[str]) -> list[dict[str, str]]:
    """The messages of texts in turn, the user's first."""
    return [{"role": (USER, ASSISTANT)[index % 2], "content": text} for index, text in enumerate(texts)]


def list_messages(messages: object) -> list[Any]:
    """The messages of a chat as a list, which may be empty; raises InputError for a value that is no list of them."""
    if (values := _items(messages)) is None:
        raise InputError(f"messages is {kind_of(messages)}; it must be a list of {MESSAGE}")
    return values


def _items(value: object) -> list[Any] | None:
    """The items of a list, an array or another iterable; None for text, an object, and what has no items."""
    if isinstance(value, str | bytes | bytearray | Mapping) or not isinstance(value, Iterable):
        return None
    try:
        return list(value)
    except TypeError:  # an array without dimensions
        return None


def add_messages(turns: list[Turn], messages: Iterable[tuple[int, Utterance]]) -> None:
    """Adds the next messages of a chat, each with its index, to its turns, in place; the last may lack its reply."""
    said_ones = (pair for pair in messages if not pair[1].skipped)
    # What one side says in a row is joined once: with each message again, a long row would take quadratic time.
    for by_user, row in groupby(said_ones, key=lambda pair: pair[1].role == USER):
        indices, utterances = zip(*row, strict=True)
        texts = [utterance.said.text for utterance in utterances]
        last = turns.pop() if turns and not (by_user and turns[-1].reply_messages) else Turn("", "", (), ())
        if by_user:
            last = replace(last, user=_join(last.user, *texts), user_messages=(*last.user_messages, *indices))
        else:
            last = replace(last, reply=_join(last.reply, *texts), reply_messages=(*last.reply_messages, *indices))
        unread = last.unread or next((utterance.unread for utterance in utterances if utterance.unread), None)
        turns.append(replace(last, unread=unread))


def _join(*texts: str) -> str:
    return "\n".join(filter(None, texts))


def read_message(message: object, where: str) -> Utterance:
    """Reads one message; raises InputError, which begins with ``where``, for one that is not usable."""
    message = _dumped(message)
    if not isinstance(message, Mapping):
        raise InputError(f"{where} is {kind_of(message)}; it must be {MESSAGE}")
    if is_unspoken_item(message):
        return Utterance(TOOLS[0], "", skipped=True)
    if "role" not in message:
        kind = f" of type {shown(message['type'])}" if "type" in message else ""
        raise InputError(f"{where}{kind} has no 'role'; it must be {MESSAGE}")
    role = message["role"].lower() if isinstance(message["role"], str) else None
    if role not in ROLES:
        raise InputError(
            f"{where}: role {shown(message['role'])}; allowed are {', '.join(ROLES)}; the bot's own messages have the "
            f"role {ASSISTANT}"
        )
    unspoken = role == ASSISTANT and has_unspoken_keys(message)
    if "content" not in message and not unspoken and not isinstance(message.get("refusal"), str):
        raise InputError(f"{where} has no 'content'; it must be {MESSAGE}")
    text, unread, only_unspoken = _read_content(role, message, where)
    utterance = Utterance(role, text, unread, skipped=role in INSTRUCTIONS or only_unspoken)
    says_nothing = unspoken and unread is None and is_blank(utterance.said.text)
    return replace(utterance, skipped=True) if says_nothing or (role == ASSISTANT and is_folded(message)) else utterance


def _dumped(value: object) -> object:
    """An object of an SDK as a dict; any other value as it is."""
    return value.model_dump() if hasattr(value, "model_dump") else value


def text_at(messages: Messages, indices: Iterable[int]) -> str:
    """What the messages at these indices say, a line for each."""
    return "\n".join(read_message(messages[index], f"messages[{index}]").said.text for index in indices)


def _read_content(role: str, message: Mapping[str, Any], where: str) -> tuple[str, str | None, bool]:
    """The text of a message, which of its content is not text, and whether it only thinks or calls tools."""
    content = message.get("content")
    if content is None:  # if a tool is called, or the assistant refuses or speaks under a key of its own
        audio, refusal = message.get("audio"), message.get("refusal")
        others = refusal, audio.get(TRANSCRIPT) if isinstance(audio, Mapping) else None
        content = next((text for text in others if role == ASSISTANT and isinstance(text, str)), "")
    if isinstance(content, str):
        return check_text(content, where), None, False
    # An iterator would be used up, and some callers read a message twice.
    if not isinstance(content, Iterator) and (parts := _items(content)) is not None:
        return _read_parts(parts, where)
    raise InputError(f"{where}: content is {kind_of(content)}; it must be text, or a list of parts")


def _read_parts(parts: Sequence[object], where: str) -> tuple[str, str | None, bool]:
    texts, other_types, unspoken = [], [], False
    for number, part in enumerate(map(_dumped, parts)):
        place = f"{where}: content[{number}]"
        if isinstance(part, str):
            texts.append(check_text(part, place))
            continue
        if not isinstance(part, Mapping):
            raise InputError(f'{place} is {shown(part)}; a part must be {{"type": "text", "text": text}}')
        kind = part.get("type", "text" if "text" in part else None)  # Gemini and Bedrock name no type
        if is_unspoken_item(part) or (kind is None and has_unspoken_keys(part)):
            unspoken = True
        elif not isinstance(kind, str):
            raise InputError(f'{place} is {shown(part)}; a part must be {{"type": "text", "text": text}}')
        elif kind not in TEXT_PARTS and isinstance(transcript := part.get(TRANSCRIPT), str):
            texts.append(check_text(transcript, place))
        elif kind not in TEXT_PARTS:
            other_types.append(shown(kind))
        elif isinstance(text := part.get(TEXT_PARTS[kind]), str):
            texts.append(check_text(text, place))
        else:
            raise InputError(f"{place}: its text is {kind_of(text)}; it must be text")
    unread = None
    if other_types:
        names = ", ".join([*dict.fromkeys(other_types)][:3])
        unread = f"{where} holds content that is not text and was not read: {names}"
    return "\n".join(texts), unread, unspoken and not texts and not other_types


def check_text(value: object, where: str) -> str:
    """Returns a text; raises InputError, which begins with ``where``, for any other value and for invalid Unicode."""
    if not isinstance(value, str):
        raise InputError(f"{where} is {kind_of(value)}; it must be text")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(
            f"{where}: content holds a lone surrogate at character {error.start}; it must be valid Unicode"
        ) from None
    return value


def check_texts(values: object, where: str) -> list[str]:
    """Returns a list of texts; raises InputError, which begins with ``where``, for anything else."""
    if (texts := _items(values)) is None:
        raise InputError(f"{where} is {kind_of(values)}; it must be a list of texts")
    return [check_text(text, f"{where}[{index}]") for index, text in enumerate(texts)]


def is_blank(text: str) -> bool:
    """Whether a text has no word: no letter, digit or symbol beside spaces, punctuation and markup."""
    return all(unicodedata.category(character)[0] in "ZPCM" for character in set(plain(text)))


# A Han character counts as a word, as does a character of a syllabic script; in other scripts a run of letters does.
HAN = "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_SYLLABLES = "\u3040-\u30ff\uac00-\ud7af\u0e00-\u0e7f"
_CHINESE = re.compile(f"[{HAN}]")
_OTHER = re.compile(rf"[{_SYLLABLES}]|[^\W\d_{HAN}{_SYLLABLES}]+")
_URL = re.compile(r"(?:https?://|www\.)[!-~]+", re.IGNORECASE)  # ends at a Han character, before which no space may be
FOREIGN_WORDS = 3  # fewer are a name or a short answer, as Chinese speakers use them: OK, iPhone, Wi-Fi
NAME_WORDS = 4  # with a capital letter; more are a sentence in capitals or a title


def is_chinese(text: str) -> bool:
    """Whether at least half of the words are Han characters; also true of text without letters, such as a number."""
    text = plain(text)
    return len(_CHINESE.findall(text)) >= len(_OTHER.findall(text))


def is_foreign(text: str) -> bool:
    """Whether a text is in another language than Chinese.

    It is if words of other scripts outnumber its Han characters, and are at least ``FOREIGN_WORDS``. URLs and markup do
    not count. Beside Han characters, up to ``NAME_WORDS`` words with a capital letter do not either: iPhone 15 Pro Max.
    """
    text = _URL.sub(" ", plain(text))
    han, words = len(_CHINESE.findall(text)), _OTHER.findall(text)
    capitals = sum(word != word.lower() for word in words)
    names = capitals if han and capitals <= NAME_WORDS else 0
    return len(words) - names >= max(FOREIGN_WORDS, han + 1)
