"""Chats of two named speakers as messages: who replies is the assistant, the other is the user."""

from collections.abc import Iterable

from contradiction.conversation import ASSISTANT, USER


def messages_of(turns: Iterable[tuple[str, str]], replier: str) -> tuple[dict[str, str], ...]:
    """Turns of speaker and text as messages.

    Args:
        turns: in order.
        replier: the speaker of the reply that is judged; every other speaker is the user.
    """
    return tuple({"role": ASSISTANT if speaker == replier else USER, "content": text} for speaker, text in turns)
