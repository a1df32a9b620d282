"""AdamW as a recipe asks for it: which weights decay, and which layers learn how fast."""

from typing import TYPE_CHECKING, Any

import torch

from contradiction.errors import InputError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from contradiction.training.recipe import Recipe


def adamw(model: "PreTrainedModel", recipe: "Recipe") -> torch.optim.AdamW:
    """The optimizer of a run.

    Raises:
        InputError: the recipe asks for ``layer_decay``, and the encoder has no stack of layers.
    """
    # One kernel for all parameters. With a gradient scaler it would hide from accelerate that a step was left out.
    fused = recipe.precision != "fp16"
    return torch.optim.AdamW(parameter_groups(model, recipe), lr=recipe.learning_rate, fused=fused)


def parameter_groups(model: "PreTrainedModel", recipe: "Recipe") -> list[dict[str, Any]]:
    """The parameters by what AdamW does to them.

    Weight decay is for matrices; vectors are biases and normalisation weights. With ``layer_decay = d`` below 1 the
    head learns at the recipe's rate, and each layer below it at d times the rate of the one above, the embeddings
    slowest (Howard and Ruder, 2018, *Universal language model fine-tuning*, section 3.2, "discriminative fine-tuning";
    with one factor for all layers Clark et al., 2020, *ELECTRA*, appendix B).
    """
    if recipe.layer_decay == 1:
        return _by_decay(list(model.parameters()), recipe.weight_decay)
    levels: dict[int, list[torch.nn.Parameter]] = {}
    depths, top = layer_depths(model)
    for name, parameter in model.named_parameters():
        levels.setdefault(depths[name], []).append(parameter)
    return [
        {**group, "lr": recipe.learning_rate * recipe.layer_decay ** (top - depth)}
        for depth, parameters in sorted(levels.items())
        for group in _by_decay(parameters, recipe.weight_decay)
        if group["params"]
    ]


def _by_decay(parameters: list[torch.nn.Parameter], weight_decay: float) -> list[dict[str, Any]]:
    weights = [each for each in parameters if each.ndim > 1]
    vectors = [each for each in parameters if each.ndim <= 1]
    return [{"params": weights, "weight_decay": weight_decay}, {"params": vectors, "weight_decay": 0.0}]


def layer_depths(model: "PreTrainedModel") -> tuple[dict[str, int], int]:
    """How deep each parameter lies, by name: 0 for the embeddings, 1 for the first layer, ... and the greatest depth.

    What comes after the last layer (pooler, head) is one level above it. Embeddings count as such wherever they are
    defined: DeBERTa's of relative positions come behind the layers, which all read them.

    Raises:
        InputError: there is no stack of as many layers as the configuration says.
    """
    layers = getattr(model.config, "num_hidden_layers", None)
    stack = next(
        (
            name
            for name, module in model.named_modules()
            if isinstance(module, torch.nn.ModuleList) and len(module) == layers
        ),
        None,
    )
    if stack is None or layers is None:
        raise InputError(f"layer_decay: found no stack of layers in {type(model).__name__}; use layer_decay = 1.0")
    depths, outside = {}, 0
    for name, _ in model.named_parameters():
        if name.startswith(f"{stack}."):
            depths[name] = 1 + int(name.removeprefix(f"{stack}.").partition(".")[0])
            outside = layers + 1
        else:
            depths[name] = 0 if "embeddings" in name else outside
    return depths, layers + 1
