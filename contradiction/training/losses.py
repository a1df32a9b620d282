"""The training loss: cross-entropy, and what recipes may add to it against rare classes and against overfitting."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch.nn.functional import cross_entropy

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from contradiction.recipes import Recipe

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
Objective = Callable[["PreTrainedModel", Mapping[str, torch.Tensor], torch.Tensor], torch.Tensor]


def loss_function(recipe: "Recipe", counts: Sequence[int]) -> Loss:
    """The loss of each row that a recipe asks for.

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
        A function of logits, shape (rows, classes), and targets, shape (rows,), to the loss of each row, shape (rows,).
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
        return each * weights.to(logits.device)[targets]

    return loss


def objective(recipe: "Recipe", counts: Sequence[int]) -> Objective:
    """What training minimises: the loss, and with ``r_drop = a`` the disagreement of two passes, a times.

    R-Drop (Liang et al., 2021, *R-Drop: regularized dropout for neural networks*, equation 4) reads every row twice
    under different dropout masks and adds a times the divergence of the two predictions. As in the authors' code, the
    two cross-entropies are averaged rather than summed, so that a learning rate keeps its meaning.

    Returns:
        A function of a model, its inputs, and the targets, shape (rows,), to the loss of each row, shape (rows,).
    """
    loss_of = loss_function(recipe, counts)

    def one_pass(model: "PreTrainedModel", inputs: Mapping[str, torch.Tensor], targets: torch.Tensor) -> torch.Tensor:
        return loss_of(model(**inputs).logits, targets)

    def two_passes(model: "PreTrainedModel", inputs: Mapping[str, torch.Tensor], targets: torch.Tensor) -> torch.Tensor:
        # In one forward pass of twice the rows, as in the paper: dropout draws a mask for each.
        logits = model(**{name: torch.cat([each, each]) for name, each in inputs.items()}).logits
        first, second = logits.float().chunk(2)
        known = (loss_of(first, targets) + loss_of(second, targets)) / 2
        return known + recipe.r_drop * disagreement(first, second)

    return two_passes if recipe.r_drop else one_pass


def disagreement(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """The Kullback-Leibler divergence of two predictions, the mean of both directions, in nats.

    Args:
        first: logits, shape (rows, classes).
        second: logits of the same rows.

    Returns:
        Shape (rows,).
    """
    p, q = first.log_softmax(-1), second.log_softmax(-1)
    # KL(p|q) + KL(q|p) = sum of (p - q)(log p - log q)
    return ((p.exp() - q.exp()) * (p - q)).sum(-1) / 2
