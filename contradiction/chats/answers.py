"""The answers that a record holds beside its chat: one reply, or several candidates for it."""

from collections.abc import Mapping, Sequence
from typing import Any

from contradiction.chats import names
from contradiction.chats.json_text import parsed
from contradiction.chats.messages import is_message, read_messages
from contradiction.chats.speakers import USUAL, Speakers
from contradiction.chats.transcripts import has_speakers, read_transcript
from contradiction.conversation import ASSISTANT, CALLS, USER
from contradiction.errors import InputError, kind_of

Answer = list[Any]  # the messages of one reply


def read_answers(value: Any, name: str, speakers: Speakers = USUAL, *, alone: bool = False) -> dict[str, Answer]:
    """The answers under a key, by their places, each as messages.

    Args:
        value: text, a message, a list of messages, the response of an API, or a list of such candidates.
        name: the key.
        speakers: the names of the two sides.
        alone: whether the answer may be a whole chat as text, because the record has no other history.

    Raises:
        InputError: the value holds no reply.
    """
    if isinstance(value, str) and _is_response(inside := parsed(value)):
        value = inside
    if isinstance(value, str):
        whole = alone and has_speakers(value, speakers, several=True)
        return {name: read_transcript(value, speakers) if whole else _said(value)}
    if isinstance(value, Mapping):
        if is_message(value):
            return {name: read_messages([value], speakers)}
        given = [key for key in value if value[key] is not None]
        if inner := names.first(given, ("body", "message", *names.ANSWERS)):
            found = read_answers(value[inner], inner, speakers)
            return {name if key == inner else key: answer for key, answer in found.items()}
        if (text := names.first(given, names.TEXTS)) is not None:
            return {name: read_messages([{"role": ASSISTANT, "content": value[text]}], speakers)}
    if isinstance(value, list):
        if any(map(is_message, value)) and name not in names.SEVERAL:
            return {name: read_messages(value, speakers)}
        if not (name == "choices" and any(isinstance(one, str) for one in value)):  # of a question with choices
            return _candidates(value, name, speakers)
    raise InputError(f"{name} is {kind_of(value)} without a reply; it must be text, a message, or a list of them")


def _candidates(values: list[Any], name: str, speakers: Speakers) -> dict[str, Answer]:
    found: dict[str, Answer] = {}
    for number, value in enumerate(values):
        found |= read_answers(value, name if len(values) == 1 else f"{name}[{number}]", speakers)
    return found


def _is_response(value: Any) -> bool:
    """Whether a value is a message, a list that holds one, or the response of an API; others may be a reply in JSON."""
    if isinstance(value, Mapping) and names.first(value, ("choices", "candidates")):
        return True
    return any(map(is_message, value if isinstance(value, list) else [value]))


def _said(text: str) -> Answer:
    return [{"role": ASSISTANT, "content": text}]


def is_whole(messages: Sequence[Any]) -> bool:
    """Whether an answer is a whole chat, as in the data of TRL."""
    return any(isinstance(message, Mapping) and message.get("role") == USER for message in messages)


def ends_with_reply(messages: Sequence[Any]) -> bool:
    """Whether the last message is the bot's."""
    last = messages[-1] if messages else None
    return isinstance(last, Mapping) and last.get("role") == ASSISTANT


def join_answers(history: list[Any], answers: Mapping[str, Answer]) -> dict[str, list[Any]]:
    """The chats by the keys of their answers; the history alone if there is none."""
    if not answers:
        return {"": history}
    before = history
    # The history may end with one of the answers. The others then replace it.
    only_rejected = all(name.startswith(names.REJECTED[1]) for name in answers)
    if only_rejected or any(_repeats(history, answer) for answer in answers.values()):
        while before and ends_with_reply(before):
            before = before[:-1]
        if only_rejected:
            answers = {"chosen": history[len(before) :], **answers}
    chats: dict[str, list[Any]] = {}
    for name, answer in answers.items():
        chat = answer if is_whole(answer) else history if _repeats(history, answer) else [*before, *answer]
        if chat not in chats.values():
            chats[name] = chat
    return chats


def _repeats(messages: Sequence[Any], answer: Sequence[Any]) -> bool:
    """Whether an answer is also the end of the chat; an API adds other keys to an answer, such as ``refusal``."""

    def said(message: Any) -> Any:
        return [message.get(key) for key in ("role", "content", *CALLS)] if isinstance(message, Mapping) else message

    return bool(answer) and [*map(said, messages[-len(answer) :])] == [*map(said, answer)]
