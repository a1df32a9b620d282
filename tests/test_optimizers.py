"""Weight decay and learning rates of the parameters."""

import torch
from transformers import AutoModelForSequenceClassification, BertConfig

from contradiction.training.optimizers import parameter_groups
from contradiction.training.recipe import Recipe

SMALL = {"vocab_size": 50, "hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 2, "intermediate_size": 32}


def encoder():
    torch.manual_seed(0)
    return AutoModelForSequenceClassification.from_config(BertConfig(**SMALL, num_labels=4))


def recipe(**options):
    return Recipe.of(name="trial", view="flatten", config="4-class", backbone="some/encoder", **options)


def settings(model, **options):
    """The learning rate and weight decay of each parameter, by name."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    groups = parameter_groups(model, recipe(learning_rate=1.0, **options))
    by_name = {
        names[id(parameter)]: (group.get("lr", 1.0), group["weight_decay"])
        for group in groups
        for parameter in group["params"]
    }
    assert len(by_name) == len(names) == sum(len(group["params"]) for group in groups)  # each once
    return by_name


def test_all_parameters_share_the_learning_rate_and_only_matrices_decay():
    by_name = settings(encoder(), weight_decay=0.01)
    assert {rate for rate, _ in by_name.values()} == {1.0}
    assert by_name["bert.encoder.layer.0.attention.self.query.weight"][1] == 0.01
    assert by_name["bert.encoder.layer.0.attention.self.query.bias"][1] == 0.0
    assert by_name["bert.embeddings.LayerNorm.weight"][1] == 0.0


def test_the_pooler_and_the_head_can_have_a_higher_learning_rate():
    by_name = settings(encoder(), head_learning_rate=5.0)
    fast = {name for name, (rate, _) in by_name.items() if rate == 5.0}
    assert fast == {"bert.pooler.dense.weight", "bert.pooler.dense.bias", "classifier.weight", "classifier.bias"}


def test_frozen_parameters_are_in_no_group():
    model = encoder()
    model.get_input_embeddings().requires_grad_(False)
    groups = parameter_groups(model, recipe())
    count = sum(1 for _ in model.parameters())
    assert sum(len(group["params"]) for group in groups) == count - 1
