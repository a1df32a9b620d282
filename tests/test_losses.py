"""The losses, held against what they are by definition."""

import numpy as np
import pytest
import torch
from sklearn.utils.class_weight import compute_class_weight

from contradiction.training.losses import loss_function
from contradiction.training.recipe import Recipe

COUNTS = [70, 5, 10, 15]


def recipe(**options):
    return Recipe.of(name="trial", view="flatten", config="4-class", backbone="some/encoder", **options)


def loss_with(**options):
    return lambda logits, targets: loss_function(recipe(**options), COUNTS)(logits, targets).mean()


@pytest.fixture
def batch():
    generator = torch.Generator().manual_seed(0)
    return torch.randn(64, 4, generator=generator), torch.randint(4, (64,), generator=generator)


def test_without_options_it_is_cross_entropy(batch):
    assert torch.allclose(loss_with()(*batch), torch.nn.functional.cross_entropy(*batch))


def test_balanced_weights_are_those_of_scikit_learn():
    targets = np.repeat(np.arange(4), COUNTS)
    logits = torch.randn(len(targets), 4, generator=torch.Generator().manual_seed(1))
    weights = torch.tensor(compute_class_weight("balanced", classes=np.arange(4), y=targets), dtype=torch.float32)
    expected = torch.nn.functional.cross_entropy(logits, torch.tensor(targets), weight=weights)
    # On the whole training split the weights have the mean 1, so the two ways to average agree.
    assert loss_with(class_weights="balanced")(logits, torch.tensor(targets)).item() == pytest.approx(expected.item())


def test_logit_adjustment_adds_the_log_prior(batch):
    logits, targets = batch
    prior = torch.tensor(COUNTS) / sum(COUNTS)
    expected = torch.nn.functional.cross_entropy(logits + 0.5 * prior.log(), targets)
    assert torch.allclose(loss_with(logit_adjustment=0.5)(*batch), expected)
