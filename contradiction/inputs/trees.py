"""Writes chats as tokens, and packs those that begin alike into trees, so that each shared beginning is read once.

Each node of a tree is a token that attends to its ancestors and to itself. The replies of one chat, the candidates of a
rerank and the four combinations of a crossed quadruple each form one tree. Several trees fill a row without padding
between them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from contradiction.conversation import ASSISTANT, USER
from contradiction.errors import InputError
from contradiction.inputs.tokenization import CHARACTERS
from contradiction.inputs.views import cleaner

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

OPEN = 32  # rows that are looked at for room
START, END = "<|im_start|>", "<|im_end|>"  # of a message in ChatML
# Writes messages as a reader does, without the removal of markup. No text can forge a mark, and only what the two sides
# say is read, like the detector reads it.
CHAT_TEMPLATE = (
    "{% for message in messages if message.role in ['" + USER + "', '" + ASSISTANT + "'] %}"
    "{% if message.content is not string %}{{ raise_exception('the content of a message must be text') }}{% endif %}"
    + START + "{{ message.role }}\n{{ message.content | replace('<|', '< |') }}" + END + "{% endfor %}"
)  # fmt: skip


class ChatReader:
    """Tokenizes chats in ChatML, without the line break between two messages.

    Raises InputError for the tokenizer of a model that has no marks ``<|im_start|>`` and ``<|im_end|>``.
    """

    def __init__(self, tokenizer: "PreTrainedTokenizerBase", name: str = "model") -> None:
        self.tokenizer, self._clean = tokenizer, cleaner(tokenizer)
        marks: list[Any] = [tokenizer.convert_tokens_to_ids(mark) for mark in (START, END)]
        start, end = marks
        if any(not isinstance(token, int) or token == tokenizer.unk_token_id for token in marks):
            raise InputError(f"{name}: its tokenizer has no {START} and {END}; name a model that chats in ChatML")
        self._end = end
        self._heads = {role: [start, *self._ids(f"{role}\n")] for role in (USER, ASSISTANT)}

    def message(self, role: str, text: str) -> list[int]:
        """The tokens of one message, with its marks."""
        return [*self._heads[role], *self._ids(self._clean(text)), self._end]

    def end_of(self, role: str, text: str, limit: int) -> tuple[list[int], bool]:
        """The tokens of one message, at most ``limit``, of a longer text those of its end; and whether it is longer."""
        head, end = len(self._heads[role]), text[-CHARACTERS * limit :]
        tokens = self.message(role, end)
        if len(tokens) <= limit:
            return tokens, len(end) < len(text)
        return tokens[:head] + tokens[head:][-(limit - head) :], True

    def _ids(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, add_special_tokens=False, verbose=False)


@dataclass
class Tree:
    """Token sequences that share their beginnings; each node is a token, and comes before its children."""

    tokens: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)  # of each node, its index, or -1 at the beginning of a sequence
    depths: list[int] = field(default_factory=list)  # the position of each node in its sequences
    _children: dict[tuple[int, int], int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.tokens)

    def add(self, tokens: Iterable[int], parent: int = -1) -> int:
        """Adds a sequence of tokens below a node, -1 for a new beginning, and returns the node of the last token."""
        for token in tokens:
            child = self._children.get((parent, token))
            if child is None:
                child = len(self.tokens)
                self._children[parent, token] = child
                self.tokens.append(token)
                self.parents.append(parent)
                self.depths.append(self.depths[parent] + 1 if parent >= 0 else 0)
            parent = child
        return parent


@dataclass(frozen=True)
class Packed:
    """Rows of trees as the inputs of a model."""

    input_ids: np.ndarray  # shape (rows, tokens)
    position_ids: np.ndarray  # the same
    attention_mask: np.ndarray  # whether a token attends to another, shape (rows, 1, tokens, tokens)
    offsets: list[int]  # for each tree its place among the flattened tokens of all rows


def fill_rows(sizes: Sequence[int], length: int) -> list[list[int]]:
    """Puts trees into rows of at most ``length`` tokens; a larger tree gets a row of its own.

    Each tree goes into the first of the last ``OPEN`` rows that has room. A row is the positions of its trees.
    """
    rows: list[list[int]] = []
    used: list[int] = []
    for index, size in enumerate(sizes):
        first = max(0, len(rows) - OPEN)
        row = next((row for row in range(first, len(rows)) if used[row] + size <= length), len(rows))
        if row == len(rows):
            rows.append([])
            used.append(0)
        rows[row].append(index)
        used[row] += size
    return rows


def pack(rows: Sequence[Sequence[Tree]], length: int | None = None) -> Packed:
    """The inputs of a model for rows of trees.

    A row is padded to ``length`` tokens, by default those of the longest row. Padding attends only to itself.
    """
    length = length or max(sum(map(len, row)) for row in rows)
    shape = (len(rows), length)
    ids, positions = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    mask = np.zeros((*shape, length), dtype=bool)
    mask[:, np.arange(length), np.arange(length)] = True
    offsets = []
    for number, row in enumerate(rows):
        start = 0
        for tree in row:
            end = start + len(tree)
            ids[number, start:end], positions[number, start:end] = tree.tokens, tree.depths
            for node, parent in enumerate(tree.parents):
                if parent >= 0:
                    mask[number, start + node] |= mask[number, start + parent]
            offsets.append(number * length + start)
            start = end
    return Packed(ids, positions, mask[:, np.newaxis], offsets)
