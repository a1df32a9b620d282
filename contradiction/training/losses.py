"""The training loss: of the labels, weighted or adjusted for rare classes, of ranking, of choice, and of distillation.

In distillation the student learns, beside the labels, the probabilities that teachers give the training rows.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from accelerate.utils import tqdm
from scipy.special import softmax
from torch.nn.functional import softplus

from contradiction.data.splits import ONE_BOT, has_label
from contradiction.errors import InputError
from contradiction.inputs.views import VIEWS
from contradiction.labels import GROUPED, is_contradiction
from contradiction.methods.loading import load_classifier
from contradiction.methods.ngrams import LinearModel

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedModel

    from contradiction.training.recipe import Recipe

FOLDS = 8  # of the n-gram teacher
Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
# Keys of a batch: the teachers' probabilities, the possible labels, and the group of each row.
SOFT, ALLOWED, GROUP = "soft", "allowed", "group"
UNLABELLED = -100  # the target of a row without a label, as in torch

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

    The function that it returns takes logits, and booleans for the possible labels, both (rows, classes).
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
    context or a reply, cancels out.

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
        contain ``SOFT``, shape (rows, classes); ``ALLOWED``, same shape, which replaces the targets; and ``GROUP``.
    """
    loss_of, distillation = label_loss(recipe, counts), recipe.distillation
    contradictions = torch.tensor([is_contradiction(label) for label in recipe.labels])

    def row_losses(model: "PreTrainedModel", inputs: Mapping[str, torch.Tensor], targets: torch.Tensor) -> torch.Tensor:
        tokens = {name: value for name, value in inputs.items() if name not in (SOFT, ALLOWED, GROUP)}
        logits = model(**tokens).logits
        if recipe.loss.choice:
            return choice_loss(logits, targets, inputs[GROUP])
        # An unlabelled row has no possible label.
        one = targets[:, None] == torch.arange(len(recipe.labels), device=targets.device)
        allowed = inputs[ALLOWED].bool() if ALLOWED in inputs else one
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


def divergence(logits: torch.Tensor, soft: torch.Tensor, temperature: float = 1.0) -> torch.Tensor:
    """The Kullback-Leibler divergence of a student's logits from a teacher's probabilities, both (rows, classes).

    It is in nats, shape (rows,). The temperature divides both log-probabilities, and its square multiplies the result.
    """
    teacher = (soft.float().clamp(min=1e-12).log() / temperature).log_softmax(-1)
    student = (logits.float() / temperature).log_softmax(-1)
    return temperature**2 * (teacher.exp() * (teacher - student)).sum(-1)


def soft_labels(recipe: "Recipe", rows: "Dataset") -> np.ndarray:
    """The mean of the teachers' probabilities, shape (rows, labels), by the student's class ids.

    A student can come close to the mean of several models at the cost of one (Hinton et al., 2015, section 2). Each
    teacher reads its own view, at the precision of the recipe and without its decision rule. N-gram models have the
    weight ``ngram_teacher_weight`` in the mean; they are cross-fitted, see :func:`ngram_probabilities`.

    Raises:
        InputError: a teacher cannot be loaded, or has other labels than the student.
    """
    weight = recipe.distillation.ngram_teacher_weight
    mean = np.zeros((len(rows), len(recipe.labels)))
    if recipe.distillation.teachers:
        mean += (1 - weight) * _detector_probabilities(recipe, rows)
    if weight:
        mean += weight * ngram_probabilities(recipe, rows)
    return mean


def _detector_probabilities(recipe: "Recipe", rows: "Dataset") -> np.ndarray:
    probabilities = []
    for name in recipe.distillation.teachers:
        teacher = load_classifier(name, precision=recipe.precision)
        if not teacher.LOGITS:
            raise InputError(f"teacher {name}: hierarchical, so it has no logits for a student to learn from")
        if set(teacher.labels) != set(recipe.labels):
            raise InputError(
                f"teacher {name}: predicts {', '.join(teacher.labels)}; the student learns {', '.join(recipe.labels)}"
            )
        with tqdm(total=len(rows), desc=f"teacher {Path(name).name}", unit="row", dynamic_ncols=True) as bar:
            logits = teacher.score(rows.to_list(), on_batch=bar.update).logits
        order = [teacher.labels.index(label) for label in recipe.labels]
        probabilities.append(softmax(logits, axis=1)[:, order])
    return np.mean(probabilities, axis=0)


def ngram_probabilities(recipe: "Recipe", rows: "Dataset") -> np.ndarray:
    """Probabilities from n-gram models that were not fitted to the row, shape (rows, labels), by class id.

    An n-gram model memorises the rows that it was fitted to. So the labelled rows are split into folds (rows of one
    ``u1`` stay together where the config is grouped), and the model for a row is fitted to the other folds, as in
    stacked generalization (Wolpert, 1992). For a row of the transfer set, the model leaves out the folds of its context
    and of its second turn.

    Raises:
        InputError: there are too few rows for the folds.
    """
    all_rows = rows.to_list()
    labelled = [row for row in all_rows if has_label(row["label"])]
    try:
        folds = _folds(labelled, grouped=recipe.data.config.endswith(GROUPED))
    except ValueError as error:
        raise InputError(f"ngram_teacher_weight: the rows cannot be split into {FOLDS} folds ({error})") from None
    by_id = dict(zip((row["id"] for row in labelled), folds, strict=True))
    # A turn of several rows belongs to the first of them, as in the transfer set.
    by_turn = {_turn(row): fold for row, fold in zip(reversed(labelled), reversed(folds), strict=True)}

    def folds_that_hold(row: Mapping[str, Any]) -> frozenset[int]:
        # An unlabelled row of the data is in no fold. Any models will do for it, for instance those without fold 0.
        held = {by_id.get(row["id"])} | (set() if has_label(row["label"]) else {by_turn.get(_turn(row))})
        return frozenset(fold for fold in held if fold is not None) or frozenset((0,))

    left_out = [folds_that_hold(row) for row in all_rows]
    probabilities = np.zeros((len(all_rows), len(recipe.labels)))
    for part in tqdm(sorted(set(left_out), key=sorted), desc="teacher n-grams", unit="model", dynamic_ncols=True):
        targets = [number for number, folds_of_row in enumerate(left_out) if folds_of_row == part]
        others = [row for row, fold in zip(labelled, folds, strict=True) if fold not in part]
        try:
            model = LinearModel(VIEWS[recipe.data.view]).fit(others, [row["label"] for row in others])
        except InputError as error:
            raise InputError(f"ngram_teacher_weight: {error}") from None
        predicted = model.predict_proba([all_rows[number] for number in targets])
        probabilities[np.ix_(np.array(targets), model.classes_)] = predicted
    return probabilities


def _folds(rows: list[dict[str, Any]], grouped: bool) -> list[int]:
    from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

    labels, contexts = [row["label"] for row in rows], [row["u1"] for row in rows]
    kind = StratifiedGroupKFold if grouped else StratifiedKFold
    splits = kind(FOLDS, shuffle=True, random_state=0).split(contexts, labels, contexts if grouped else None)
    folds = np.zeros(len(rows), dtype=int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a label has fewer rows than there are folds
        for fold, (_, members) in enumerate(splits):
            folds[members] = fold
    return folds.tolist()


def _turn(row: Mapping[str, Any]) -> tuple[str, str, int]:
    return row["u2"], row["b2"], row.get("bot", ONE_BOT)
