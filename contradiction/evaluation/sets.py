"""What a detector is evaluated on: rows of a data repo, of a corpus, of labelled chats, or rows in memory."""

import hashlib
import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from contradiction.chats.names import USUAL, Speakers
from contradiction.conversation import alternating, read_message
from contradiction.data import corpora, labelled
from contradiction.data.corpora import (
    PAIRS,
    Config,
    Corpus,
    Row,
    crossed,
    find_files,
    local_splits,
    read_split,
    source_of,
)
from contradiction.data.splits import (
    SPLITS,
    Data,
    check_columns,
    config_of,
    fingerprint,
    load_labelled_split,
    load_split,
    name_if_known,
)
from contradiction.data.splits import labelled as with_label
from contradiction.errors import InputError, kind_of, shown
from contradiction.inputs.views import CONVERSATION
from contradiction.labels import CHECKLISTS, CONFIGS, CROSSED_CONFIGS, LABELS, task_of, task_of_labels
from contradiction.training import leakage

if TYPE_CHECKING:
    from datasets import Dataset

# A data repo by its folder or Hub id, a corpus by its name, a file of labelled chats, or rows in memory.
Source: TypeAlias = "Data | Dataset | Sequence[Row | Mapping[str, Any]]"
TRAIN, TEST = "train", "test"
VERDICT_KEYS = ("certainty", "checked", "score")  # what `cdconv detect` writes has them beside the label
IN_MEMORY = "rows in memory"
MOST_PARTS = 40  # the most values of a column for which figures are given


@dataclass(frozen=True)
class EvalSet:
    """Labelled rows of one config and split.

    Attributes:
        task: the key of ``LABELS`` with their labels.
        data: a digest of the rows; tables compare evaluations of equal rows alone.
        data_name: the name of the data set; None where it is not known.
        as_chats: whether a row is judged as a chat of any length, as verdicts are, and not as two turns or texts.
        parts: the columns in ``extra`` by whose values figures are also given.
        train: returns the training rows of the same config, to which baselines are fitted; empty where there are none.
        leak: returns in words how the record of a model shows that it knows these rows; None if it does not.
    """

    config: str
    split: str
    task: str
    rows: Sequence[Row]
    data: str
    data_name: str | None = None
    as_chats: bool = False
    parts: Sequence[str] = ()
    train: Callable[[], Sequence[Row]] = field(default=lambda: [])
    leak: Callable[[Mapping[str, Any]], str | None] = field(default=lambda run: None)

    def groups(self) -> dict[str, dict[str, list[int]]]:
        """The row numbers by column and value, of the columns with two values and more, and not too many."""
        found: dict[str, dict[str, list[int]]] = {}
        for column in self.parts:
            values: dict[str, list[int]] = {}
            for number, row in enumerate(self.rows):
                if row.extra.get(column) is not None:
                    values.setdefault(str(row.extra[column]), []).append(number)
            if 1 < len(values) <= MOST_PARTS:
                found[column] = dict(sorted(values.items()))
        return found


def load(
    source: Source,
    config: str | None = None,
    split: str | None = None,
    *,
    own_config: str = "4-class",
    task: str | None = None,
    columns: Iterable[str] = (),
    limit: int | None = None,
    copy: str | Path | None = None,
    speakers: Speakers = USUAL,
) -> EvalSet:
    """Reads what an evaluation was given.

    Args:
        source: the folder or the Hub id of a data repo, the name of a corpus, the folder of a corpus that has its name,
            a file of labelled chats, or rows in memory: a ``Dataset``, several by split, or a list of ``Row`` or of
            dicts as in a file of labelled chats.
        config: by default that of the class labels of a ``Dataset``, ``own_config`` of a data repo, and of a corpus the
            first one with the labels of ``task``, or else with those of any task.
        split: by default test; all chats of a file; of a corpus the first of test, validation and the others that has
            labels.
        own_config: the config that the detector was trained on.
        task: the task of the detector.
        columns: the columns that the detector reads.
        limit: about how many rows are read; rows of one source stay together.
        copy: the local copy of a corpus: its folder or one of its files; by default in ``$CDCONV_CORPORA``.
        speakers: the names of speakers in a file of labelled chats.

    Raises:
        InputError: there is no such data, config or split, or a row is not valid or has no label.
    """
    from datasets import Dataset

    if isinstance(source, Dataset):
        own = str(source.split or "").partition("[")[0]  # of test[:5]
        if own in SPLITS and source.info.config_name in CONFIGS:
            split = own
        split = split or TEST
        config, source = config or config_of(source), {split: source}
    if config in CROSSED_CONFIGS and isinstance(source, str | Path):
        source = config
    corpus = _corpus_of(source, copy) if isinstance(source, str | Path) else None
    if copy is not None and not corpus:
        raise InputError(f"--data {copy}: {source} is no corpus that has a local copy; name the data once")
    if isinstance(source, str | Path) and Path(source).is_file():
        if config:
            raise InputError(f"{source}: a file of labelled chats has no configs; leave --config out")
        found = _of_file(source, split or labelled.WHOLE, speakers)
    elif isinstance(source, str | Path) and corpus:
        local = source if copy is None and Path(source).is_dir() else copy
        found = _of_corpus(corpus, local, config, task, split)
    elif isinstance(source, str | Path | Mapping):
        found = _of_data(source, config or own_config, split or TEST, columns)
    else:
        found = _of_list(source)
    return found if limit is None or len(found.rows) <= limit else _spread(found, limit)


def _corpus_of(source: str | Path, copy: str | Path | None) -> Corpus | None:
    """The corpus of a name, or of a folder with its name; None for a data repo, unless the corpus has a ``copy``."""
    repo = copy is None and (Path(source) / "README.md").is_file()
    return None if repo else corpora.all_corpora().get(Path(source).name)


def _spread(evalset: EvalSet, limit: int) -> EvalSet:
    """About ``limit`` of the rows, taken evenly; whole sources are taken, so there may be more or fewer."""
    sources = list(dict.fromkeys(row.source or row.id for row in evalset.rows))
    wanted = max(1, round(limit * len(sources) / len(evalset.rows)))
    kept = {sources[index] for index in np.linspace(0, len(sources) - 1, wanted).round().astype(int)}
    rows = [row for row in evalset.rows if (row.source or row.id) in kept]
    return replace(evalset, rows=rows, data=_digest(rows))


def _digest(rows: Iterable[Row]) -> str:
    texts = [([*row.context], row.hypothesis, row.reply, row.label) for row in rows]
    return hashlib.sha256(repr(texts).encode()).hexdigest()[:16]


def _of_data(data: Data, config: str, split: str, columns: Iterable[str]) -> EvalSet:
    dataset = load_labelled_split(data, config, split)
    as_chats = "messages" in dataset.column_names
    if not as_chats:
        check_columns(dataset, columns, "the detector")
    name = name_if_known(data)

    def leak(run: Mapping[str, Any]) -> str | None:
        return leakage.describe_leakage(run, config, split, name) or leakage.describe_calibration(run, name)

    def train() -> list[Row]:
        if split == TRAIN or as_chats:
            return []
        return rows_of(with_label(load_split(data, config, TRAIN)))

    parts = ("inserted", "form", "origin") if config in CHECKLISTS else ()
    rows, digest = rows_of(dataset), fingerprint(dataset)
    return EvalSet(config, split, task_of(config), rows, digest, name, as_chats, parts, train, leak)


def rows_of(dataset: "Dataset") -> list[Row]:
    """The rows of a data set with the columns of CDConv, of the checklists, of the crossed chats or of pairs."""
    names = {name: column.names for name, column in dataset.features.items() if getattr(column, "names", None)}
    rows = []
    for values in dataset.to_list():
        values |= {name: labels[values[name]] for name, labels in names.items() if values.get(name) is not None}
        rows.append(_row(values))
    return rows


def _row(values: Mapping[str, Any]) -> Row:
    """The row of the columns of one of the data sets; further columns are its extras."""
    evidence = values.get("evidence")
    if isinstance(evidence, int):  # the crossed chats have one index
        evidence = [evidence]
    common: dict[str, Any] = {"id": values["id"], "label": values["label"], "extra": values}
    if "messages" in values:
        messages = list(values["messages"])
        reply = values.get("reply")
        if reply is None:
            reply = read_message(messages.pop(), "the reply").text
        source = values.get("source") or values.get("item") or (str(values["id"]) if "inserted" in values else None)
        return Row(
            **common, messages=tuple(messages), reply=reply, source=source,
            evidence=None if evidence is None else tuple(evidence),
        )  # fmt: skip
    if "hypothesis" in values:
        return Row(
            **common, premise=values.get("premise", ""), hypothesis=values["hypothesis"], source=values.get("source")
        )
    if "chat" in values and "reply" in values:
        return Row(**common, premise=values["chat"], hypothesis=values["reply"], source=values.get("source"))
    return Row(
        **common, messages=tuple(alternating(values.get(name) or "" for name in CONVERSATION[:-1])),
        reply=values.get(CONVERSATION[-1]) or "",
    )  # fmt: skip


def _of_corpus(
    corpus: Corpus, copy: str | Path | None, config: str | None, wanted: str | None, split: str | None
) -> EvalSet:
    """The rows of a config, by default the first one with the labels of the task ``wanted``, or else of any task."""
    place = source_of(corpus, copy)
    tasks = {one.name: own for one in corpus.configs if (own := task_of_labels(one.labels)) in LABELS}
    chosen = corpus.config(config or next((name for name, own in tasks.items() if own == wanted), next(iter(tasks))))
    if chosen.name not in tasks:
        raise InputError(
            f"{corpus.name}: the labels of {chosen.name} ({', '.join(chosen.labels)}) are those of no task; take "
            f"--config {' or '.join(tasks)}"
        )
    here = [name for found, name in local_splits(corpus, place) if found is chosen]
    order = {TEST: 0, "validation": 1, TRAIN: 3}
    splits = [split] if split else sorted(here, key=lambda name: order.get(name, 2)) or [TEST]
    for name in splits:
        rows = [row for row in read_split(corpus, place, chosen.name, name).rows if row.label is not None]
        if rows:
            break
    else:
        raise InputError(f"{place}: no row of {', '.join(splits)} has a label")
    parts = [key for key, kind in chosen.extra.items() if kind == "string" and key not in ("batch", *crossed.CLAUSES)]
    if batches := crossed.batches(place) if place in crossed.FOLDERS.values() else None:
        rows = [replace(row, extra={"style": batches[row.extra["batch"]].style, **row.extra}) for row in rows]
        parts = ["style", *parts]

    def leak(run: Mapping[str, Any]) -> str | None:
        return leakage.describe_crossed(run, name) if batches else None

    title = chosen.name if corpus.bundled else f"{corpus.name}, {chosen.name}"
    return EvalSet(
        title, name, str(tasks[chosen.name]), rows, _digest(rows), corpus.title, as_chats=chosen.shape != PAIRS,
        parts=parts, train=lambda: _training_rows(corpus, chosen, place, name), leak=leak,
    )  # fmt: skip


def _training_rows(corpus: Corpus, config: Config, place: Path, split: str) -> list[Row]:
    """The labelled training rows of a config, or the training pairs of its corpus; none if the split is training."""
    pairs = next((other for other in corpus.configs if other.shape == PAIRS), config)
    for chosen in (config, pairs) if split != TRAIN else ():
        if (chosen.shape == PAIRS or chosen.labels == LABELS["response"]) and find_files(chosen, TRAIN, place):
            rows = read_split(corpus, place, chosen.name, TRAIN).rows
            return [row for row in rows if row.label is not None]
    return []


def _of_file(path: str | Path, split: str, speakers: Speakers) -> EvalSet:
    with Path(path).open(encoding="utf-8", errors="replace") as lines:
        _check_no_verdict(re.findall(r'"(\w+)"\s*:', lines.readline()), f"{path}:1")
    every = labelled.read(path, speakers)
    chats = labelled.of_split(every, path, split)
    places = {id(chat): place for place, chat in enumerate(every, start=1)}
    rows = [
        _row({
            "id": places[id(chat)], "messages": chat.messages, "label": chat.label, "evidence": chat.evidence,
            "chat": chat.id,
        })
        for chat in chats
    ]  # fmt: skip
    task, name = labelled.task_of(every), labelled.name_of_file(path)
    return EvalSet(
        task, split, task, rows, _digest(rows), name, as_chats=True,
        leak=lambda run: leakage.describe_chats(run, name, split),
    )  # fmt: skip


def _of_list(values: object) -> EvalSet:
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise InputError(f"data is {kind_of(values)}; it must be a path, a corpus, a Dataset or a list of rows")
    rows = [_of_value(value, number) for number, value in enumerate(values, start=1)]
    known = [task for task, labels in LABELS.items() if {row.label for row in rows} <= {*labels}]
    if not rows or not known:
        raise InputError(f"{IN_MEMORY}: {'there are none' if not rows else 'their labels are those of no task'}")
    as_chats = not any(row.hypothesis for row in rows)
    return EvalSet(known[0], labelled.WHOLE, known[0], rows, _digest(rows), as_chats=as_chats)


def _of_value(value: object, number: int) -> Row:
    if isinstance(value, Row):
        return value
    chat = value.get("messages") if isinstance(value, Mapping) else None
    is_chat = isinstance(chat, list | tuple) and len(chat) > 0
    if (
        not isinstance(value, Mapping)
        or not isinstance(value.get("label"), str)
        or not (is_chat or {*CONVERSATION} <= value.keys())
    ):
        wanted = '{"messages": [...], "label": ...}, or have u1 to b2'
        raise InputError(f"{IN_MEMORY}: row {number} is {shown(value)}; it must be {wanted}")
    _check_no_verdict(value, f"{IN_MEMORY}: row {number}")
    return _row({"id": number, **value})


def _check_no_verdict(keys: Container[object], where: str) -> None:
    if all(key in keys for key in VERDICT_KEYS):
        raise InputError(f"{where}: its label is a detector's verdict; label chats by hand, as by `cdconv review`")
