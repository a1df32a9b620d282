"""JSON lines of chats in, one verdict a line out, in the same order."""

import json
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator
from dataclasses import asdict
from itertools import count
from typing import Any, Protocol

from contradiction.conversation import read_turns
from contradiction.detector import ContradictionDetector
from contradiction.errors import InputError
from contradiction.verdict import Verdict


class Stream(Protocol):
    """A buffered binary file, or standard input's buffer."""

    def read1(self, size: int, /) -> bytes:
        """What has arrived, at most ``size`` bytes; waits only where there is nothing, and is empty at the end."""


AT_ONCE = 1 << 18  # bytes: enough for batches of like length, few enough to answer soon


def detect_lines(
    detector: ContradictionDetector,
    stream: Stream,
    where: str,
    *,
    on_error: Callable[[str], Any],
    batch_size: int = 32,
) -> Iterator[str]:
    """Judges JSON lines of ``{"messages": [...]}``.

    What has arrived is judged at once, so that a pipe is answered line by line and a file in large batches.

    Args:
        detector: what judges.
        stream: UTF-8, a chat a line; blank lines are passed over.
        where: the name of the input, for messages.
        on_error: called with one line of text for each line that cannot be judged; the rest goes on.
        batch_size: chats a forward pass.

    Yields:
        A JSON object for each good line: its number (from 1) as ``line``, then the fields of the verdict.
    """
    numbers = count(1)
    for lines in _arrived(stream):
        chats: dict[int, Any] = {}
        for line, number in zip(lines, numbers, strict=False):
            if number == 1:
                line = line.removeprefix(BOM_UTF8)
            if not line.strip():
                continue
            try:
                messages = _messages(line)
                read_turns(messages)
                chats[number] = messages
            except InputError as error:
                on_error(f"{where}:{number}: {error}")
        for place, verdict in zip(chats, detector.batch(list(chats.values()), batch_size=batch_size), strict=True):
            yield to_json(verdict, line=place)


def _arrived(stream: Stream) -> Iterator[list[bytes]]:
    """The whole lines that can be read without waiting, again and again until the end."""
    rest: list[bytes] = []
    while part := stream.read1(AT_ONCE):
        head, newline, tail = part.rpartition(b"\n")
        if newline:
            yield b"".join([*rest, head]).split(b"\n")
            rest = [tail]
        else:
            rest.append(part)
    if last := b"".join(rest):
        yield [last]


def to_json(verdict: Verdict, **more: Any) -> str:
    """One line of JSON, Chinese as it is."""
    return json.dumps({**more, **asdict(verdict)}, ensure_ascii=False)


def _messages(line: bytes) -> Any:
    try:
        chat = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"not a line of UTF-8 JSON ({error})") from None
    if not isinstance(chat, dict) or "messages" not in chat:
        raise InputError('a line must be {"messages": [...]}')
    return chat["messages"]
