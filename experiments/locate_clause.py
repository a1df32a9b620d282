"""Does `detector.locate` find the clauses that contradict each other? Measures it on crossed chats.

    python -m experiments.locate_clause models/e5-small-long-replies --split test

The authors of crossed chats marked the two clauses that contradict each other: in an earlier message and the reply, or
in one reply that contradicts itself. A located clause is right if it overlaps the marked one. The verdict is given, so
the script measures whether the place is found, not whether the contradiction is.

Chance is the share of right clauses or pairs. *Most common characters* is the pair of clauses that share most of them,
which shows how far the topic helps.
"""

import random
from collections.abc import Mapping
from itertools import combinations, product
from statistics import fmean
from typing import Annotated, Any

import typer
from rich.progress import track

from contradiction import ContradictionDetector, Verdict, cli
from contradiction.commands.common import DATA, DataOption
from contradiction.conversation import ASSISTANT
from contradiction.data.splits import load_split
from contradiction.evaluation.figures import wilson
from contradiction.io.tables import Table, interval, percent
from contradiction.labels import CROSSED_CONFIGS, HISTORY, INTRA
from contradiction.spans import Clause, clauses

SEED = 13
PLACES = {HISTORY: ("earlier clause", "later clause", "both"), INTRA: ("", "", "both, in one reply")}

Pair = tuple[Clause, Clause]


def texts_of(row: Mapping[str, Any]) -> tuple[str, str]:
    """The texts in which the two clauses are: an earlier message and the reply, or the reply twice."""
    reply = row["reply"]
    return (reply if row["evidence"] is None else row["messages"][row["evidence"]]["content"]), reply


def pairs_of(row: Mapping[str, Any]) -> list[Pair]:
    """The pairs of clauses from which the right one is chosen."""
    earlier, reply = texts_of(row)
    if row["evidence"] is None:
        return [*combinations(clauses(reply), 2)]
    return [*product(clauses(earlier), clauses(reply))]


def is_right(row: Mapping[str, Any], pair: Pair) -> list[bool]:
    """Whether each clause of a pair overlaps the marked one."""
    marked = (row["evidence_clause"], row["reply_clause"])
    begins = [text.index(part) for text, part in zip(texts_of(row), marked, strict=True)]
    return [
        start < begin + len(part) and begin < end
        for (start, end), begin, part in zip(pair, begins, marked, strict=True)
    ]


def locate(detector: ContradictionDetector, row: Mapping[str, Any], label: str) -> Pair:
    """The located clauses, with the marked contradiction as the verdict."""
    chat = [*row["messages"], {"role": ASSISTANT, "content": row["reply"]}]
    evidence = () if row["evidence"] is None else (row["evidence"],)
    location = detector.locate(chat, Verdict(label, 1.0, {}, evidence=evidence, reply=(len(chat) - 1,)))
    assert location is not None
    return (location.earlier.start, location.earlier.end), (location.later.start, location.later.end)


def measure(detector: ContradictionDetector, row: Mapping[str, Any], label: str) -> list[list[float]]:
    """For the earlier clause, the later one and both: chance, and whether the baseline and the detector are right."""

    def shared(pair: Pair) -> int:
        first, second = (text[slice(*clause)] for text, clause in zip(texts_of(row), pair, strict=True))
        return len({*first} & {*second})

    pairs = pairs_of(row)
    right = [is_right(row, pair) for pair in pairs]
    chance = [fmean(column) for column in zip(*right, strict=True)]
    guess, located = is_right(row, max(pairs, key=shared)), is_right(row, locate(detector, row, label))
    both = [fmean(map(all, right)), all(guess), all(located)]
    return [*([*values] for values in zip(chance, guess, located, strict=True)), both]


def main(
    model: Annotated[str, typer.Argument(help="A model folder or Hub id.")],
    data: DataOption = DATA,
    split: str = "validation",
    rows: Annotated[int, typer.Option(help="The most rows of each config and label.")] = 150,
) -> None:
    """Measures on crossed chats whether `detector.locate` finds the clauses that contradict each other."""
    detector = ContradictionDetector.from_pretrained(model, precision="fp32")
    body = []
    for config, label in product(CROSSED_CONFIGS, PLACES):
        loaded = load_split(data, config, split)
        named = loaded.features["label"].str2int(label)
        marked = [row for row in loaded if row["label"] == named and row["reply_clause"]]
        chosen = [row for row in marked if len(pairs_of(row)) > 1]
        random.Random(SEED).shuffle(chosen)
        measured = [measure(detector, row, label) for row in track(chosen[:rows], f"{config}, {label}")]
        for place, values in zip(PLACES[label], zip(*measured, strict=True), strict=False):
            if place:
                chance, guessed, located = ([*column] for column in zip(*values, strict=True))
                shares = [percent(fmean(column)) for column in (chance, guessed, located)]
                bounds = interval(wilson(int(sum(located)), len(located)))
                body.append((config, place, str(len(located)), *shares, bounds))
    header = ("config", "place", "n", "chance", "most common characters", "located", "95 % interval")
    print(f"{model}, {split} split")
    print(Table("", header, body).markdown())


if __name__ == "__main__":
    cli.main(cli.script(main))
