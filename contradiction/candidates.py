"""Replies that a bot could give: the most consistent of them, and whether one contradicts facts about the bot."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from contradiction.base_detector import BaseDetector, Case
from contradiction.conversation import (
    ASSISTANT,
    USER,
    Messages,
    Turn,
    Utterance,
    add_messages,
    check_text,
    check_texts,
    is_blank,
    list_messages,
    unfinished_turns,
)
from contradiction.errors import InputError
from contradiction.inference.base import OnBatch
from contradiction.inputs.views import INTRODUCTION, STRUCTURED, Window, row_of
from contradiction.labels import CATEGORIES, CONTRADICTIONS, HISTORY, INTRA, ROLE
from contradiction.markup import plain
from contradiction.methods.base import Prediction
from contradiction.spoken import said
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
        add_messages(chat, [(len(messages), Utterance(ASSISTANT, text))])
    verdicts = detector.judge_last_replies(list(chats.values()), batch_size=batch_size, on_batch=on_batch)
    verdict_of = dict(zip(chats, verdicts, strict=True))
    ranked = [Ranked(index, text, verdict_of[text]) for index, text in enumerate(texts)]
    return sorted(ranked, key=lambda candidate: _place(candidate.verdict))


def _place(verdict: Verdict) -> tuple[int, float]:
    """Where a candidate belongs: its group, and its probability without digits that depend on the batch."""
    if verdict.probability is None:
        return 2, 0.0
    return 3 if verdict.contradiction else 0 if verdict.checked else 1, round(verdict.probability, TIE_DIGITS)


def check(detector: BaseDetector, facts: Sequence[str], reply: str, question: str = "") -> Verdict:
    """Judges a reply against sentences that are true of the bot.

    Each fact is read as an earlier reply, in a window of its own: (``INTRODUCTION``, fact, question, reply). To
    contradict a fact is to contradict the history, so all other labels count as no contradiction. The settings apply,
    except ``windowing`` and ``max_turns``: every fact is read. ``experiments/persona_facts.py`` measures how many
    contradictions are found.

    Args:
        detector: the detector.
        facts: sentences in the bot's own words, such as 我没有养宠物。
        reply: the text to check.
        question: what the user said before the reply. The detector was trained on replies to a message, so without it
            the certainty of the verdict is ``unsure``.

    Returns:
        A verdict whose ``evidence`` and ``further`` are positions in ``facts``. A fact that says the same as the reply
        is left out, because it cannot contradict it. The reply is not checked if there is no other fact, or if
        the model cannot read a fact.

    Raises:
        InputError: a text is not usable, or the model cannot compare a reply with an earlier one.
    """
    _check_compares_replies(detector)
    reply, question = said(check_text(reply, "reply")).text, check_text(question, "question")
    turns, windows, same = [], [], False
    for index, fact in enumerate(check_texts(facts, "facts")):
        problem = None if is_blank(fact) else detector.why_unreadable(fact)
        turns.append(Turn("", fact, (), (index,), problem and f"facts[{index}] {problem}"))
        if is_blank(fact) or problem:
            continue
        if plain(fact).strip() == plain(reply).strip():
            same = True
        else:
            windows.append(Window(row_of(INTRODUCTION, fact, question, reply), (index,)))
    reason = None
    if problem := detector.why_unreadable(reply):
        reason = f"the reply {problem}"
    elif not windows:
        without = "the facts say the same as the reply" if same else "there is no fact to compare the reply with"
        reason = next((turn.unread for turn in turns if turn.unread), without)
    case = Case((*turns, Turn(question, reply, (), ())), len(turns), () if reason else windows, reason)
    # Structured, because pairs show which fact is contradicted, also if the labels have no categories.
    detector = detector.with_settings(windowing=STRUCTURED, max_turns=None)
    predictions = detector.classifier.predict([window.row for window in case.windows])
    verdict = detector.verdict(case, [_history_only(detector, prediction) for prediction in predictions])
    return verdict.unsure() if is_blank(question) else verdict


def _check_compares_replies(detector: BaseDetector) -> None:
    labels, columns = ", ".join(detector.labels), ", ".join(detector.columns)
    if detector.task in (INTRA, ROLE) or detector.task not in CONTRADICTIONS:
        raise InputError(f"{detector.name} has the labels {labels}; none of them means that a fact is contradicted")
    if not {"b1", "b2"} <= set(detector.columns):
        raise InputError(f"{detector.name} reads {columns}; comparing a reply with a fact needs b1 and b2")
    if HISTORY in detector.labels and HISTORY not in detector.settings.categories:
        raise InputError(f"categories must include {HISTORY}, the category of a reply that contradicts a fact")


def _history_only(detector: BaseDetector, prediction: Prediction) -> Prediction:
    """The same prediction with all other contradictions counted as none; unchanged if the labels have no categories."""
    probabilities = prediction.scores
    if HISTORY not in probabilities:
        return prediction
    history = detector.classifier.history_probability(probabilities)
    changed: Mapping[str, float] = {
        name: history if name == HISTORY else 0.0 if name in CATEGORIES else 1 - history for name in probabilities
    }
    return replace(prediction, scores=changed)
