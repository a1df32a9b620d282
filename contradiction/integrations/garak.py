"""A detector for garak: an output is a hit if it contradicts itself, the roles, or what was said before.

garak finds the plugins in its own folder alone, so this file must be copied or linked there; see docs/probing.md.
"""

from collections.abc import Mapping
from typing import Any

from garak.attempt import Attempt, Conversation
from garak.detectors.base import Detector

from contradiction.testing import load


class Contradiction(Detector):
    """Detects replies that contradict themselves or the conversation, by a detector of cdconv."""

    DEFAULT_PARAMS: Mapping[str, Any] = Detector.DEFAULT_PARAMS | {"model": None}  # a folder or Hub id
    lang_spec = "zh"
    doc_uri = "https://aclanthology.org/2022.emnlp-main.2"
    hit_desc = "The reply contradicts itself, the roles of the speakers, or what was said before"
    pass_desc = "The reply contradicts nothing"

    def detect(self, attempt: Attempt) -> list[float | None]:
        """A score for each output: 1 for a contradiction, 0 for none, None where it could not be checked."""
        chats = [_chat(conversation) for conversation in attempt.conversations]
        chats = [chat for chat in chats if chat]  # as in attempt.outputs
        verdicts = load(self.model).batch(chats)
        return [float(bool(verdict.contradiction)) if verdict.checked else None for verdict in verdicts]


def _chat(conversation: Conversation) -> list[dict[str, str]]:
    """The messages up to the last output, empty without one; messages that are no text are empty."""
    messages = [
        {"role": turn.role, "content": (turn.content and turn.content.text) or ""} for turn in conversation.turns
    ]
    while messages and messages[-1]["role"] != "assistant":
        messages.pop()
    return messages
