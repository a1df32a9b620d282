"""The configs and counts of the data set, stated independently of the code, and readers of a data repo."""

import json

import yaml

CONFIGS = ["2-class", "4-class", "persona", "2-class-grouped", "4-class-grouped", "persona-grouped"]
IN_REPO = [*CONFIGS, "crossed", "crossed-long", "crossed-en"]  # covered by tests/test_crossed_corpus.py
SPLITS = ["train", "validation", "test"]
UTTERANCES = ["u1", "b1", "u2", "b2"]
NAMES = {
    "2-class": ["non-contradiction", "contradiction"],
    "4-class": ["non-contradiction", "intra-sentence", "role-confusion", "history"],
    "persona": ["unrelated", "attributes", "opinions", "experiences"],
}
TRIGGERS = {
    "short": "短句",
    "inquiring-bot": "设问-bot",
    "inquiring-user": "设问-user",
    "inquiring-user-m": "设问-user-v2",
    "paraphrasing": "同义-回译",
    "perturb-synonym": "同义-同义词",
    "perturb-antonym": "反义-反义词",
    "perturb-negative": "反义-否定词",
}
FILES = ["1st", "2nd4", "3rd", "4nd", "5nd"]
# Rows of the release by config, split and label.
COUNTS = {
    "2-class": {"train": [4373, 2623], "validation": [1452, 880], "test": [1484, 848]},
    "4-class": {"train": [4373, 313, 451, 1859], "validation": [1452, 111, 161, 608], "test": [1484, 106, 153, 589]},
    "persona": {"train": [43, 880, 394, 542], "validation": [16, 285, 133, 174], "test": [9, 292, 130, 158]},
    "2-class-grouped": {"train": [4385, 2610], "validation": [1462, 870], "test": [1462, 871]},
    "4-class-grouped": {
        "train": [4385, 318, 459, 1833],
        "validation": [1462, 106, 153, 611],
        "test": [1462, 106, 153, 612],
    },
    "persona-grouped": {"train": [41, 875, 393, 524], "validation": [13, 291, 132, 175], "test": [14, 291, 132, 175]},
}


def encode(line):
    """A line of a raw file as bytes."""
    return line if isinstance(line, bytes) else json.dumps(line, ensure_ascii=False).encode("utf-8")


def write(path, lines):
    path.write_bytes(b"".join(encode(line) + b"\n" for line in lines))
    return path


def contents(folder):
    """Every file below a folder, with its bytes."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def header(repo):
    """The YAML metadata and the body of the card."""
    _, front, body = (repo / "README.md").read_text(encoding="utf-8").split("---\n", 2)
    return yaml.safe_load(front), body


def table_rows(body):
    """Every row of the Markdown or terminal tables in a text: its cells joined by single spaces."""
    return {" ".join(line.replace("|", " ").split()) for line in body.splitlines()}
