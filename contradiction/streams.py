"""JSON lines of chats in, one verdict a line out, in the same order."""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from itertools import islice
from typing import Any, BinaryIO

from contradiction.detector import ContradictionDetector, Verdict
from contradiction.errors import InputError

CHUNK = 512  # lines read ahead: enough for batches of like length, few enough to answer soon


def detect_lines(
    detector: ContradictionDetector,
    lines: BinaryIO | Iterable[bytes],
    where: str,
    *,
    on_error: Callable[[str], Any],
    batch_size: int = 32,
) -> Iterator[str]:
    """Judges JSON lines of ``{"messages": [...]}``.

    Args:
        detector: what judges.
        lines: UTF-8 bytes, a line each; blank lines are passed over.
        where: the name of the input, for messages.
        on_error: called with one line of text for each line that cannot be judged; the rest goes on.
        batch_size: chats a forward pass.

    Yields:
        A JSON object for each good line: its number (from 1) as ``line``, then the fields of the verdict.
    """
    numbered = enumerate(lines, start=1)
    while chunk := list(islice(numbered, CHUNK)):
        chats: dict[int, Any] = {}
        for number, line in chunk:
            if not line.strip():
                continue
            try:
                chats[number] = _messages(line)
                detector.check(chats[number])
            except InputError as error:
                chats.pop(number, None)
                on_error(f"{where}:{number}: {error}")
        for number, verdict in zip(chats, detector.batch(list(chats.values()), batch_size=batch_size), strict=True):
            yield to_json(verdict, line=number)


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
