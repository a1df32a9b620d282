"""The losses, compared with their definitions."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sklearn.utils.class_weight import compute_class_weight
from transformers.trainer_pt_utils import LengthGroupedSampler

from contradiction.errors import InputError
from contradiction.training.loaders import EpochSampler, check_batches
from contradiction.training.losses import ALLOWED, GROUP, label_loss, objective, ranking_loss
from contradiction.training.recipe import Recipe

COUNTS = [70, 5, 10, 15]


def recipe(**options):
    return Recipe.of(name="trial", view="flatten", config="4-class", backbone="some/encoder", **options)


def loss_with(**options):
    loss = label_loss(recipe(**options), COUNTS)
    return lambda logits, targets: loss(logits, torch.nn.functional.one_hot(targets, 4).bool()).mean()


@pytest.fixture
def batch():
    generator = torch.Generator().manual_seed(0)
    return torch.randn(64, 4, generator=generator), torch.randint(4, (64,), generator=generator)


def test_without_options_it_is_cross_entropy(batch):
    assert torch.allclose(loss_with()(*batch), torch.nn.functional.cross_entropy(*batch))


def test_balanced_weights_equal_scikit_learns():
    targets = np.repeat(np.arange(4), COUNTS)
    logits = torch.randn(len(targets), 4, generator=torch.Generator().manual_seed(1))
    weights = torch.tensor(compute_class_weight("balanced", classes=np.arange(4), y=targets), dtype=torch.float32)
    expected = torch.nn.functional.cross_entropy(logits, torch.tensor(targets), weight=weights)
    # On the whole training split the weights have mean 1, so the two ways to average agree.
    assert loss_with(class_weights="balanced")(logits, torch.tensor(targets)).item() == pytest.approx(expected.item())


def test_logit_adjustment_adds_the_log_prior(batch):
    logits, targets = batch
    prior = torch.tensor(COUNTS) / sum(COUNTS)
    expected = torch.nn.functional.cross_entropy(logits + 0.5 * prior.log(), targets)
    assert torch.allclose(loss_with(logit_adjustment=0.5)(*batch), expected)


def test_a_row_with_several_allowed_labels_has_the_loss_of_their_sum(batch):
    logits, _ = batch
    allowed = torch.tensor([False, True, True, True]).expand(64, 4)
    expected = -logits.softmax(1)[:, 1:].sum(1).log()
    losses = objective(recipe(), COUNTS)(
        lambda x: SimpleNamespace(logits=x), {"x": logits, ALLOWED: allowed}, torch.full((64,), -100)
    )
    assert torch.allclose(losses, expected, atol=1e-6)


def test_a_row_without_labels_has_no_loss_and_no_gradient(batch):
    logits = batch[0].clone().requires_grad_()
    losses = label_loss(recipe(), COUNTS)(logits, torch.zeros(64, 4, dtype=torch.bool))
    losses.sum().backward()
    assert torch.allclose(losses, torch.zeros(64), atol=1e-6)
    assert torch.allclose(logits.grad, torch.zeros(64, 4), atol=1e-6)


CONTRADICTIONS = torch.tensor([False, True, True, True])


def test_the_ranking_loss_compares_contradictions_of_a_group_with_its_other_rows():
    odds = torch.tensor([0.0, 1.0, -2.0, 0.5, 3.0, -1.0, 2.0])
    logits = torch.stack([-odds, *([torch.full((7,), -50.0)] * 2), torch.zeros(7)], dim=1)
    allowed = torch.nn.functional.one_hot(torch.tensor([3, 0, 0, 0, 3, 3, 0]), 4).bool()
    allowed[6] = False  # a row without a label
    groups = torch.tensor([7, 7, 7, 8, 9, 7, 7])
    losses = ranking_loss(logits, allowed, groups, CONTRADICTIONS)
    # Only the contradictions in rows 0 and 5 have other rows in their group: rows 1 and 2.
    first, second = (torch.nn.functional.softplus(odds[1:3] - odds[row]).mean().item() for row in (0, 5))
    assert losses.tolist() == pytest.approx([first, 0, 0, 0, 0, second, 0], abs=1e-5)


def test_the_objective_adds_the_weighted_ranking_loss(batch):
    logits, targets = batch
    inputs = {"x": logits, GROUP: torch.arange(64) // 8}
    plain, ranked = (
        objective(recipe(ranking=weight), COUNTS)(lambda x: SimpleNamespace(logits=x), inputs, targets)
        for weight in (0.0, 0.5)
    )
    allowed = torch.nn.functional.one_hot(targets, 4).bool()
    expected = plain + 0.5 * ranking_loss(logits, allowed, inputs[GROUP], CONTRADICTIONS)
    assert torch.allclose(ranked, expected)
    assert (ranked > plain).any()


# Batches: their order, and their distribution over processes.


LENGTHS = [40 + row % 7 for row in range(200)]


def test_the_order_depends_on_the_seed_and_the_epoch_alone():
    sampler = EpochSampler(LENGTHS, 16, seed=1)
    orders = []
    for epoch in range(3):
        sampler.set_epoch(epoch)
        orders.append(list(sampler))
        generator = torch.Generator().manual_seed(10_007 + epoch)
        assert orders[-1] == list(LengthGroupedSampler(16, lengths=LENGTHS, generator=generator))
        assert sorted(orders[-1]) == list(range(200))
    assert orders[0] != orders[1] != orders[2]


def test_the_rows_of_a_group_follow_each_other():
    groups = [row // 4 for row in range(200)]
    sampler = EpochSampler(LENGTHS, 16, seed=1, groups=groups)
    order = list(sampler)
    assert sorted(order) == list(range(200))
    assert [groups[row] for row in order[::4]] == [groups[row] for row in order[3::4]]
    assert order != list(range(200))


def test_a_batch_that_processes_cannot_share_and_a_split_group_are_rejected():
    groups = [row // 4 for row in range(60)]
    check_batches(32, 4, groups)
    for given, message in (
        ((32, 3), "batch_size 32.*3 processes"),
        ((30, 1, groups), "have 4, and batch_size 30 gives each process 30$"),
        ((36, 2, groups), "batch_size 36 gives each process 18$"),
        ((32, 1, groups[:-1]), "equally many replies.* have 3 or 4"),
    ):
        with pytest.raises(InputError, match=message):
            check_batches(*given)
