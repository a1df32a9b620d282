"""Does a persona check compare reply and fact? Checks replies against facts that they contradict, and against others.

    python -m experiments.persona_facts models/e5-small-long-replies --rows 400

A fact is the first reply of a conversation (b1), and the checked reply is the second one (b2) with its question (u2).
The checks of one row give these measures:

- *found*: a reply labelled *history* is called a contradiction of its own b1.
- *consistent*: a reply labelled *non-contradiction* is called a contradiction of its own b1, which is a false alarm.
- *another fact*: a reply is called a contradiction of the b1 of another conversation, which it does not contradict.
- *ten other facts*: the same with ten of them at once, as in the description of a bot.
- *first of two*, *first of eleven*: the probability is higher for the contradicted fact than for one or for each of ten
  other facts. Chance is a half and one in eleven.
"""

from typing import Annotated

import numpy as np
import typer
from rich.progress import track

from contradiction import ContradictionDetector, cli
from contradiction.commands.common import DATA, DataOption
from contradiction.data.splits import load_split
from contradiction.evaluation.figures import wilson
from contradiction.io.tables import Table, interval, percent
from contradiction.labels import HISTORY, NON_CONTRADICTION

OTHERS = 10  # facts of other conversations beside the contradicted one


def main(
    model: Annotated[str, typer.Argument(help="A model folder or Hub id.")],
    precision: Annotated[str, typer.Option(help="fp32 is exact.")] = "fp32",
    data: DataOption = DATA,
    split: str = "validation",
    rows: Annotated[int, typer.Option(help="The most rows of each label.")] = 400,
) -> None:
    """Checks replies against facts that they contradict, and against others."""
    detector = ContradictionDetector.from_pretrained(model, precision=precision)
    loaded = load_split(data, "4-class", split)
    generator = np.random.default_rng(0)
    name = loaded.features["label"].int2str
    shuffled = [loaded[int(place)] for place in generator.permutation(len(loaded))]
    contradicting, consistent = (
        [row for row in shuffled if name(row["label"]) == label][:rows] for label in (HISTORY, NON_CONTRADICTION)
    )
    facts = [row["b1"] for row in contradicting]

    def called(row: dict, facts: list[str]) -> bool:
        return bool(detector.check(facts, row["b2"], row["u2"]).contradiction)

    def probability(row: dict, fact: str) -> float:
        return detector.check([fact], row["b2"], row["u2"]).probability or 0.0

    results: dict[str, list[bool]] = {}

    def add(measure: str, value: bool) -> None:
        results.setdefault(measure, []).append(value)

    for row in track(contradicting, "contradicting replies"):
        others = [str(fact) for fact in generator.choice([fact for fact in facts if fact != row["b1"]], OTHERS, False)]
        own, *rest = (probability(row, fact) for fact in (row["b1"], *others))
        add("found", called(row, [row["b1"]]))
        add("another fact", called(row, others[:1]))
        add("ten other facts", called(row, others))
        add("first of two", own > rest[0])
        add("first of eleven", own > max(rest))
    for row in track(consistent, "consistent replies"):
        add("consistent", called(row, [row["b1"]]))
    body = [
        (measure, str(len(values)), percent(sum(values) / len(values)), interval(wilson(sum(values), len(values))))
        for measure, values in results.items()
    ]
    print(f"{model}, {split} split")
    print(Table("", ("measure", "n", "%", "95 % interval"), body).markdown())


if __name__ == "__main__":
    cli.main(cli.script(main))
