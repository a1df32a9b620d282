"""From a chat to rows of utterances, and from a row to the input of a model, written as CDConv writes it."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING

from contradiction.conversation import ASSISTANT, HAN, USER, Turn
from contradiction.errors import InputError, kind_of
from contradiction.inputs.tokenization import separator_of
from contradiction.labels import HISTORY, INTRA, ROLE
from contradiction.markup import SHORT, plain

if TYPE_CHECKING:
    from opencc import OpenCC
    from tokenizers.normalizers import Normalizer
    from transformers import PreTrainedTokenizerBase


_HAS_HAN = re.compile(f"[{HAN}]")
_WIDE = re.compile(f"[{HAN}\u2010-\u2027\u3001-\u303f\uff00-\uffef]")  # Chinese characters and punctuation
_GAP = re.compile(r"\s+")


def normalize(text: str) -> str:
    """The text as CDConv writes it: its words alone, in simplified characters, and without spaces beside Chinese text.

    Markup, emoji and invisible characters are left out, see ``contradiction.markup``: a detector that never read them
    takes them for signs of a contradiction, or of none. A space between two Chinese characters becomes a comma, as does
    a line break between words. None of the 46,640 utterances of CDConv changes.
    """
    text = plain(text.strip("\t\n\v\f\r"))
    if text.isascii():
        return text
    return _simplified(text) if len(text) <= SHORT else _simplified.__wrapped__(text)


@lru_cache(10_000)  # the windows of a chat share messages
def _simplified(text: str) -> str:
    if _HAS_HAN.search(text):
        text = _GAP.sub(_without_gap, text)
    return _converter().convert(text)


def _without_gap(gap: re.Match[str]) -> str:
    before, after = gap.string[gap.start() - 1 : gap.start()], gap.string[gap.end() : gap.end() + 1]
    if not before or not after:
        return ""
    if (_HAS_HAN.match(before) and _HAS_HAN.match(after)) or ("\n" in gap[0] and before.isalnum() and after.isalnum()):
        return "，"
    return "" if _WIDE.match(before) or _WIDE.match(after) else gap[0]


@cache
def _converter() -> "OpenCC":
    from opencc import OpenCC

    return OpenCC("t2s")


# A row of utterances by column name; a column may hold several utterances.
Row = Mapping[str, str | tuple[str, ...]]

# The columns of a conversation in order; the last is the reply to judge.
CONVERSATION = ("u1", "b1", "u2", "b2")

HYPOTHESIS_ONLY = "hypothesis-only"  # an artefact baseline of NLI

# View -> the columns that it reads, in order. The last one is `text_pair`, the others are joined into `text`.
VIEWS: Mapping[str, tuple[str, ...]] = {
    "sentence-pair": ("b1", "b2"),
    "flatten": CONVERSATION,
    # The stages of the hierarchical method.
    INTRA: ("u2", "b2"),
    ROLE: ("b1", "u2", "b2"),
    HISTORY: CONVERSATION,
    "reply-only": ("b2",),
    "context-only": ("u1", "b1", "u2"),
    "nli": ("premise", "hypothesis"),
    HYPOTHESIS_ONLY: ("hypothesis",),
    "chat": ("chat", "reply"),
}
# The views of configs of two texts -> the view of both texts, and the beginning of the names of these configs.
TWO_TEXTS = {"nli": "nli", HYPOTHESIS_ONLY: "nli", "chat": "chat"}

# Keys of a checkpoint's config.json: its view; whether it was also trained on replies without an earlier reply, as each
# view with u2 is; and, in the file of the decision rule of any method, whether it was trained on Chinese alone.
VIEW_KEY, OPENINGS_KEY, CHINESE_ONLY_KEY = "cdconv_view", "cdconv_openings", "cdconv_chinese_only"

# The view of a recipe, and of a model folder, with one checkpoint for each stage.
HIERARCHICAL = "hierarchical"


def messages_of(row: Row) -> list[tuple[str, str]]:
    """The role and the text of each utterance of a row that is not empty, the reply last."""
    u1, b1, u2, b2 = (row[column] for column in CONVERSATION)
    before = [u1] if isinstance(u1, str) else list(u1)
    texts = [*before, b1, u2]
    roles = [USER if (len(texts) - index) % 2 else ASSISTANT for index in range(len(texts))]
    spoken = [(role, str(text)) for role, text in zip(roles, texts, strict=True) if text]
    return [*spoken, (ASSISTANT, str(b2))]


def check_rows(rows: Sequence[object], columns: Iterable[str]) -> None:
    """Raises InputError for the first row that lacks one of the columns, or holds no text there."""
    columns = tuple(columns)
    for number, row in enumerate(rows, 1):
        if not isinstance(row, Mapping):
            raise InputError(f"row {number} is {kind_of(row)}; it must be an object with {', '.join(columns)}")
        if missing := [name for name in columns if name not in row]:
            raise InputError(f"row {number} has no {missing[0]}; the detector reads {', '.join(columns)}")
    check_utterances({name: [row[name] for row in rows] for name in columns})  # type: ignore[index]  # mappings by now


def check_utterances(columns: Mapping[str, Iterable[object]], where: str = "") -> None:
    """Raises InputError, which begins with ``where``, for the first row with an utterance that is not text.

    A column may hold several utterances in a row. Rows count from 1.
    """
    wrong = (
        (number, name, value)
        for name, values in columns.items()
        for number, value in enumerate(values, 1)
        if not isinstance(value, str)
        and not (isinstance(value, list | tuple) and all(isinstance(item, str) for item in value))
    )
    if first := min(wrong, key=lambda found: found[0], default=None):
        number, name, value = first
        raise InputError(f"{where}row {number}: {name} is {kind_of(value)}; it must be text")


def cleaner(tokenizer: "PreTrainedTokenizerBase") -> Callable[[str], str]:
    """A function that normalizes a text, and puts a space into whatever looks like a special token of the tokenizer.

    So no message can forge the border between two speakers.
    """
    special_tokens = tuple(token for token in tokenizer.all_special_tokens if len(token) > 1)
    return partial(_clean, special_tokens, getattr(getattr(tokenizer, "backend_tokenizer", None), "normalizer", None))


def _clean(special_tokens: tuple[str, ...], normalizer: "Normalizer | None", text: str) -> str:
    text = normalize(text)
    for token in special_tokens:
        text = text.replace(token, f"{token[0]} {token[1:]}")
    # To some tokenizers, full-width and other forms of a special token are the token itself.
    plain = normalizer.normalize_str(text) if normalizer else text
    return _clean(special_tokens, normalizer, plain) if any(token in plain for token in special_tokens) else text


def model_input(utterances: Row, columns: tuple[str, ...], tokenizer: "PreTrainedTokenizerBase") -> dict[str, str]:
    """The input of a text-classification pipeline: ``{"text": ..., "text_pair": ...}``.

    ``text`` is the earlier utterances joined by the tokenizer's separator token, without empty ones; ``text_pair`` is
    the last utterance. A view of one column has no ``text_pair``. The texts are cleaned, see :func:`cleaner`.
    """
    clean = cleaner(tokenizer)
    values = [utterances[column] for column in columns]
    *context, last = (clean(text) for value in values for text in ((value,) if isinstance(value, str) else value))
    earlier = separator_of(tokenizer).join(filter(None, context))
    return {"text": earlier, "text_pair": last} if context else {"text": last}


WINDOWED, STRUCTURED, UNSTRUCTURED = "windowed", "structured", "unstructured"
WINDOWINGS = (WINDOWED, STRUCTURED, UNSTRUCTURED)

# Characters: a little more than the longest reply of CDConv, 38. Detectors find fewer contradictions in longer ones.
LONG_REPLY = 40

# How many earlier turns a reply is read against by default: more than most chats have. A reply then takes about a
# second on two CPU cores with an encoder of 28 M parameters; without a bound, a chat of 10,000 turns takes minutes.
MAX_TURNS = 50

# "Tell me about yourself": the message before a text that answers nobody, such as a fact about the bot or a greeting.
# Detectors were trained on replies to a message, and find more contradictions with it than without
# (``experiments/persona_facts.py``).
INTRODUCTION = "跟我说说你吧"


@dataclass(frozen=True)
class Window:
    """One row for a classifier."""

    row: Row  # the four utterances by column name
    earlier: tuple[int, ...]  # the positions in the chat of its earlier turns; their replies have words

    @property
    def turn(self) -> int | None:
        """The position of the earlier turn if there is exactly one; else None."""
        return self.earlier[0] if len(self.earlier) == 1 else None


def windows(turns: Sequence[Turn], place: int, windowing: str = WINDOWED, max_turns: int | None = None) -> list[Window]:
    """The windows in which the reply of ``turns[place]`` is read, the nearest earlier turn last.

    - *windowed*: each earlier turn with the judged turn, (u_k, b_k, u_n, b_n), as a two-turn detector was trained.
    - *structured*: each earlier reply with the judged reply, (b_k, b_n), without the user's utterances (DECODE, Nie et
      al., 2021, section 4.2).
    - *unstructured*: the whole history in one row (the same section); a history that is too long is cut from the left.

    An earlier reply without words cannot be contradicted, so its turn is merged into the next: what the user said
    before and after it is read as one utterance. If the assistant began the chat, its first reply is read as the answer
    to ``INTRODUCTION``. Where there is no earlier reply at all, the one window holds the user's last utterance and the
    reply.

    At most ``max_turns`` earlier turns are read, counted back from the reply; None reads all.
    """
    reply = turns[place].reply
    first = 0 if max_turns is None else max(0, place - max_turns)
    earlier = [number for number in range(first, place) if turns[number].has_words]
    question = _user_text(turns, first, place)
    if not earlier:
        return [Window(row_of("", "", question, reply), ())]
    if windowing == STRUCTURED:
        return [Window(row_of("", turns[number].reply, "", reply), (number,)) for number in earlier]
    user = {number: _user_text(turns, first, number) or INTRODUCTION for number in earlier}
    if windowing == UNSTRUCTURED:
        *before, last = [text for number in earlier for text in (user[number], turns[number].reply)]
        return [Window(row_of(tuple(before), last, question, reply), tuple(earlier))]
    return [Window(row_of(user[number], turns[number].reply, question, reply), (number,)) for number in earlier]


def is_opening(row: Row) -> bool:
    """Whether a row is the window of a reply without an earlier reply: its b1 is empty."""
    return row.get("b1") == ""


def _user_text(turns: Sequence[Turn], first: int, place: int) -> str:
    """What the user said between the last reply with words and the reply of ``turns[place]``."""
    since = place
    while since > first and not turns[since - 1].has_words:
        since -= 1
    return "\n".join(filter(None, (turn.user for turn in turns[since : place + 1])))


def row_of(*utterances: str | tuple[str, ...]) -> Row:
    """The row of the utterances of a conversation."""
    return dict(zip(CONVERSATION, utterances, strict=True))
