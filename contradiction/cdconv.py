"""CDConv, the benchmark of contradictions in Chinese conversations, as a `datasets` builder.

The raw file (JSON lines, 11,660 two-turn conversations ``u1 b1 u2 b2``) becomes six configs: ``2-class``, ``4-class``
(the default) and ``persona`` on the authors' split, and a ``-grouped`` twin of each whose splits share no ``u1``.

This one file has three uses: it writes the Parquet repo that people load, it can be instantiated in Python
(``CDConv(config_name="4-class")``), and on `datasets` 2 and 3 it runs as a loading script; for that, ``cdconv.py`` in
the root of the repository is a link to it. It therefore imports nothing of this project, and one module per line, as
the parser of loading scripts expects.
"""

import hashlib
import json
import os
import random
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
from datasets.exceptions import DatasetsError

COMMIT = "2e88d215b2986a3719f9f63508e10a2e0fe72bfe"
URL = f"https://raw.githubusercontent.com/thu-coai/CDConv/{COMMIT}/cdconv.txt"
SHA256 = "ed8fe0ddb40afb36f9e19ea64c3eee7c319a22230a5b65444af44e8bbb122aab"
HOMEPAGE = "https://github.com/thu-coai/CDConv"
LICENSE = "cc-by-nc-4.0"
VERSION = datasets.Version("1.0.0")
DESCRIPTION = (
    "11,660 two-turn Chinese conversations between a user and a chatbot, each labelled with whether the bot's last "
    "reply contradicts itself, confuses the roles, or contradicts the history."
)
CITATION = """\
@inproceedings{zheng-etal-2022-cdconv,
    title = "{CDC}onv: A Benchmark for Contradiction Detection in {C}hinese Conversations",
    author = "Zheng, Chujie and Zhou, Jinfeng and Zheng, Yinhe and Peng, Libiao and Guo, Zhen and Wu, Wenquan and
      Niu, Zheng-Yu and Wu, Hua and Huang, Minlie",
    booktitle = "Proceedings of the 2022 Conference on Empirical Methods in Natural Language Processing",
    year = "2022",
    publisher = "Association for Computational Linguistics",
    pages = "18--29",
    url = "https://aclanthology.org/2022.emnlp-main.2",
}"""

# The names of each config's labels. For 4-class and persona the position is the integer of the raw file.
LABELS = {
    "2-class": ("non-contradiction", "contradiction"),
    "4-class": ("non-contradiction", "intra-sentence", "role-confusion", "history"),
    "persona": ("unrelated", "attributes", "opinions", "experiences"),
}
NON_CONTRADICTION = LABELS["4-class"].index("non-contradiction")
HISTORY = LABELS["4-class"].index("history")

# Raw value -> published name. Triggers (how u2 was made) carry the names of the paper, section 4.2.
TRIGGERS = {
    "短句": "short",
    "设问-bot": "inquiring-bot",
    "设问-user": "inquiring-user",
    "设问-user-v2": "inquiring-user-m",
    "同义-回译": "paraphrasing",
    "同义-同义词": "perturb-synonym",
    "反义-反义词": "perturb-antonym",
    "反义-否定词": "perturb-negative",
}
BATCHES = {"1st": 1, "2nd4": 2, "3rd": 3, "4nd": 4, "5nd": 5}
BOTS = ("eva", "plato")
UTTERANCES = ("u1", "b1", "u2", "b2")

# Column of the raw file -> the values that it may take (None: any text that is not blank).
COLUMNS: Mapping[str, Sequence[str | int] | None] = {
    "file": tuple(BATCHES),
    "model": BOTS,
    "method": tuple(TRIGGERS),
    **dict.fromkeys(UTTERANCES),
    "label": tuple(range(len(LABELS["4-class"]))),
}
PERSONAS = tuple(range(len(LABELS["persona"])))

Row = dict[str, Any]


class InvalidSourceError(DatasetsError, ValueError):
    """The source is not in the raw format of CDConv; the message names the place and what would be right."""


class NonMatchingChecksumError(DatasetsError, ValueError):
    """The source claims to be the released file but its SHA-256 is another."""


def read_rows(path: str | Path) -> list[Row]:
    """Reads and verifies a raw file.

    Args:
        path: JSON lines with the keys file, model, method, u1, b1, u2, b2, label and, where the label is 3, persona.

    Returns:
        One dict a line: id (the line's number, from 1), u1, b1, u2, b2, label (0-3), persona (0-3, or None), trigger,
        bot, batch (1-5).

    Raises:
        InvalidSourceError: a line is not valid; the message gives ``file:line``, the column, its value, and what is
            allowed.
    """
    return [dict(row) for row in _read_rows(Path(path), Path(path).read_bytes())]


@lru_cache(maxsize=1)  # a build reads the same file for each config
def _read_rows(path: Path, content: bytes) -> list[Row]:
    lines = content.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    if len(lines) < 5:
        raise InvalidSourceError(f"{path}: {len(lines)} lines; at least 5 are needed to make three splits of 60/20/20")
    return [_read_row(line, number, f"{path}:{number}") for number, line in enumerate(lines, start=1)]


def _read_row(line: bytes, number: int, where: str) -> Row:
    try:
        raw = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError) as error:  # bad UTF-8, bad JSON, JSON nested too deeply
        raise InvalidSourceError(f"{where}: not a line of UTF-8 JSON ({error})") from None
    if not isinstance(raw, dict):
        raise InvalidSourceError(f"{where}: got a {type(raw).__name__}; a line is one JSON object")
    allowed = {**COLUMNS, **({"persona": PERSONAS} if raw.get("label") == HISTORY else {})}
    if wrong := [column for column in (*allowed, *raw) if column not in raw or column not in allowed]:
        raise InvalidSourceError(
            f"{where}: column {wrong[0]!r} is missing, or there is no such column; a row has {', '.join(allowed)}"
        )
    for column, value in raw.items():
        if not _is_allowed(value, allowed[column]):
            values = ", ".join(map(repr, allowed[column] or ())) or "texts that are not blank, without lone surrogates"
            raise InvalidSourceError(f"{where}: column {column!r} is {value!r}; allowed are {values}")
    return {
        "id": number,
        **{column: raw[column] for column in UTTERANCES},
        "label": raw["label"],
        "persona": raw.get("persona"),
        "trigger": TRIGGERS[raw["method"]],
        "bot": raw["model"],
        "batch": BATCHES[raw["file"]],
    }


def _is_allowed(value: object, allowed: Sequence[str | int] | None) -> bool:
    if allowed is None:
        return (
            isinstance(value, str) and bool(value.strip()) and not any("\ud800" <= char <= "\udfff" for char in value)
        )
    # The type counts as well: in Python True == 1 and 1.0 == 1.
    return any(value == one and type(value) is type(one) for one in allowed)


def label_of(row: Row, task: str) -> int | None:
    """The class id of a row in a task; None where the row is no part of it (persona: all but history)."""
    if task == "2-class":
        return int(row["label"] != NON_CONTRADICTION)
    return row["label"] if task == "4-class" else row["persona"]


def official_split(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """The authors' split, in the authors' order: 60/20/20 after a shuffle with seed 13.

    It leaks: most contexts of the test split are also in the training split. See :func:`grouped_split`.
    """
    rows = list(rows)
    random.Random(13).shuffle(rows)
    size = int(0.2 * len(rows))
    return {"train": rows[2 * size :], "validation": rows[:size], "test": rows[size : 2 * size]}


def grouped_split(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """A split in which no ``u1`` is in two parts: 60/20/20, rows in the order of the file.

    Stratified by category and persona as far as the groups allow (scikit-learn's ``StratifiedGroupKFold``, five folds,
    seed 13: the first is the test split, the second the validation split). Deterministic for one set of rows.

    Raises:
        InvalidSourceError: there are too few rows or distinct ``u1`` for five folds.
    """
    strata = tuple(f"{row['label']}-{row['persona']}" for row in rows)
    sides = _grouped_indices(strata, tuple(row["u1"] for row in rows))
    return {name: [rows[index] for index in chosen] for name, chosen in sides.items()}


@lru_cache(maxsize=4)  # a build asks for the same split for each config
def _grouped_indices(strata: tuple[str, ...], groups: tuple[str, ...]) -> Mapping[str, Sequence[int]]:
    """The indices of the rows of each split: strata are spread evenly, and rows of one group are in one split."""
    import numpy as np
    from sklearn.model_selection import StratifiedGroupKFold

    folds = StratifiedGroupKFold(n_splits=5, shuffle=True, random_state=13)
    try:
        indices = [test for _, test in folds.split(np.zeros(len(groups)), strata, groups)]
    except ValueError as error:
        raise InvalidSourceError(
            f"{len(groups)} rows with {len(set(groups))} distinct u1 are too few for the grouped split ({error})"
        ) from None
    return {"train": np.sort(np.concatenate(indices[2:])), "validation": indices[1], "test": indices[0]}


def sha256(path: str | Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def verify_checksum(path: str | Path) -> None:
    """Raises NonMatchingChecksumError unless the file is the released ``cdconv.txt``, byte for byte."""
    found = sha256(path)
    if found != SHA256:
        raise NonMatchingChecksumError(
            f"{path}: SHA-256 is {found}, but the released cdconv.txt has {SHA256}; the file is cut or changed. To "
            "build from a file of your own in the same format, name it as the source"
        )


@dataclass
class CDConvConfig(datasets.BuilderConfig):
    """What is predicted, how rows are split, and where they come from.

    Attributes:
        task: ``2-class``, ``4-class`` or ``persona``; persona holds the history contradictions only.
        grouped: whether the splits share no ``u1`` (else the authors' split).
        source: a file in the raw format. By default ``$CDCONV_FILE``, else the pinned URL; both must then be the
            released file, byte for byte.
    """

    task: str = "4-class"
    grouped: bool = False
    source: str | None = None


class CDConv(datasets.ArrowBasedBuilder):
    """Builds one config of CDConv from the raw file; see the module's docstring."""

    VERSION = VERSION
    BUILDER_CONFIG_CLASS = CDConvConfig
    BUILDER_CONFIGS = [
        CDConvConfig(name=task + ("-grouped" if grouped else ""), version=VERSION, task=task, grouped=grouped)
        for grouped in (False, True)
        for task in LABELS
    ]
    DEFAULT_CONFIG_NAME = "4-class"
    config: CDConvConfig

    def __init__(self, *args: Any, hash: str | None = None, **kwargs: Any) -> None:
        # The cache key of `datasets` holds neither the code nor the rows: without a digest of both, a changed source
        # would be answered with the old rows.
        source = kwargs.get("source") or os.environ.get("CDCONV_FILE")
        rows = sha256(source) if source and Path(source).is_file() else SHA256
        digest = hashlib.sha256(f"{hash} {sha256(__file__)} {rows}".encode()).hexdigest()
        super().__init__(*args, hash=digest[:32], **kwargs)

    def _info(self) -> datasets.DatasetInfo:
        return datasets.DatasetInfo(
            description=DESCRIPTION,
            citation=CITATION,
            homepage=HOMEPAGE,
            license=LICENSE,
            features=datasets.Features(
                {
                    "id": datasets.Value("int32"),
                    **{column: datasets.Value("string") for column in UTTERANCES},
                    "label": datasets.ClassLabel(names=list(LABELS[self.config.task])),
                    "trigger": datasets.ClassLabel(names=list(TRIGGERS.values())),
                    "bot": datasets.ClassLabel(names=list(BOTS)),
                    "batch": datasets.Value("int8"),
                }
            ),
        )

    def _split_generators(self, dl_manager: datasets.DownloadManager) -> list[datasets.SplitGenerator]:
        local = self.config.source or os.environ.get("CDCONV_FILE")
        if local and not Path(local).is_file():
            raise FileNotFoundError(f"{local}: no such file; the source is a file in the raw format of CDConv")
        path = local or dl_manager.download(URL)
        # Rows first: their errors say more than a checksum that does not match. All of it here rather than while rows
        # are generated, where `datasets` would wrap the error in one of its own.
        rows = read_rows(path)
        if self.config.source is None:
            verify_checksum(path)
        sides = grouped_split(rows) if self.config.grouped else official_split(rows)
        for name, side in sides.items():
            if all(label_of(row, self.config.task) is None for row in side):
                raise InvalidSourceError(
                    f"{path}: config {self.config.name!r} has no rows in its {name} split; every split of every config "
                    "needs one"
                )
        # A tuple, because lists are cut into shards.
        return [datasets.SplitGenerator(name=name, gen_kwargs={"rows": tuple(side)}) for name, side in sides.items()]

    def _generate_tables(self, rows: Sequence[Row]) -> Iterator[tuple[int, pa.Table]]:
        # Whole tables: encoding them row by row takes `datasets` most of the time of a build.
        features = self.info.features
        labels = [label_of(row, self.config.task) for row in rows]
        kept = [{**row, "label": label} for row, label in zip(rows, labels, strict=True) if label is not None]
        columns = {name: [row[name] for row in kept] for name in features}
        for name in ("trigger", "bot"):
            columns[name] = features[name].str2int(columns[name])
        yield 0, pa.Table.from_pydict(columns, schema=features.arrow_schema)
