"""What a grid of the tests is made of, and what lies in its folder."""

from pathlib import Path

from contradiction.io.files import read_json

# Of a tiny encoder, and recipe values of all cells.
SIZE = {"hidden_size": 32, "layers": 1, "heads": 2, "vocabulary": 600}
VALUES = {"epochs": 1, "learning_rate": 0.01, "class_weights": "balanced"}


def times(folder):
    return {
        path: path.stat().st_mtime_ns for path in Path(folder).rglob("*") if path.suffix in (".json", ".safetensors")
    }


def evaluation(folder, name):
    """The kept test evaluation of a cell, as the table reads it: without a rule fitted afterwards."""
    kept = read_json(folder / f"{name}.test.json")
    return {**kept, **kept.get("argmax", {})}


def predictions(folder, name):
    return evaluation(folder, name)["predictions"]


def markdown_row(folder, title, name, table="table4"):
    """The cells of a method's line in a section of a table's page."""
    section = (folder / f"{table}.md").read_text(encoding="utf-8").split(f"## {title},")[1]
    line = next(line for line in section.splitlines() if line.startswith(f"| {name} |"))
    return [cell.strip() for cell in line.strip("|").split("|")]
