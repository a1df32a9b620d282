"""A grid of tiny encoders, trained once per process, and readers of its folder."""

import shutil
from functools import partial
from pathlib import Path

import pytest

from contradiction.io.files import read_json, write_json

# The recipe values of all cells.
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


METHODS = ("--methods", "flatten,hierarchical")
SET = [word for key, value in VALUES.items() for word in ("--set", f"{key}={value}")]


@pytest.fixture(scope="session")
def encoders(encoder, random_model, tmp_path_factory):
    """A folder with a tiny encoder without a head and a tiny NLI checkpoint with labels in capitals."""
    parent = tmp_path_factory.mktemp("encoders")
    shutil.copytree(encoder, parent / "tiny")
    config = shutil.copytree(random_model("nli"), parent / "tiny-nli") / "config.json"
    labels = {number: label.upper() for number, label in read_json(config)["id2label"].items()}
    by_label = {label: int(number) for number, label in labels.items()}
    write_json(config, {**read_json(config), "id2label": labels, "label2id": by_label})
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
    """The folder of a finished table 4: two methods, two seeds, both label sets."""
    from contradiction.cli import script
    from paper.reproduce import reproduce

    out = tmp_path_factory.mktemp("grid") / "table4"
    command = ["table4", *METHODS, "--seeds", "23,42", "--out", out, *options]
    assert not script(reproduce)([*map(str, command)], standalone_mode=False)
    return out
