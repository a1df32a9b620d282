"""Before a reply is sent: the n best replies of a bot put in order, and a reply held against facts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from contradiction.conversation import ASSISTANT, USER, Messages, Turn, Utterance, add_message, is_blank, read_message
from contradiction.detector import Case, ContradictionDetector
from contradiction.errors import InputError, kind_of
from contradiction.inputs.views import CONVERSATION
from contradiction.inputs.windows import STRUCTURED, Window
from contradiction.labels import CATEGORIES, CONTRADICTIONS, HISTORY, INTRA, ROLE
from contradiction.methods.base import OnBatch
from contradiction.verdict import Verdict

# Probabilities this near are one: a batch's company moves the last bits of a float32.
TIE = 1e-6


@dataclass(frozen=True)
class Ranked:
    """A candidate in its place.

    Attributes:
        index: its position among the candidates handed in.
        reply: its text.
        verdict: on the chat with this reply at its end.
    """

    index: int
    reply: str
    verdict: Verdict

    @property
    def probability(self) -> float | None:
        """Of a contradiction of one of the settings' categories; None where it could not be judged."""
        return self.verdict.probability


def rerank(
    detector: ContradictionDetector,
    messages: Messages,
    candidates: Sequence[str],
    *,
    batch_size: int = 32,
    on_batch: OnBatch | None = None,
) -> list[Ranked]:
    """Orders candidate replies by the probability of a contradiction, the lowest first (DECODE, Nie et al., 2021, 5).

    First stand those that were checked, then those of which not all was read that bears on them, last those that could
    not be judged at all; within each, ties keep the given order. What was not read is so never preferred to what was,
    yet the first may be a contradiction too: look at its verdict before you send it.

    Args:
        detector: what judges.
        messages: the chat so far; it ends with the user's message, or is empty.
        candidates: texts; equal ones are judged once.
        batch_size: windows a forward pass.
        on_batch: called with the number of windows done, after each forward pass.

    Raises:
        InputError: the chat or a candidate is not usable, or the model does not judge replies.
    """
    turns = _read(messages)
    texts = _texts(candidates, "candidates")
    if not texts:
        raise InputError("candidates is empty; name at least one reply")
    chats: dict[str, list[Turn]] = {text: list(turns) for text in texts}
    for text, chat in chats.items():
        add_message(chat, Utterance(ASSISTANT, text), len(messages))
    judged = detector.judge_last([*chats.values()], batch_size=batch_size, on_batch=on_batch)
    found = dict(zip(chats, judged, strict=True))

    return _ordered([Ranked(index, text, found[text]) for index, text in enumerate(texts)])


def _read(messages: Messages) -> list[Turn]:
    if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Sequence):
        raise InputError(f"messages is {kind_of(messages)}; it must be a list of messages, or empty")
    turns: list[Turn] = []
    for index, message in enumerate(messages):
        add_message(turns, read_message(message, f"messages[{index}]"), index)
    if turns and turns[-1].reply_messages:
        last = turns[-1].reply_messages[-1]
        raise InputError(f"messages[{last}] is the assistant's; the last to speak before a reply must be the {USER}")
    return turns


def _ordered(ranked: Sequence[Ranked]) -> list[Ranked]:
    place: dict[int, tuple[int, int]] = {}
    step, before = 0, 0.0
    for each in sorted(ranked, key=lambda one: one.probability or 0.0):
        if each.probability is None:
            place[each.index] = (2, 0)
            continue
        # From each to the next, so that no border between two rounded values can part what is equal.
        step += each.probability - before > TIE
        before = each.probability
        place[each.index] = (0 if each.verdict.checked else 1, step)
    return sorted(ranked, key=lambda one: (*place[one.index], one.index))


def check(detector: ContradictionDetector, facts: Sequence[str], reply: str, question: str = "") -> Verdict:
    """Judges a reply against sentences that hold of the bot: its persona, or what it remembers.

    How much it goes by the fact, and how much by the look of the reply alone, is measured by ``bench/facts.py``. Each
    fact is read as an earlier reply, in a window with nothing before it: (, fact, question, reply). Only the
    contradiction of the history is against a fact, so that all other labels of a model count as none. The settings
    count, but for ``reading`` and ``max_turns``: every fact is read, each by itself.

    Args:
        detector: what judges.
        facts: sentences, as the bot would say them (我养了一只猫); those without words, and those that are the
            reply itself, are passed over.
        reply: what is judged.
        question: what the reply answers.

    Returns:
        The verdict, whose ``evidence`` and ``further`` count the facts; without a label where there is nothing to
        judge, and not ``checked`` where there is a fact that the model cannot read.

    Raises:
        InputError: no texts are handed in, or the model cannot hold a reply against an earlier one.
    """
    _demand_history(detector)
    said, asked = _text(reply, "reply"), _text(question, "question")
    turns, windows = [], []
    for index, fact in enumerate(_texts(facts, "facts")):
        unfit = None if is_blank(fact) else detector.unfit(fact)
        turns.append(Turn("", fact, (), (index,), unfit and f"facts[{index}] {unfit}"))
        if not is_blank(fact) and not unfit and fact.strip() != said.strip():
            windows.append(Window(dict(zip(CONVERSATION, ("", fact, asked, said), strict=True)), (index,)))
    nothing = None
    if unfit := detector.unfit(said):
        nothing = f"the reply {unfit}"
    elif not windows:
        same = (
            "the facts say what the reply says" if any(turn.reply.strip() == said.strip() for turn in turns) else None
        )
        lost = next((turn.unread for turn in turns if turn.unread), None)
        nothing = lost or same or "there is no fact to hold the reply against"
    case = Case((*turns, Turn(asked, said, (), ())), len(turns), () if nothing else windows, nothing)
    # Pairs name what clashes also where the labels do not tell categories.
    judge = detector.with_settings(reading=STRUCTURED, max_turns=None)
    read = detector.classifier.read([window.row for window in case.windows])
    return judge.verdict(case, [_only_history(each.probabilities) for each in read], [each.unread for each in read])


def _demand_history(detector: ContradictionDetector) -> None:
    if detector.task in (INTRA, ROLE) or detector.task not in CONTRADICTIONS:
        raise InputError(f"{detector.name} tells {', '.join(detector.labels)}; none of them is against a fact")
    if not {"b1", "b2"} <= set(detector.columns):
        read = ", ".join(detector.columns)
        raise InputError(f"{detector.name} reads {read}; holding a reply against a fact takes b1 and b2")
    if HISTORY in detector.labels and HISTORY not in detector.settings.categories:
        raise InputError(f"the settings leave out the category {HISTORY}, which alone is against a fact")


def _only_history(probabilities: Mapping[str, float]) -> Mapping[str, float]:
    """A reading in which all but the history is no contradiction; as it is where the labels do not tell categories."""
    if HISTORY not in probabilities:
        return probabilities
    history = probabilities[HISTORY]
    return {name: history if name == HISTORY else 0.0 if name in CATEGORIES else 1 - history for name in probabilities}


def _texts(values: Sequence[str], where: str) -> list[str]:
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Sequence):
        raise InputError(f"{where} is {kind_of(values)}; it must be a list of texts")
    return [_text(value, f"{where}[{index}]") for index, value in enumerate(values)]


def _text(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise InputError(f"{where} is {kind_of(value)}; it must be text")
    return read_message({"role": ASSISTANT, "content": value}, where).text
