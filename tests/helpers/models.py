"""Fixtures of tiny models, made once per process."""

import shutil
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from contradiction.detector import ContradictionDetector


@pytest.fixture(scope="session")
def quick_model(sample_repo, tmp_path_factory) -> Path:
    """A tiny 4-class model folder named `quick`, trained for one epoch on the sample. Copy it before you change it."""
    from helpers.runs import TINY, train

    from contradiction.evaluation.model_card import write_cards
    from contradiction.training.recipe import Recipe

    recipe = Recipe.of(name="quick", view="flatten", config="4-class", scratch=TINY, epochs=1)
    folder = train(recipe, data=sample_repo, out=tmp_path_factory.mktemp("models") / "quick")
    write_cards(folder)
    return folder


@pytest.fixture(scope="session")
def english_model(tmp_path_factory) -> Path:
    """The folder of a tiny random 2-class model named `english`, which does not judge Chinese alone."""
    from contradiction.inputs.views import CHINESE_ONLY_KEY
    from contradiction.io.files import read_json, write_json

    rows = [
        {"u1": "any pets ?", "b1": f"i have a {animal} .", "u2": "nice .", "b2": f"the {animal} is old , no house ."}
        for animal in ("cat", "dog", "horse", "fish") * 9
    ]
    folder = _random_model("2-class", rows, tmp_path_factory.mktemp("models") / "english")
    write_json(folder / "config.json", {**read_json(folder / "config.json"), CHINESE_ONLY_KEY: False})
    return folder


@pytest.fixture(scope="session")
def encoder(sample_rows, tmp_path_factory) -> Path:
    """A folder named `encoder` that holds a tiny encoder with random weights and no head."""
    import torch
    from helpers.runs import TINY

    from contradiction.inputs.views import CONVERSATION
    from contradiction.training.initialize import initialize_model
    from contradiction.training.recipe import Recipe

    recipe = Recipe.of(name="tiny", view="flatten", config="4-class", scratch=TINY)
    torch.manual_seed(0)
    model, tokenizer = initialize_model(recipe, [row[name] for row in sample_rows for name in CONVERSATION])
    for parameter in model.parameters():  # larger, so that random weights distinguish inputs
        parameter.data.mul_(4)
    folder = tmp_path_factory.mktemp("encoders") / "encoder"
    model.base_model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def random_model(sample_rows, tmp_path_factory):
    """Task -> the folder of a tiny random model, saved as training saves one. Copy it before you change it."""
    return cache(lambda task: _random_model(task, sample_rows, tmp_path_factory.mktemp("models") / task))


def _random_model(task: str, rows: list[dict], path: Path) -> Path:
    import torch
    from transformers import set_seed

    from contradiction.decision import Rule
    from contradiction.inputs.views import CONVERSATION, VIEWS, model_input
    from contradiction.methods.loading import save_rule
    from contradiction.training.initialize import initialize_model
    from contradiction.training.recipe import Recipe

    recipe = Recipe.of(
        name="random",
        view="nli" if task == "nli" else "flatten",
        config=task,
        scratch={"hidden_size": 32, "layers": 2, "heads": 2, "vocabulary": 800},
        max_length=64,
    )
    set_seed(5)
    model, tokenizer = initialize_model(recipe, (row[column] for row in rows for column in CONVERSATION))
    # Larger and centred, so that random weights distinguish inputs. Unchanged, they give nearly equal scores.
    for parameter in model.parameters():
        parameter.data.mul_(5)
    inputs = [model_input(row, VIEWS["flatten"], tokenizer) for row in rows[:100]]
    texts, pairs = [entry["text"] for entry in inputs], [entry["text_pair"] for entry in inputs]
    with torch.no_grad():
        batch = tokenizer(texts, pairs, padding=True, truncation=True, return_tensors="pt")
        model.classifier.bias -= model.eval()(**batch).logits.mean(0)
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)
    if task != "nli":
        save_rule(path, Rule())
    return path


@pytest.fixture(scope="session")
def detector(random_model) -> "ContradictionDetector":
    """A four-class detector with random weights."""
    return _detector(random_model("4-class"))


@pytest.fixture(scope="session")
def two_class(random_model) -> "ContradictionDetector":
    """A two-class detector with random weights."""
    return _detector(random_model("2-class"))


@pytest.fixture(scope="session")
def stages(random_model) -> dict:
    """Category -> a random classifier for it, as a stage of the hierarchical method."""
    from contradiction.inference.torch_backend import TorchBackend
    from contradiction.labels import CATEGORIES, STAGES
    from contradiction.methods.checkpoint import CheckpointClassifier

    def stage(category):
        backend = TorchBackend.load(random_model("2-class"))
        backend.config = {**backend.config, "id2label": dict(enumerate(STAGES[category]))}
        return CheckpointClassifier(backend, view=category, name=category)

    return {category: stage(category) for category in CATEGORIES}


@pytest.fixture(scope="session")
def hierarchical(stages) -> "ContradictionDetector":
    """A hierarchical detector with random weights."""
    from contradiction.detector import ContradictionDetector
    from contradiction.methods.composite import HierarchicalClassifier

    return ContradictionDetector(HierarchicalClassifier([*stages.values()]))


@pytest.fixture(scope="session")
def calibrated(random_model, tmp_path_factory) -> tuple:
    """A model folder with a decision rule that changes labels, and that rule."""
    from helpers.runs import CHANGES_LABELS

    from contradiction.methods.loading import save_rule

    folder = tmp_path_factory.mktemp("calibrated") / "model"
    shutil.copytree(random_model("4-class"), folder)
    save_rule(folder, CHANGES_LABELS)
    return folder, CHANGES_LABELS


@pytest.fixture(scope="session")
def detect_model(random_model, tmp_path_factory) -> Path:
    """The folder of a tiny random four-class model, for `cdconv detect`."""
    return shutil.copytree(random_model("4-class"), tmp_path_factory.mktemp("models") / "quick")


@pytest.fixture(scope="session")
def exported_model(detect_model, sample_rows, tmp_path_factory) -> tuple:
    """The options of `cdconv detect` for a model that a new process loads in one second instead of four: without torch.

    Without ONNX Runtime they name the model itself.
    """
    if not all(map(find_spec, ("onnx", "onnxruntime"))):
        return "--model", detect_model
    from contradiction.export import export_onnx

    folder = shutil.copytree(detect_model, tmp_path_factory.mktemp("models") / "exported")
    export_onnx(folder, "onnx", sample_rows[:20])
    return "--model", folder, "--backend", "onnx"


def _detector(folder: Path) -> "ContradictionDetector":
    from contradiction.detector import ContradictionDetector

    return ContradictionDetector.from_pretrained(folder)


def with_new_head(folder, labels):
    """A tiny model with a new head for other labels."""
    from transformers import BertForSequenceClassification, set_seed

    set_seed(5)
    model = BertForSequenceClassification.from_pretrained(folder, num_labels=len(labels), ignore_mismatched_sizes=True)
    model.config.id2label = dict(enumerate(labels))
    return model
