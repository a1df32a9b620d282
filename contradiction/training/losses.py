"""The training loss: cross-entropy, weighted or adjusted for rare classes, and the divergence from teachers."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch.nn.functional import cross_entropy

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from contradiction.training.recipe import Recipe

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
# The name under which a batch holds what teachers say of its rows.
SOFT = "soft"
# The target of a row that has no label, as torch names it: such a row is learnt from teachers alone.
UNLABELLED = -100

Objective = Callable[["PreTrainedModel", Mapping[str, torch.Tensor], torch.Tensor], torch.Tensor]


def loss_function(recipe: "Recipe", counts: Sequence[int]) -> Loss:
    """The loss of each row that a recipe asks for.

    - ``class_weights = "balanced"``: a row weighs rows / (classes x rows of its class), scikit-learn's rule, so that
      classes weigh the same in sum.
    - ``logit_adjustment = t``: t log p(class) is added to the logits in training only, which makes the argmax at test
      time that of balanced error (Menon et al., 2021, *Long-tail learning via logit adjustment*, equation 10).

    Args:
        recipe: names the options.
        counts: rows of each class in the training split.

    Returns:
        A function of logits, shape (rows, classes), and targets, shape (rows,), to the loss of each row, shape (rows,).
    """
    sizes = torch.tensor(counts, dtype=torch.float32).clamp(min=1)
    offsets = recipe.loss.logit_adjustment * torch.log(sizes / sizes.sum())
    weights = sizes.sum() / (len(sizes) * sizes) if recipe.loss.class_weights == "balanced" else torch.ones_like(sizes)

    def loss(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        logits = logits.float() + offsets.to(logits.device)
        return cross_entropy(logits, targets, reduction="none") * weights.to(logits.device)[targets]

    return loss


def objective(recipe: "Recipe", counts: Sequence[int]) -> Objective:
    """What training minimises: the loss, and the divergence from teachers where there are any.

    Where the inputs hold the opinion of teachers, ``weight = d`` of the loss is the divergence from it, and 1 - d the
    rest, with both predictions softened by ``temperature = T`` and the divergence multiplied by T squared, so
    that gradients keep their size (Hinton et al., 2015, *Distilling the knowledge in a neural network*, section 2). Of
    a row whose target is ``UNLABELLED`` the divergence is all of that.

    Returns:
        A function of a model, its inputs, and the targets, shape (rows,), to the loss of each row, shape (rows,). The
        inputs may hold ``SOFT``, the probabilities that teachers give, shape (rows, classes).
    """
    loss_of, distillation = loss_function(recipe, counts), recipe.distillation

    def loss(logits: torch.Tensor, targets: torch.Tensor, soft: torch.Tensor | None) -> torch.Tensor:
        if soft is None:
            return loss_of(logits, targets)
        labelled = targets != UNLABELLED
        weight = torch.where(labelled, distillation.weight, 1.0)
        known = loss_of(logits, targets.clamp(min=0)) * labelled
        return (1 - distillation.weight) * known + weight * divergence(logits, soft, distillation.temperature)

    def row_losses(model: "PreTrainedModel", inputs: Mapping[str, torch.Tensor], targets: torch.Tensor) -> torch.Tensor:
        tokens = {name: value for name, value in inputs.items() if name != SOFT}
        return loss(model(**tokens).logits, targets, inputs.get(SOFT))

    return row_losses


def divergence(logits: torch.Tensor, soft: torch.Tensor, temperature: float = 1.0) -> torch.Tensor:
    """The Kullback-Leibler divergence of a prediction from a teacher's, in nats, times the temperature squared.

    Args:
        logits: of the student, shape (rows, classes).
        soft: probabilities of the teacher, shape (rows, classes).
        temperature: divides both log-probabilities before they are compared.

    Returns:
        Shape (rows,).
    """
    teacher = (soft.float().clamp(min=1e-12).log() / temperature).log_softmax(-1)
    student = (logits.float() / temperature).log_softmax(-1)
    return temperature**2 * (teacher.exp() * (teacher - student)).sum(-1)
