"""Checks a reply against facts about the bot: its persona, or its memory."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from contradiction.base_detector import BaseDetector, Case
from contradiction.conversation import Turn, check_text, check_texts, is_blank
from contradiction.errors import InputError
from contradiction.inputs.views import INTRODUCTION, STRUCTURED, Window, row_of
from contradiction.labels import CATEGORIES, CONTRADICTIONS, HISTORY, INTRA, ROLE
from contradiction.markup import plain
from contradiction.methods.base import Prediction
from contradiction.spoken import said
from contradiction.verdict import Verdict


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
    turns, windows = [], []
    for index, fact in enumerate(check_texts(facts, "facts")):
        problem = None if is_blank(fact) else detector.why_unreadable(fact)
        turns.append(Turn("", fact, (), (index,), problem and f"facts[{index}] {problem}"))
        if not is_blank(fact) and not problem and plain(fact).strip() != plain(reply).strip():
            windows.append(Window(row_of(INTRODUCTION, fact, question, reply), (index,)))
    reason = None
    if problem := detector.why_unreadable(reply):
        reason = f"the reply {problem}"
    elif not windows:
        reason = _why_no_window(turns, reply)
    case = Case((*turns, Turn(question, reply, (), ())), len(turns), () if reason else windows, reason)
    # Structured, because pairs show which fact is contradicted, also if the labels have no categories.
    detector = detector.with_settings(windowing=STRUCTURED, max_turns=None)
    predictions = detector.classifier.predict([window.row for window in case.windows])
    verdict = detector.verdict(case, [_history_only(prediction) for prediction in predictions])
    return verdict.unsure() if is_blank(question) else verdict


def _check_compares_replies(detector: BaseDetector) -> None:
    labels, columns = ", ".join(detector.labels), ", ".join(detector.columns)
    if detector.task in (INTRA, ROLE) or detector.task not in CONTRADICTIONS:
        raise InputError(f"{detector.name} has the labels {labels}; none of them means that a fact is contradicted")
    if not {"b1", "b2"} <= set(detector.columns):
        raise InputError(f"{detector.name} reads {columns}; comparing a reply with a fact needs b1 and b2")
    if HISTORY in detector.labels and HISTORY not in detector.settings.categories:
        raise InputError(f"categories must include {HISTORY}, the category of a reply that contradicts a fact")


def _why_no_window(turns: Sequence[Turn], reply: str) -> str:
    """Why there is no fact that the reply can be compared with."""
    if unreadable := next((turn.unread for turn in turns if turn.unread), None):
        return unreadable
    if any(plain(turn.reply).strip() == plain(reply).strip() for turn in turns):
        return "the facts say the same as the reply"
    return "there is no fact to compare the reply with"


def _history_only(prediction: Prediction) -> Prediction:
    """The same prediction with all other contradictions counted as none; unchanged if the labels have no categories."""
    probabilities = prediction.probabilities
    if HISTORY not in probabilities:
        return prediction
    history = probabilities[HISTORY]
    changed: Mapping[str, float] = {
        name: history if name == HISTORY else 0.0 if name in CATEGORIES else 1 - history for name in probabilities
    }
    return replace(prediction, probabilities=changed)
