"""What a recipe may add to training besides the loss: averaged weights, and adversarial embeddings."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def weight_average(model: "PreTrainedModel", decay: float, device: torch.device) -> AveragedModel:
    """An exponential moving average of a model's weights, torch's own.

    After the first step it equals the weights; each later step makes it ``decay`` x average + (1 - ``decay``) x weights
    (Polyak and Juditsky, 1992, *Acceleration of stochastic approximation by averaging*; with this decay Kingma and Ba,
    2015, *Adam*, section 7.2).
    """
    return AveragedModel(model, device=device, multi_avg_fn=get_ema_multi_avg_fn(decay))


@contextmanager
def averaged(model: "PreTrainedModel", average: AveragedModel | None) -> Iterator[None]:
    """Inside the block ``model`` has the averaged weights, outside its own; without an average nothing changes."""
    pairs = list(zip(model.parameters(), average.module.parameters(), strict=True)) if average else []

    def swap() -> None:
        # The tensors change places and are not copied, so what comes back is what was there, to the bit.
        for own, other in pairs:
            own.data, other.data = other.data, own.data

    swap()
    try:
        yield
    finally:
        swap()


class AdversarialEmbeddings:
    """Moves the embeddings of each row the distance ``epsilon`` in the direction in which its loss grows fastest.

    The fast gradient method of Miyato et al., 2017, *Adversarial training methods for semi-supervised text
    classification*, equations 5 and 6: r = epsilon g / |g|, g the gradient of the loss in the row's word embeddings
    taken as one long vector. A step then trains on the sum of the loss and the loss of the moved row. Theirs are
    normalised embeddings; a pre-trained encoder has a normalisation right behind them, so they are left as they are.

    Args:
        model: any encoder with input embeddings.
        epsilon: the length of the move, in the units of the embeddings.
    """

    def __init__(self, model: "PreTrainedModel", epsilon: float) -> None:
        self.epsilon = epsilon
        self.shift: torch.Tensor | None = None
        self.embedded: torch.Tensor | None = None
        model.get_input_embeddings().register_forward_hook(self._embed)

    def _embed(self, module: torch.nn.Module, inputs: Any, output: torch.Tensor) -> torch.Tensor:
        if self.shift is not None:
            return output + self.shift
        if output.requires_grad:  # not in evaluation
            output.retain_grad()
            self.embedded = output
        return output

    @contextmanager
    def attack(self) -> Iterator[None]:
        """To enter after the backward pass of a batch; a forward pass of the same rows inside reads them moved."""
        if self.embedded is None or self.embedded.grad is None:
            raise RuntimeError("there is no gradient yet: a backward pass of the same rows must come first")
        gradient = self.embedded.grad.float()
        length = gradient.flatten(1).norm(dim=1)[:, None, None]
        # No direction where there is no gradient, or where it overflowed in fp16.
        self.shift = (self.epsilon * gradient / length).nan_to_num(nan=0.0).to(self.embedded.dtype)
        try:
            yield
        finally:
            self.shift = self.embedded = None
