"""Finds the raw file and builds the data repo: Parquet for every config and split, and a card made from the data."""

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

from contradiction import cdconv
from contradiction.data import checklists, statistics
from contradiction.data.corpora import crossed
from contradiction.data.splits import CHINESE, both_splits, data_card, name_of, write_splits
from contradiction.errors import InputError
from contradiction.io.environment import no_data_bars
from contradiction.io.files import new_folder
from contradiction.io.tables import Table, percent, render
from contradiction.labels import CHECKLISTS, CROSSED_CONFIGS, EMBEDDED, LABELS, RELEASE
from contradiction.paths import SAMPLE

if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict, DatasetInfo
    from datasets.info import DatasetInfosDict
    from huggingface_hub import DatasetCard


@dataclass(frozen=True)
class Source:
    """A verified raw file, of the kind ``release`` (byte for byte the published one), ``sample`` or ``custom``."""

    path: Path
    kind: str


def find(source: str | None = None) -> Source:
    """Finds and verifies the raw file.

    Args:
        source: a file, or ``sample``. By default it is ``$CDCONV_FILE`` or else the pinned URL, and the file must then
            be the release, byte for byte.

    Raises:
        InputError: there is no such file, or the release cannot be fetched.
        cdconv.InvalidSourceError: a row is not valid.
        cdconv.NonMatchingChecksumError: the file must be the release and is not.
    """
    if source == "sample":
        return Source(SAMPLE, "sample")
    location = source or os.environ.get("CDCONV_FILE")
    if location and not Path(location).is_file():
        origin = "" if source else " (from $CDCONV_FILE)"
        raise InputError(f"{location}{origin}: no such file; a source is a raw file of CDConv, or 'sample'")
    path = Path(location) if location else _download()
    try:
        # Rows first, because their errors are more precise than a wrong checksum.
        cdconv.read_rows(path)
        if source is None:
            cdconv.verify_checksum(path)
    except (cdconv.InvalidSourceError, cdconv.NonMatchingChecksumError):
        if not location:
            path.unlink()  # otherwise the bad download would stay in the cache
        raise
    return Source(path, "release" if cdconv.sha256(path) == cdconv.SHA256 else "custom")


def _download() -> Path:
    from aiohttp import ClientError
    from datasets import DownloadManager

    try:
        with no_data_bars():
            return Path(DownloadManager(dataset_name="cdconv").download(cdconv.URL))
    except (OSError, ValueError, RuntimeError, ClientError) as error:
        raise InputError(
            f"the raw file can neither be found ($CDCONV_FILE is not set) nor fetched from {cdconv.URL} "
            f"({type(error).__name__}); --source names a file, --source sample takes the embedded sample"
        ) from error


SOURCE_CONFIGS = tuple(config.name for config in cdconv.CDConv.BUILDER_CONFIGS)
MARKER = ".cdconv"  # in a folder that a build wrote; another build replaces no other folder


def build(source: Source, out: str | Path, with_checklists: bool = False, baselines: Table | None = None) -> Path:
    """Writes the data repo that ``load_dataset(out, config)`` reads.

    The folder gets its name once it is complete, and replaces an earlier data repo. ``baselines`` are the scores on the
    released file, for the card.

    Raises:
        InputError: as :func:`check_out` raises it, or the source is too small for checklists.
    """
    from datasets.info import DatasetInfosDict

    out = Path(out)
    check_out(source, out)
    # The cache is inside, so that nothing of it is left if the process is killed.
    with no_data_bars(), new_folder(out) as folder, tempfile.TemporaryDirectory(prefix=".", dir=folder) as cache:
        infos, files, own = DatasetInfosDict(), {}, {}
        for config in SOURCE_CONFIGS:
            builder = _prepared(config, source, cache)
            own[config] = builder.as_dataset(in_memory=True)  # the cache is removed at the end
            files[config] = write_splits(folder, config, own[config])
            infos[config] = builder.info
        changed = checklists.build(both_splits(cdconv.read_rows(source.path))) if with_checklists else {}
        with_turns = {name: {checklists.SPLIT: rows} for name, rows in changed.items()}
        quadruples = {name: crossed.read_all(folder) for name, folder in crossed.FOLDERS.items()}
        crossed_chats = {name: crossed_splits(items) for name, items in quadruples.items()}
        for name, splits in {**with_turns, **crossed_chats}.items():
            files[name] = write_splits(folder, name, splits)
            infos[name] = _info(splits)
        for name, info in infos.items():
            info.download_size = sum(file.stat().st_size for file in (folder / name).iterdir())
        sizes = {name: crossed_table(items, name) for name, items in quadruples.items()}
        card = data_set_card(source, infos, files, own, with_turns, sizes, baselines)
        card.save(folder / "README.md")
        (folder / MARKER).write_text("`cdconv data build` wrote this folder, and may replace it.\n", encoding="utf-8")
    return out


def check_out(source: Source, out: Path) -> None:
    """Raises InputError unless the folder is new, empty, or a data repo that a source of this kind may replace."""
    if out.exists() and not _replaceable(out):
        raise InputError(f"{out}: not a data repo, so it will not be replaced; name a new folder")
    if source.kind == "sample" and (out / "README.md").is_file() and (name := name_of(out)) != EMBEDDED:
        raise InputError(
            f"{out}: holds {name!r}, which the sample does not replace; --out names another folder, for instance "
            f"--out {out}-sample"
        )


def _prepared(config: str, source: Source, cache: str) -> cdconv.CDConv:
    """The builder of a config, once it has read the source."""
    from datasets.exceptions import DatasetsError

    builder = cdconv.CDConv(cache_dir=cache, config_name=config, source=str(source.path))
    try:
        builder.download_and_prepare()
    except DatasetsError as error:
        if isinstance(error.__cause__, OSError):  # for instance a full disk
            raise error.__cause__ from None
        raise
    return builder


def _info(splits: "Mapping[str, Dataset]") -> "DatasetInfo":
    """The information that the builder writes for its configs, for rows of other origin."""
    from datasets import SplitDict, SplitInfo

    info = next(iter(splits.values())).info.copy()
    info.splits = SplitDict(
        {name: SplitInfo(name, num_bytes=rows.data.nbytes, num_examples=len(rows)) for name, rows in splits.items()}
    )
    info.dataset_size = sum(rows.data.nbytes for rows in splits.values())
    return info


def crossed_splits(items: Mapping[str, Sequence[crossed.Item]]) -> "DatasetDict":
    """The quadruples and pairs of each split of the crossed chats as a data set of judged replies.

    Columns: id, item (of the quadruple or pair), messages (list of role and content), reply, label (the classes of
    4-class), evidence (index of the contradicted message, or null), evidence_clause and reply_clause (text or null),
    phenomenon, inference (or null), batch.
    """
    import pyarrow as pa
    from datasets import ClassLabel, Dataset, DatasetDict, Features, List, Value

    text = Value("string")
    features = Features(
        id=text, item=text, messages=List({"role": text, "content": text}), reply=text,
        label=ClassLabel(names=list(LABELS["4-class"])), evidence=Value("int8"), evidence_clause=text,
        reply_clause=text, phenomenon=ClassLabel(names=list(crossed.PHENOMENA)), inference=Value("bool"), batch=text,
    )  # fmt: skip
    tables = {}
    for split, of_split in items.items():
        rows = [
            {"id": row.id, "item": row.source, "messages": row.messages, "reply": row.reply, "label": row.label,
             "evidence": row.evidence[0] if row.evidence else None, **row.extra}
            for item in of_split for row in item.judged()
        ]  # fmt: skip
        for name in ("label", "phenomenon"):
            numbers = features[name].str2int([row[name] for row in rows])
            for row, number in zip(rows, numbers, strict=True):
                row[name] = number
        # Arrow encodes the rows in a third of the time that `Dataset.from_list` takes.
        tables[split] = Dataset(pa.Table.from_pylist(rows, schema=features.arrow_schema))
    return DatasetDict(tables)


def crossed_table(splits: Mapping[str, Sequence[crossed.Item]], name: str) -> Table:
    """Batches, quadruples, pairs and judged replies of each split."""
    rows = []
    for split, items in splits.items():
        quadruples = [item for item in items if isinstance(item, crossed.Quadruple)]
        pairs = len(items) - len(quadruples)
        inferred = [item.inference for item in quadruples if item.inference is not None]
        rows.append(
            (
                split, str(len({item.batch for item in items})), f"{len(quadruples):,}", f"{pairs:,}",
                f"{4 * len(quadruples) + 2 * pairs:,}",
                percent(sum(inferred) / len(inferred), 0) if inferred else "",
            )
        )  # fmt: skip
    header = ("split", "batches", "quadruples", "pairs", "judged replies", "inferred, % of quadruples")
    return Table(f"The corpus {name}", header, rows)


def _replaceable(path: Path) -> bool:
    """Whether a path is a folder that is empty, or that holds what a build wrote and nothing else."""
    if not path.is_dir():
        return False
    inside = {file.relative_to(path).as_posix() for file in path.rglob("*") if not file.is_dir()}
    configs = (*SOURCE_CONFIGS, *CHECKLISTS, *CROSSED_CONFIGS)
    patterns = [MARKER, "README.md", *(f"{config}/*.parquet" for config in configs)]
    return not inside or (MARKER in inside and all(any(fnmatch(name, own) for own in patterns) for name in inside))


# By the kind of the source: name, licence of its rows, who wrote and who labelled them, in the Hub's words. The
# crossed chats in the same repo add their own: a language model wrote and labelled them.
BY_MACHINE, OTHERWISE = "machine-generated", "other"
ORIGINS = {
    "release": (RELEASE, cdconv.LICENSE, (BY_MACHINE, OTHERWISE), OTHERWISE),
    "sample": (EMBEDDED, crossed.CORPUS.license, (BY_MACHINE,), BY_MACHINE),
    "custom": ("CDConv, from a file of your own", "unknown", (OTHERWISE,), OTHERWISE),
}
# Good examples of the categories, as lines of the released file; the first and the last share their context.
EXAMPLES = (275, 1617, 3936, 274)


def data_set_card(
    source: Source,
    infos: "DatasetInfosDict",
    files: Mapping[str, Mapping[str, str]],
    own: "Mapping[str, Mapping[str, Dataset]]",
    with_turns: "Mapping[str, Mapping[str, Dataset]]",
    crossed_sizes: Mapping[str, Table],
    baselines: Table | None,
) -> "DatasetCard":
    """The card of a data repo; every number in it is counted from the source, or is in ``baselines``.

    The arguments map each config to its information, and to its files, its rows, those of a checklist, each by split,
    and to its sizes. Only the card of the released file shows the baselines.
    """
    from huggingface_hub import DatasetCard, DatasetCardData

    rows = cdconv.read_rows(source.path)
    name, licence, writers, annotators = ORIGINS[source.kind]
    data = DatasetCardData(
        pretty_name=name,
        annotations_creators=list(dict.fromkeys((annotators, BY_MACHINE))),
        language_creators=list(dict.fromkeys((*writers, BY_MACHINE))),
        language=list(dict.fromkeys((CHINESE, *crossed.ENGLISH.languages))),
        license=list(dict.fromkeys((licence, crossed.CORPUS.license))),
        multilinguality=["multilingual"],
        size_categories=["100K<n<1M"],  # the crossed chats alone are more than 100,000 replies
        task_categories=["text-classification"],
        task_ids=["natural-language-inference"],
        tags=["dialogue", "contradiction-detection", "consistency", "synthetic"],
        source_datasets=["original"],
    )
    infos.to_dataset_card_data(data)
    examples = _examples(rows, source.kind)
    label, last = examples[-1]
    body = render(
        "data_set_card.md",
        source=source,
        release={"url": cdconv.URL, "sha256": cdconv.SHA256, "homepage": cdconv.HOMEPAGE},
        rows=len(rows),
        examples=examples,
        shown=json.dumps(
            {key: value for key, value in last.items() if key != "persona"} | {"label": label}, ensure_ascii=False
        ),
        splits=statistics.sizes(own),
        leaks=statistics.leaks(both_splits(rows)),
        checklists=statistics.sizes(with_turns, "Checklists") if with_turns else None,
        crossed=crossed_sizes,
        crossed_rows=sum(
            split.num_examples for name in CROSSED_CONFIGS for split in (infos[name].splits or {}).values()
        ),
        tables=statistics.table3(rows),
        baselines=baselines if source.kind == "release" else None,
        citation=cdconv.CITATION,
    )
    return DatasetCard(data_card(data, files, body, cdconv.CDConv.DEFAULT_CONFIG_NAME))


def _examples(rows: list[cdconv.Row], kind: str) -> list[tuple[str, cdconv.Row]]:
    """A row for each category, with its label name: good examples of the release, otherwise the first rows."""
    labels = [row["label"] for row in rows]
    chosen = EXAMPLES if kind == "release" else [labels.index(label) + 1 for label in sorted(set(labels))]
    return [(LABELS["4-class"][labels[number - 1]], rows[number - 1]) for number in chosen]
