"""One record, a JSON object or a row of a table, as the chats that it holds. Every way in reads records here."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from contradiction.chats import names
from contradiction.chats.formats import parsed
from contradiction.chats.messages import has_speakers, is_message, read_messages, read_transcript
from contradiction.chats.names import SYSTEM, USUAL, Speakers
from contradiction.conversation import ASSISTANT, CALLS, USER, alternating, check_text, read_message
from contradiction.errors import InputError, kind_of, shown

Answer = list[Any]  # the messages of one reply


def read_answers(value: Any, name: str, speakers: Speakers, *, alone: bool = False) -> dict[str, Answer]:
    """The answers under a key, by their places, each as messages.

    The value is text, a message, a list of messages, the response of an API, or a list of such candidates. If the
    record has no other history, the answer stands ``alone``, and may be a whole chat as text.

    Raises:
        InputError: the value holds no reply.
    """
    if isinstance(value, str) and _is_response(inside := parsed(value)):
        value = inside
    if isinstance(value, str):
        whole = alone and has_speakers(value, speakers, several=True)
        return {name: read_transcript(value, speakers) if whole else [{"role": ASSISTANT, "content": value}]}
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
    backwards: list[list[Any]] = []  # compared from their ends, because all chats may begin with one long history
    for name, answer in answers.items():
        chat = answer if is_whole(answer) else history if _repeats(history, answer) else [*before, *answer]
        if chat[::-1] not in backwards:
            chats[name] = chat
            backwards.append(chat[::-1])
    return chats


def _repeats(messages: Sequence[Any], answer: Sequence[Any]) -> bool:
    """Whether an answer is also the end of the chat; an API adds other keys to an answer, such as ``refusal``."""

    def said(message: Any) -> Any:
        return [message.get(key) for key in ("role", "content", *CALLS)] if isinstance(message, Mapping) else message

    return bool(answer) and [*map(said, messages[-len(answer) :])] == [*map(said, answer)]


CHAT = (
    '{"messages": [...]}, a list of messages, or an object with conversations, u1, b1, u2 and b2, instruction and '
    "output, prompt and response, query and response, or request and response"
)


@dataclass(frozen=True)
class Chat:
    """A chat that is not yet checked.

    Attributes:
        messages: the messages; the answer of the record is the last one.
        id: the id that the record gives it.
        label: the label that the record gives to its last reply.
        evidence: the index of the message that the last reply contradicts, as the record gives it.
        answer: the key of the answer if the record holds several, and so gives several chats.
        instructions: those for the bot that the record has beside the messages.
    """

    messages: Any
    id: Any = None
    label: Any = None
    evidence: Any = None
    answer: str = ""
    instructions: str = ""


def read_record(value: object, speakers: Speakers = USUAL) -> list[Chat]:
    """The chats of a record: one, or one for each answer, such as ``chosen`` and ``rejected``.

    Raises:
        InputError: it holds no chat, or a key that may hold the answer and is not read; the message names it.
    """
    if isinstance(value, list):
        return [Chat(read_messages(value, speakers))]
    if not isinstance(value, Mapping):
        raise InputError(f"{kind_of(value)}; a chat must be {CHAT}")
    return _Record(_merged(value), speakers).chats()


def read_chat(value: object, speakers: Speakers = USUAL) -> Chat:
    """The only chat of a record; raises InputError if there is none, or more than one."""
    try:
        first, *more = read_record(value, speakers)
    except RecursionError:
        raise InputError("nested too deeply") from None
    if more:
        answers = [chat.answer for chat in (first, *more)]
        raise InputError(f"{len(answers)} answers ({', '.join(answers[:4])}); a chat has one, so keep one")
    return first


def chats_of_json(value: object) -> list[Any]:
    """The records of a JSON file: one chat, a list of chats, or an object with such a list.

    A list of messages is one chat. The object has the list under ``data``, ``chats`` (Telegram: with ``list`` in it),
    or under ``conversations``, where ShareGPT has the messages of one chat.
    """
    if isinstance(value, Mapping):
        for name in ("conversations", "data", "chats", "list"):
            inner = value.get(name)
            if name == "chats" and isinstance(inner, Mapping):
                return chats_of_json(inner)
            if isinstance(inner, list) and inner and isinstance(inner[0], list | Mapping):
                if not any(map(is_message, inner)):
                    return inner if names.first(value, ("messages",)) is None else [value]
                if name != "conversations":
                    return [inner]
                break
    return [value] if not isinstance(value, list) or any(map(is_message, value)) else value


def _merged(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """A record whose chat lies inside another object: the body of a request, or a request and its response."""
    request = parsed(value.get("request", value.get("body")))
    if not isinstance(request, Mapping):
        return value
    outer = {name: value[name] for name in value if name not in ("request", "body")}
    return _merged({**outer, **request})


class _Record:
    """A record, whose keys are looked up by :func:`names.plain`."""

    def __init__(self, values: Mapping[str, Any], speakers: Speakers) -> None:
        self.values, self.speakers = values, speakers
        known = Counter(map(names.plain, names.read_among([*map(str, values)])))
        twice = next((name for name in values if known[names.plain(name)] > 1), None)
        if twice is not None:
            same = [str(name) for name in values if names.plain(name) == names.plain(twice)]
            raise InputError(f"the keys {' and '.join(same[:3])} are one name; keep one of them")
        self.given = [str(name) for name in values if values[name] is not None and values[name] != ""]

    def chats(self) -> list[Chat]:
        """The history with each of the answers."""
        name, history = self._history()
        answers = self._answers(name, asked=bool(history and not ends_with_reply(history)))
        if history is None and not any(map(is_whole, answers.values())):
            empty = names.first(self.values, names.MESSAGES)
            if empty is not None and self.values[empty] is None:
                raise InputError(f"{empty} is null; it must be a list of messages")
            raise InputError(f"an object with the keys: {names.list_names(self.values)}; a chat must be {CHAT}")
        label = self._value(names.LABEL)
        if len(chats := join_answers(history or [], answers)) > 1 and label is not None:
            raise InputError(
                f"one label for {len(chats)} answers ({', '.join(chats)}); keep the one that has the label"
            )
        evidence, told = self._value(names.EVIDENCE), _instructions(self._value(names.INSTRUCTIONS))
        return [
            Chat(messages, self._id(), label, evidence, answer if len(chats) > 1 else "", told)
            for answer, messages in chats.items()
        ]

    def _value(self, *known: str) -> Any:
        name = names.first(self.given, known)
        return None if name is None else self.values[name]

    def _id(self) -> Any:
        if (own := self._value("id")) is not None:
            return own
        others = (self._value(name) for name in names.IDS[1:])
        return next((one for one in others if isinstance(one, str | int) and not has_structure(one)), None)

    def _history(self) -> tuple[str | None, list[Any] | None]:
        """The key of the history and its messages; None if there is none."""
        for known in names.MESSAGES:
            if (name := names.first(self.given, [known])) is None:
                continue
            value = parsed(self.values[name])
            if isinstance(value, Mapping):
                return name, read_chat(value, self.speakers).messages
            if isinstance(value, list):
                return name, read_messages(value, self.speakers)
            if isinstance(value, str) and has_speakers(value, self.speakers):
                return name, read_transcript(value, self.speakers)
            if isinstance(value, str) and known not in names.CHATS:  # there, the id of the chat
                raise InputError(f"{name}: neither JSON of messages nor lines that begin with 用户： or 机器人：")
            if known == "messages":
                raise InputError(f"{name} is {kind_of(value)}; it must be a list of messages")
        return self._numbered() or self._question()

    def _numbered(self) -> tuple[str, list[Any]] | None:
        """The turns of u1, b1, u2, b2 and so on; empty ones at the end are left out."""
        turns: dict[tuple[int, bool], tuple[str, str]] = {}
        for name in map(str, self.values):
            if (turn := names.numbered(name)) and (role := self.speakers.role_of(turn[0])) in (USER, ASSISTANT):
                turns[turn[1], role == ASSISTANT] = (name, str(role))
        if not {(1, False), (1, True)} <= turns.keys():
            return None
        last = max(
            (turn for turn, _ in turns if {turns[key][0] for key in turns if key[0] == turn} & {*self.given}), default=1
        )
        messages = [
            {"role": role, "content": check_text("" if self.values[name] is None else self.values[name], name)}
            for (turn, _), (name, role) in sorted(turns.items())
            if turn <= last
        ]
        return turns[1, False][0], messages

    def _question(self) -> tuple[str | None, list[Any] | None]:
        """The earlier turns under ``history``, and what the user said last."""
        name, before = names.first(self.given, names.QUESTIONS), self._earlier_turns()
        if name is None:
            return (names.HISTORY, before) if before else (None, None)
        asked = parsed(self.values[name])
        if isinstance(asked, Mapping):
            return name, [*before, *read_chat(asked, self.speakers).messages]
        if isinstance(asked, list):
            return name, [*before, *read_messages(asked, self.speakers)]
        texts = [check_text(asked, name)]
        if has_speakers(asked, self.speakers, several=True):
            messages = read_transcript(asked, self.speakers)
            if messages[-1]["role"] == ASSISTANT and not messages[-1]["content"]:  # where the bot goes on
                messages.pop()
            return name, [*before, *messages]
        for one, other in names.JOINED:
            if names.plain(name) == names.plain(one) and (more := self._value(other)):
                texts.append(check_text(more, other))
        if (session := names.first(self.given, names.CHATS)) and not names.first(self.values, [names.HISTORY]):
            raise InputError(
                f"it has {session} but no {names.HISTORY}; a record holds a whole chat, with the earlier turns in "
                f"{names.HISTORY}"
            )
        return name, [*before, {"role": USER, "content": "\n".join(texts)}]

    def _earlier_turns(self) -> list[Any]:
        where, history = names.HISTORY, parsed(self._value(names.HISTORY)) or []
        if isinstance(history, list) and any(map(is_message, history)):
            return read_messages(history, self.speakers)
        if not isinstance(history, list):
            raise InputError(
                f"{where} is {kind_of(history)}; it must be a list of [what the user said, the reply], or its JSON"
            )
        texts: list[str] = []
        for number, turn in enumerate(history):
            if not isinstance(turn, list) or len(turn) != 2:
                raise InputError(
                    f"{names.HISTORY}[{number}]: {shown(turn)}; it must be [what the user said, the reply]"
                )
            texts += [check_text(text, f"{names.HISTORY}[{number}][{side}]") for side, text in enumerate(turn)]
        return alternating(texts)

    def _answers(self, history: str | None, *, asked: bool) -> dict[str, Answer]:
        """The answers by their keys; refuses a key that may hold one and is not read."""
        found: dict[str, Answer] = {}
        for known in names.ANSWERS:
            if (name := names.first(self.given, [known])) is not None and name != history:
                found |= read_answers(self.values[name], name, self.speakers, alone=history is None)
        if asked and not found and (empty := names.first(self.values, names.ANSWERS)) is not None:
            found = read_answers(self.values[empty], empty, self.speakers)
        for name in self.given:
            missed = names.could_answer(name) or (asked and not found and names.is_reference(name))
            if missed and name != history and has_structure(self.values[name], text=True):
                raise InputError(
                    f"{name!r} may hold the reply to judge and is not read; call it reply if it does, else remove it"
                )
        return found


def _instructions(value: Any) -> str:
    """The text of a system prompt; of one in an unknown shape, which affects no verdict, what Python prints."""
    try:
        return read_message({"role": SYSTEM, "content": value}, SYSTEM).text
    except InputError:
        return repr(value) if value else ""


def has_structure(value: object, *, text: bool = False) -> bool:
    """Whether a value is an object or a list that is not empty, or its JSON; or, with ``text``, any text."""
    value = parsed(value)
    return bool(value) and (isinstance(value, list | Mapping) or (text and isinstance(value, str)))
