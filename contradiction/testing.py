"""For tests of chatbots: a chat whose replies contradict each other fails, and the error shows where."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from contradiction.conversation import Messages, list_messages, read_message
from contradiction.detector import ContradictionDetector
from contradiction.paths import SHIPPED
from contradiction.verdict import Verdict, is_unchecked

VARIABLE = "CDCONV_MODEL"


def assert_consistent(
    messages: Messages,
    *,
    detector: ContradictionDetector | str | Path | None = None,
    scan: bool = True,
    allow_unchecked: bool = False,
    **settings: Any,
) -> None:
    """Raises AssertionError if a reply of a chat contradicts anything, or could not be checked.

    A first reply that the detector does not judge passes where there are other replies, because there is no earlier
    reply that it could contradict.

    Args:
        messages: the chat, a list of ``{"role", "content"}``.
        detector: the detector, or its folder or Hub id, which is loaded once in a process. By default the one that the
            environment variable ``CDCONV_MODEL`` names, or else the shipped detector.
        scan: judges every reply, not only the last.
        allow_unchecked: passes replies that could not be read completely or could not be judged.
        settings: a ``threshold`` and other settings of :class:`contradiction.settings.Settings`, instead of the
            detector's own.

    Raises:
        AssertionError: a reply contradicts something, or was not checked. The message shows the chat, with ``!`` at
            the replies and ``>`` at the messages that they contradict.
        InputError: the chat is not usable, or there is no such detector.
    """
    __tracebackhide__ = True  # pytest then shows the line of the test
    loaded = load(detector)
    if settings:
        loaded = loaded.with_settings(**settings)
    found = inspect(loaded, messages, scan=scan)
    if found.contradictions or (found.unchecked and not allow_unchecked):
        raise AssertionError(found.report())


@dataclass(frozen=True)
class Inspection:
    """What a detector finds in a chat.

    Attributes:
        messages: the chat.
        verdicts: on its replies.
        contradictions: those of them that are contradictions.
        unchecked: the others that say that something was not checked.
    """

    messages: Messages
    verdicts: Sequence[Verdict]
    contradictions: Sequence[Verdict]
    unchecked: Sequence[Verdict]

    def report(self) -> str:
        """The counts, and the chat with ``!`` at these replies and ``>`` at the messages that they contradict."""
        failed = [*self.contradictions, *self.unchecked]
        judged = {index for verdict in failed for index in verdict.reply}
        notes: dict[int, list[str]] = {}
        for verdict in failed:
            for index in verdict.evidence:
                notes.setdefault(index, []).append(f"contradicted by {_format_indices(verdict.reply)}")
            for index in verdict.reply[-1:]:
                notes.setdefault(index, []).append(_describe(verdict))
        counts = {"contradictory": len(self.contradictions), "unchecked": len(self.unchecked)}
        lines = [", ".join(f"{n} of {len(self.verdicts)} replies {name}" for name, n in counts.items() if n)]
        lines += [_describe(verdict) for verdict in self.unchecked if not verdict.reply]
        for index, message in enumerate(self.messages):
            utterance = read_message(message, f"messages[{index}]")
            mark = "!" if index in judged else ">" if index in notes else " "
            note = f"   <- {'; '.join(notes[index])}" if index in notes else ""
            lines.append(f"{mark} [{index}] {utterance.role}: {utterance.text}{note}")
        return "\n".join(lines)


def inspect(detector: ContradictionDetector, messages: Messages, *, scan: bool = True) -> Inspection:
    """Judges a chat; see :func:`assert_consistent` for the arguments."""
    messages = list_messages(messages)
    verdicts = (detector.scan(messages) if scan else []) or [detector(messages)]
    contradictions = [verdict for verdict in verdicts if verdict.contradiction]
    unchecked = [
        verdict
        for verdict in verdicts
        if not verdict.contradiction and is_unchecked(verdict.checked, verdict.reason, len(verdicts))
    ]
    return Inspection(messages, verdicts, contradictions, unchecked)


def load(detector: ContradictionDetector | str | Path | None) -> ContradictionDetector:
    """The detector itself, or the one with this name, which is loaded once; see :func:`assert_consistent`."""
    if isinstance(detector, ContradictionDetector):
        return detector
    name = detector or os.environ.get(VARIABLE) or SHIPPED
    return _load_once(str(name))


@lru_cache
def _load_once(name: str) -> ContradictionDetector:
    return ContradictionDetector.from_pretrained(name)


def _describe(verdict: Verdict) -> str:
    parts = []
    if verdict.label is not None and verdict.probability is not None:
        parts.append(f"{verdict.label} {verdict.probability:.2f}")
    if verdict.evidence:
        parts.append(f"contradicts {_format_indices(verdict.evidence)}")
    if not verdict.checked:
        parts.append(f"not checked: {verdict.reason}")
    return ", ".join(parts)


def _format_indices(indices: Sequence[int]) -> str:
    return "".join(f"[{index}]" for index in indices)
