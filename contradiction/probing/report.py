"""The figures of a report: how often each bot was called a contradiction, by trigger and by kind, with examples."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from contradiction.errors import InputError, shown
from contradiction.evaluation.figures import holm
from contradiction.io.lines import read_objects
from contradiction.labels import CATEGORIES, LABELS, is_contradiction
from contradiction.probing.run import TRANSCRIPT, Row, read_record, read_transcript, two_turns
from contradiction.probing.shares import ANY, KINDS, Accuracy, accuracy_of, compare, estimate, share
from contradiction.probing.triggers import METHODS, PERSONA

EXAMPLES = 6  # of a bot
SHOWN = 8  # messages of a long chat that an example shows


@dataclass(frozen=True)
class Source:
    """The conversations with one bot.

    Attributes:
        bot: its name.
        rows: with u1, b1, u2, b2, trigger, and ``label``, the verdict; None where there was nothing to judge. ``truth``
            is the label of a person.
        detector: the detector that gave the labels; None if they are those of people.
        accuracy: kind -> how often the detector is right; empty if it was not measured.
        measured_on: the rows of that measurement.
        own: whether it was measured on a sample of these conversations.
    """

    bot: str
    rows: Sequence[Row]
    detector: str | None = None
    accuracy: Mapping[str, Accuracy] = field(default_factory=dict)
    measured_on: str | None = None
    own: bool = False


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
    return [
        Source(bot, [{**row, "truth": row["label"]} for row in named if row["bot"] == bot])
        for bot in rows.features["bot"].names
    ]


def with_labels(sources: Sequence[Source], path: str | Path) -> list[Source]:
    """Adds labels by people to the conversations. They replace the verdicts, and measure the detector.

    The file has JSON lines with ``id`` and ``label``: a random sample of the conversations of each bot. They are those
    of the first bot unless a line names another ``bot``.

    Raises:
        InputError: the file is not in UTF-8, a line has no label or names another bot, or no conversation has one of
            the ids.
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
    labelled = [_labelled(source, labels) for source in sources]
    if not any(row.get("truth") for source in labelled for row in source.rows):
        raise InputError(f"{path}: none of its ids is one of a conversation")
    return labelled


def _labelled(source: Source, labels: Mapping[tuple[str, Any], str]) -> Source:
    rows = [{**row, "truth": labels.get((source.bot, row["id"]))} for row in source.rows]
    both = [row for row in rows if row["truth"] and _is_read(row, by_detector=True)]
    if not both:
        return replace(source, rows=rows)
    accuracy = accuracy_of([row["truth"] for row in both], [row["label"] for row in both])
    return replace(source, rows=rows, accuracy=accuracy, measured_on=f"{len(both):,} labelled conversations", own=True)


def _is_read(row: Row, *, by_detector: bool = False) -> bool:
    """Whether a person has labelled a conversation, or the detector has judged it and read all of it."""
    return bool(row.get("truth") and not by_detector) or (row["label"] is not None and row.get("checked", True))


def _decision(row: Row) -> str:
    """The label of a person, or else the verdict. The verdict also names the kind where the person did not."""
    truth, label = row.get("truth"), row["label"]
    return label if not truth or (truth == ANY and label in CATEGORIES) else truth


def _is_called(row: Row, kind: str = ANY, *, by_detector: bool = False) -> bool:
    label = row["label"] if by_detector else _decision(row)
    return is_contradiction(label) if kind == ANY else label == kind


def build(sources: Sequence[Source]) -> dict[str, Any]:
    """The report as an object for JSON; each further bot is compared with the first on the probes that both had."""
    sources = _with_names(sources)
    found = {row["trigger"] for source in sources for row in source.rows}
    places = {trigger: place for place, trigger in enumerate(METHODS)}  # then repeat-2, repeat-10, persona
    triggers = sorted(found, key=lambda name: (places.get(name, len(places)), name == PERSONA, len(name), name))
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
    read = [row for row in source.rows if _is_read(row)]
    not_judged = sum(row["label"] is None and not row.get("truth") for row in source.rows)
    labelled = sum(bool(row.get("truth")) for row in source.rows)
    kinds = KINDS if any(row["label"] in CATEGORIES for row in source.rows) else (ANY,)
    return {
        "bot": source.bot,
        "detector": source.detector,
        "conversations": len(source.rows),
        "read": len(read),
        "read_in_part": len(source.rows) - len(read) - not_judged,
        "not_judged": not_judged,
        "labelled": labelled,
        "cut": sum(row.get("cut") or 0 for row in source.rows),
        "called": {kind: _share(read, kind) for kind in kinds} if read else None,
        "by_trigger": {trigger: _share([row for row in read if row["trigger"] == trigger]) for trigger in triggers},
        "estimate": _estimates(source, kinds) if any(not row.get("truth") for row in read) else {},
        "measured_on": source.measured_on,
        "measured_on_own": source.own,
        "accuracy": {kind: asdict(counts) for kind, counts in source.accuracy.items()},
        "examples": examples(read),
    }


def opening_of(row: Row) -> str:
    """The opening, which conversations that resemble each other share."""
    return str(row.get("opening") or row["u1"])


def _share(rows: Sequence[Row], kind: str = ANY) -> dict[str, Any] | None:
    return share([_is_called(row, kind) for row in rows], [opening_of(row) for row in rows])


def _estimates(source: Source, kinds: Sequence[str]) -> dict[str, Any]:
    """The estimated share of each kind whose accuracy is known, over the conversations that the detector read."""
    rows = [row for row in source.rows if _is_read(row, by_detector=True)]
    openings = [opening_of(row) for row in rows]
    return {
        kind: estimate([_is_called(row, kind, by_detector=True) for row in rows], openings, accuracy, own=source.own)
        for kind in kinds
        if (accuracy := source.accuracy.get(kind))
    }


def is_above(bot: Mapping[str, Any], rate: float) -> bool:
    """Whether more conversations of a bot were called than this rate allows; also if none was read."""
    return not bot["called"] or bot["called"][ANY]["called"] / bot["called"][ANY]["n"] > rate


def _comparison(first: Source, second: Source, triggers: Sequence[str]) -> dict[str, Any] | None:
    """Two bots on the probes that were read of both; None without such probes."""
    if first.detector is None or first.detector != second.detector:
        return None
    before = {(row["id"], opening_of(row)): row for row in first.rows}
    both = [(before[key], row) for row in second.rows if (key := (row["id"], opening_of(row))) in before]
    # Like is compared with like: labels of people only where both conversations have one.
    pairs = [
        (opening_of(pair[0]), pair[0]["trigger"], [_is_called(row, by_detector=not labelled) for row in pair])
        for pair in both
        if (labelled := all(row.get("truth") for row in pair)) or all(_is_read(row, by_detector=True) for row in pair)
    ]
    if not pairs:
        return None

    def difference(wanted: str | None = None) -> dict[str, Any] | None:
        chosen = [(opening, called) for opening, trigger, called in pairs if wanted in (None, trigger)]
        first_called, second_called = ([called[side] for _, called in chosen] for side in (0, 1))
        return compare(first_called, second_called, [opening for opening, _ in chosen])

    by_trigger = {trigger: record for trigger in triggers if (record := difference(trigger))}
    tested = [record for record in by_trigger.values() if record["p_value"] is not None]
    adjusted = holm([record["p_value"] for record in tested])
    for record, p_value in zip(tested, adjusted, strict=True):
        record["p_value"] = round(p_value, 5)
    return {"first": first.bot, "second": second.bot, "all": difference(), "by_trigger": by_trigger}


def examples(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The most certain contradictions, one of each opening."""
    called = sorted((row for row in rows if _is_called(row)), key=lambda row: -(row.get("probability") or 0))
    by_opening = {opening_of(row): row for row in reversed(called)}
    return [_example(row) for row in called if by_opening[opening_of(row)] is row][:EXAMPLES]


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
        "id": row["id"], "trigger": row["trigger"], "label": _decision(row), "probability": row.get("probability"),
        "by": "person" if row.get("truth") else "detector", "messages": facts + marked,
    }  # fmt: skip
