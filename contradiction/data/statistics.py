"""Statistics of the data: the paper's Table 3, and the overlap of the splits."""

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import mean
from typing import TYPE_CHECKING

from contradiction import cdconv
from contradiction.io.tables import Table, percent
from contradiction.labels import GROUPED

if TYPE_CHECKING:
    from datasets import Dataset

TOTAL = "all"
CLASSES = ("label", "trigger", "bot")  # the columns of CDConv that hold class ids


def table3(rows: Sequence[cdconv.Row]) -> list[Table]:
    """The statistics of the paper's Table 3, counted from the rows, for each bot and for all rows.

    Conversations by category, by persona (of history contradictions) and by trigger, the rate of contradictions, and
    the mean length of each utterance in characters.
    """
    sides = {bot: [row for row in rows if row["bot"] == bot] for bot in cdconv.BOTS} | {TOTAL: list(rows)}
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


def of_repo(configs: Mapping[str, Mapping[str, "Dataset"]]) -> list[Table]:
    """The rows of each config that ``splits.load_all`` read; for CDConv also Table 3 and the overlap of the splits."""
    body = [
        (config, side, *counted(rows["label"][:] if "label" in rows.column_names else [None] * len(rows), _names(rows)))
        for config, sides in configs.items()
        for side, rows in sides.items()
    ]
    sizes = _sizes(body)
    splits = {suffix: configs[name] for suffix in ("", GROUPED) if _is_cdconv(configs, name := f"4-class{suffix}")}
    if "" not in splits:
        return [sizes]
    personas = {row["id"]: row["label"] for rows in configs["persona"].values() for row in rows.to_list()}
    return [*table3([row for rows in splits[""].values() for row in _raw(rows, personas)]), sizes, leaks(splits)]


def _is_cdconv(configs: Mapping[str, Mapping[str, "Dataset"]], name: str) -> bool:
    """Whether a config has the splits and the columns of CDConv, beside the config of the personas."""
    sides = configs.get(name, {})
    return (
        {"train", "test"} <= {*sides}
        and "persona" in configs
        and all(all(_names(rows, column) for column in CLASSES) for rows in sides.values())
    )


def _names(rows: "Dataset", column: str = "label") -> Sequence[str]:
    """The names of the classes of a column; empty if it has none."""
    return getattr(rows.features.get(column), "names", None) or ()


def _raw(rows: "Dataset", personas: Mapping[int, int]) -> list[cdconv.Row]:
    """Rows of the config 4-class as :func:`cdconv.read_rows` gives them."""
    triggers, bots = _names(rows, "trigger"), _names(rows, "bot")
    return [
        {**row, "persona": personas.get(row["id"]), "trigger": triggers[row["trigger"]], "bot": bots[row["bot"]]}
        for row in rows.to_list()
    ]


def split_sizes(splits: Mapping[str, Mapping[str, Sequence[cdconv.Row]]]) -> Table:
    """Rows of each config and split of :func:`contradiction.data.splits.both_splits`, by label."""
    body = []
    for suffix, sides in splits.items():
        for task, names in cdconv.LABELS.items():
            for side, rows in sides.items():
                labels = [label for row in rows if (label := cdconv.label_of(row, task)) is not None]
                body.append((task + suffix, side, *counted(labels, names)))
    return _sizes(body)


def _sizes(body: Sequence[tuple[str, ...]]) -> Table:
    return Table("Configs and splits", ("config", "split", "rows", "labels"), body)


def counted(labels: Sequence[int | None], names: Sequence[str]) -> tuple[str, str]:
    """The number of rows, and of the rows of each label, as cells of a table."""
    counts = Counter(labels)
    return f"{len(labels):,}", ", ".join(f"{name} {counts[index]:,}" for index, name in enumerate(names))


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
