"""Follows a chat message by message and judges each reply as it arrives, in bounded memory."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, NoReturn, Self

from pydantic import NonNegativeInt, TypeAdapter, ValidationError

from contradiction.base_detector import BaseDetector
from contradiction.conversation import ASSISTANT, Turn, add_messages, read_message
from contradiction.errors import InputError
from contradiction.inputs.views import MAX_TURNS
from contradiction.io.files import write_text
from contradiction.methods.loading import name_with_digest
from contradiction.verdict import Verdict

VERSION: Literal[1] = 1


@dataclass(frozen=True)
class _State:
    """The state of a monitor; the last of ``turns`` may still lack its reply."""

    format: Literal["cdconv monitor"]
    version: Literal[1]
    model: str
    max_turns: int
    messages: NonNegativeInt
    dropped: NonNegativeInt
    turns: tuple[Turn, ...]

    def __post_init__(self) -> None:
        indices = [index for turn in self.turns for index in (*turn.user_messages, *turn.reply_messages)]
        in_order = indices == sorted({*indices}) and all(self.dropped <= index < self.messages for index in indices)
        complete = all(turn.reply_messages for turn in self.turns[:-1])
        held = self.max_turns + 1  # a turn is dropped only for a further one
        if not (in_order and complete and (len(self.turns) == held or (len(self.turns) < held and not self.dropped))):
            raise ValueError("the counts do not fit the turns")


class Monitor:
    """Judges the replies of one chat as they arrive.

    A verdict equals the verdict of the detector with this ``max_turns`` on all messages so far. Indices count from
    the first message of the chat, also after old turns were dropped. Only the windows of the new reply are scored. A
    fine-tuned encoder reads both sides of a window together, so it can reuse nothing of earlier windows: a reply costs
    one input for each earlier turn that is kept.

    The monitor keeps the last ``max_turns`` turns and the current one. A verdict says if there were more turns
    before the reply. A turn is kept whole, so memory still grows if one side keeps talking without an answer. A
    monitor follows one chat, and is used from one thread at a time; many monitors can share a detector.

    Args:
        detector: the detector.
        max_turns: the maximum number of earlier turns that a reply is compared with; by default that of the detector's
            settings, or else ``MAX_TURNS``.

    Raises:
        InputError: ``max_turns`` is below 1, or the model does not judge replies.
    """

    def __init__(self, detector: BaseDetector, max_turns: int | None = None) -> None:
        detector.check_judges_replies()
        self.max_turns = max_turns if max_turns is not None else detector.settings.max_turns or MAX_TURNS
        self._detector = detector.with_settings(max_turns=self.max_turns)
        self._turns: tuple[Turn, ...] = ()
        self._dropped = 0
        self._messages = 0

    def __len__(self) -> int:
        """The number of messages so far, including those of dropped turns."""
        return self._messages

    def add(self, message: object) -> Verdict | None:
        """Adds the next message of the chat.

        Args:
            message: a dict as ``contradiction.conversation.read_turns`` takes it.

        Returns:
            The verdict on the reply that the message belongs to; None if the message is not a reply, because it is not
            by the assistant or only calls a tool. Consecutive messages by the assistant form one reply, which is judged
            again after each of them.

        Raises:
            InputError: the message is not usable. This and any other error leave the monitor unchanged.
        """
        utterance = read_message(message, f"messages[{self._messages}]")
        turns = list(self._turns)
        add_messages(turns, [(self._messages, utterance)])
        # The last turn is the current one, which is held beside the ``max_turns`` earlier ones.
        excess = max(0, len(turns) - 1 - self.max_turns)
        turns, dropped = turns[excess:], self._dropped + excess
        verdict = None
        if utterance.role == ASSISTANT and not utterance.skipped:
            [verdict] = self._detector.judge_replies([self._detector.case(turns, len(turns) - 1, dropped)])
        self._turns, self._dropped, self._messages = tuple(turns), dropped, self._messages + 1
        return verdict

    def to_json(self) -> str:
        """The state of the monitor, including the text of the kept messages; :meth:`from_json` continues from it."""
        model = _identity(self._detector.name)
        state = _State("cdconv monitor", VERSION, model, self.max_turns, self._messages, self._dropped, self._turns)
        return json.dumps(asdict(state), ensure_ascii=False)

    @classmethod
    def from_json(cls, detector: BaseDetector, text: str) -> Self:
        """Continues where :meth:`to_json` stopped.

        Args:
            detector: the one that the monitor was made with, or a copy in another folder. Its settings apply, except
                ``max_turns``, which the text states.
            text: the text that :meth:`to_json` returned.

        Raises:
            InputError: the text is not a saved monitor, or has another version or model.
        """
        try:
            state = TypeAdapter(_State).validate_json(text, strict=True)
        except ValidationError as error:
            problem = error.errors()[0]
            place = ".".join(map(str, problem["loc"])) or "its JSON"
            message = problem["msg"].removeprefix("Value error, ")
            raise InputError(f"not a saved monitor of version {VERSION}: {place}: {message}") from None
        if state.model != _identity(detector.name):
            raise InputError(f"the monitor was saved with another model than {detector.name}; load that one")
        monitor = cls(detector, state.max_turns)
        monitor._turns, monitor._dropped, monitor._messages = state.turns, state.dropped, state.messages
        return monitor

    def save(self, path: str | Path) -> None:
        """Writes the state to a file, completely or not at all."""
        write_text(path, self.to_json())

    @classmethod
    def load(cls, detector: BaseDetector, path: str | Path) -> Self:
        """Continues where :meth:`save` stopped; see :meth:`from_json`.

        Raises:
            InputError: there is no such file, it is not a saved monitor, or it has another version or model.
        """
        try:
            return cls.from_json(detector, Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise InputError(f"{path}: no saved monitor can be read there ({error.strerror})") from None
        except ValueError as error:  # also text that is not in UTF-8
            raise InputError(f"{path}: {error}") from None

    def __reduce__(self) -> NoReturn:
        # A pickle would hold the whole model, and code to run on the machine that loads it.
        raise TypeError("a monitor cannot be pickled or copied; use to_json and Monitor.from_json")


def _identity(model: str) -> str:
    """What copies of a model share: a digest of the weights in its folder; a Hub id as it is."""
    if not Path(model).is_dir():
        return model
    try:
        return str(name_with_digest(model)).rpartition("@")[2]
    except InputError:  # a method without weights
        return Path(model).resolve().name
