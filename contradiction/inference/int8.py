"""Linear layers in 8 bits, which make a language model fast and small on a CPU."""

from functools import cache

import torch
from torch import nn

LARGEST = 127  # of a signed integer of 8 bits, symmetric
BLOCK = 256  # outputs whose weights, in float32, stay in the cache while they are multiplied


class Int8Linear(nn.Module):
    """A linear layer that multiplies integers of 8 bits.

    Each output has a scale for its weights, and each token a scale for its inputs (vector-wise quantization, Dettmers
    et al., 2022, *LLM.int8()*, section 2). A CPU with instructions for such integers multiplies them two to four times
    as fast as float32. Other CPUs multiply the same integers in float32, with the same results.
    """

    weight: torch.Tensor
    scale: torch.Tensor
    bias: torch.Tensor | None

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        super().__init__()
        weight = weight.detach().float()
        scale = _scale(weight)
        self.register_buffer("weight", (weight / scale).round().to(torch.int8))
        self.register_buffer("scale", scale.flatten())
        self.register_buffer("bias", None if bias is None else bias.detach().float())

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """The outputs for states of shape (..., inputs), in their number format."""
        tokens = states.flatten(0, -2).float()
        scale = _scale(tokens)
        outputs = multiply((tokens / scale).round_(), self.weight).mul_(scale).mul_(self.scale)
        if self.bias is not None:
            outputs += self.bias
        return outputs.to(states.dtype).unflatten(0, states.shape[:-1])


def multiply(tokens: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """The products of whole numbers in float32, shape (tokens, inputs), and weights, shape (outputs, inputs)."""
    if has_int8():
        # Not public, but what torchao calls for the same.
        return torch._int_mm(tokens.to(torch.int8), weight.t()).float()
    # Without the instructions, torch._int_mm takes 40 times as long as float32. One buffer serves all blocks, because a
    # new one for each costs as much as the product of few tokens.
    products, buffer = tokens.new_empty(len(tokens), len(weight)), tokens.new_empty(BLOCK, weight.shape[1])
    for part, block in zip(products.split(BLOCK, dim=1), weight.split(BLOCK), strict=True):
        part.copy_(tokens @ buffer[: len(block)].copy_(block).t())
    return products


@cache
def has_int8() -> bool:
    """Whether the CPU has instructions for products of 8 bits that PyTorch uses, those of x86-64."""
    cpu = torch.cpu.get_capabilities()
    return any(cpu.get(name) for name in ("avx512_vnni", "avx_vnni", "amx_int8"))


def quantize(model: nn.Module) -> None:
    """Replaces all linear layers with low-rank adapters, which are merged."""
    from peft.tuners.lora import Linear as AdaptedLinear

    for module in [*model.modules()]:
        for name, layer in [*module.named_children()]:
            if isinstance(layer, AdaptedLinear):
                # A new tensor: to change the weights, which are mapped from a file, would copy them into memory.
                merged = layer.weight.float() + layer.get_delta_weight("default").float()
                setattr(module, name, Int8Linear(merged, layer.bias))


def _scale(rows: torch.Tensor) -> torch.Tensor:
    """The factor of each row, shape (rows, 1), by which its largest number becomes ``LARGEST``."""
    return rows.abs().amax(1, keepdim=True).clamp(min=torch.finfo(torch.float32).tiny) / LARGEST
