"""The figures of a report: how often each bot contradicted itself, by trigger and by kind, with examples."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from contradiction.errors import InputError, shown
from contradiction.evaluation.figures import holm
from contradiction.io.lines import read_objects
from contradiction.labels import CATEGORIES, LABELS, is_contradiction
from contradiction.probing.run import TRANSCRIPT, Row, read_record, read_transcript, two_turns
from contradiction.probing.shares import ANY, KINDS, Accuracy, accuracy_of, compare, share

EXAMPLES = 3  # of each sort, for a bot
SHOWN = 8  # messages of a long chat that an example shows


@dataclass(frozen=True)
class Source:
    """The conversations with one bot.

    Attributes:
        bot: its name.
        rows: with u1, b1, u2, b2, trigger, and a label; None where there was nothing to judge.
        detector: the detector that gave the labels; None if they are true labels.
        accuracy: kind -> how often the detector is right; empty if it was not measured.
        measured_on: the rows of that measurement.
    """

    bot: str
    rows: Sequence[Row]
    detector: str | None = None
    accuracy: Mapping[str, Accuracy] = field(default_factory=dict)
    measured_on: str | None = None


def read(path: str | Path) -> list[Source]:
    """The conversations in the folder of a run, or those of each bot in a data repo with the columns of CDConv.

    Raises:
        InputError: there is neither, or the run has no verdicts yet.
    """
    path = Path(path)
    if not (path / TRANSCRIPT).is_file():
        return _read_data(path)
    rows, record = read_transcript(path / TRANSCRIPT), read_record(path)
    # A run that was killed while it judged has rows without verdicts, or verdicts and no record of them.
    if not rows or "detector" not in record or not all("checked" in row for row in rows):
        raise InputError(f"{path}: its conversations have not been judged; `cdconv probe run` with the same --out does")
    accuracy = record["accuracy"] or {"source": None, "counts": {}}
    counts = {kind: Accuracy(**values) for kind, values in accuracy["counts"].items()}
    return [Source(rows[0]["bot"], rows, record["detector"], counts, accuracy["source"])]


def _read_data(path: Path) -> list[Source]:
    from datasets import ClassLabel, concatenate_datasets

    from contradiction.data.splits import SPLITS, load_split

    if not (path / "README.md").is_file():
        raise InputError(f"{path}: neither the folder of a run of `cdconv probe run`, nor a data repo")
    rows = concatenate_datasets([load_split(path, "4-class", split) for split in SPLITS])
    columns = ("label", "trigger", "bot")
    if missing := [name for name in columns if not isinstance(rows.features.get(name), ClassLabel)]:
        raise InputError(
            f"{path}: has no column of class labels {missing[0]!r}; a report on a data repo needs the trigger and the "
            "bot of each reply, as CDConv has them"
        )
    names = {column: [*rows.features[column].names, None] for column in columns}  # a row without a label has -1 or null
    named = [
        {**row, **{column: names[column][-1 if row[column] is None else row[column]] for column in columns}}
        for row in rows.to_list()
    ]
    return [Source(bot, [row for row in named if row["bot"] == bot]) for bot in rows.features["bot"].names]


def with_labels(sources: Sequence[Source], path: str | Path) -> list[Source]:
    """Adds the detector's accuracy to each source, measured on the conversations that people labelled.

    The file has JSON lines with ``id`` and ``label``: a random sample of the conversations of each bot. They are those
    of the first bot unless a line names another ``bot``.

    Raises:
        InputError: the file is not in UTF-8, a line has no label or names another bot, no conversation has one of them,
            or all labels of a bot are of one kind.
    """
    sources = _with_names(sources)
    known, labels = {*LABELS["2-class"], *LABELS["4-class"]}, {}
    bots = [source.bot for source in sources]
    for where, record in read_objects(Path(path), "id", "label"):
        key, label, bot = record["id"], record["label"], record.get("bot", bots[0])
        if not isinstance(key, str | int) or not isinstance(label, str) or label not in known:
            raise InputError(f'{where}: must be {{"id": id of a conversation, "label": one of {sorted(known)}}}')
        if bot not in bots:
            raise InputError(f"{where}: no bot is named {shown(bot)}; the bots are {', '.join(bots)}")
        labels[bot, key] = label
    pairs = {
        source.bot: [
            (labels[source.bot, row["id"]], row["label"])
            for row in _judged(source.rows)
            if (source.bot, row["id"]) in labels
        ]
        for source in sources
    }
    if not any(pairs.values()):
        raise InputError(f"{path}: none of its ids is a judged conversation")
    for bot, own in pairs.items():
        if own and len({is_contradiction(truth) for truth, _ in own}) < 2:
            raise InputError(
                f"{path}: the {len(own):,} labels of {bot} are all of one kind; the detector's errors are measured on "
                "contradictions and on other replies"
            )
    return [_measured(source, pairs[source.bot]) for source in sources]


def _measured(source: Source, pairs: Sequence[tuple[str, str]]) -> Source:
    if not pairs:
        return source
    truth, called = zip(*pairs, strict=True)
    return replace(source, accuracy=accuracy_of(truth, called), measured_on=f"{len(pairs):,} labelled conversations")


def _judged(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row["label"] is not None]


def build(sources: Sequence[Source]) -> dict[str, Any]:
    """The report as an object for JSON; each further bot is compared with the first on the probes that both had."""
    sources = _with_names(sources)
    triggers = list(dict.fromkeys(row["trigger"] for source in sources for row in source.rows))
    return {
        "triggers": triggers,
        "bots": [_bot(source, triggers) for source in sources],
        "comparisons": [pair for other in sources[1:] if (pair := _comparison(sources[0], other, triggers))],
    }


def _with_names(sources: Sequence[Source]) -> list[Source]:
    """The sources with names that are all different."""
    seen: dict[str, int] = {}
    named = []
    for source in sources:
        seen[source.bot] = seen.get(source.bot, 0) + 1
        name = source.bot if seen[source.bot] == 1 else f"{source.bot} ({seen[source.bot]})"
        named.append(replace(source, bot=name))
    return named


def _bot(source: Source, triggers: Sequence[str]) -> dict[str, Any]:
    judged = _judged(source.rows)
    return {
        "bot": source.bot,
        "conversations": len(source.rows),
        "not_judged": len(source.rows) - len(judged),
        "cut": sum(row.get("cut") or 0 for row in source.rows),
        "detector": source.detector,
        "accuracy": {
            kind: {"sensitivity": round(counts.sensitivity, 5), "specificity": round(counts.specificity, 5)}
            for kind, counts in source.accuracy.items()
        },
        "measured_on": source.measured_on,
        "all": _shares(judged, source),
        "replies": _replies(judged, source),
        "by_trigger": {
            trigger: _shares([row for row in judged if row["trigger"] == trigger], source) for trigger in triggers
        },
        "examples": examples(judged),
    }


def _shares(rows: Sequence[Row], source: Source) -> dict[str, Any] | None:
    """The share of each kind; of any kind alone where the labels distinguish none."""
    has_kinds = any(row["label"] in CATEGORIES for row in source.rows)
    openings, shares = [opening_of(row) for row in rows], {}
    for kind in KINDS if has_kinds else (ANY,):
        called = [is_contradiction(row["label"]) if kind == ANY else row["label"] == kind for row in rows]
        if figures := share(called, openings, source.accuracy.get(kind)):
            shares[kind] = figures.to_record()
    return shares or None


def opening_of(row: Row) -> str:
    """The opening, which conversations that resemble each other share."""
    return str(row.get("opening") or row["u1"])


def _replies(rows: Sequence[Row], source: Source) -> dict[str, Any]:
    """How many replies were judged and called, and consistent ones among a hundred, corrected like the shares."""
    flags: list[bool] = []
    openings: list[str] = []
    for row in rows:
        called, judged = row.get("called", is_contradiction(row["label"])), row.get("replies", 1)
        flags += [True] * called + [False] * (judged - called)
        openings += [opening_of(row)] * judged
    counts = {"judged": len(flags), "called": sum(flags)}
    called_share = share(flags, openings, source.accuracy.get(ANY))
    if called_share is None:
        return counts | {"consistent": None, "low": 0.0, "high": 100.0}
    shares = {"consistent": called_share.estimate, "low": called_share.high, "high": called_share.low}
    return counts | {key: None if value is None else round(100 * (1 - value), 2) for key, value in shares.items()}


def _comparison(first: Source, second: Source, triggers: Sequence[str]) -> dict[str, Any] | None:
    """Two bots on the probes that both had; None where there are none."""
    if first.detector is None or first.detector != second.detector:
        return None
    before = {(row["id"], opening_of(row)): row for row in _judged(first.rows)}
    pairs = [(before[key], row) for row in _judged(second.rows) if (key := (row["id"], opening_of(row))) in before]
    if not pairs:
        return None
    accuracies = first.accuracy.get(ANY), second.accuracy.get(ANY)

    def difference(chosen: Sequence[tuple[Row, Row]]) -> dict[str, Any] | None:
        called = [[is_contradiction(row["label"]) for row in side] for side in zip(*chosen, strict=True)] or [[], []]
        openings = [opening_of(row) for row, _ in chosen]
        compared = compare(called[0], called[1], openings, accuracies)
        return compared.to_record() if compared else None

    by_trigger = {
        trigger: record
        for trigger in triggers
        if (record := difference([pair for pair in pairs if pair[0]["trigger"] == trigger]))
    }
    adjusted = holm([record["p_value"] for record in by_trigger.values()])
    for record, p_value in zip(by_trigger.values(), adjusted, strict=True):
        record["adjusted"] = round(p_value, 5)
    return {"first": first.bot, "second": second.bot, "all": difference(pairs), "by_trigger": by_trigger}


def examples(rows: Sequence[Row]) -> dict[str, list[dict[str, Any]]]:
    """The most certain contradictions, and the most typical ones: those whose words are most like all others."""
    called = [row for row in rows if is_contradiction(row["label"])]
    certain = sorted((row for row in called if row.get("probability")), key=lambda row: -row["probability"])
    return {
        "certain": [_example(row) for row in _first_of_each_opening(certain)],
        "typical": [_example(row) for row in _first_of_each_opening(_typical(called))],
    }


def _first_of_each_opening(rows: Sequence[Row]) -> list[Row]:
    by_opening: dict[str, Row] = {}
    for row in rows:
        by_opening.setdefault(opening_of(row), row)
    return [*by_opening.values()][:EXAMPLES]


def _typical(rows: Sequence[Row]) -> list[Row]:
    if len(rows) < EXAMPLES:
        return list(rows)
    from sklearn.feature_extraction.text import TfidfVectorizer

    words = TfidfVectorizer(analyzer="char", ngram_range=(1, 2))
    vectors = words.fit_transform(f"{row['b1']} {row['b2']}" for row in rows)
    likeness = np.asarray(vectors @ vectors.mean(axis=0).T).ravel()
    return [rows[index] for index in np.argsort(-likeness, kind="stable")]


def _example(row: Row) -> dict[str, Any]:
    messages = row.get("messages") or two_turns(row)
    evidence = row.get("evidence") or []
    facts = [{"role": "fact", "content": fact, "mark": "evidence"} for fact in evidence if fact in row.get("facts", ())]
    spoken = [message for message in messages if message["role"] != "system"]
    marked = [{**message, "mark": "evidence" if message["content"] in evidence else ""} for message in spoken]
    marked[-1]["mark"] = "judged"
    if len(marked) > SHOWN:
        shortened = [
            message for index, message in enumerate(marked) if message["mark"] or index < 2 or index >= len(marked) - 2
        ]
        shortened.insert(2, {"role": "left out", "content": f"… {len(marked) - len(shortened)} messages …", "mark": ""})
        marked = shortened
    return {
        "id": row["id"], "trigger": row["trigger"], "label": row["label"],
        "probability": row.get("probability"), "messages": facts + marked,
    }  # fmt: skip
