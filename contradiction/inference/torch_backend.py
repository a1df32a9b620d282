"""One checkpoint over many inputs: sorted by length, batched, cut from the left, probabilities in the order given."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from contradiction.errors import InputError, first_line
from contradiction.inputs.positions import positions_of
from contradiction.inputs.text_tails import MARGIN, ends, tail
from contradiction.io.quiet import no_model_bars
from contradiction.io.weights import sound

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


# Of the arithmetic in a forward pass; weights are float32 in all of them.
PRECISIONS = ("fp32", "bf16", "fp16")


@dataclass(frozen=True)
class Scores:
    """Logits, shape (inputs, classes), and for each input what was not read, in words, or None."""

    logits: np.ndarray
    unread: list[str | None]


def load_checkpoint(name: str | Path, device: str | None = None) -> tuple["PreTrainedModel", "PreTrainedTokenizerBase"]:
    """Loads a sequence-classification checkpoint in float32, in evaluation mode, and its tokenizer.

    Raises:
        InputError: the folder or Hub id holds no such checkpoint, its weights are damaged, or there is no such device.
    """
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    if Path(name).is_dir() and not (Path(name) / "config.json").is_file():
        raise InputError(f"{name}: the folder holds no model (no config.json); `cdconv train` writes one")
    try:
        with no_model_bars(quiet=Path(name).is_dir()), sound(name):
            tokenizer = AutoTokenizer.from_pretrained(str(name))
            if len(tokenizer) <= len(tokenizer.all_special_tokens):  # what transformers makes up where there is none
                raise InputError(f"{name}: has no tokenizer, or one without a vocabulary")
            # float32 by name: a checkpoint saved in fp16 would load as fp16, which is slow and weak on a CPU.
            model = AutoModelForSequenceClassification.from_pretrained(str(name), dtype=torch.float32)
    except InputError:  # a ValueError, which says already what is wrong
        raise
    except (OSError, ValueError) as error:
        raise InputError(
            f"{name}: neither a model folder nor a model on the Hub that can be reached ({first_line(error)})"
        ) from error
    return placed(model, device, str(name)), tokenizer


def placed(model: Any, device: str | None, name: str) -> "PreTrainedModel":
    """A model on a device, by default the best one, in evaluation mode; raises InputError where there is none such."""
    try:
        return model.to(device or best_device()).eval()
    except (AssertionError, RuntimeError) as error:  # torch raises either for a device that it does not have
        raise InputError(
            f"{name}: cannot be put on the device {device or best_device()!r} ({first_line(error)})"
        ) from error


def check_precision(precision: str) -> str:
    """The precision; raises InputError where there is none of this name."""
    if precision not in PRECISIONS:
        raise InputError(f"precision {precision!r}; allowed are {', '.join(PRECISIONS)}")
    return precision


def check_batch_size(batch_size: int) -> None:
    """Raises InputError where it is none."""
    if batch_size < 1:
        raise InputError(f"batch_size {batch_size}; it must be 1 or more")


def check_fast_enough(precision: str, device: str, name: str) -> None:
    """Raises InputError for a precision that only slows a device down."""
    if precision == "fp16" and device == "cpu":
        raise InputError(f"{name}: fp16 is slower than fp32 on a CPU; bf16 is the fast one there")


def autocast(model: "PreTrainedModel", precision: str) -> AbstractContextManager[Any]:
    """In whose block a model computes at this precision."""
    import torch

    if precision == "fp32":
        return nullcontext()
    return torch.autocast(model.device.type, torch.bfloat16 if precision == "bf16" else torch.float16)


def best_device() -> str:
    """``cuda`` where there is one, else ``cpu``."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def max_length_of(model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase") -> int:
    """How many tokens the checkpoint reads: the tokenizer's limit, and never more than the positions it has."""
    limit = int(tokenizer.model_max_length)
    return min(limit, positions_of(model) or limit)


# A fast tokenizer keeps its truncation as a setting of its own, so that two threads on it would cut each other's texts.
_TOKENIZING = Lock()


def knows(tokenizer: "PreTrainedTokenizerBase", text: str) -> bool:
    """Whether any token of a text is not the unknown one."""

    def is_known(token: int) -> bool:
        # The mark of a word's start (▁, in Unigram tokenizers) also stands before what is unknown.
        return token != tokenizer.unk_token_id and tokenizer.convert_ids_to_tokens(token) != "▁"

    with _TOKENIZING:
        for end in ends(text, MARGIN):  # the end tells in nearly every case, and a text may be very long
            ids = tokenizer(end, add_special_tokens=False, verbose=False)["input_ids"]
            if any(is_known(each) for each in ids):
                return True
    return False


def encode(
    tokenizer: "PreTrainedTokenizerBase", inputs: Sequence[Mapping[str, str]], max_length: int
) -> tuple[list[dict[str, list[int]]], list[str | None]]:
    """Token ids and masks of each input, at most ``max_length`` tokens; and what of each was not read, in words.

    What is too long is cut from the left: the earlier utterances first, and the reply only where it alone is too long.
    Of very long texts only the end is tokenised; where both are, one token of the history may go to the reply.
    Safe to call from several threads.
    """

    def tokenize(chosen: Sequence[Mapping[str, str]], **kwargs: Any) -> list[dict[str, list[int]]]:
        texts = [each["text"] for each in chosen]
        pairs = [each["text_pair"] for each in chosen] if "text_pair" in chosen[0] else None
        batch = tokenizer(texts, pairs, verbose=False, **kwargs)
        return [{key: values[index] for key, values in batch.items()} for index in range(len(chosen))]

    def count(text: str) -> int:
        return len(tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])

    unread: list[str | None] = [None] * len(inputs)
    with _TOKENIZING:
        tokenizer.truncation_side = "left"
        reached = [{key: tail(text, max_length, count) for key, text in one.items()} for one in inputs]
        encoded = tokenize(reached)  # without a limit, to know what would be lost
        for index, (one, end) in enumerate(zip(inputs, reached, strict=True)):
            more = len(encoded[index]["input_ids"]) - max_length
            if more <= 0 and end == one:
                continue
            reply = end.get("text_pair")
            fits = reply is not None and count(reply) + tokenizer.num_special_tokens_to_add(pair=True) < max_length
            if more > 0:
                how = "only_first" if fits else "longest_first"
                [encoded[index]] = tokenize([end], truncation=how, max_length=max_length)
            said = "of the history" if fits and reply == one["text_pair"] else "of the history and of the reply"
            lost = f"the first {more} tokens {said} were not" if end == one else f"only the last tokens {said} were"
            unread[index] = f"{lost} read: the model reads at most {max_length}"
    return encoded, unread


def score(
    model: "PreTrainedModel",
    tokenizer: "PreTrainedTokenizerBase",
    inputs: Sequence[Mapping[str, str]],
    *,
    batch_size: int = 32,
    on_batch: Callable[[int], Any] | None = None,
    precision: str = "fp32",
) -> Scores:
    """Scores pipeline-style inputs.

    Inputs that stand more than once are read once. Batches hold inputs of like length, so one input's probabilities may
    differ in the last bits (below 1e-6 in float32) with the company it is in.

    Args:
        model: a classifier in evaluation mode.
        tokenizer: its tokenizer.
        inputs: dicts with ``text`` and, in all or none of them, ``text_pair``.
        batch_size: inputs a forward pass.
        on_batch: called with the number of inputs done, after each batch.
        precision: one of ``PRECISIONS``.
    """
    import torch

    check_batch_size(batch_size)
    classes = len(model.config.id2label or ())
    if not inputs:
        return Scores(np.zeros((0, classes)), [])
    keys = [(each["text"], each.get("text_pair")) for each in inputs]
    places: dict[tuple[str, str | None], int] = {}
    for key in keys:
        places.setdefault(key, len(places))
    where = np.array([places[key] for key in keys])
    distinct = [inputs[index] for index in np.unique(where, return_index=True)[1]]
    encoded, unread = encode(tokenizer, distinct, max_length_of(model, tokenizer))
    copies = np.bincount(where)
    order = np.argsort([-len(each["input_ids"]) for each in encoded], kind="stable")
    logits = np.empty((len(distinct), classes))
    for start in range(0, len(order), batch_size):
        chosen = order[start : start + batch_size]
        batch = tokenizer.pad([encoded[index] for index in chosen], return_tensors="pt").to(model.device)
        with torch.inference_mode(), autocast(model, precision):
            logits[chosen] = model(**batch).logits.float().cpu().numpy()
        if on_batch:
            on_batch(int(copies[chosen].sum()))
    if not np.isfinite(logits).all():
        raise InputError("the model gives scores that are no numbers; its weights are damaged")
    return Scores(logits[where], [unread[place] for place in where])
