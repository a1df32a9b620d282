"""What does a detector learn from one corpus that helps on another? A square table, trained on x tested on, in AUC.

    python -m experiments.transfer --backbone ENCODER --data cdconv --corpora FOLDER --out runs/transfer

One encoder learns *contradiction or not* from each corpus alone and from all of them, with the same number of rows and
steps. Every corpus is brought to one form: what was said before as one text, and the reply or hypothesis. CDConv and
the crossed chats are Chinese, as is OCNLI; DECODE is English. A cell off the diagonal is a zero-shot score. Where the
backbone is an NLI model, its own scores are the first row, and training starts from its head.

A run that was stopped continues, and finished runs and cells in OUT/cells.json are kept: start the command again. With
other options, name another OUT. The intervals are the 95 % bootstrap intervals over the rows of a test set.
"""

from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from datasets import ClassLabel, Dataset, Features, Value
from huggingface_hub import DatasetCardData
from sklearn.metrics import roc_auc_score

from contradiction import cdconv, cli, train
from contradiction.commands.common import DATA, DataOption
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


def examples(name: str, split: str, *, data: str, folder: Path | None, seed: int) -> list[Example]:
    """The rows of a split in one form, in random order; ``folder`` has the corpora, and ``data`` is CDConv."""
    config = SOURCES[name][0]
    if name == CDCONV:
        rows = [
            (chat_to_text(alternating(row[name] for name in cdconv.UTTERANCES[:-1])), row["b2"], bool(row["label"]))
            for row in load_split(data, "2-class", split)
        ]
    else:
        corpus = corpora.find(name)
        rows = [
            (row.premise or chat_to_text(row.messages), row.reply or row.hypothesis, is_contradiction(row.label))
            for row in read_split(corpus, corpora.local_copy(corpus, folder), config, split).rows
            if row.label is not None
        ]
    return [rows[index] for index in np.random.default_rng(seed).permutation(len(rows))]


def build(name: str, folder: Path, rows: list[Example], seed: int) -> None:
    """Writes the data repo of a run; a tenth of the rows is for validation."""
    shuffled = [rows[index] for index in np.random.default_rng(seed).permutation(len(rows))]
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


def cell(model: str | Path, rows: list[Example]) -> dict[str, object]:
    """The area under the ROC curve of a model on the rows of a test set."""
    scores = np.array(contradiction_scores(load_classifier(model), [pair_texts(*row[:2]) for row in rows]))
    truth = np.array([contradicts for *_, contradicts in rows])
    draw = np.random.default_rng(0)
    draws = [draw.integers(len(rows), size=len(rows)) for _ in range(RESAMPLES)]
    sampled = [roc_auc_score(truth[chosen], scores[chosen]) for chosen in draws if 0 < truth[chosen].mean() < 1]
    bounds = np.quantile(sampled, [0.025, 0.975]).tolist()
    return {"n": len(rows), "auc": float(roc_auc_score(truth, scores)), "interval": bounds}


def main(
    backbone: Annotated[str, typer.Option(help="The folder or Hub id of an encoder or an NLI model.")],
    data: DataOption = DATA,
    folder: Annotated[
        Path | None,
        typer.Option("--corpora", help="A folder with a folder for each corpus.", show_default="$CDCONV_CORPORA"),
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder of runs and cells.")] = Path("runs/transfer"),
    only: Annotated[
        list[str] | None, typer.Option(help="A corpus to train on; can be repeated.", show_default="all")
    ] = None,
    rows: Annotated[int, typer.Option(help="The training rows of each run.")] = 6000,
    test_rows: Annotated[int, typer.Option(help="The most rows of each test set.")] = 1000,
    epochs: int = 2,
    learning_rate: float = 1e-4,
    precision: str = "bf16",
    seed: int = 23,
) -> None:
    """Trains an encoder on each corpus and on all of them, and tests each run on every corpus."""
    read = partial(examples, data=data, folder=folder, seed=seed)
    file = out / CELLS
    cells = read_json(file) if file.is_file() else {}
    try:
        nli = load_classifier(backbone).task == "nli"
    except InputError:  # an encoder without a head
        nli = False
    recipe = Recipe.of(
        name="transfer", config="chat-2-class", view="chat", backbone=backbone, dropout=0.0, max_length=192,
        freeze_embeddings=True, nli_head=nli, epochs=epochs, checkpoint="last", learning_rate=learning_rate,
        precision=precision, seed=seed,
    )  # fmt: skip
    models: dict[str, str | Path] = {"nothing, NLI model": backbone} if nli else {}
    for name in only or [*SOURCES, MIXED]:
        place, parts = name.replace(" ", "-"), [*SOURCES] if name == MIXED else [name]
        models[name], repo = out / place, out / "data" / place
        if not repo.is_dir():
            chosen = [row for part in parts for row in read(part, "train")[: rows // len(parts)]]
            build(name, repo, chosen, seed)
        train(recipe.with_changes(name=f"transfer from {name}"), repo, out / place, resume=True, save_steps=50)
    table = []
    for name, model in models.items():
        for tested, (_, split) in SOURCES.items():
            if (key := f"{name} -> {tested}") not in cells:
                cells[key] = cell(model, read(tested, split)[:test_rows])
                write_json(file, cells)
        scores = [cells[f"{name} -> {tested}"] for tested in SOURCES]
        table.append((name, *(with_interval(score["auc"], score["interval"]) for score in scores)))
    print(Table("AUC, %: trained on (rows), tested on (columns)", ("trained on", *SOURCES), table).markdown())


if __name__ == "__main__":
    cli.main(cli.script(main))
