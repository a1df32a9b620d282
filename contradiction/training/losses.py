"""The training loss: cross-entropy, and what recipes may add to it against rare classes and against overfitting."""

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

    Where the inputs hold the opinion of teachers, ``distill = d`` of the loss is the divergence from it, and 1 - d the
    rest, with both predictions softened by ``distill_temperature = T`` and the divergence multiplied by T squared, so
    that gradients keep their size (Hinton et al., 2015, *Distilling the knowledge in a neural network*, section 2). Of
    a row whose target is ``UNLABELLED`` the divergence is all of that; ``r_drop`` adds the disagreement to it as well.

    Returns:
        A function of a model, its inputs, and the targets, shape (rows,), to the loss of each row, shape (rows,). The
        inputs may hold ``SOFT``, the probabilities that teachers give, shape (rows, classes).
    """
    loss_of = loss_function(recipe, counts)

    def loss(logits: torch.Tensor, targets: torch.Tensor, soft: torch.Tensor | None) -> torch.Tensor:
        if soft is None:
            return loss_of(logits, targets)
        labelled = targets != UNLABELLED
        weight = torch.where(labelled, recipe.distill, 1.0)
        known = loss_of(logits, targets.clamp(min=0)) * labelled
        return (1 - recipe.distill) * known + weight * divergence(logits, soft, recipe.distill_temperature)

    def one_pass(model: "PreTrainedModel", inputs: Mapping[str, torch.Tensor], targets: torch.Tensor) -> torch.Tensor:
        tokens, soft = _parted(inputs)
        logits = model(**tokens).logits
        return loss(logits, targets, soft)

    def two_passes(model: "PreTrainedModel", inputs: Mapping[str, torch.Tensor], targets: torch.Tensor) -> torch.Tensor:
        tokens, soft = _parted(inputs)
        # In one forward pass of twice the rows, as in the paper: dropout draws a mask for each.
        logits = model(**{name: torch.cat([each, each]) for name, each in tokens.items()}).logits
        passes = logits.float().chunk(2)
        known = sum(loss(each, targets, soft) for each in passes) / 2
        return known + recipe.r_drop * disagreement(*passes)

    return two_passes if recipe.r_drop else one_pass


def _parted(inputs: Mapping[str, torch.Tensor]) -> tuple[dict[str, torch.Tensor], torch.Tensor | None]:
    return {name: each for name, each in inputs.items() if name != SOFT}, inputs.get(SOFT)


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
