"""Statistics of data: the rows of each label, the paper's Table 3, and the overlap of the splits."""

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import mean
from typing import TYPE_CHECKING

from contradiction import cdconv
from contradiction.io.tables import Table, percent

if TYPE_CHECKING:
    from datasets import Dataset


def sizes(configs: Mapping[str, Mapping[str, "Dataset"]], title: str = "Configs and splits") -> Table:
    """The rows of each config and split, by label, which is a class label."""
    body = []
    for config, splits in configs.items():
        for split, rows in splits.items():
            counts = Counter(rows["label"][:])
            by_name = [f"{name} {counts[index]:,}" for index, name in enumerate(rows.features["label"].names)]
            unlabelled = [f"unlabelled {counts[None]:,}"] if counts[None] else []
            body.append((config, split, f"{len(rows):,}", ", ".join(by_name + unlabelled)))
    return Table(title, ("config", "split", "rows", "labels"), body)


def table3(rows: Sequence[cdconv.Row]) -> list[Table]:
    """The statistics of the paper's Table 3, counted from the rows, for each bot and for all rows.

    Conversations by category, by persona (of history contradictions) and by trigger, the rate of contradictions, and
    the mean length of each utterance in characters.
    """
    sides = {bot: [row for row in rows if row["bot"] == bot] for bot in cdconv.BOTS} | {"all": list(rows)}
    return [
        _counts("Conversations by category", sides, "label", cdconv.LABELS["4-class"]),
        _counts("History contradictions by persona", sides, "persona", cdconv.LABELS["persona"]),
        _triggers(rows),
        Table(
            "Mean length in characters",
            ("utterance", *sides),
            [
                (column, *(f"{mean(len(row[column]) for row in side):.2f}" if side else "–" for side in sides.values()))
                for column in cdconv.UTTERANCES
            ],
        ),
    ]


def _counts(title: str, sides: Mapping[str, list[cdconv.Row]], column: str, names: Sequence[str]) -> Table:
    counts = {side: Counter(row[column] for row in rows if row[column] is not None) for side, rows in sides.items()}
    body = [
        (name, *(_share(count[index], count.total()) for count in counts.values())) for index, name in enumerate(names)
    ]
    return Table(title, (column, *sides), [*body, ("total", *(f"{count.total():,}" for count in counts.values()))])


def _triggers(rows: Sequence[cdconv.Row]) -> Table:
    names = cdconv.LABELS["4-class"]
    body = []
    for trigger in cdconv.TRIGGERS.values():
        count = Counter(row["label"] for row in rows if row["trigger"] == trigger)
        contradictions = count.total() - count[cdconv.NON_CONTRADICTION]
        share = percent(contradictions / count.total()) if count.total() else "–"
        body.append((trigger, *(f"{count[index]:,}" for index in range(len(names))), f"{count.total():,}", share))
    return Table("Conversations by trigger", ("trigger", *names, "total", "contradictions, %"), body)


def _share(count: int, total: int) -> str:
    return f"{count:,} ({percent(count / total)} %)" if total else "0"


def overlap(sides: Mapping[str, Sequence[cdconv.Row]], columns: Sequence[str]) -> float:
    """The fraction of test rows whose ``columns`` equal those of a training row."""
    training = {tuple(row[column] for column in columns) for row in sides["train"]}
    return mean(tuple(row[column] for column in columns) in training for row in sides["test"])


def leaks(splits: Mapping[str, Mapping[str, Sequence[cdconv.Row]]]) -> Table:
    """The percentage of test rows whose context, or its first utterance, is in the training split."""
    body = [
        (
            "grouped" if suffix else "official",
            f"{percent(overlap(sides, ('u1', 'b1', 'u2')))} %",
            f"{percent(overlap(sides, ('u1',)))} %",
        )
        for suffix, sides in splits.items()
    ]
    return Table("Test rows seen in training", ("split", "same u1, b1, u2", "same u1"), body)
