"""Writes a corpus as a data repo: a Parquet file for each split, and a card."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from contradiction.data import statistics
from contradiction.data.corpora import (
    CHATS,
    PAIRS,
    WHOLE,
    Config,
    Corpus,
    Row,
    Split,
    local_splits,
    read_split,
    source_of,
)
from contradiction.data.splits import write_repo
from contradiction.errors import InputError
from contradiction.io.files import check_new
from contradiction.io.tables import Table

if TYPE_CHECKING:
    from datasets import Dataset, Features

Splits = dict[tuple[str, str], Split]
Configs = dict[str, dict[str, "Dataset"]]


def build(corpus: Corpus, source: str | Path | None, out: str | Path) -> tuple[Splits, Table]:
    """Writes the data repo that ``load_dataset(out, config)`` reads; returns its rows, and the table of their labels.

    The source is the folder of the corpus or one of its files; None for the local copy that is found without a name.

    Raises:
        InputError: the source has no file of the corpus, a line is not valid, or ``out`` exists.
    """
    from huggingface_hub import DatasetCardData

    out = Path(out)
    check_new(out)
    splits = read_all(corpus, source)
    configs: Configs = {}
    for (config, split), part in splits.items():
        configs.setdefault(config, {})[split] = to_dataset(corpus.config(config), part.rows)
    data = DatasetCardData(
        pretty_name=corpus.title, language=list(corpus.languages), license=corpus.license,
        task_categories=["text-classification"], tags=["contradiction-detection"],
    )  # fmt: skip
    sizes = statistics.sizes(configs)
    write_repo(out, configs, data, _card_text(corpus, splits, sizes))
    return splits, sizes


def read_all(corpus: Corpus, source: str | Path | None) -> Splits:
    """Every split that a local copy has files of; raises InputError if it has none."""
    splits = local_splits(corpus, source)
    if not splits:
        place = source_of(corpus, source)
        raise InputError(f"{place}: has no file of {corpus.name}; `cdconv corpora show {corpus.name}` names its files")
    return {(config.name, split): read_split(corpus, source, config.name, split) for config, split in splits}


def features_of(config: Config) -> "Features":
    """The columns of a config: id, the texts, evidence (chats only), label, source, and the config's own."""
    from datasets import ClassLabel, Features, List, Value

    text, label = Value("string"), ClassLabel(names=list(config.labels))
    texts: dict[str, Any] = {
        PAIRS: {"premise": text, "hypothesis": text},
        WHOLE: {"chat": text, "reply": text},
        CHATS: {"messages": List({"role": text, "content": text}), "reply": text},
    }[config.shape]
    evidence = {"evidence": List(Value("int32"))} if config.shape == CHATS else {}
    extra = {name: List(text) if kind == "strings" else Value(kind) for name, kind in config.extra.items()}
    return Features({"id": text, **texts, **evidence, "label": label, "source": text, **extra})


def to_dataset(config: Config, rows: list[Row]) -> "Dataset":
    """Rows as a data set; a label that is not published is null."""
    from datasets import Dataset

    features = features_of(config)

    def values(row: Row) -> dict[str, Any]:
        known = {**vars(row), **row.whole(), **dict.fromkeys(config.extra), **row.extra}
        return {name: known[name] for name in features}

    return Dataset.from_list([values(row) for row in rows], features=features)


def notes_of(corpus: Corpus, splits: Splits) -> list[str]:
    """The notes of the readers, the files with another checksum than the known one, and the splits without a file."""
    notes = [
        f"{config}/{split}: {count:,} {text}"
        for (config, split), part in splits.items()
        for text, count in part.notes.items()
    ]
    changed = sorted({name for part in splits.values() for name in part.changed})
    notes += [f"{name}: its checksum is not the known one" for name in changed]
    every = [(config.name, split) for config in corpus.configs for split in config.files]
    if missing := [f"{config}/{split}" for config, split in every if (config, split) not in splits]:
        notes.append(f"missing in the source: {', '.join(missing)}; the complete {corpus.name} is at {corpus.homepage}")
    return notes


def _card_text(corpus: Corpus, splits: Splits, sizes: Table) -> str:
    config, _ = next(iter(splits))
    parts = [
        f"# {corpus.title}",
        f"{corpus.citation}. The full corpus: {corpus.homepage}. Its licence: {corpus.license}.",
        corpus.description,
        f'Built by `cdconv corpora build {corpus.name}`. Read it with `load_dataset(FOLDER, "{config}")`.',
        sizes.markdown(),
        "\n".join(f"- {note}" for note in notes_of(corpus, splits)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"
