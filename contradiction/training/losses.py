"""The training loss: of the labels, weighted or adjusted for rare classes, of ranking, and of distillation."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch.nn.functional import softplus

from contradiction.labels import is_contradiction

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from contradiction.training.recipe import Recipe

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
# The key of the teachers' probabilities in a batch.
SOFT = "soft"
# The keys of the possible labels of a row, and of its group, in a batch.
ALLOWED, GROUP = "allowed", "group"
# The target of a row without a label, as in torch.
UNLABELLED = -100

Objective = Callable[["PreTrainedModel", Mapping[str, torch.Tensor], torch.Tensor], torch.Tensor]


def label_loss(recipe: "Recipe", counts: Sequence[int]) -> Loss:
    """The loss of each row for its label, or for its possible labels.

    For a row with one label it is the cross-entropy. For a row with several possible labels, for instance an NLI pair
    with any kind of contradiction, it is the negative log of the sum of their probabilities (Cour et al., 2011,
    *Learning from partial labels*). For a row without labels it is 0.

    - ``class_weights = "balanced"``: the weight of a row is rows / (classes x rows of its class), as in scikit-learn,
      so all classes have the same total weight.
    - ``logit_adjustment = t``: training adds t log p(class) to the logits, so the argmax at test time minimises the
      balanced error (Menon et al., 2021, *Long-tail learning via logit adjustment*, equation 10).

    Returns:
        A function from logits, shape (rows, classes), and the possible labels, booleans of the same shape, to losses,
        shape (rows,).
    """
    sizes = torch.tensor(counts, dtype=torch.float32).clamp(min=1)
    offsets = recipe.loss.logit_adjustment * torch.log(sizes / sizes.sum())
    weights = sizes.sum() / (len(sizes) * sizes) if recipe.loss.class_weights == "balanced" else torch.ones_like(sizes)

    def loss(logits: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
        # A row without possible labels allows all: its loss is 0. An infinite term would have no gradient.
        allowed = allowed | ~allowed.any(1, keepdim=True)
        log_probabilities = (logits.float() + offsets.to(logits.device)).log_softmax(-1)
        loss = -log_probabilities.masked_fill(~allowed, -torch.inf).logsumexp(-1)
        fractions = allowed / allowed.sum(1, keepdim=True)
        return loss * (fractions * weights.to(logits.device)).sum(1)

    return loss


def ranking_loss(
    logits: torch.Tensor, allowed: torch.Tensor, groups: torch.Tensor, contradictions: torch.Tensor
) -> torch.Tensor:
    """The loss of ranking the contradictions of a group above its other rows.

    It is the logistic loss of the difference of two log-odds (Burges et al., 2005, *Learning to rank using gradient
    descent*), over all pairs of a contradiction and another row of the same group. What the rows of a group share, a
    context or a reply, cancels out: only their differences can lower the loss.

    Args:
        logits: shape (rows, classes).
        allowed: the possible labels of each row, booleans of the same shape.
        groups: the number of each row's group, shape (rows,).
        contradictions: whether each label is a contradiction, shape (classes,).

    Returns:
        Shape (rows,): for a contradiction the mean over its pairs, for any other row 0.
    """
    logits = logits.float()
    odds = logits[:, contradictions].logsumexp(1) - logits[:, ~contradictions].logsumexp(1)
    known = allowed.any(1)
    higher = known & ~allowed[:, ~contradictions].any(1)
    lower = known & ~allowed[:, contradictions].any(1)
    pairs = (groups[:, None] == groups[None, :]) & higher[:, None] & lower[None, :]
    losses = softplus(odds[None, :] - odds[:, None]) * pairs
    return losses.sum(1) / pairs.sum(1).clamp(min=1)


def choice_loss(logits: torch.Tensor, targets: torch.Tensor, groups: torch.Tensor) -> torch.Tensor:
    """The loss of choosing the right reply of each group, by one softmax over its replies.

    The score of a reply is the log-odds of the second label. Unlike a reply that is judged by itself, the right reply
    need not reach a probability, but only score above the others (Cui et al., 2020, *MuTual*, multi-choice method).

    Args:
        logits: shape (rows, 2).
        targets: class ids, shape (rows,); 1 for the right reply.
        groups: the number of each row's group, shape (rows,).

    Returns:
        Shape (rows,): the loss of each row's group, so the mean over the rows is the mean over the groups.
    """
    odds = logits[:, 1].float() - logits[:, 0].float()
    same = groups[:, None] == groups[None, :]
    missed = odds.expand(len(odds), -1).masked_fill(~same, -torch.inf).logsumexp(1) - odds
    return (same * torch.where(targets == 1, missed, 0.0)).sum(1)


def objective(recipe: "Recipe", counts: Sequence[int]) -> Objective:
    """The training objective: the loss of the labels and, where the recipe sets them, of ranking and distillation.

    With teachers, the objective is (1 - d) x loss + d x divergence, with ``weight = d``. The divergence compares both
    predictions at ``temperature = T`` and is multiplied by T squared, so that gradients keep their size (Hinton et
    al., 2015, *Distilling the knowledge in a neural network*, section 2). The student learns a row without possible
    labels only from the teachers.

    Returns:
        A function from a model, its inputs, and the targets, shape (rows,), to losses, shape (rows,). The inputs may
        contain ``SOFT``, the teachers' probabilities, shape (rows, classes); ``ALLOWED``, the possible labels, same
        shape, which replace the targets; and ``GROUP``, shape (rows,).
    """
    loss_of, distillation = label_loss(recipe, counts), recipe.distillation
    contradictions = torch.tensor([is_contradiction(label) for label in recipe.labels])

    def row_losses(model: "PreTrainedModel", inputs: Mapping[str, torch.Tensor], targets: torch.Tensor) -> torch.Tensor:
        tokens = {name: value for name, value in inputs.items() if name not in (SOFT, ALLOWED, GROUP)}
        logits = model(**tokens).logits
        if recipe.loss.choice:
            return choice_loss(logits, targets, inputs[GROUP])
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
    """The targets as possible labels, shape (rows, classes); none for an ``UNLABELLED`` row."""
    return targets[:, None] == torch.arange(classes, device=targets.device)


def divergence(logits: torch.Tensor, soft: torch.Tensor, temperature: float = 1.0) -> torch.Tensor:
    """The Kullback-Leibler divergence of a prediction from a teacher's, in nats, times the temperature squared.

    Args:
        logits: the student's logits, shape (rows, classes).
        soft: the teacher's probabilities, shape (rows, classes).
        temperature: divides both log-probabilities before the comparison.

    Returns:
        Shape (rows,).
    """
    teacher = (soft.float().clamp(min=1e-12).log() / temperature).log_softmax(-1)
    student = (logits.float() / temperature).log_softmax(-1)
    return temperature**2 * (teacher.exp() * (teacher - student)).sum(-1)
