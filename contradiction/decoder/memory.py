"""Keeps the chats that were read last, so that a chat that goes on pays only for its new messages."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import takewhile
from threading import Lock
from typing import TYPE_CHECKING

import torch

from contradiction.decoder.trees import Tree, pack

if TYPE_CHECKING:
    from transformers import DynamicCache

    from contradiction.decoder.network import Network

CHATS = 8  # that are kept; one of 2,000 tokens takes about 40 MB with the 0.5 B model in float32


@dataclass(frozen=True)
class _Chat:
    """A chat that was read: its tokens, their keys and values in every layer, and their states."""

    tokens: list[int]
    cache: "DynamicCache"
    states: torch.Tensor


class Memory:
    """Reads trees, and goes on from the chat that begins alike, if there is one.

    A chat that is being read is out of the memory, so several threads may read at once.
    """

    def __init__(self, network: "Network") -> None:
        self._network = network
        self._chats: list[_Chat] = []  # the last one read is last
        self._lock = Lock()

    def read(self, tree: Tree) -> torch.Tensor:
        """The states of the nodes of a tree, float32, shape (nodes, hidden)."""
        from transformers import DynamicCache

        # The first sequence of a tree, which is kept afterwards, is a chain of nodes from 0 on.
        trunk = tree.tokens[: _count(parent == node - 1 for node, parent in enumerate(tree.parents))]
        with self._lock:
            known, chat = self._take(trunk)
        cache = chat.cache if chat else DynamicCache()
        _keep(cache, known)
        packed = pack([[tree]])
        states = self._network(packed, cache)
        if chat:
            states = torch.cat([chat.states[:known], states])
        _keep(cache, len(trunk))
        with self._lock:
            # A copy, because a slice would keep the states of the whole tree.
            self._chats = [*self._chats, _Chat(trunk, cache, states[: len(trunk)].clone())][-CHATS:]
        return states

    def _take(self, tokens: list[int]) -> tuple[int, _Chat | None]:
        """Takes out the chat that shares most of its tokens with a beginning, and how many; it must share half."""
        shared = [_count(map(int.__eq__, chat.tokens, tokens)) for chat in self._chats]
        best = max(range(len(shared)), key=lambda index: shared[index], default=-1)
        # The last token is read again, because a pass needs one.
        if best < 0 or 2 * shared[best] < len(self._chats[best].tokens):
            return 0, None
        return min(shared[best], len(tokens) - 1), self._chats.pop(best)


def _keep(cache: "DynamicCache", tokens: int) -> None:
    """Removes all but the first tokens from a cache."""
    if more := cache.get_seq_length() - tokens:
        cache.crop(-more)


def _count(values: Iterable[bool]) -> int:
    """How many values are true before the first that is not."""
    return sum(1 for _ in takewhile(bool, values))
