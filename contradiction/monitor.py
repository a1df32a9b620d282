"""A chat followed message by message: each reply is judged as it comes, in bounded memory."""

import json
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, Self

from contradiction.conversation import ASSISTANT, Turn, add_message, read_message
from contradiction.errors import InputError
from contradiction.io.files import write_text
from contradiction.verdict import Verdict

if TYPE_CHECKING:
    from contradiction.detector import ContradictionDetector

# Earlier turns that are held where nobody says how many: more than most chats have, and still about a second of two CPU
# cores a reply with a 28 M-parameter encoder.
MAX_TURNS = 50
FORMAT, VERSION = "cdconv monitor", 1


@dataclass(frozen=True)
class _State:
    """What is kept of a chat; ``turns`` may end with one that still lacks its reply."""

    format: str
    version: int
    model: str
    max_turns: int
    messages: int
    dropped: int
    turns: tuple[Turn, ...]

    def is_sound(self) -> bool:
        """Whether the parts fit together, which their types alone do not say."""
        said = list(chain.from_iterable((*turn.user_messages, *turn.reply_messages) for turn in self.turns))
        return (
            self.max_turns >= 1
            and self.dropped >= 0
            and len(self.turns) <= self.max_turns + 1
            and all(turn.reply_messages for turn in self.turns[:-1])
            and all(before < after for before, after in zip((-1, *said), (*said, self.messages), strict=True))
        )


class Monitor:
    """Judges the replies of one chat as they come.

    A verdict is the one that the detector, with this ``max_turns``, gives on all messages so far, and its indices count
    from the first message of the chat, also once old turns were dropped. Only the windows of the reply that came are
    scored. A fine-tuned encoder reads both sides of a window together, so nothing of an earlier window can be used
    again: a reply costs one input for each earlier turn held. A frozen one embeds what is new alone.

    What is held: the last ``max_turns`` turns and the one that goes on; a verdict on a reply with more turns before it
    says so, as with the setting of that name. A turn is held whole, so one side that speaks on without an answer still
    adds to it. A monitor follows one chat, and from one thread at a time; many of them can share a detector.

    Args:
        detector: what judges.
        max_turns: earlier turns that a reply is read against at most; by default those of the detector's settings,
            else ``MAX_TURNS``.

    Raises:
        InputError: ``max_turns`` is below 1.
    """

    def __init__(self, detector: "ContradictionDetector", max_turns: int | None = None) -> None:
        self.max_turns = max_turns if max_turns is not None else detector.settings.max_turns or MAX_TURNS
        self._detector = detector.with_settings(max_turns=self.max_turns)
        self._turns: tuple[Turn, ...] = ()
        self._dropped = 0
        self._messages = 0

    def __repr__(self) -> str:
        return (
            f"Monitor(model={self._detector.name!r}, messages={self._messages}, turns={len(self._turns)}, "
            f"dropped={self._dropped}, max_turns={self.max_turns})"
        )

    def __len__(self) -> int:
        """The number of messages so far, those of dropped turns included."""
        return self._messages

    def add(self, message: object) -> Verdict | None:
        """Takes the next message of the chat; see ``contradiction.conversation.read_turns`` for what one is.

        Returns:
            The verdict on the reply that the message belongs to; None for messages that are no reply: those that are
            not the assistant's, or only call a tool.
            Several messages in a row by the assistant are one reply, which is judged anew with each.

        Raises:
            InputError: it is no message. The monitor is then as it was, as after any other error.
        """
        said = read_message(message, f"messages[{self._messages}]")
        turns = list(self._turns)
        add_message(turns, said, self._messages)
        # The last turn goes on: it is not among those that a reply is read against.
        more = max(0, len(turns) - 1 - self.max_turns)
        turns, dropped = turns[more:], self._dropped + more
        replies = said.role == ASSISTANT and not said.unsaid
        verdict = self._detector.judge_turn(turns, len(turns) - 1, dropped) if replies else None
        self._turns, self._dropped, self._messages = tuple(turns), dropped, self._messages + 1
        return verdict

    def to_json(self) -> str:
        """What is held, the text of its messages included, from which :meth:`from_json` goes on exactly."""
        state = _State(
            FORMAT, VERSION, _identity(self._detector.name), self.max_turns, self._messages, self._dropped, self._turns
        )
        return json.dumps(asdict(state), ensure_ascii=False)

    @classmethod
    def from_json(cls, detector: "ContradictionDetector", text: str) -> Self:
        """Goes on where :meth:`to_json` stopped.

        Args:
            detector: the one that the monitor was made with. Its settings count, but for ``max_turns``, which is that
                of the text.
            text: what :meth:`to_json` gave.

        Raises:
            InputError: the text is no saved monitor, or one of another version or model.
        """
        from pydantic import TypeAdapter, ValidationError

        try:
            values = json.loads(text)
        except ValueError as error:
            raise InputError(f"no saved monitor: not JSON ({error})") from None
        if not isinstance(values, dict) or values.get("format") != FORMAT:
            raise InputError(f'no saved monitor: it must be a JSON object with "format": "{FORMAT}"')
        if values.get("version") != VERSION:
            raise InputError(f"the monitor was saved as version {values.get('version')}; this one reads {VERSION}")
        try:
            state = TypeAdapter(_State).validate_json(text, strict=True)
        except ValidationError as error:
            first = error.errors()[0]
            raise InputError(
                f"the saved monitor is damaged: {'.'.join(map(str, first['loc']))}: {first['msg']}"
            ) from None
        if not state.is_sound():
            raise InputError("the saved monitor is damaged: its counts and the places of its messages do not fit")
        if state.model != _identity(detector.name):
            raise InputError(
                f"the monitor was saved with the model {state.model}; this detector is {detector.name}: load that one"
            )
        monitor = cls(detector, state.max_turns)
        monitor._turns, monitor._dropped, monitor._messages = state.turns, state.dropped, state.messages
        return monitor

    def save(self, path: str | Path) -> None:
        """Writes :meth:`to_json` to a file, whole or not at all."""
        write_text(path, self.to_json())

    @classmethod
    def load(cls, detector: "ContradictionDetector", path: str | Path) -> Self:
        """Goes on where :meth:`save` stopped; see :meth:`from_json`.

        Raises:
            InputError: the file holds no saved monitor, or one of another version or model.
        """
        try:
            return cls.from_json(detector, Path(path).read_text(encoding="utf-8"))
        except UnicodeDecodeError as error:
            raise InputError(f"{path}: no saved monitor: not UTF-8 ({error})") from None
        except InputError as error:
            raise InputError(f"{path}: {error}") from None

    def __reduce__(self) -> NoReturn:
        # It would take the whole model along, and with it what runs on another machine.
        raise TypeError("a monitor cannot be pickled or copied; save it with to_json and go on with Monitor.from_json")


def _identity(model: str) -> str:
    """One name for one folder, however it was spelled; a Hub id as it is."""
    return str(Path(model).resolve()) if Path(model).is_dir() else model
