"""The network: a causal language model with low-rank adapters, and heads on the state at the end of each message."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import nn

from contradiction.decoder.chats import base_of
from contradiction.decoder.trees import Packed
from contradiction.errors import InputError
from contradiction.io.environment import check_installed
from contradiction.io.pretrained import load_config, load_model, load_weights, loading

if TYPE_CHECKING:
    from transformers import Cache, PreTrainedModel

ADAPTER, HEADS = "adapter_model.safetensors", "heads.safetensors"
PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
POINTER = 128  # the size of the vectors whose product points to the contradicted message
NLI_LABELS = 3


@dataclass(frozen=True)
class Shape:
    """What a network is made of.

    Attributes:
        base: the causal language model, a Hub id or a folder. ``CDCONV_BASE`` may name another folder with it.
        layers: how many of its layers are used, from the first; None uses all.
        rank: the rank of the adapters (LoRA, Hu et al., 2022).
        labels: the number of labels.
    """

    base: str
    layers: int | None = None
    rank: int = 16
    labels: int = 4


class Network(nn.Module):
    """States at the ends of messages, and what the heads say of them.

    ``score`` gives the logits of the labels, ``nli`` those of entailment, neutral and contradiction between two
    statements. The product of ``query`` at the judged reply and ``key`` at an earlier message points to the message
    that the reply contradicts.

    Args:
        shape: the base and its size.
        dtype: the number format of the base and the adapters. The heads are float32.

    Raises:
        InputError: the base does not exist, is damaged or has other layers, or peft is missing.
    """

    def __init__(self, shape: Shape, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        check_installed("A causal detector", {"peft": "decoder"})
        from peft import LoraConfig, get_peft_model
        from transformers import AutoModel

        name = base_of(shape.base)
        with loading(name, f"{name}: neither a model folder nor a model on the Hub that can be reached"):
            config = load_config(name)
            if shape.layers is not None:
                if shape.layers > config.num_hidden_layers:
                    raise InputError(f"{name} has {config.num_hidden_layers} layers, not {shape.layers}")
                config.num_hidden_layers = shape.layers
                config.layer_types = (config.layer_types or [])[: shape.layers] or None
            config.use_cache = False
            base: Any
            base, _ = load_model(AutoModel, name, config=config, dtype=dtype, attn_implementation="sdpa")
        self.shape = shape
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
    def load(cls, folder: Path, shape: Shape, dtype: torch.dtype = torch.float32, *, merged: bool = True) -> Self:
        """Loads the adapter and the heads that :meth:`save` wrote.

        Args:
            folder: the folder of a detector.
            shape: the shape that it was saved with.
            dtype: the number format of the base and the adapters.
            merged: whether the adapter is merged into the base, which is faster, and cannot be trained on.

        Raises:
            InputError: a file is missing or damaged, or does not fit the base.
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
        for name, weights in load_weights(folder / HEADS).items():
            getattr(network, name).weight.data.copy_(weights)
        if merged:
            network.body = network.body.merge_and_unload()
        return network.eval()

    def save(self, folder: Path) -> None:
        """Writes the adapter as peft does, and the heads."""
        from safetensors.torch import save_file

        self.body.peft_config["default"].base_model_name_or_path = self.shape.base
        self.body.save_pretrained(folder)
        (folder / "README.md").unlink(missing_ok=True)  # peft writes a card of its own
        heads = ("score", "nli", "query", "key")
        save_file({name: getattr(self, name).weight.data.contiguous() for name in heads}, folder / HEADS)

    def forward(self, packed: Packed, cache: "Cache | None" = None) -> torch.Tensor:
        """The states of the tokens of packed rows, float32 of unit size, shape (rows * tokens, hidden).

        Args:
            packed: the rows.
            cache: the keys and values of the first tokens of one row. Only the other tokens are read; theirs are added.
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

    def point(self, state: torch.Tensor, earlier: torch.Tensor) -> torch.Tensor:
        """Log-odds that a reply contradicts each earlier message, from their states, shape (messages,)."""
        return self.key(earlier) @ self.query(state) / POINTER**0.5

    def as_classifier(self) -> "PreTrainedModel":
        """A sequence classifier of transformers with the same logits at the last token; the adapter must be merged."""
        from transformers import AutoModelForSequenceClassification

        values = {
            name: value for name, value in self.body.config.to_dict().items() if name not in ("id2label", "label2id")
        }
        config = type(self.body.config)(**values, num_labels=self.shape.labels)
        model = AutoModelForSequenceClassification.from_config(config)
        model.model.load_state_dict(self.body.state_dict())
        model.score.weight.data.copy_(self.score.weight * self._scale)
        return model.eval()
