"""The losses, held against what they are by definition."""

import numpy as np
import pytest
import torch
from scipy.stats import entropy
from sklearn.utils.class_weight import compute_class_weight
from transformers import BertConfig, BertForSequenceClassification

from contradiction.training.losses import disagreement, loss_function, objective
from contradiction.training.recipe import Recipe

COUNTS = [70, 5, 10, 15]


def recipe(**options):
    return Recipe(name="trial", view="flatten", config="4-class", backbone="some/encoder", **options)


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


def test_focal_loss_is_less_on_easy_rows(batch):
    logits, targets = batch
    chance = logits.softmax(-1)[torch.arange(64), targets]
    expected = (-((1 - chance) ** 2) * chance.log()).mean()
    assert torch.allclose(loss_with(focal=2.0)(*batch), expected)


def test_smoothing_is_that_of_torch(batch):
    expected = torch.nn.functional.cross_entropy(*batch, label_smoothing=0.1)
    assert torch.allclose(loss_with(label_smoothing=0.1)(*batch), expected)


def test_disagreement_is_the_mean_of_both_divergences():
    first, second = torch.randn(2, 6, 4, generator=torch.Generator().manual_seed(2))
    p, q = first.softmax(-1).numpy(), second.softmax(-1).numpy()
    expected = [(entropy(a, b) + entropy(b, a)) / 2 for a, b in zip(p, q, strict=True)]
    assert disagreement(first, second).tolist() == pytest.approx(expected, rel=1e-4)
    assert disagreement(first, first).tolist() == [0.0] * 6


def test_r_drop_adds_the_divergence_of_two_passes_under_dropout():
    torch.manual_seed(3)
    size = {"vocab_size": 40, "hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 1, "num_labels": 4}
    config = BertConfig(**size, intermediate_size=32, hidden_dropout_prob=0.4, initializer_range=0.5)
    model = BertForSequenceClassification(config)
    inputs = {"input_ids": torch.randint(5, 40, (6, 7)), "attention_mask": torch.ones(6, 7, dtype=torch.long)}
    targets = torch.tensor([0, 1, 2, 3, 3, 0])
    torch.manual_seed(4)
    logits = model(**{name: torch.cat([each, each]) for name, each in inputs.items()}).logits
    first, second = logits[:6], logits[6:]
    kl = torch.nn.functional.kl_div
    both = [
        kl(a.log_softmax(-1), b.softmax(-1), reduction="none").sum(-1) for a, b in ((first, second), (second, first))
    ]
    known = torch.nn.functional.cross_entropy(logits, torch.cat([targets, targets]), reduction="none")
    expected = (known[:6] + known[6:]) / 2 + 5.0 * (both[0] + both[1]) / 2
    torch.manual_seed(4)
    found = objective(recipe(r_drop=5.0), COUNTS)(model, inputs, targets)
    assert torch.allclose(found, expected, atol=1e-5)
    assert (both[0] > 1e-4).all()  # else the option would have nothing to do here
    torch.manual_seed(4)
    plain = objective(recipe(), COUNTS)(model, inputs, targets)
    assert not torch.allclose(found, plain, atol=1e-3)
