"""Does a detector learn to compare from more crossed quadruples? Trains one recipe on nested parts of the corpus.

    python -m experiments.crossed_curve 750 1500 3000 6000

Each part holds whole batches, of each style about in its proportion, and contains the smaller parts. All runs have the
same recipe and the same number of epochs. The table has the 95 % bootstrap intervals of `cdconv evaluate MODEL
crossed`. A run that was stopped continues, and finished runs are kept: start the command again.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from contradiction import cli, train
from contradiction.commands.common import DATA, DataOption
from contradiction.data.corpora.crossed import Quadruple, batches, read
from contradiction.evaluation.evaluate import evaluate
from contradiction.evaluation.tables import figure_text
from contradiction.io.tables import Table
from contradiction.methods.loading import load_classifier
from contradiction.training.accelerators import fast_precision
from contradiction.training.recipe import load_recipe

RECIPE, SEED, OUT = "e5-small-crossed-long", 23, Path("runs/crossed-curve")


def nested_parts(sizes: Mapping[str, int], styles: Mapping[str, str], wanted: Sequence[int]) -> list[list[str]]:
    """Names of batches for each wanted number of quadruples; each part contains the smaller ones.

    ``sizes`` has the quadruples of each batch. A part has at least the wanted number. The next batch is the smallest
    one of the style that is furthest below its share of the whole corpus; the seed orders batches of equal size.
    """
    draw = np.random.default_rng(SEED)
    left = sorted(sizes, key=lambda name: (sizes[name], draw.random()))
    total = {style: sum(sizes[name] for name in sizes if styles[name] == style) for style in set(styles.values())}
    chosen: list[str] = []
    parts = []
    for number in sorted(wanted):
        while left and sum(sizes[name] for name in chosen) < number:
            have = {style: sum(sizes[name] for name in chosen if styles[name] == style) for style in total}
            open_styles = {styles[name] for name in left}
            style = min(sorted(open_styles), key=lambda style: have[style] / total[style])
            name = next(name for name in left if styles[name] == style)
            left.remove(name)
            chosen.append(name)
        parts.append(list(chosen))
    return parts


def main(
    quadruples: Annotated[list[int], typer.Argument(help="The least number of quadruples of each run.")],
    data: DataOption = DATA,
) -> None:
    """Trains one recipe on nested parts of the crossed chats, and scores the runs on them."""
    items = [item for item in read("train") if isinstance(item, Quadruple)]
    sizes = Counter(item.batch for item in items)
    styles = {name: batch.style for name, batch in batches().items() if name in sizes}
    rows = []
    for names in nested_parts(sizes, styles, quadruples):
        number = sum(sizes[name] for name in names)
        chosen = fast_precision(load_recipe(RECIPE)).with_changes(crossed_batches=names, seed=SEED)
        model = train(chosen, data=data, out=OUT / str(number), resume=True, save_steps=200)
        figures = evaluate(load_classifier(model), "crossed", split="validation")["metrics"]
        rows.append((f"{number:,}", *(figure_text(figures, key) for key in ("in_order", "both_right", "auc"))))
    header = ("quadruples", "in order, %", "both right, %", "AUC, %")
    print(Table("Crossed validation split, by the number of quadruples in training", header, rows).markdown())


if __name__ == "__main__":
    cli.main(cli.script(main))
