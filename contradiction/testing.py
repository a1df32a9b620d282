"""For tests of chatbots: a chat whose replies contradict each other fails, and the message shows where."""

import os
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from contradiction.conversation import Messages, read_message
from contradiction.detector import ContradictionDetector
from contradiction.errors import InputError
from contradiction.verdict import Verdict, is_unchecked

VARIABLE = "CDCONV_MODEL"


def assert_consistent(
    messages: Messages,
    *,
    detector: ContradictionDetector | str | Path | None = None,
    threshold: float | str | None = None,
    scan: bool = True,
    allow_unchecked: bool = False,
    **settings: Any,
) -> None:
    """Fails where a reply of a chat contradicts anything, or could not be checked.

    The first of several replies may go unjudged by a detector that judges only what was said before: nothing was.

    Args:
        messages: the chat, ``{"role", "content"}`` each.
        detector: what judges; or its folder or Hub id, which is loaded once a process. By default ``$CDCONV_MODEL``.
        threshold: instead of the detector's own, see ``contradiction.settings.Settings``.
        scan: judges every reply, not only the last.
        allow_unchecked: passes replies that could not be read whole or judged.
        settings: others of ``contradiction.settings.Settings``, likewise.

    Raises:
        AssertionError: a reply contradicts something, or was not checked; the message shows the chat, the replies
            marked with ``!``, and the messages that they contradict with ``>``.
        InputError: it is no usable chat, or there is no such detector.
    """
    __tracebackhide__ = True  # pytest then shows the line of the test
    judge = _detector(detector)
    if threshold is not None:
        settings["threshold"] = threshold
    if settings:
        judge = judge.with_settings(**settings)
    verdicts = (judge.scan(messages) if scan else []) or [judge(messages)]
    found = [each for each in verdicts if each.is_contradiction]
    unchecked = [
        each
        for each in verdicts
        if not allow_unchecked and each not in found and is_unchecked(each.checked, each.reason, len(verdicts))
    ]
    if found or unchecked:
        raise AssertionError(_report(messages, found, unchecked, len(verdicts)))


def _detector(detector: ContradictionDetector | str | Path | None) -> ContradictionDetector:
    if isinstance(detector, ContradictionDetector):
        return detector
    name = detector or os.environ.get(VARIABLE)
    if not name:
        raise InputError(f"no detector: name one as detector=, or a folder or Hub id in ${VARIABLE}")
    return _loaded(str(name))


@lru_cache
def _loaded(name: str) -> ContradictionDetector:
    return ContradictionDetector.from_pretrained(name)


def _report(messages: Messages, found: Sequence[Verdict], unchecked: Sequence[Verdict], replies: int) -> str:
    told = [*found, *unchecked]
    judged = {index for verdict in told for index in verdict.reply}
    notes: dict[int, list[str]] = {}
    for verdict in told:
        for index in verdict.evidence:
            notes.setdefault(index, []).append(f"contradicted by {_named(verdict.reply)}")
        for index in verdict.reply[-1:]:
            notes.setdefault(index, []).append(_said(verdict))
    counts = [f"{len(found)} of {replies} replies contradictory"] if found else []
    counts += [f"{len(unchecked)} of {replies} replies unchecked"] if unchecked else []
    lines = [", ".join(counts)]
    lines += [_said(verdict) for verdict in unchecked if not verdict.reply]
    for index, message in enumerate(messages):
        said = read_message(message, f"messages[{index}]")
        mark = "!" if index in judged else ">" if index in notes else " "
        note = f"   <- {'; '.join(notes[index])}" if index in notes else ""
        lines.append(f"{mark} [{index}] {said.role}: {said.text}{note}")
    return "\n".join(lines)


def _said(verdict: Verdict) -> str:
    parts = []
    if verdict.label is not None and verdict.score is not None:
        parts.append(f"{verdict.label} {verdict.score:.2f}")
    if verdict.evidence:
        parts.append(f"contradicts {_named(verdict.evidence)}")
    if not verdict.checked:
        parts.append(f"not checked: {verdict.reason}")
    return ", ".join(parts)


def _named(indices: Sequence[int]) -> str:
    return "".join(f"[{index}]" for index in indices)
