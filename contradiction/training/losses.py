"""The training loss: of labels, weighted or adjusted for rare classes, of ranking, and of distillation."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch.nn.functional import softplus

from contradiction.labels import is_contradiction

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from contradiction.training.recipe import Recipe

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
# The name under which a batch holds what teachers say of its rows.
SOFT = "soft"
# The name under which a batch holds the labels that a row may have, and the one for the group that a row is of.
ALLOWED, GROUP = "allowed", "group"
# The target of a row that has no label, as torch names it.
UNLABELLED = -100

Objective = Callable[["PreTrainedModel", Mapping[str, torch.Tensor], torch.Tensor], torch.Tensor]


def label_loss(recipe: "Recipe", counts: Sequence[int]) -> Loss:
    """The loss of each row against its label, or against the labels that it may have.

    A row with one label has the cross-entropy. A row of which less is known, such as an NLI pair that contradicts in
    some way, has the negative log of the sum of the probabilities of all labels that it may have (Cour et al., 2011,
    *Learning from partial labels*). A row without any has no loss.

    - ``class_weights = "balanced"``: a row weighs rows / (classes x rows of its class), scikit-learn's rule, so that
      classes weigh the same in sum.
    - ``logit_adjustment = t``: t log p(class) is added to the logits in training only, which makes the argmax at test
      time that of balanced error (Menon et al., 2021, *Long-tail learning via logit adjustment*, equation 10).

    Args:
        recipe: names the options.
        counts: rows of each class in the training split.

    Returns:
        A function of logits, shape (rows, classes), and of whether each row may have each label, same shape, to the
        loss of each row, shape (rows,).
    """
    sizes = torch.tensor(counts, dtype=torch.float32).clamp(min=1)
    offsets = recipe.loss.logit_adjustment * torch.log(sizes / sizes.sum())
    weights = sizes.sum() / (len(sizes) * sizes) if recipe.loss.class_weights == "balanced" else torch.ones_like(sizes)

    def loss(logits: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
        # A row that may have any label, or none, has a loss of zero; infinite terms would have no gradient.
        allowed = allowed | ~allowed.any(1, keepdim=True)
        log_probabilities = (logits.float() + offsets.to(logits.device)).log_softmax(-1)
        loss = -log_probabilities.masked_fill(~allowed, -torch.inf).logsumexp(-1)
        shares = allowed / allowed.sum(1, keepdim=True)
        return loss * (shares * weights.to(logits.device)).sum(1)

    return loss


def ranking_loss(
    logits: torch.Tensor, allowed: torch.Tensor, groups: torch.Tensor, contradictions: torch.Tensor
) -> torch.Tensor:
    """How far the contradictions of a group are from scoring above its other rows.

    The logistic loss of the difference of the two log-odds (Burges et al., 2005, *Learning to rank using gradient
    descent*), over all pairs of a contradiction and another row of one group. What the rows of a group have in common,
    a context or a reply, cancels out: only what sets them apart can lower the loss.

    Args:
        logits: shape (rows, classes).
        allowed: whether each row may have each label, same shape.
        groups: the number of each row's group, shape (rows,).
        contradictions: whether each label is a contradiction, shape (classes,).

    Returns:
        Shape (rows,): for each contradiction the mean over its pairs, for any other row 0.
    """
    logits = logits.float()
    odds = logits[:, contradictions].logsumexp(1) - logits[:, ~contradictions].logsumexp(1)
    known = allowed.any(1)
    higher = known & ~allowed[:, ~contradictions].any(1)
    lower = known & ~allowed[:, contradictions].any(1)
    pairs = (groups[:, None] == groups[None, :]) & higher[:, None] & lower[None, :]
    losses = softplus(odds[None, :] - odds[:, None]) * pairs
    return losses.sum(1) / pairs.sum(1).clamp(min=1)


def objective(recipe: "Recipe", counts: Sequence[int]) -> Objective:
    """What training minimises: the loss of labels, and where the recipe asks for them, of ranking and of distillation.

    Where the inputs hold the probabilities of teachers, ``weight = d`` of the loss is the divergence from them, and
    1 - d the rest, with both predictions softened by ``temperature = T`` and the divergence multiplied by T squared, so
    that gradients keep their size (Hinton et al., 2015, *Distilling the knowledge in a neural network*, section 2). A
    row whose target is ``UNLABELLED`` and that has no ``ALLOWED`` labels is learnt from the teachers alone.

    Returns:
        A function of a model, its inputs, and the targets, shape (rows,), to the loss of each row, shape (rows,). The
        inputs may hold ``SOFT``, the probabilities that teachers give, shape (rows, classes); ``ALLOWED``, whether a
        row may have each label, same shape, which then counts instead of the targets; and ``GROUP``, shape (rows,).
    """
    loss_of, distillation = label_loss(recipe, counts), recipe.distillation
    contradictions = torch.tensor([is_contradiction(label) for label in recipe.labels])

    def row_losses(model: "PreTrainedModel", inputs: Mapping[str, torch.Tensor], targets: torch.Tensor) -> torch.Tensor:
        tokens = {name: value for name, value in inputs.items() if name not in (SOFT, ALLOWED, GROUP)}
        logits = model(**tokens).logits
        allowed = inputs[ALLOWED].bool() if ALLOWED in inputs else _one_label(targets, len(recipe.labels))
        losses = loss_of(logits, allowed)
        if SOFT in inputs:
            weight = torch.where(allowed.any(1), distillation.weight, 1.0)
            losses = (1 - distillation.weight) * losses
            losses = losses + weight * divergence(logits, inputs[SOFT], distillation.temperature)
        if recipe.loss.ranking:
            ranking = ranking_loss(logits, allowed, inputs[GROUP], contradictions.to(logits.device))
            losses = losses + recipe.loss.ranking * ranking
        return losses

    return row_losses


def _one_label(targets: torch.Tensor, classes: int) -> torch.Tensor:
    """Targets as labels that a row may have, shape (rows, classes); none where it is ``UNLABELLED``."""
    return targets[:, None] == torch.arange(classes, device=targets.device)


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
