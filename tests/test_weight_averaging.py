"""Averaged weights, held against what they are by definition."""

import pytest
import torch
from transformers import AutoModelForSequenceClassification, BertConfig

from contradiction.training.optimizers import averaged, weight_average

SMALL = {"vocab_size": 50, "hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 2, "intermediate_size": 32}


def encoder():
    torch.manual_seed(0)
    return AutoModelForSequenceClassification.from_config(BertConfig(**SMALL, num_labels=4))


@pytest.fixture
def inputs():
    generator = torch.Generator().manual_seed(1)
    mask = torch.ones(5, 9, dtype=torch.long)
    mask[3:, 6:] = 0
    return {"input_ids": torch.randint(5, 50, (5, 9), generator=generator), "attention_mask": mask}


def snapshot(model):
    return [each.detach().clone() for each in model.parameters()]


def test_the_average_is_the_one_computed_by_hand(inputs):
    model = encoder()
    average = weight_average(model, 0.75, torch.device("cpu"))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    expected = None
    for _ in range(4):
        optimizer.zero_grad()
        model(**inputs, labels=torch.tensor([0, 1, 2, 3, 0])).loss.backward()
        optimizer.step()
        average.update_parameters(model)
        now = snapshot(model)
        expected = (
            now if expected is None else [0.75 * old + 0.25 * new for old, new in zip(expected, now, strict=True)]
        )
    assert not torch.allclose(expected[0], now[0])
    for found, wanted in zip(average.module.parameters(), expected, strict=True):
        assert torch.allclose(found, wanted, atol=1e-6)
    with averaged(model, average):
        for found, wanted in zip(model.parameters(), expected, strict=True):
            assert torch.allclose(found, wanted, atol=1e-6)
    assert all(torch.equal(found, wanted) for found, wanted in zip(model.parameters(), now, strict=True))


def test_without_an_average_the_weights_are_the_models_own():
    model = encoder()
    before = snapshot(model)
    with averaged(model, None):
        assert all(torch.equal(a, b) for a, b in zip(model.parameters(), before, strict=True))
