"""Training that starts from the head of an NLI model."""

import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from contradiction.errors import InputError
from contradiction.labels import LABELS
from contradiction.training.initialize import initialize_model
from contradiction.training.recipe import Recipe


@pytest.fixture(scope="module")
def nli(encoder, tmp_path_factory):
    """An NLI model with equal entailment and neutral scores, so that only the contradiction counts."""
    folder = tmp_path_factory.mktemp("nli") / "model"
    names = ("neutral", "contradiction", "entailment")  # the order must not matter
    model = AutoModelForSequenceClassification.from_pretrained(
        encoder, id2label=dict(enumerate(names)), label2id={name: number for number, name in enumerate(names)}
    )
    with torch.no_grad():
        model.classifier.weight.normal_(generator=torch.Generator().manual_seed(0))
        model.classifier.weight[2] = model.classifier.weight[0]
        model.classifier.bias.copy_(torch.tensor([0.3, -0.2, 0.3]))
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(encoder).save_pretrained(folder)
    return folder


def recipe(folder, config="4-class"):
    return Recipe.of(name="trial", view="flatten", config=config, backbone=str(folder), nli_head=True)


@pytest.mark.parametrize("config", ["4-class", "2-class"])
def test_a_contradiction_starts_with_its_probability_under_the_nli_model(nli, config):
    model, tokenizer = initialize_model(recipe(nli, config))
    before = AutoModelForSequenceClassification.from_pretrained(nli)
    inputs = tokenizer(["我养了一只猫", "我天天喝茶"], ["我没养过猫呀", "我不喝茶"], padding=True, return_tensors="pt")
    with torch.no_grad():
        probabilities, expected = model.eval()(**inputs).logits.softmax(1), before.eval()(**inputs).logits.softmax(1)
    assert torch.allclose(probabilities[:, 1:].sum(1), expected[:, 1], atol=1e-5)
    assert expected[:, 1].std() > 0
    assert list(model.config.id2label.values()) == list(LABELS[config])


def test_the_head_of_another_model_is_rejected(encoder, random_model):
    for folder in (encoder, random_model("4-class")):
        with pytest.raises(InputError, match=r"model\.nli_head .*entailment, neutral, contradiction"):
            initialize_model(recipe(folder))
