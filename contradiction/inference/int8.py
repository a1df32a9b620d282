"""Linear layers in 8 bits, which make a language model fast and small on a CPU."""

import torch
from torch import nn

LARGEST = 127  # of a signed integer of 8 bits, symmetric


class Int8Linear(nn.Module):
    """A linear layer that multiplies integers of 8 bits.

    Each output has a scale for its weights, and each token a scale for its inputs (vector-wise quantization, Dettmers
    et al., 2022, *LLM.int8()*, section 2). A CPU multiplies such integers two to four times as fast as float32.
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
        # Not public, but what torchao calls for the same.
        products = torch._int_mm((tokens / scale).round_().to(torch.int8), self.weight.t())
        outputs = products.float().mul_(scale).mul_(self.scale)
        if self.bias is not None:
            outputs += self.bias
        return outputs.to(states.dtype).unflatten(0, states.shape[:-1])


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
