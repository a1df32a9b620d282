"""Does a detector know its crossed training items by heart? Scores items of its training beside the validation split.

    python -m experiments.crossed_memory --model models/e5-small-crossed-cdconv

The training items are drawn at random from the batches in the record of the model. Where their scores are much higher
than those of the validation split, the detector has memorised them; where both are low, it cannot compare. The table
also shows both by whether the clash takes knowledge or arithmetic. Intervals are those of
`cdconv evaluate MODEL crossed`: 95 % bootstrap intervals over the items.
"""

from collections.abc import Sequence
from typing import Annotated

import numpy as np
import typer

from contradiction import ContradictionDetector, cli
from contradiction.data.corpora.crossed import Item, read
from contradiction.errors import InputError
from contradiction.evaluation.evaluate import evaluate
from contradiction.evaluation.tables import figure_text
from contradiction.io.tables import Table
from contradiction.training import record

ITEMS, SEED = 700, 23  # the most items of a split, all of validation; and the seed of the draw
# The value of the field `inference` -> what it says.
INFERENCE = {True: "inference needed", False: "no inference needed", None: "not stated"}


def trained_items(model: str) -> list[Item]:
    """The crossed items that a model was trained on; raises InputError where its record names none."""
    request = record.of_model(model).get("request", {})
    options = record.recipe(request).augmentation if "recipe" in request else None
    if not options or not options.crossed:
        raise InputError(f"{model}: its record names no crossed chats; take the folder of one run that read them")
    return [item for item in read("train") if not options.crossed_batches or item.batch in options.crossed_batches]


def rows_of(split: str, items: Sequence[Item], detector: ContradictionDetector) -> list[tuple[str, ...]]:
    """The rows of the table: all items, then the items of each value of the field `inference`."""
    parts = {"all": items}
    for value, name in INFERENCE.items():
        parts[name] = [item for item in items if getattr(item, "inference", None) is value]
    rows = []
    for name, chosen in parts.items():
        if chosen:
            figures = evaluate(detector, [row for item in chosen for row in item.judged()])["metrics"]
            cells = (figure_text(figures, key) for key in ("in_order", "both_right"))
            rows.append((split, name, f"{len(chosen):,}", *cells))
    return rows


def main(
    model: Annotated[str, typer.Option(help="The folder or Hub id of one run.")] = "models/e5-small-crossed-cdconv",
) -> None:
    """Scores a detector on crossed items of its training beside the validation split."""
    splits: dict[str, Sequence[Item]] = {"training": trained_items(model), "validation": read("validation")}
    detector = ContradictionDetector.from_pretrained(model, precision="fp32")
    rows = []
    for split, every in splits.items():
        order = np.random.default_rng(SEED).permutation(len(every))[:ITEMS]
        rows += rows_of(split, [every[index] for index in order], detector)
    header = ("split", "part", "items", "in order, %", "both right, %")
    print(Table(f"{model}: items of its training, and of validation", header, rows, texts=2).markdown())


if __name__ == "__main__":
    cli.main(cli.script(main))
