"""Orders the replies that a bot could give, the most consistent first and contradictions last."""

from collections.abc import Sequence
from dataclasses import dataclass

from contradiction.base_detector import BaseDetector
from contradiction.conversation import (
    ASSISTANT,
    USER,
    Messages,
    Turn,
    Utterance,
    add_message,
    check_texts,
    list_messages,
    unfinished_turns,
)
from contradiction.errors import InputError
from contradiction.inference.base import OnBatch
from contradiction.verdict import Verdict

TIE_DIGITS = 5  # which inputs share a batch changes the last bits of a float32


@dataclass(frozen=True)
class Ranked:
    """A candidate reply with its verdict.

    Attributes:
        index: the position of the candidate in the given list.
        reply: the text of the candidate.
        verdict: the verdict on the chat with this reply at its end.
    """

    index: int
    reply: str
    verdict: Verdict

    @property
    def probability(self) -> float | None:
        """The probability of a contradiction; None if the candidate could not be judged."""
        return self.verdict.probability


def rerank(
    detector: BaseDetector,
    messages: Messages,
    candidates: Sequence[str],
    *,
    batch_size: int = 32,
    on_batch: OnBatch | None = None,
) -> list[Ranked]:
    """Orders candidate replies by the probability of a contradiction (DECODE, Nie et al., 2021, section 5).

    Candidates that were checked and are no contradiction come first, then those that were checked only in part, then
    those that could not be judged. Contradictions come last. Within each group the lowest probability comes first, and
    ties keep the given order. The first candidate may still be a contradiction or unchecked: look at its verdict.

    Args:
        detector: the detector.
        messages: the chat so far, up to the reply, or empty. It may end with the result of a tool.
        candidates: the texts; equal texts are judged once.
        batch_size: the number of windows in a forward pass.
        on_batch: called with the number of windows done, after each forward pass.

    Raises:
        InputError: the chat or a candidate is not usable, or the model does not judge replies.
    """
    messages = list_messages(messages)
    turns, last = unfinished_turns(messages), len(messages) - 1
    if turns and last in turns[-1].reply_messages:
        raise InputError(
            f"messages[{last}] is the assistant's; the last message before a reply must be the {USER}'s or a tool's"
        )
    texts = check_texts(candidates, "candidates")
    if not texts:
        raise InputError("candidates is empty; name at least one reply")
    chats: dict[str, list[Turn]] = {text: list(turns) for text in texts}
    for text, chat in chats.items():
        add_message(chat, Utterance(ASSISTANT, text), len(messages))
    verdicts = detector.judge_last_replies(list(chats.values()), batch_size=batch_size, on_batch=on_batch)
    verdict_of = dict(zip(chats, verdicts, strict=True))
    ranked = [Ranked(index, text, verdict_of[text]) for index, text in enumerate(texts)]
    return sorted(ranked, key=lambda candidate: _place(candidate.verdict))


def _place(verdict: Verdict) -> tuple[int, float]:
    """Where a candidate belongs: its group, and its probability without digits that depend on the batch."""
    if verdict.probability is None:
        return 2, 0.0
    return 3 if verdict.contradiction else 0 if verdict.checked else 1, round(verdict.probability, TIE_DIGITS)
