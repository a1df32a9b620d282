"""Which utterances a method reads (paper, section 5.1), and the one place that joins them into a model's input."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from contradiction.inputs.characters import simplified
from contradiction.labels import HISTORY, INTRA, ROLE

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# The utterances of a row by column name; a column may hold several.
Row = Mapping[str, str | tuple[str, ...]]

# The utterances of a row in their order; the last is the reply that is judged.
CONVERSATION = ("u1", "b1", "u2", "b2")

# View -> the columns read, in order. The last one is `text_pair`, the others are joined into `text`.
VIEWS: Mapping[str, tuple[str, ...]] = {
    "sentence-pair": ("b1", "b2"),
    "flatten": CONVERSATION,
    # What each stage of the hierarchical method reads: the less, the nearer the clash.
    INTRA: ("u2", "b2"),
    ROLE: ("b1", "u2", "b2"),
    HISTORY: CONVERSATION,
    "reply-only": ("b2",),
    "context-only": ("u1", "b1", "u2"),
    "nli": ("premise", "hypothesis"),
}


STATED = "cdconv_view"  # the key of a checkpoint's configuration that says which view it reads

# The view of a recipe, and of a model folder, that holds one checkpoint a stage.
HIERARCHICAL = "hierarchical"


def model_input(utterances: Row, columns: tuple[str, ...], tokenizer: "PreTrainedTokenizerBase") -> dict[str, str]:
    """The input of a text-classification pipeline: ``{"text": ..., "text_pair": ...}``.

    The earlier utterances are joined by the tokenizer's separator token, empty ones left out; the last is the pair; a
    view of one column has no ``text_pair``. Traditional characters become simplified ones. What looks like a special
    token inside an utterance is taken apart by a space, so that no message can forge the border between two speakers.
    """
    separator = tokenizer.sep_token or tokenizer.eos_token or "\n"
    special = [token for token in tokenizer.all_special_tokens if len(token) > 1]

    def escape(text: str) -> str:
        text = simplified(text)
        for token in special:
            text = text.replace(token, f"{token[0]} {token[1:]}")
        return text

    texts = (utterances[column] for column in columns)
    *context, last = (escape(text) for each in texts for text in ((each,) if isinstance(each, str) else each))
    return {"text": separator.join(filter(None, context)), "text_pair": last} if context else {"text": last}
