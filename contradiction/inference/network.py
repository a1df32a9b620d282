"""The network: a causal language model with low-rank adapters, and heads on the state at the end of each message."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import nn

from contradiction.errors import InputError
from contradiction.inference.int8 import quantize
from contradiction.inputs.trees import Packed, Tree, pack
from contradiction.io.environment import check_installed
from contradiction.io.hub import CONFIG
from contradiction.io.manifest import AGAIN
from contradiction.io.pretrained import check_weights, load_config, load_model, load_weights, loading

if TYPE_CHECKING:
    from transformers import Cache, DynamicCache, PreTrainedModel

ADAPTER, HEADS = "adapter_model.safetensors", "heads.safetensors"
HEAD_NAMES = ("score", "nli", "query", "key")
PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
POINTER = 128  # the size of the vectors whose product points to the contradicted message
NLI_LABELS = 3
# Chats that are kept. One of 2,000 tokens takes about 40 MB with 16 layers of a 0.5 B base in float32, and about three
# times as much with a 1.5 B base.
CHATS = 8
BASE_VARIABLE = "CDCONV_BASE"
SAMPLE = 64  # weights of its base that a detector remembers
# The least cosine of those weights with the same ones of a base. That of an unrelated model is about 0, with a standard
# deviation of 1/8. A copy of the base that is rounded to four bits must stay above.
SAME_BASE = 0.9


def base_of(name: str) -> str:
    """Where a base is loaded from: its name, or a folder if the environment variable ``CDCONV_BASE`` is set.

    The variable names a folder with the base itself, or one with a sub-folder for each of several bases. A sub-folder
    is called like the last part of the name of its base, in upper or lower case. A name that is a folder stays.
    """
    folder = None if Path(name).is_dir() else os.environ.get(BASE_VARIABLE)
    if not folder or (Path(folder) / CONFIG).is_file():
        return folder or name
    own = Path(name).name
    bases = Path(folder).iterdir() if Path(folder).is_dir() else ()
    return str(next((base for base in bases if base.name.lower() == own.lower()), Path(folder) / own))


@dataclass(frozen=True)
class Shape:
    """What a network is made of."""

    base: str  # the causal language model, a Hub id or a folder; see `base_of`
    layers: int | None = None  # how many of its layers are used, from the first; None uses all
    rank: int = 16  # of the adapters (LoRA, Hu et al., 2022)
    labels: int = 4  # their number


class Network(nn.Module):
    """States at the ends of messages, and what the heads say of them.

    ``score`` gives the logits of the labels, ``nli`` those of entailment, neutral and contradiction between two
    statements. The product of ``query`` at the judged reply and ``key`` at an earlier message points to the message
    that the reply contradicts.

    The base and the adapters have the number format ``dtype``, the heads float32. Raises InputError if peft is missing,
    or if the base does not exist, is damaged or has other layers.
    """

    def __init__(self, shape: Shape, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        check_installed("A causal detector", {"peft": "decoder"})
        from peft import LoraConfig, get_peft_model
        from transformers import AutoModel

        name = base_of(shape.base)
        with loading(name):
            config = load_config(name)
            if shape.layers is not None:
                if shape.layers > config.num_hidden_layers:
                    raise InputError(f"{name} has {config.num_hidden_layers} layers, not {shape.layers}")
                config.num_hidden_layers = shape.layers
                if kinds := getattr(config, "layer_types", None):  # Llama has none
                    config.layer_types = kinds[: shape.layers]
            config.use_cache = False
            base: Any
            base, report = load_model(AutoModel, name, config=config, dtype=dtype, attn_implementation="sdpa")
            # The layers that are not used, and the output layer, are not loaded.
            check_weights(name, base, {**report, "unexpected_keys": []})
        linear = {key.rpartition(".")[2] for key, layer in base.named_modules() if isinstance(layer, nn.Linear)}
        if linear != set(PROJECTIONS) or not hasattr(base, "norm"):
            raise InputError(f"{name}: its layers are not those of Qwen2, Qwen3 or Llama, which it adapts")
        self.shape = shape
        some = base.layers[0].mlp.down_proj.weight.detach().float().flatten()
        self.base_weights: list[float] = [round(value, 5) for value in some[:: len(some) // SAMPLE][:SAMPLE].tolist()]
        lora = LoraConfig(r=shape.rank, lora_alpha=2 * shape.rank, target_modules=list(PROJECTIONS))
        self.body: Any = get_peft_model(base, lora, autocast_adapter_dtype=False).to(dtype)
        size = config.hidden_size
        # States of unit size: the last norm of a language model multiplies them.
        self._scale = 1 / float(base.norm.weight.float().pow(2).mean().sqrt())
        self.score = nn.Linear(size, shape.labels, bias=False)
        self.nli = nn.Linear(size, NLI_LABELS, bias=False)
        self.query, self.key = nn.Linear(size, POINTER, bias=False), nn.Linear(size, POINTER, bias=False)
        for head, deviation in ((self.score, 0.01), (self.nli, 0.01), (self.query, 0.015), (self.key, 0.015)):
            nn.init.normal_(head.weight, std=deviation)

    @classmethod
    def load(
        cls, folder: Path, shape: Shape, dtype: torch.dtype = torch.float32, *, merged: bool = True, int8: bool = False
    ) -> Self:
        """Loads the adapter and the heads that :meth:`save` wrote; raises InputError if they do not fit the base.

        If ``merged``, the adapter is merged into the base, which is faster, and cannot be trained on. If ``int8``, the
        merged layers have 8 bits.
        """
        from peft import set_peft_model_state_dict

        network = cls(shape, dtype)
        unfit = f"{folder / ADAPTER}: does not fit {base_of(shape.base)}; name the base that it was made for"
        try:
            report: Any = set_peft_model_state_dict(network.body, load_weights(folder / ADAPTER))
        except RuntimeError as error:  # tensors of other shapes
            raise InputError(unfit) from error
        if report.unexpected_keys or any("lora_" in key for key in report.missing_keys):
            raise InputError(unfit)
        heads = load_weights(folder / HEADS)
        if {name: weight.shape for name, weight in heads.items()} != {
            name: getattr(network, name).weight.shape for name in HEAD_NAMES
        }:
            raise InputError(f"{folder / HEADS}: must hold {', '.join(HEAD_NAMES)} for {shape.labels} labels; {AGAIN}")
        for name, weight in heads.items():
            getattr(network, name).weight.data.copy_(weight)
        if int8:
            quantize(network.body)
            network.body = network.body.get_base_model()
        elif merged:
            network.body = network.body.merge_and_unload()
        return network.eval()

    def check_base(self, weights: Sequence[float]) -> None:
        """Raises InputError for ``base_weights`` of another base, which would give wrong answers with this adapter."""
        given, own = torch.tensor(weights), torch.tensor(self.base_weights)
        if given.shape != own.shape or torch.cosine_similarity(given, own, dim=0) < SAME_BASE:
            base = self.shape.base
            raise InputError(f"{base_of(base)}: its weights are not those of {base}; name that model")

    def save(self, folder: Path) -> None:
        """Writes the adapter as peft does, and the heads."""
        from safetensors.torch import save_file

        self.body.peft_config["default"].base_model_name_or_path = self.shape.base
        self.body.save_pretrained(folder)
        (folder / "README.md").unlink(missing_ok=True)  # peft writes a card of its own
        save_file({name: getattr(self, name).weight.data.contiguous() for name in HEAD_NAMES}, folder / HEADS)

    def forward(self, packed: Packed, cache: "Cache | None" = None) -> torch.Tensor:
        """The states of the tokens of packed rows, float32 of unit size, shape (rows * tokens, hidden).

        A cache has the keys and values of the first tokens of one row. Only the others are read; theirs are added.
        """
        device, known = self.score.weight.device, cache.get_seq_length() if cache is not None else 0
        ids, positions, mask = (
            torch.from_numpy(values).to(device)
            for values in (
                packed.input_ids[:, known:], packed.position_ids[:, known:], packed.attention_mask[:, :, known:]
            )
        )  # fmt: skip
        states = self.body(
            input_ids=ids,
            position_ids=positions,
            attention_mask=mask,
            past_key_values=cache,
            use_cache=cache is not None,
        )
        return states.last_hidden_state.float().flatten(0, 1) * self._scale

    def as_classifier(self) -> "PreTrainedModel":
        """A sequence classifier of transformers with the same logits at the last token.

        It shares the layers of this network, whose adapter must be merged.
        """
        from transformers import AutoModelForSequenceClassification

        values = {
            name: value for name, value in self.body.config.to_dict().items() if name not in ("id2label", "label2id")
        }
        config = type(self.body.config)(**values, num_labels=self.shape.labels)
        with torch.device("meta"):  # no weights, which are large and random
            model = AutoModelForSequenceClassification.from_config(config)
        model.model, model.score.weight = self.body, nn.Parameter(self.score.weight * self._scale)
        return model.eval()


def point(query: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
    """Log-odds that a reply contradicts each earlier message, shape (messages,), by the heads of that name."""
    return keys @ query / POINTER**0.5


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

    def __init__(self, network: Network) -> None:
        self._network = network
        self._chats: list[_Chat] = []  # the last one read is last
        self._lock = Lock()

    def __reduce__(self) -> tuple[type[Self], tuple[Network]]:
        # A copy remembers nothing, and has a lock of its own.
        return type(self), (self._network,)

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
        layers: Any = cache.layers
        for layer in layers:
            # Copies, because slices would keep what was removed.
            layer.keys, layer.values = layer.keys.clone(), layer.values.clone()


def _count(values: Iterable[bool]) -> int:
    """How many values are true before the first that is not."""
    return sum(1 for _ in takewhile(bool, values))
