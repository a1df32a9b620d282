"""Averaged weights, adversarial embeddings and layer-wise rates, held against what they are by definition."""

import pytest
import torch
from transformers import (
    AutoModelForSequenceClassification,
    BertConfig,
    DebertaV2Config,
    DistilBertConfig,
    ElectraConfig,
    RobertaConfig,
)

from contradiction.errors import InputError
from contradiction.training.optimizers import layer_depths, parameter_groups
from contradiction.training.recipe import Recipe
from contradiction.training.regularizers import AdversarialEmbeddings, averaged, weight_average

SMALL = {"vocab_size": 50, "hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 2, "intermediate_size": 32}


def encoder(config=BertConfig, **changes):
    torch.manual_seed(0)
    return AutoModelForSequenceClassification.from_config(config(**SMALL, num_labels=4, **changes))


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


def test_the_adversarial_move_is_epsilon_along_the_gradient_of_each_row(inputs):
    model = encoder().eval()
    targets = torch.tensor([0, 1, 2, 3, 0])
    # By hand, from embeddings handed in.
    embedded = model.get_input_embeddings()(inputs["input_ids"]).detach().requires_grad_()
    by_hand = model(inputs_embeds=embedded, attention_mask=inputs["attention_mask"], labels=targets).loss
    (gradient,) = torch.autograd.grad(by_hand, embedded)
    moved = embedded + torch.stack([0.3 * each / each.norm() for each in gradient])
    expected = model(inputs_embeds=moved, attention_mask=inputs["attention_mask"], labels=targets).loss.item()

    adversary = AdversarialEmbeddings(model, 0.3)
    clean = model(**inputs, labels=targets).loss
    clean.backward()
    with adversary.attack():
        attacked = model(**inputs, labels=targets).loss
    assert attacked.item() == pytest.approx(expected, rel=1e-5)
    assert attacked.item() > clean.item() + 1e-3
    assert model(**inputs, labels=targets).loss.item() == clean.item()  # and all is as before
    with torch.inference_mode():
        assert model(**inputs, labels=targets).loss.item() == pytest.approx(clean.item())


def test_an_attack_without_a_gradient_is_a_mistake(inputs):
    adversary = AdversarialEmbeddings(encoder(), 1.0)
    with pytest.raises(RuntimeError, match="backward pass of the same rows must come first"), adversary.attack():
        pass


def recipe(**options):
    return Recipe(name="trial", view="flatten", config="4-class", backbone="some/encoder", **options)


def rates(model, **options):
    names = {id(each): name for name, each in model.named_parameters()}
    groups = parameter_groups(model, recipe(learning_rate=1.0, **options))
    found = {
        names[id(each)]: (group.get("lr", 1.0), group["weight_decay"]) for group in groups for each in group["params"]
    }
    assert len(found) == len(names) == sum(len(group["params"]) for group in groups)  # each once
    return found


def test_without_layer_decay_all_learn_alike_and_matrices_decay():
    found = rates(encoder(), weight_decay=0.01)
    assert {rate for rate, _ in found.values()} == {1.0}
    assert found["bert.encoder.layer.0.attention.self.query.weight"][1] == 0.01
    assert found["bert.encoder.layer.0.attention.self.query.bias"][1] == 0.0
    assert found["bert.embeddings.LayerNorm.weight"][1] == 0.0


@pytest.mark.parametrize("config", [BertConfig, RobertaConfig, ElectraConfig, DistilBertConfig])
def test_layer_decay_slows_each_layer_against_the_one_above(config):
    model = encoder() if config is BertConfig else None
    if model is None:
        sizes = {"dim": 16, "n_heads": 2, "n_layers": 2, "hidden_dim": 32, "vocab_size": 50}
        torch.manual_seed(0)
        model = AutoModelForSequenceClassification.from_config(
            config(**(sizes if config is DistilBertConfig else SMALL), num_labels=4)
        )
    found = {name: rate for name, (rate, _) in rates(model, layer_decay=0.5).items()}
    depths, top = layer_depths(model)
    assert top == 3
    for name, rate in found.items():
        if "embeddings" in name:
            expected = 0.125
        elif "layer.0." in name:
            expected = 0.25
        elif "layer.1." in name:
            expected = 0.5
        else:
            expected = 1.0
        assert rate == expected, name
    assert sorted({*found.values()}) == [0.125, 0.25, 0.5, 1.0]


def test_embeddings_that_come_behind_the_layers_learn_as_slowly_as_the_others():
    model = encoder(DebertaV2Config, relative_attention=True, pos_att_type=["c2p", "p2c"])
    names = [name for name, _ in model.named_parameters()]
    relative = "deberta.encoder.rel_embeddings.weight"
    assert names.index(relative) > max(number for number, name in enumerate(names) if ".layer.1." in name)
    depths, top = layer_depths(model)
    assert depths[relative] == depths["deberta.embeddings.word_embeddings.weight"] == 0
    assert depths["pooler.dense.weight"] == depths["classifier.weight"] == top == 3
    assert rates(model, layer_decay=0.5)[relative][0] == 0.125


def test_a_model_without_a_stack_of_layers_is_refused():
    model = encoder()
    model.config.num_hidden_layers = 7
    with pytest.raises(InputError, match="found no stack of layers in BertForSequenceClassification"):
        parameter_groups(model, recipe(layer_decay=0.9))
