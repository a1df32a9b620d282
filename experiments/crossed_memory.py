"""Does a detector know its crossed training items by heart? Scores items of its training beside the validation split.

    python -m experiments.crossed_memory --model models/e5-small-crossed-cdconv

The training items are drawn at random from the batches in the record of the model. Where their scores are much higher
than those of the validation split, the detector has memorised them; where both are low, it cannot compare. The table
also shows both by whether the clash takes knowledge or arithmetic. Intervals are those of
`cdconv evaluate MODEL crossed`: 95 % bootstrap intervals over the items.
"""

import argparse
import sys
from collections.abc import Sequence

import numpy as np

from contradiction import ContradictionDetector
from contradiction.data.corpora.crossed import Item, read
from contradiction.errors import InputError
from contradiction.evaluation.evaluate import evaluate
from contradiction.io.tables import Table, with_interval
from contradiction.training import record

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
            cells = (with_interval(figures[key], figures["interval"][key]) for key in ("in_order", "both_right"))
            rows.append((split, name, f"{len(chosen):,}", *cells))
    return rows


def main() -> None:
    """Parses the arguments, judges both splits, prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", default="models/e5-small-crossed-cdconv", help="the folder or Hub id of one run")
    parser.add_argument("--items", type=int, default=700, help="the most items of each split; validation has 700")
    parser.add_argument("--seed", type=int, default=23, help="of the draw")
    options = parser.parse_args()
    if options.items < 1:
        raise InputError(f"--items {options.items}: must be at least 1")

    splits: dict[str, Sequence] = {"training": trained_items(options.model), "validation": read("validation")}
    detector = ContradictionDetector.from_pretrained(options.model, precision="fp32")
    rows = []
    for split, items in splits.items():
        order = np.random.default_rng(options.seed).permutation(len(items))[: options.items]
        rows += rows_of(split, [items[index] for index in order], detector)
    header = ("split", "part", "items", "in order, %", "both right, %")
    print(Table(f"{options.model}: items of its training, and of validation", header, rows, texts=2).markdown())


if __name__ == "__main__":
    try:
        main()
    except InputError as error:
        sys.exit(f"crossed_memory: {error}")
