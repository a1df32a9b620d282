"""The method of one causal language model, which reads a chat once and judges each reply at its end."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from pydantic import PositiveInt

from contradiction.conversation import ASSISTANT, USER
from contradiction.decision import Rule
from contradiction.errors import InputError
from contradiction.inference.base import INT8, TOKENS, OnBatch, Scores, check_batch_size
from contradiction.inputs.tokenization import has_known_token
from contradiction.inputs.trees import ChatReader, Tree, fill_rows, pack
from contradiction.inputs.views import CHINESE_ONLY_KEY, CONVERSATION, Row, messages_of, normalize
from contradiction.io.pretrained import check_tokenizer, load_config, load_tokenizer, load_weights, loading
from contradiction.labels import HISTORY
from contradiction.methods.base import Classifier
from contradiction.methods.loading import register

if TYPE_CHECKING:
    from contradiction.inference.network import Network, Shape

# Of a chat; earlier messages are left out. A reply has at most half of it, an earlier message a quarter.
MAX_TOKENS = 2048
# Keys of a description: some weights of the base, and the Hub id of the model that a base in a folder is a copy of.
BASE_WEIGHTS, BASE_MODEL = "base_weights", "base_model"
ROW = 512  # tokens of a row of chats; a longer chat has a row of its own


@dataclass(frozen=True)
class Placed:
    """Where a row is in its tree."""

    tree: int  # its number
    reply: int  # the node at the end of the reply
    earlier: tuple[int, ...]  # those at the ends of the earlier replies; -1 for one that was left out
    unread: str | None  # what was not read, or that only a part was; None if all was read


@register
class DecoderClassifier(Classifier):
    """A causal language model with adapters and heads.

    It reads rows of any number of turns: ``u1`` may hold several utterances, the user's and the bot's in turn. Rows of
    one call that begin alike share the reading of their beginning, so all replies of a chat, or all candidates for one
    reply, cost about as much as the longest. A chat that goes on in a later call pays only for its new messages.

    Args:
        network: the model.
        reader: writes chats for it.
        labels: the names of the labels.
        name, rule: see :class:`Classifier`.
    """

    MARKER = "decoder.json"
    KEYS: ClassVar = {
        "base": (str, ...), "labels": (list[str], ...), "layers": (PositiveInt | None, None), "rank": (PositiveInt, 16),
        BASE_WEIGHTS: (list[float], []), BASE_MODEL: (str | None, None),
    }  # fmt: skip
    FILES = ("adapter_config.json", "adapter_model.safetensors", "heads.safetensors")
    reads_chats, reads_turns = True, False

    def __init__(
        self, network: "Network", reader: ChatReader, labels: Sequence[str], name: str = "model",
        rule: Rule | None = None,
    ) -> None:  # fmt: skip
        super().__init__(labels, CONVERSATION, name, rule)
        from contradiction.inference.network import Memory

        self.network, self.reader, self.memory = network, reader, Memory(network)

    @classmethod
    def load(
        cls, folder: str | Path, *, device: str | None = None, precision: str = "fp32", backend: str = "torch",
        **options: Any,
    ) -> Self:  # fmt: skip
        """Loads the base model, merges the adapter, and loads the heads and the decision rule.

        :func:`contradiction.inference.network.base_of` says where the base comes from.
        """
        if backend not in ("torch", "auto"):
            raise InputError(f"{folder}: a causal detector runs with the backend torch, not {backend}")
        import torch

        from contradiction.inference.network import Network
        from contradiction.inference.torch_backend import best_device, check_fast_enough, has_bf16

        folder = Path(folder)
        cls.check_folder(folder)
        description = cls.describe(folder)
        shape = shape_of(description, folder)
        dtype = {"fp32": torch.float32, "fp16": torch.float16}.get(precision, torch.bfloat16)
        device = device or best_device()
        check_fast_enough(precision, torch.device(device).type, str(folder))
        reader = load_reader(shape.base)  # before the base, which may be large
        network = Network.load(folder, shape, dtype, int8=precision == INT8)
        if BASE_WEIGHTS in description:
            network.check_base(description[BASE_WEIGHTS])
        if precision == INT8 and not has_bf16():
            network.body.float()  # what is not in 8 bits
        with loading(folder, f"{folder}: cannot run on the device {device!r}"):
            network.to(device)
        labels, rule = description["labels"], Rule.load(folder / cls.MARKER)
        classifier = cls(network, reader, labels, str(folder), rule)
        classifier.chinese_only = description.get(CHINESE_ONLY_KEY, True) is True
        classifier.needs_rule = True
        return classifier

    def has_token_for(self, text: str) -> bool:
        """Whether the tokenizer has a token for any part of a text."""
        return has_known_token(self.reader.tokenizer, normalize(text))

    def score(self, rows: Sequence[Row], *, batch_size: int = 32, on_batch: OnBatch | None = None) -> Scores:
        """The logits of rows, what was not read, and what the pointer names; see :meth:`Classifier.score`."""
        import torch

        from contradiction.inference.network import point

        check_batch_size(batch_size)
        trees, placed = self._plant(rows)
        rows_of: dict[int, list[int]] = {}
        for index, place in enumerate(placed):
            rows_of.setdefault(place.tree, []).append(index)
        logits = np.zeros((len(rows), len(self.labels)))
        pointers: list[tuple[float, ...]] = [()] * len(rows)
        # The largest trees come first, so no later row of a batch is longer than its first.
        order = sorted(range(len(trees)), key=lambda index: -len(trees[index]))
        filled = [[order[place] for place in row] for row in fill_rows([len(trees[index]) for index in order], ROW)]
        # A row alone stays in the cache of a CPU, which is a sixth faster than several at once.
        alone = self.network.score.weight.device.type == "cpu"
        with torch.inference_mode():
            while filled:
                count = 1 if alone else max(1, batch_size * TOKENS // max(ROW, len(trees[filled[0][0]])))
                batch, filled = filled[:count], filled[count:]
                if len(trees) == 1:  # one chat, which may go on later
                    states, offsets = self.memory.read(trees[0]), [0]
                else:
                    packed = pack([[trees[index] for index in row] for row in batch])
                    states, offsets = self.network(packed), packed.offsets
                offset_of = dict(zip([index for row in batch for index in row], offsets, strict=True))
                chosen = [index for tree in offset_of for index in rows_of[tree]]
                replies = [offset_of[placed[index].tree] + placed[index].reply for index in chosen]
                logits[chosen] = self.network.score(states[replies]).cpu().numpy()
                queries, keys = (head(states).cpu() for head in (self.network.query, self.network.key))
                for index, reply in zip(chosen, replies, strict=True):
                    place = placed[index]
                    read = [offset_of[place.tree] + node for node in place.earlier if node >= 0]
                    shares = iter(point(queries[reply], keys[read]).softmax(0).tolist() if read else ())
                    pointers[index] = tuple(next(shares) if node >= 0 else 0.0 for node in place.earlier)
                if on_batch:
                    on_batch(len(chosen))
        if not np.isfinite(logits).all():
            raise InputError(f"{self.name}: gives scores that are not finite; its weights are damaged")
        reasons = [
            place.unread and f"{place.unread} read: the model reads at most {MAX_TOKENS} tokens" for place in placed
        ]
        return Scores(logits, reasons, pointers)

    def _plant(self, rows: Sequence[Row]) -> tuple[list[Tree], list[Placed]]:
        """Trees of the rows, and where each row is; rows join one tree if they have the same first message."""
        trees: list[Tree] = []
        placed: list[Placed] = []
        tree_of: dict[tuple[int, ...], int] = {}  # by the tokens of the first message
        end_of = cache(self.reader.end_of)  # rows of one chat share messages
        for row in rows:
            spoken = messages_of(row)
            limits = [MAX_TOKENS // 4] * (len(spoken) - 1) + [MAX_TOKENS // 2]
            read = [end_of(role, text, limit) for (role, text), limit in zip(spoken, limits, strict=True)]
            messages = [tokens for tokens, _ in read]
            left_out = _left_out([len(tokens) for tokens in messages], [role for role, _ in spoken])
            *earlier_cut, reply_cut = (cut for _, cut in read)
            unread = ", ".join(
                what
                for what, holds in (
                    # Counted from the end, because a row may lack the beginning of its chat.
                    (f"only the last {len(spoken) - left_out} utterances were", left_out),
                    ("only the last tokens of a message were", any(earlier_cut[left_out:])),
                    ("only the last tokens of the reply were", reply_cut),
                )
                if holds
            )
            beginning, size = tuple(messages[left_out]), sum(map(len, messages[left_out:]))
            if beginning not in tree_of or len(trees[tree_of[beginning]]) > MAX_TOKENS + size:
                tree_of[beginning] = len(trees)
                trees.append(Tree())
            number, node, ends = tree_of[beginning], -1, [-1] * left_out
            for tokens in messages[left_out:]:
                node = trees[number].add(tokens, node)
                ends.append(node)
            earlier = tuple(end for end, (role, _) in zip(ends, spoken[:-1], strict=False) if role == ASSISTANT)
            placed.append(Placed(number, node, earlier, unread or None))
        return trees, placed


def _left_out(sizes: Sequence[int], roles: Sequence[str]) -> int:
    """How many of the first messages are left out, by their tokens, so that ``MAX_TOKENS`` remain at most.

    The tokens are left out in steps of half of that, unless less than a quarter remains before the reply. So many
    replies in a row have the same beginning, and each of them pays for the new messages alone. What remains begins with
    the user, like the chats of the training.
    """
    ends = np.cumsum(sizes)
    step, excess = MAX_TOKENS // 2, int(ends[-1]) - MAX_TOKENS
    if excess <= 0:
        return 0
    starts = [number for number, role in enumerate(roles) if number and role == USER]
    fewest, stepped = (
        next((number for number in starts if ends[number - 1] >= least), len(sizes) - 1)
        for least in (excess, math.ceil(excess / step) * step)
    )
    return stepped if ends[-2] - ends[stepped - 1] >= step // 2 else fewest


def load_reader(base: str) -> ChatReader:
    """The reader of the chats of a base model; raises InputError if its tokenizer does not fit."""
    from contradiction.inference.network import base_of

    base = base_of(base)
    with loading(base, f"{base}: neither a model folder with a tokenizer nor a model on the Hub that can be reached"):
        tokenizer, rows = load_tokenizer(base), getattr(load_config(base), "vocab_size", None)
    check_tokenizer(base, tokenizer, rows)
    return ChatReader(tokenizer, base)


def shape_of(description: dict[str, Any], folder: Path) -> "Shape":
    """The shape in the description of a model folder; a base in a folder that is not here is the model on the Hub.

    Raises:
        InputError: the labels lack history, or the rank is not that of the adapter.
    """
    from contradiction.inference.network import ADAPTER, Shape

    labels, base = description["labels"], description["base"]
    if HISTORY not in labels:
        raise InputError(f"{folder / DecoderClassifier.MARKER}: labels lack {HISTORY}; copy the model again")
    values = {each.name: description[each.name] for each in fields(Shape) if each.name in description}
    base = base if Path(base).is_dir() else str(description.get(BASE_MODEL) or base)
    shape = Shape(**{**values, "base": base, "labels": len(labels)})
    weights = load_weights(folder / ADAPTER)
    ranks = {weight.shape[0] for name, weight in weights.items() if "lora_A" in name and weight.ndim}
    if ranks != {shape.rank}:  # adapters of a wrong rank could fill the memory before they turn out not to fit
        found = ", ".join(map(str, sorted(ranks))) or "which has no adapters"
        raise InputError(
            f"{folder / DecoderClassifier.MARKER}: rank is {shape.rank}; it should be that of {ADAPTER}, {found}"
        )
    return shape
