"""A grid of tiny encoders, trained once per process, and readers of its folder."""

from functools import partial
from pathlib import Path

import pytest

from contradiction.io.files import read_json

# The size of the tiny encoder, and the recipe values of all cells.
SIZE = {"hidden_size": 32, "layers": 1, "heads": 2, "vocabulary": 600}
VALUES = {"epochs": 1, "learning_rate": 0.01, "class_weights": "balanced"}


def times(folder):
    return {
        path: path.stat().st_mtime_ns for path in Path(folder).rglob("*") if path.suffix in (".json", ".safetensors")
    }


def evaluation(folder, name):
    """The saved test evaluation of a cell, as the table reads it: without a rule fitted afterwards."""
    kept = read_json(folder / f"{name}.test.json")
    return {**kept, **kept.get("argmax", {})}


def predictions(folder, name):
    return evaluation(folder, name)["predictions"]


def markdown_row(folder, title, name, table="table4"):
    """The cells of the row of a method in a section of the page of a table."""
    section = (folder / f"{table}.md").read_text(encoding="utf-8").split(f"## {title},")[1]
    line = next(line for line in section.splitlines() if line.startswith(f"| {name} |"))
    return [cell.strip() for cell in line.strip("|").split("|")]


SET = [word for key, value in VALUES.items() for word in ("--set", f"{key}={value}")]


@pytest.fixture(scope="session")
def encoders(sample_rows, tmp_path_factory):
    """A folder with a tiny encoder without a head and a tiny NLI checkpoint with labels in capitals."""
    import torch

    from contradiction.inputs.views import CONVERSATION
    from contradiction.training.initialize import initialize_model
    from contradiction.training.recipe import Recipe

    parent = tmp_path_factory.mktemp("encoders")
    texts = [row[column] for row in sample_rows for column in CONVERSATION]
    torch.manual_seed(0)
    model, tokenizer = initialize_model(Recipe.of(name="tiny", view="nli", config="nli", scratch=SIZE), texts)
    for parameter in model.parameters():  # larger and centred, so that random weights distinguish inputs
        parameter.data.mul_(4)
    with torch.no_grad():
        batch = tokenizer(texts[:200], padding=True, return_tensors="pt")
        model.classifier.bias -= model.eval()(**batch).logits.mean(0)
        for parameter in model.classifier.parameters():
            parameter.mul_(20)
    model.config.id2label = dict(enumerate(("CONTRADICTION", "NEUTRAL", "ENTAILMENT")))
    model.config.label2id = {label: number for number, label in model.config.id2label.items()}
    model.save_pretrained(parent / "tiny-nli")
    model.config.num_labels = 2  # as in an encoder that was never fine-tuned: LABEL_0, LABEL_1
    model.bert.save_pretrained(parent / "tiny")
    for name in ("tiny", "tiny-nli"):
        tokenizer.save_pretrained(parent / name)
    return parent


@pytest.fixture
def reproduce(run):
    """Runs `python -m paper.reproduce` in this process and returns exit code, stdout and stderr."""
    from paper.reproduce import reproduce

    return partial(run, script=reproduce)


@pytest.fixture(scope="session")
def options(encoders, sample_repo):
    return ["--data", sample_repo, "--backbone", encoders / "tiny", *SET]


@pytest.fixture(scope="session")
def grid(options, tmp_path_factory):
    """The folder of a finished table 4: three methods, two seeds, both label sets."""
    from contradiction.cli import script
    from paper.reproduce import reproduce

    out = tmp_path_factory.mktemp("grid") / "table4"
    command = ["table4", "--seeds", "23,42", "--out", out, *options]
    assert not script(reproduce)([*map(str, command)], standalone_mode=False)
    return out
