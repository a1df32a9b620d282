"""The recipe of each corpus trains a tiny encoder on a small copy of its format, and the model is scored on it."""

import pytest
import torch
from datasets import load_dataset

import contradiction
from contradiction.data import corpora
from contradiction.data.corpora import data_repo
from contradiction.io.files import read_json
from contradiction.labels import LABELS
from contradiction.methods.loading import load_classifier
from contradiction.training.augmentation import training_rows
from contradiction.training.losses import choice_loss
from contradiction.training.recipe import Recipe, load_recipe

TINY = {"hidden_size": 16, "layers": 1, "heads": 2, "vocabulary": 400}


@pytest.fixture(scope="module")
def repos(larger, tmp_path_factory):
    folder = tmp_path_factory.mktemp("repos")
    for name in ("decode", "mutual", "dialfact", "ocnli"):
        data_repo.build(corpora.find(name), larger / name, folder / name)
    return folder


RUNS = {
    "decode-structured": ("decode", "auc"),
    "decode-unstructured": ("decode", "auc"),
    "ocnli, hypothesis-only": ("ocnli", "macro_f1"),
    "dialfact-verifiable": ("dialfact", "accuracy"),
    "mutual-choice": ("mutual", "r1"),
}


def tiny(name):
    """A recipe of the repository with a tiny random encoder."""
    name, _, view = name.partition(", ")
    values = load_recipe(name).options()
    values |= {"backbone": None, "scratch": TINY, "max_length": 64, "freeze_embeddings": False, "epochs": 1}
    return Recipe.of(**{**values, "precision": "fp32", "view": view or values["view"]})


@pytest.mark.parametrize("name", RUNS)
def test_a_recipe_trains_and_its_model_is_scored_on_its_corpus(run, larger, repos, tmp_path, name):
    corpus, wanted = RUNS[name]
    model, scores = tmp_path / "model", tmp_path / "scores.json"
    contradiction.train(tiny(name), repos / corpus, model)
    card = (model / "README.md").read_text(encoding="utf-8")
    assert ("Input is Chinese" in card) == (corpus == "ocnli") != ("Input is English" in card)
    assert "Validation macro-F1" in card
    code, out, err = run("evaluate", model, corpus, "--data", larger / corpus, "--json", scores)
    assert code == 0, err
    metrics = read_json(scores)["metrics"]
    classifier = load_classifier(model)
    assert classifier.chinese_only == (corpora.find(corpus).languages == ("zh",))
    assert (classifier.columns == ("hypothesis",)) == name.endswith("hypothesis-only")
    assert 0 <= metrics[wanted] <= 1
    assert not (name == "decode-unstructured" and "evidence_f1" in metrics)  # a whole chat names no evidence
    if name == "mutual-choice":
        assert classifier.labels == LABELS["response"]
        code, _, err = run("evaluate", model, "decode", "--data", larger / "decode")
        assert code == 2 and "has other labels" in err


def test_a_whole_chat_holds_the_speakers_and_all_messages(repos):
    assert load_dataset(str(repos / "decode"), "chat-2-class", split="train")["chat"][0] == (
        "assistant: i have a cat user: nice assistant: it barks user: oh"
    )


def test_the_choice_loss_is_the_cross_entropy_over_the_replies_of_each_chat():
    draw = torch.Generator().manual_seed(0)
    logits, rights = torch.randn(12, 2, generator=draw), [2, 0, 3]
    groups, targets = torch.arange(3).repeat_interleave(4), torch.zeros(12, dtype=torch.long)
    for group, right in enumerate(rights):
        targets[4 * group + right] = 1
    odds = (logits[:, 1] - logits[:, 0]).reshape(3, 4)
    expected = torch.nn.functional.cross_entropy(odds, torch.tensor(rights))
    order = torch.randperm(12, generator=draw)
    assert choice_loss(logits, targets, groups).mean() == pytest.approx(expected.item(), abs=1e-6)
    shuffled = choice_loss(logits[order], targets[order], groups[order])
    assert shuffled.mean() == pytest.approx(expected.item(), abs=1e-6)


def test_replies_to_one_chat_form_a_group(repos):
    rows = load_dataset(str(repos / "mutual"), "chat-response", split="train")
    made = training_rows(rows, tiny("mutual-choice")).rows
    groups = {}
    for group, source in zip(made["group"], made["source"], strict=True):
        groups.setdefault(group, []).append(source)
    assert all(len(sources) == 4 and len(set(sources)) == 1 for sources in groups.values())
