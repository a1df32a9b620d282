"""Tokenizes model inputs: cut from the left to what the model reads, with a note of what was cut."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

CHARACTERS = 16  # of a token, at most: of a very long text only an end is read
MARGIN = 128  # tokens that a cut within a word may change, at most: WordPiece splits words of up to 100 characters
LAST_UTTERANCE = 4  # a longer last utterance of the history is cut first

# A fast tokenizer keeps its truncation as a setting, so two threads that share it would cut each other's texts.
_TOKENIZING = Lock()


def encode(
    tokenizer: "PreTrainedTokenizerBase", inputs: Sequence[Mapping[str, str]], max_length: int
) -> tuple[list[dict[str, list[int]]], list[str | None]]:
    """Tokenizes inputs, cut from the left to at most ``max_length`` tokens.

    The earlier utterances are cut first, and the reply only if it is too long by itself. Of several earlier utterances,
    the last one, which the reply answers, is cut before the others, down to ``1 / LAST_UTTERANCE`` of ``max_length``.
    So a long question does not hide the earlier reply that the judged one may contradict. Of a very long text only the
    end is tokenized. Safe to call from several threads.

    Returns:
        For each input its token ids and masks; and for each input what was cut, in words, or None.
    """
    separator, most = separator_of(tokenizer), CHARACTERS * (2 * max_length + MARGIN)

    def end_of(text: str) -> str:
        return separator.join(part[-most:] for part in text.rsplit(separator, 1))

    truncations: list[str | None] = [None] * len(inputs)
    with _TOKENIZING:
        tokenizer.truncation_side = "left"
        ends = [{key: end_of(text) for key, text in entry.items()} for entry in inputs]
        encodings = _tokenize(tokenizer, ends)  # without a limit, to know how much is too long
        for index, (entry, end) in enumerate(zip(inputs, ends, strict=True)):
            excess = len(encodings[index]["input_ids"]) - max_length
            if excess <= 0 and end == entry:
                continue
            fits = "text_pair" in end and _fits(tokenizer, end["text_pair"], max_length)
            if excess > 0:
                strategy = "only_first" if fits else "longest_first"
                shorter = {**end, "text": _shorten_last_utterance(tokenizer, end["text"], excess, max_length)}
                [encodings[index]] = _tokenize(tokenizer, [shorter], truncation=strategy, max_length=max_length)
            whole_reply = fits and end["text_pair"] == entry["text_pair"]
            part = "of the history" if whole_reply else "of the history and of the reply"
            cut = f"{excess} tokens {part} were not" if end == entry else f"only the last tokens {part} were"
            truncations[index] = f"{cut} read: the model reads at most {max_length}"
    return encodings, truncations


def _tokenize(
    tokenizer: "PreTrainedTokenizerBase", batch: Sequence[Mapping[str, str]], **options: Any
) -> list[dict[str, list[int]]]:
    texts = [entry["text"] for entry in batch]
    pairs = [entry["text_pair"] for entry in batch] if "text_pair" in batch[0] else None
    columns = tokenizer(texts, pairs, verbose=False, **options)
    return [{key: values[index] for key, values in columns.items()} for index in range(len(batch))]


def _token_ids(tokenizer: "PreTrainedTokenizerBase", text: str) -> list[int]:
    ids: list[int] = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
    return ids


def _fits(tokenizer: "PreTrainedTokenizerBase", reply: str, max_length: int) -> bool:
    """Whether a model can read a whole reply, and at least one token before it."""
    return len(_token_ids(tokenizer, reply)) + tokenizer.num_special_tokens_to_add(pair=True) < max_length


def _shorten_last_utterance(tokenizer: "PreTrainedTokenizerBase", text: str, excess: int, max_length: int) -> str:
    """A history whose last utterance has up to ``excess`` tokens less, and keeps its share of ``max_length``."""
    before, mark, last = text.rpartition(separator_of(tokenizer))
    if not mark or not tokenizer.is_fast:
        return text
    encoded = tokenizer(last, add_special_tokens=False, verbose=False, return_offsets_mapping=True)
    starts = [start for start, _ in encoded["offset_mapping"]]
    kept = max(len(starts) - excess, max_length // LAST_UTTERANCE)
    return text if kept >= len(starts) else before + mark + last[starts[-kept] :]


def separator_of(tokenizer: "PreTrainedTokenizerBase") -> str:
    """The text between two earlier utterances in a model input."""
    return tokenizer.sep_token or tokenizer.eos_token or "\n"


def has_known_token(tokenizer: "PreTrainedTokenizerBase", text: str) -> bool:
    """Whether any token of a text is other than the unknown token; safe to call from several threads."""
    # The end decides for nearly every text, and a text may be very long.
    return _has_known_token(tokenizer, text[-CHARACTERS * MARGIN :])


@lru_cache(4096)  # in a long chat, the same earlier replies are checked for every later reply
def _has_known_token(tokenizer: "PreTrainedTokenizerBase", text: str) -> bool:
    def is_known(token: int) -> bool:
        # In Unigram tokenizers the mark of a word's start (▁) also stands before unknown tokens.
        return token != tokenizer.unk_token_id and tokenizer.convert_ids_to_tokens(token) != "▁"

    with _TOKENIZING:
        return any(map(is_known, _token_ids(tokenizer, text)))


def max_positions(model: "PreTrainedModel") -> int | None:
    """For how many tokens a model has positions; None if there is no limit."""
    positions = getattr(model.config, "max_position_embeddings", None)
    return positions - first_position(model) if positions and positions > 0 else None


def first_position(model: "PreTrainedModel") -> int:
    """The position of the first token: after the padding index in RoBERTa-like models (XLM-R, MPNet, ...), else 0."""
    for name, module in model.named_modules():
        # Read from the module and not from a list of model types: RoBERTa-like models mark the position of the padding.
        if name.endswith("position_embeddings") and getattr(module, "padding_idx", None) is not None:
            return int(module.padding_idx) + 1
    return 0
