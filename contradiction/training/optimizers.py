"""AdamW as a recipe asks for it."""

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from contradiction.training.recipe import Recipe


def adamw(model: "PreTrainedModel", recipe: "Recipe") -> torch.optim.AdamW:
    """The optimizer of a run."""
    # One kernel for all parameters. With a gradient scaler it would hide from accelerate that a step was left out.
    fused = recipe.precision != "fp16"
    return torch.optim.AdamW(parameter_groups(model, recipe), lr=recipe.optimizer.learning_rate, fused=fused)


def parameter_groups(model: "PreTrainedModel", recipe: "Recipe") -> list[dict[str, Any]]:
    """The parameters by what AdamW does to them: matrices decay, vectors (biases and normalisation weights) do not."""
    parameters = list(model.parameters())
    matrices = [parameter for parameter in parameters if parameter.ndim > 1]
    vectors = [parameter for parameter in parameters if parameter.ndim <= 1]
    return [
        {"params": matrices, "weight_decay": recipe.optimizer.weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
