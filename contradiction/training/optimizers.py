"""AdamW, and its groups of parameters."""

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from contradiction.training.recipe import Recipe


def adamw(model: "PreTrainedModel", recipe: "Recipe") -> torch.optim.AdamW:
    """The optimizer of a run."""
    # The fused kernel is faster. With the gradient scaler of fp16, accelerate could not see that it skipped a step.
    fused = recipe.precision != "fp16"
    return torch.optim.AdamW(parameter_groups(model, recipe), lr=recipe.optimizer.learning_rate, fused=fused)


def parameter_groups(model: "PreTrainedModel", recipe: "Recipe") -> list[dict[str, Any]]:
    """The groups of trained parameters for AdamW.

    Matrices have weight decay; vectors (biases and normalisation weights) have none. The pooler and the head have
    another learning rate where the recipe sets one.
    """
    options = recipe.optimizer
    trained = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    encoder = {name for name in trained if name.startswith(f"{model.base_model_prefix}.") and ".pooler." not in name}
    groups = []
    for rate, names in (
        (options.learning_rate, encoder),
        (options.head_learning_rate or options.learning_rate, trained.keys() - encoder),
    ):
        parameters = [parameter for name, parameter in trained.items() if name in names]
        matrices = [parameter for parameter in parameters if parameter.ndim > 1]
        vectors = [parameter for parameter in parameters if parameter.ndim <= 1]
        groups += [
            {"params": matrices, "lr": rate, "weight_decay": options.weight_decay},
            {"params": vectors, "lr": rate, "weight_decay": 0.0},
        ]
    return groups
