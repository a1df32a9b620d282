"""The training loss: cross-entropy, and what recipes may add to it against rare classes."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
from torch.nn.functional import cross_entropy

if TYPE_CHECKING:
    from contradiction.recipes import Recipe

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def loss_function(recipe: "Recipe", counts: Sequence[int]) -> Loss:
    """The loss that a recipe asks for.

    - ``class_weights = "balanced"``: a row weighs rows / (classes x rows of its class), scikit-learn's rule, so that
      classes weigh the same in sum.
    - ``logit_adjustment = t``: t log p(class) is added to the logits in training only, which makes the argmax at test
      time that of balanced error (Menon et al., 2021, *Long-tail learning via logit adjustment*, equation 10).
    - ``focal = g``: a row weighs (1 - p)^g, p the probability of its class, so that easy rows count less (Lin et al.,
      2017, *Focal loss for dense object detection*, equation 4).
    - ``label_smoothing = s``: the target gives the share s to all classes alike (Szegedy et al., 2016, *Rethinking the
      inception architecture*, section 7).

    Args:
        recipe: names the options.
        counts: rows of each class in the training split.

    Returns:
        A function of logits, shape (rows, classes), and targets, shape (rows,), to the mean loss a row.
    """
    sizes = torch.tensor(counts, dtype=torch.float32).clamp(min=1)
    offsets = recipe.logit_adjustment * torch.log(sizes / sizes.sum())
    weights = sizes.sum() / (len(sizes) * sizes) if recipe.class_weights == "balanced" else torch.ones_like(sizes)

    def loss(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        logits = logits.float() + offsets.to(logits.device)
        each = cross_entropy(logits, targets, label_smoothing=recipe.label_smoothing, reduction="none")
        if recipe.focal:
            share = logits.softmax(-1).gather(1, targets[:, None]).squeeze(1)
            each = each * (1 - share) ** recipe.focal
        return (each * weights.to(logits.device)[targets]).mean()

    return loss
