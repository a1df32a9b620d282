"""The figures of a report: how often each bot was called a contradiction, with estimates, comparisons and examples."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from contradiction.errors import InputError, shown
from contradiction.evaluation.figures import holm, wilson
from contradiction.io.files import read_objects
from contradiction.labels import CATEGORIES, CONTRADICTION, LABELS, is_contradiction
from contradiction.probing.run import TRANSCRIPT, Accuracy, Row, read_record, read_transcript, two_turns
from contradiction.probing.triggers import METHODS, PERSONA

ANY = CONTRADICTION  # a contradiction of any kind
EXAMPLES = 6  # of a bot
Figures = dict[str, Any]
FEW = 20  # of fewer conversations no share is given
DRAWS = 10_000
BOUNDS = (2.5, 97.5)
IMPOSSIBLE = 0.05  # below this probability the measured errors do not fit what was called
WIDEST = 0.5  # an interval that is wider says next to nothing
TOO_WIDE = "the detector errs too often to tell"
MISFIT = "the measured errors of the detector cannot explain how many were called, so they do not fit this bot"
ONE_SIDED = "no conversation that the detector called, or none that it did not call, has a label"


@dataclass(frozen=True)
class Source:
    """The conversations with one bot.

    Attributes:
        bot: its name.
        rows: with u1, b1, u2, b2, trigger, and ``label``, the verdict; None where there was nothing to judge. ``truth``
            is the label of a person.
        detector: the detector that gave the labels; None if they are those of people.
        accuracy: how often the detector is right; None if it was not measured.
        measured_on: the rows of that measurement.
        own: whether it was measured on a sample of these conversations.
    """

    bot: str
    rows: Sequence[Row]
    detector: str | None = None
    accuracy: Accuracy | None = None
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
    measured = record["accuracy"]
    accuracy = (Accuracy(**measured["counts"]), measured["source"]) if measured else ()
    return [Source(rows[0]["bot"], rows, record["detector"], *accuracy)]


def _read_data(path: Path) -> list[Source]:
    from datasets import ClassLabel, concatenate_datasets

    from contradiction.data.splits import SPLITS, load_split

    if not (path / "README.md").is_file():
        raise InputError(f"{path}: neither the folder of a run of `cdconv probe run`, nor a data repo")
    data = concatenate_datasets([load_split(path, "4-class", split) for split in SPLITS])
    rows = data.to_list()
    for column in ("label", "trigger", "bot"):
        feature = data.features.get(column)
        if not isinstance(feature, ClassLabel):
            raise InputError(f"{path}: has no column of class labels {column!r}, as CDConv has it")
        names = [*feature.names, None]  # a row without a label has -1 or null
        rows = [{**row, column: names[-1 if row[column] is None else row[column]]} for row in rows]
    return [
        Source(bot, [{**row, "truth": row["label"]} for row in rows if row["bot"] == bot])
        for bot in data.features["bot"].names
    ]


def _with_labels(sources: Sequence[Source], path: Path) -> list[Source]:
    """Adds labels by people to the conversations; see :func:`build`."""
    known, labels = {*LABELS["2-class"], *LABELS["4-class"]}, {}
    bots = [source.bot for source in sources]
    for where, record in read_objects(path, "id", "label"):
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
    pairs = [(is_contradiction(row["truth"]), is_contradiction(row["label"])) for row in both]
    hits, alarms = pairs.count((True, True)), pairs.count((False, True))
    accuracy = Accuracy(hits, hits + pairs.count((True, False)), alarms, alarms + pairs.count((False, False)))
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


def build(sources: Sequence[Source], labels: Path | None = None) -> dict[str, Any]:
    """The report as an object for JSON; each further bot is compared with the first on the probes that both had.

    Args:
        sources: the conversations. Bots of one name are numbered.
        labels: a file of labels by people, JSON lines with ``id`` and ``label``: a random sample of the conversations
            of each bot. They are those of the first bot unless a line names another ``bot``. They replace the verdicts,
            and measure the detector.

    Raises:
        InputError: the file is not in UTF-8, a line has no label or names another bot, or no conversation has one of
            the ids.
    """
    sources = _with_names(sources)
    if labels:
        sources = _with_labels(sources, labels)
    found = {row["trigger"] for source in sources for row in source.rows}
    places = {trigger: place for place, trigger in enumerate(METHODS)}  # then persona, repeat-2, repeat-10
    triggers = sorted(found, key=lambda name: (places.get(name, len(places)), len(name), name))
    return {
        "triggers": triggers,
        "bots": [_bot(source, triggers) for source in sources],
        "comparisons": [pair for other in sources[1:] if (pair := _comparison(sources[0], other, triggers))],
    }


def _with_names(sources: Sequence[Source]) -> list[Source]:
    """The sources with names that are all different."""
    bots = [source.bot for source in sources]
    before = [bots[:place].count(bot) for place, bot in enumerate(bots)]
    return [
        replace(source, bot=f"{source.bot} ({count + 1})") if count else source
        for source, count in zip(sources, before, strict=True)
    ]


def _bot(source: Source, triggers: Sequence[str]) -> dict[str, Any]:
    read = [row for row in source.rows if _is_read(row)]
    not_judged = sum(row["label"] is None and not row.get("truth") for row in source.rows)
    kinds = (*CATEGORIES, ANY) if any(row["label"] in CATEGORIES for row in source.rows) else (ANY,)
    return {
        "bot": source.bot,
        "detector": source.detector,
        "conversations": len(source.rows),
        "read": len(read),
        "read_in_part": len(source.rows) - len(read) - not_judged,
        "not_judged": not_judged,
        "labelled": sum(bool(row.get("truth")) for row in source.rows),
        "cut": sum(row.get("cut") or 0 for row in source.rows),
        "called": {kind: _share_of(read, kind) for kind in kinds} if read else None,
        "by_trigger": {trigger: _share_of([row for row in read if row["trigger"] == trigger]) for trigger in triggers},
        "estimate": _estimate(source) if any(not row.get("truth") for row in read) else None,
        "measured_on": source.measured_on,
        "measured_on_own": source.own,
        "accuracy": source.accuracy and asdict(source.accuracy),
        "examples": _examples(read),
    }


def _opening_of(row: Row) -> str:
    """The opening, which conversations that resemble each other share."""
    return str(row.get("opening") or row["u1"])


def _share_of(rows: Sequence[Row], kind: str = ANY) -> dict[str, Any] | None:
    return share([_is_called(row, kind) for row in rows], [_opening_of(row) for row in rows])


def _estimate(source: Source) -> dict[str, Any] | None:
    """The estimated share among the conversations that the detector read; None if its accuracy is not known."""
    if not source.accuracy:
        return None
    rows = [row for row in source.rows if _is_read(row, by_detector=True)]
    called = [_is_called(row, by_detector=True) for row in rows]
    return estimate(called, [_opening_of(row) for row in rows], source.accuracy, own=source.own)


def is_above(bot: Mapping[str, Any], rate: float) -> bool:
    """Whether more conversations of a bot were called than this rate allows; also if none was read."""
    return not bot["called"] or bot["called"][ANY]["called"] / bot["called"][ANY]["n"] > rate


def _comparison(first: Source, second: Source, triggers: Sequence[str]) -> dict[str, Any] | None:
    """Two bots on the probes that were read of both; None without such probes."""
    if first.detector is None or first.detector != second.detector:
        return None
    before = {row["id"]: row for row in first.rows}
    both = [(before[row["id"]], row) for row in second.rows if row["id"] in before]
    # Like is compared with like: labels of people only where both conversations have one.
    pairs = [
        (_opening_of(pair[0]), pair[0]["trigger"], [_is_called(row, by_detector=not labelled) for row in pair])
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


def _examples(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The most certain contradictions, one of each opening, as what was judged: the two turns or the fact."""
    called = sorted((row for row in rows if _is_called(row)), key=lambda row: -(row.get("probability") or 0))
    best: dict[str, Row] = {}
    for row in called:
        best.setdefault(_opening_of(row), row)
    return [_example(row) for row in [*best.values()][:EXAMPLES]]


def _example(row: Row) -> dict[str, Any]:
    messages = two_turns(row)
    messages[1] |= {"role": "fact"} if row["trigger"] == PERSONA else {}
    # The evidence of a verdict is none of another label, which a person gave.
    messages[1]["mark"] = "evidence" if row.get("evidence") and _decision(row) == row["label"] else ""
    messages[-1]["mark"] = "judged"
    return {
        "id": row["id"], "trigger": row["trigger"], "label": _decision(row), "probability": row.get("probability"),
        "by": "person" if row.get("truth") else "detector",
        "messages": [{"mark": "", **message} for message in messages if message["content"]],
    }  # fmt: skip


def share(called: Sequence[bool], clusters: Sequence[str]) -> Figures | None:
    """The share of conversations that were called a contradiction; None without conversations.

    That is ``called`` of ``n`` as ``share``, with its 95 % Wilson interval ``low``, ``high``, in which conversations
    with the same opening, the ``clusters``, count as fewer. The share of fewer than ``FEW`` conversations is None.
    """
    n, positives = len(called), sum(called)
    if not n:
        return None
    if n < FEW:
        return {"called": positives, "n": n} | _figures(None)
    effect = design_effect(np.asarray(called, dtype=float), clusters)
    low, high = wilson(round(positives / effect), round(n / effect))
    return {"called": positives, "n": n} | _figures(positives / n, low, high)


def _figures(share: float | None, low: float | None = None, high: float | None = None) -> Figures:
    values = {"share": share, "low": low, "high": high}
    return {name: value if value is None else round(float(value), 5) for name, value in values.items()}


def design_effect(values: np.ndarray, clusters: Sequence[str]) -> float:
    """How many times larger the variance of the mean is than with independent values; 1 at least."""
    n, mean, variance = len(values), values.mean(), values.var()
    _, index = np.unique(np.asarray(clusters), return_inverse=True)
    groups = index.max() + 1
    if groups == 1:  # as if all were one: other openings may give anything
        return float(n)
    if groups == n or variance < 1e-12:
        return 1.0
    residuals = np.bincount(index, weights=values - mean)
    clustered = (residuals**2).sum() / n**2 * groups / (groups - 1)
    return float(np.clip(clustered / (variance / n), 1.0, n))


def estimate(called: Sequence[bool], clusters: Sequence[str], accuracy: Accuracy, *, own: bool) -> Figures:
    """Estimates the share of true contradictions, from what the detector called and how often it is right.

    If the accuracy was measured on a sample of these conversations, its ``own``, the estimate is that of double
    sampling (Tenenbein, 1970), otherwise that of Rogan and Gladen (1978), by sensitivity and specificity. The interval
    comes from a parametric bootstrap: what was counted is drawn again and again from what the counts leave open (Beta
    distributions with Jeffreys' prior, for which 0 of 50 does not mean never). ``clusters`` are the openings.

    Returns:
        ``share`` with its 95 % interval ``low``, ``high``; None if it cannot be estimated, and ``why``.
    """
    chance, n, positives = np.random.default_rng(0), len(called), sum(called)
    if n < FEW:
        return _figures(None) | {"why": f"there are fewer than {FEW} conversations"}
    effect = design_effect(np.asarray(called, dtype=float), clusters)
    hits, alarms = accuracy.hits, accuracy.alarms
    misses, rejections = accuracy.contradictions - hits, accuracy.others - alarms
    # Contradictions and others among the called, and among the rest; or called and not among contradictions and others.
    first, second = ((hits, alarms), (misses, rejections)) if own else ((hits, misses), (alarms, rejections))
    if not (sum(first) and sum(second)):
        return _figures(None) | {"why": ONE_SIDED}

    def corrected(rate: Any, one: Any, other: Any) -> Any:
        return rate * one + (1 - rate) * other if own else (rate - other) / np.maximum(one - other, 1e-9)

    drawn_rate = _draw(positives / effect, (n - positives) / effect, chance)
    drawn = corrected(drawn_rate, _draw(*first, chance), _draw(*second, chance))
    if min(np.mean(drawn >= 0), np.mean(drawn <= 1)) < IMPOSSIBLE:  # never where ``own``
        return _figures(None) | {"why": MISFIT}
    low, high = np.percentile(np.clip(drawn, 0, 1), BOUNDS)
    if high - low > WIDEST:
        return _figures(None) | {"why": TOO_WIDE}
    point = corrected(positives / n, first[0] / sum(first), second[0] / sum(second))
    return _figures(np.clip(point, 0, 1), low, high) | {"why": None}


def _draw(part: float, rest: float, chance: np.random.Generator) -> np.ndarray:
    return chance.beta(part + 0.5, rest + 0.5, DRAWS)


def compare(first: Sequence[bool], second: Sequence[bool], clusters: Sequence[str]) -> Figures | None:
    """Compares two bots by whether each was called a contradiction after the same probes; None without probes.

    Returns:
        ``n`` pairs; in ``only_first`` and ``only_second`` of them only this bot was called. ``share`` is the share of
        the second bot minus that of the first, with its 95 % interval ``low``, ``high`` (Agresti and Min, 2005), in
        which pairs with the same opening, the ``clusters``, count as fewer. ``p_value`` is two-sided, of McNemar's
        exact test over openings. Both are None for fewer than ``FEW`` pairs.
    """
    from scipy.stats import binomtest

    n, changes = len(first), np.subtract(second, first, dtype=float)
    if not n:
        return None
    only_first, only_second = int((changes < 0).sum()), int((changes > 0).sum())
    counts = {"n": n, "only_first": only_first, "only_second": only_second}
    if n < FEW:
        return counts | _figures(None) | {"p_value": None}
    effect = design_effect(changes, clusters)
    lost, won, pairs = only_first / effect + 0.5, only_second / effect + 0.5, n / effect + 2
    centre = (won - lost) / pairs
    width = 1.96 * np.sqrt((won + lost) / pairs - centre**2) / np.sqrt(pairs)
    low, high = np.clip([centre - width, centre + width], -1, 1)
    _, index = np.unique(np.asarray(clusters), return_inverse=True)
    sums = np.bincount(index, weights=changes)
    changed = int((sums != 0).sum())
    p_value = float(binomtest(int((sums > 0).sum()), changed).pvalue) if changed else 1.0
    return counts | _figures(changes.mean(), low, high) | {"p_value": round(p_value, 5)}
