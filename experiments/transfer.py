"""What does a detector learn from one corpus that helps on another? A square table, trained on x tested on, in AUC.

    python -m experiments.transfer --backbone ENCODER --data cdconv --corpora FOLDER --out runs/transfer

One encoder learns *contradiction or not* from each corpus alone and from all of them, with the same number of rows and
steps. Every corpus is brought to one form: what was said before as one text, and the reply or hypothesis. CDConv and
the crossed chats are Chinese, as is OCNLI; DECODE is English. A cell off the diagonal is a zero-shot score. Where the
backbone is an NLI model, its own scores are the first row, and training starts from its head.

A run that was stopped continues, and finished runs and cells in OUT/cells.json are kept: start the command again. With
other options, name another OUT. The intervals are the 95 % bootstrap intervals over the rows of a test set.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
from datasets import ClassLabel, Dataset, Features, Value
from huggingface_hub import DatasetCardData
from sklearn.metrics import roc_auc_score

from contradiction import cdconv, train
from contradiction.conversation import alternating, chat_to_text
from contradiction.data import corpora
from contradiction.data.corpora import pair_texts, read_split
from contradiction.data.splits import load_split, write_repo
from contradiction.errors import InputError
from contradiction.evaluation.judging import contradiction_scores
from contradiction.io.files import read_json, write_json
from contradiction.io.tables import Table, with_interval
from contradiction.labels import LABELS, is_contradiction
from contradiction.methods.loading import load_classifier
from contradiction.training.recipe import Recipe

RESAMPLES = 500
CELLS = "cells.json"
MIXED = "all of them"
CDCONV = "cdconv"
# Corpus -> its config, and the split that is tested on. The training split is always `train`.
SOURCES = {CDCONV: ("2-class", "test"), "crossed": (None, "test"), "decode": ("nli-2-class", "validation"),
           "ocnli": ("nli", "validation")}  # fmt: skip
Example = tuple[str, str, bool]  # what was said before, the reply, whether it contradicts


def examples(name: str, split: str, options: argparse.Namespace) -> list[Example]:
    """The rows of a split in one form, in random order."""
    config = SOURCES[name][0]
    if name == CDCONV:
        rows = [
            (chat_to_text(alternating(row[name] for name in cdconv.UTTERANCES[:-1])), row["b2"], bool(row["label"]))
            for row in load_split(options.data, "2-class", split)
        ]
    else:
        corpus = corpora.find(name)
        read = read_split(corpus, corpora.local_copy(corpus, options.corpora), config, split).rows
        rows = [
            (row.premise or chat_to_text(row.messages), row.reply or row.hypothesis, is_contradiction(row.label))
            for row in read
            if row.label is not None
        ]
    order = np.random.default_rng(options.seed).permutation(len(rows))
    return [rows[index] for index in order]


def build(name: str, options: argparse.Namespace) -> Path:
    """The data repo of a run: rows of one corpus, or the same number from all; a tenth is for validation."""
    folder = options.out / "data" / name.replace(" ", "-")
    if folder.is_dir():
        return folder
    parts = [name] if name != MIXED else list(SOURCES)
    chosen = [example for part in parts for example in examples(part, "train", options)[: options.rows // len(parts)]]
    shuffled = [chosen[index] for index in np.random.default_rng(options.seed).permutation(len(chosen))]
    held_out = len(shuffled) // 10
    text = Value("string")
    features = Features(id=Value("int32"), chat=text, reply=text, label=ClassLabel(names=list(LABELS["2-class"])))
    splits = {}
    for split, part in (("train", shuffled[held_out:]), ("validation", shuffled[:held_out])):
        chats, replies, labels = zip(*part, strict=True)
        columns = {"id": range(1, len(part) + 1), "chat": chats, "reply": replies, "label": list(map(int, labels))}
        splits[split] = Dataset.from_dict({key: list(values) for key, values in columns.items()}, features=features)
    title = f"Transfer from {name}"
    write_repo(folder, {"chat-2-class": splits}, DatasetCardData(pretty_name=title), f"# {title}\n")
    return folder


def recipe(name: str, options: argparse.Namespace, nli_head: bool) -> Recipe:
    """The recipe of a run; only the rows differ."""
    return Recipe.of(
        name=f"transfer from {name}", config="chat-2-class", view="chat", backbone=options.backbone, dropout=0.0,
        max_length=192, freeze_embeddings=True, nli_head=nli_head, epochs=options.epochs, checkpoint="last",
        learning_rate=options.learning_rate, precision=options.precision, seed=options.seed,
    )  # fmt: skip


def cell(model: str | Path, tested: str, options: argparse.Namespace) -> dict[str, object]:
    """The area under the ROC curve of a model on a test set."""
    rows = examples(tested, SOURCES[tested][1], options)[: options.test_rows]
    scores = np.array(contradiction_scores(load_classifier(model), [pair_texts(*row[:2]) for row in rows]))
    truth = np.array([contradicts for *_, contradicts in rows])
    draw = np.random.default_rng(0)
    draws = [draw.integers(len(rows), size=len(rows)) for _ in range(RESAMPLES)]
    sampled = [roc_auc_score(truth[chosen], scores[chosen]) for chosen in draws if 0 < truth[chosen].mean() < 1]
    bounds = np.quantile(sampled, [0.025, 0.975]).tolist()
    return {"n": len(rows), "auc": float(roc_auc_score(truth, scores)), "interval": bounds}


def main() -> None:
    """Parses the arguments, trains and scores what is missing, prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--backbone", required=True, help="folder or Hub id of an encoder or an NLI model")
    parser.add_argument("--data", default=CDCONV, help="the data repo of CDConv")
    parser.add_argument("--corpora", help="a folder with a folder for each corpus; by default $CDCONV_CORPORA")
    parser.add_argument("--out", type=Path, default=Path("runs/transfer"), help="the folder of runs and cells")
    parser.add_argument("--only", nargs="*", default=[*SOURCES, MIXED], help="the corpora to train on")
    parser.add_argument("--rows", type=int, default=6000, help="training rows of each run")
    parser.add_argument("--test-rows", type=int, default=1000, help="rows of each test set at most")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--learning-rate", type=float, default=1e-4)
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--seed", type=int, default=23)
    options = parser.parse_args()

    file = options.out / CELLS
    cells = read_json(file) if file.is_file() else {}
    try:
        nli = load_classifier(options.backbone).task == "nli"
    except InputError:  # an encoder without a head
        nli = False
    models = {"nothing, NLI model": Path(options.backbone)} if nli else {}
    for name in [*models, *options.only]:
        model = models.get(name)
        if model is None:
            model = options.out / name.replace(" ", "-")
            data = build(name, options)
            train(recipe(name, options, nli), data=data, out=model, resume=True, save_steps=50)
        for tested in SOURCES:
            key = f"{name} -> {tested}"
            if key not in cells:
                cells[key] = cell(model, tested, options)
                write_json(file, cells)
    rows = []
    for name in [*models, *options.only]:
        scores = [cells[f"{name} -> {tested}"] for tested in SOURCES]
        rows.append((name, *(with_interval(score["auc"], score["interval"]) for score in scores)))
    print(Table("AUC, %: trained on (rows), tested on (columns)", ("trained on", *SOURCES), rows).markdown())


if __name__ == "__main__":
    try:
        main()
    except InputError as error:
        sys.exit(f"transfer: {error}")
