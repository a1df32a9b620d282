"""What does a detector learn from one corpus that helps on another? A square table, trained on x tested on, in AUC.

    python -m experiments.transfer --backbone ENCODER --data cdconv --out runs/transfer

One encoder learns *contradiction or not* from each corpus alone and from all of them, with the same number of rows and
steps. Every corpus is brought to one form: what was said before as one text, and the reply or hypothesis. CDConv and
the crossed chats are Chinese, as is OCNLI; DECODE is English. A cell off the diagonal is a zero-shot score. Where the
backbone is an NLI model, its own scores are the first row, and training starts from its head.

`$CDCONV_CORPORA` names the folder of the corpora. A run that was stopped continues, and finished runs and cells in
OUT/cells.json are kept: start the command again. For another encoder, name another OUT. The intervals are the 95 %
bootstrap intervals over the rows of a test set.
"""

from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from datasets import ClassLabel, Dataset, Features, Value
from sklearn.metrics import roc_auc_score

from contradiction import cdconv, cli, train
from contradiction.commands.common import DATA, DataOption
from contradiction.conversation import alternating, chat_to_text
from contradiction.data import corpora
from contradiction.data.corpora import pair_texts, read_split
from contradiction.data.splits import load_split
from contradiction.errors import InputError
from contradiction.evaluation.judging import contradiction_scores
from contradiction.io.files import read_json, write_json
from contradiction.io.tables import Table, with_interval
from contradiction.labels import LABELS, is_contradiction
from contradiction.methods.loading import load_classifier
from contradiction.training.recipe import Recipe
from experiments.other_chats import group_draws, resampled

ROWS, TEST_ROWS = 6000, 1000  # of a run, a tenth of them for validation, and at most of a test set
SEED, RESAMPLES = 23, 500
CELLS = "cells.json"
MIXED = "all of them"
CDCONV = "cdconv"
# Corpus -> its config, and the split that is tested on. The training split is always `train`.
SOURCES = {CDCONV: ("2-class", "test"), "crossed": (None, "test"), "decode": ("nli-2-class", "validation"),
           "ocnli": ("nli", "validation")}  # fmt: skip
Example = tuple[str, str, bool]  # what was said before, the reply, whether it contradicts


def examples(name: str, split: str, data: str) -> list[Example]:
    """The rows of a split of a corpus in one form, in random order; ``data`` is CDConv."""
    if name == CDCONV:
        rows = [
            (chat_to_text(alternating(row[name] for name in cdconv.UTTERANCES[:-1])), row["b2"], bool(row["label"]))
            for row in load_split(data, "2-class", split)
        ]
    else:
        rows = [
            (row.premise or chat_to_text(row.messages), row.reply or row.hypothesis, is_contradiction(row.label))
            for row in read_split(corpora.find(name), None, SOURCES[name][0], split).rows
            if row.label is not None
        ]
    return shuffled(rows)


def shuffled(rows: list[Example]) -> list[Example]:
    """The rows in random order."""
    return [rows[index] for index in np.random.default_rng(SEED).permutation(len(rows))]


def splits_of(rows: list[Example]) -> dict[str, Dataset]:
    """The splits of a run; a tenth of the rows is for validation."""
    drawn = shuffled(rows)
    held_out = len(drawn) // 10
    text = Value("string")
    features = Features(chat=text, reply=text, label=ClassLabel(names=list(LABELS["2-class"])))
    splits = {}
    for split, part in (("train", drawn[held_out:]), ("validation", drawn[:held_out])):
        chats, replies, labels = map(list, zip(*part, strict=True))
        columns = {"chat": chats, "reply": replies, "label": [int(label) for label in labels]}
        splits[split] = Dataset.from_dict(columns, features=features)
    return splits


def cell(model: str | Path, rows: list[Example]) -> dict[str, object]:
    """The area under the ROC curve of a model on the rows of a test set."""
    scores = np.array(contradiction_scores(load_classifier(model), [pair_texts(*row[:2]) for row in rows]))
    truth = np.array([contradicts for *_, contradicts in rows])
    auc, bounds = resampled(roc_auc_score, truth, scores, group_draws(np.arange(len(rows)), RESAMPLES))
    return {"n": len(rows), "auc": auc, "interval": bounds}


def main(
    backbone: Annotated[str, typer.Option(help="The folder or Hub id of an encoder or an NLI model.")],
    data: DataOption = DATA,
    out: Annotated[Path, typer.Option(help="The folder of runs and cells.")] = Path("runs/transfer"),
) -> None:
    """Trains an encoder on each corpus and on all of them, and tests each run on every corpus."""
    file = out / CELLS
    cells = read_json(file) if file.is_file() else {}
    try:
        nli = load_classifier(backbone).task == "nli"
    except InputError:  # an encoder without a head
        nli = False
    recipe = Recipe.of(
        name="transfer", config="chat-2-class", view="chat", backbone=backbone, dropout=0.0, max_length=192,
        freeze_embeddings=True, nli_head=nli, epochs=2, checkpoint="last", learning_rate=1e-4, precision="bf16",
        seed=SEED,
    )  # fmt: skip
    models: dict[str, str | Path] = {"nothing, NLI model": backbone} if nli else {}
    for name in (*SOURCES, MIXED):
        parts = [*SOURCES] if name == MIXED else [name]
        rows = splits_of([row for part in parts for row in examples(part, "train", data)[: ROWS // len(parts)]])
        models[name] = out / name.replace(" ", "-")
        train(recipe.with_changes(name=f"transfer from {name}"), rows, models[name], resume=True, save_steps=50)
    table = []
    for name, model in models.items():
        for tested, (_, split) in SOURCES.items():
            if (key := f"{name} -> {tested}") not in cells:
                cells[key] = cell(model, examples(tested, split, data)[:TEST_ROWS])
                write_json(file, cells)
        scores = [cells[f"{name} -> {tested}"] for tested in SOURCES]
        table.append((name, *(with_interval(score["auc"], score["interval"]) for score in scores)))
    print(Table("AUC, %: trained on (rows), tested on (columns)", ("trained on", *SOURCES), table).markdown())


if __name__ == "__main__":
    cli.main(cli.script(main))
