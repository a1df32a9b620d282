"""Averages the weights over the steps of a run."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

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
