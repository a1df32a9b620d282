"""Reads and writes data repos; all other code gets its rows here."""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from contradiction.errors import InputError, first_line, kind_of, listed
from contradiction.inputs.views import VIEWS, check_utterances
from contradiction.io.environment import no_data_bars, no_hub_warnings
from contradiction.io.files import new_folder
from contradiction.io.hub import quick_hub
from contradiction.labels import CHECKLISTS, CONFIGS, CROSSED_CONFIGS, GROUPED, LABELS, task_of, task_of_labels

if TYPE_CHECKING:
    from datasets import Dataset
    from huggingface_hub import DatasetCardData

    from contradiction import cdconv

# Where rows come from: the folder or Hub id of a data repo, or rows in memory by split, such as a `DatasetDict`.
Data: TypeAlias = "str | Path | Mapping[str, Dataset]"
SPLITS = ("train", "validation", "test")
UNNAMED = "a data repo without a name"
CHINESE, UNDETERMINED = "zh", "und"  # codes of languages
CHINESE_CODES = ("zh", "zho", "chi", "cmn", "yue", "wuu", "lzh", "chinese")
ONE_BOT = 0  # the bot number of rows that name no bot
_TEXTS = {column for columns in VIEWS.values() for column in columns}
BUILDERS = "`cdconv data build`, `cdconv data nli` and `cdconv corpora build` write data repos"
_HUB_ID = re.compile(r"\w[\w.-]*/\w[\w.-]*")


def both_splits(rows: Sequence["cdconv.Row"]) -> dict[str, dict[str, list["cdconv.Row"]]]:
    """The official and the grouped split of CDConv: the ending of their configs -> train, validation, test -> rows."""
    from contradiction import cdconv

    return {"": cdconv.official_split(rows), GROUPED: cdconv.grouped_split(rows)}


def load_split(data: Data, config: str, split: str) -> "Dataset":
    """One split of one config, of a folder that ``cdconv data build`` wrote, of a Hub repo, or of rows in memory.

    Rows without ids are numbered from 1.

    Raises:
        InputError: there is no such config or split, the folder is not a data repo or has no checklists, an utterance
            is not text, or the labels are not class ids, or have other names than those of the task.
    """
    known = (*CONFIGS, *CROSSED_CONFIGS, *CHECKLISTS)
    splits = SPLITS if config not in CHECKLISTS else ("test",)
    if config not in known:
        own = _configs_of(data)
        there = [name for name in known if name in own] or known
        raise InputError(f"{place_of(data)}: there is no config {config!r}, only {listed(there, config)}")
    if split not in splits:
        raise InputError(f"{place_of(data)}: there is no {split!r} split of {config!r}, only {listed(splits, split)}")
    rows = load_rows(data, config, split) if isinstance(data, str | Path) else _in_memory(data, config, split)
    _check_labels(rows, data, config)
    texts = {name: rows[name][:] for name in rows.column_names if name in _TEXTS}
    check_utterances(texts, f"{place_of(data)}: {split} split of {config!r}, ")
    return rows if "id" in rows.column_names else rows.add_column("id", [*range(1, len(rows) + 1)])


def load_rows(repo: str | Path, config: str | None, split: str) -> Any:
    """A split of a config of any data repo; the config is by default the only one.

    Raises:
        InputError: there is no data repo, or it cannot be loaded.
    """
    from datasets import load_dataset
    from datasets.exceptions import DatasetsError

    _check_place(repo)
    folder = Path(repo)
    try:
        if folder.is_dir():
            return _load_folder(folder.resolve(), config, split, _state(folder))
        with no_data_bars(), quick_hub():
            return load_dataset(str(repo), config, split=split)
    except (DatasetsError, ValueError, OSError) as error:
        why = error.__cause__ if isinstance(error.__cause__, OSError) else error  # for instance a full disk
        what = f"config {config!r} " if config else ""
        reason = first_line(why).partition(" with any supported extension")[0]  # a hundred of them follow
        raise InputError(f"{repo}: {what}cannot be loaded ({reason})") from error


def _check_place(repo: str | Path) -> None:
    """Raises InputError unless this is a folder with a card, or a Hub id."""
    folder = Path(repo)
    if folder.is_file():
        raise InputError(f"{repo}: is a file, not a data repo; contradiction.data.labelled.build makes one of chats")
    if folder.is_dir() and not (folder / "README.md").is_file():
        raise InputError(f"{repo}: is a folder without a data set card; {BUILDERS}")
    if not folder.exists() and not _HUB_ID.fullmatch(str(repo)):
        raise InputError(f"{repo}: no such file or folder; {BUILDERS}")


def place_of(data: Data) -> str:
    """Where rows come from, for a message."""
    return "the rows in memory" if isinstance(data, Mapping) else str(data)


def config_of(rows: "Dataset") -> str:
    """The config of labelled rows in memory; it is a grouped one for rows of such a config.

    Raises:
        InputError: the labels are not class labels with the names of a config.
    """
    task = task_of_labels(getattr(rows.features.get("label"), "names", None) or ())
    if task not in CONFIGS:
        raise InputError(
            f"the rows in memory: the column 'label' is {rows.features.get('label')}; it must hold class labels of a "
            "config, for instance after rows.cast_column('label', ClassLabel(names=list(LABELS['4-class'])))"
        )
    # `datasets` remembers the config from which rows were selected.
    return f"{task}{GROUPED}" if str(rows.info.config_name).endswith(GROUPED) else task


def _in_memory(data: "Mapping[str, Dataset]", config: str, split: str) -> "Dataset":
    from datasets import Dataset

    if not isinstance(data, Mapping):
        raise InputError(f"data is {kind_of(data)}; it must be a folder, a Hub id, or rows by split: a DatasetDict")
    if split not in data:
        raise InputError(f"{place_of(data)}: there is no split {split!r}, only {', '.join(map(str, data))}")
    rows = data[split]
    if not isinstance(rows, Dataset):
        raise InputError(f"{place_of(data)}: the {split} split is {kind_of(rows)}; it must be a datasets.Dataset")
    own = str(rows.info.config_name)
    if own in CONFIGS and own.endswith(GROUPED) != config.endswith(GROUPED):
        # A record with the wrong config would hide that the model has seen test rows of the other split.
        raise InputError(f"{place_of(data)} are of config {own!r}, not of {config!r}")
    return rows


def _check_labels(rows: "Dataset", data: Data, config: str) -> None:
    """Raises InputError if labels are no class ids, or these mean something else than ``LABELS`` says."""
    expected, label = LABELS.get(task_of(config)), rows.features.get("label")
    names, are_texts = getattr(label, "names", None), getattr(label, "dtype", None) in ("string", "large_string")
    if expected and (are_texts or (names and tuple(names) != expected)):
        found = "texts" if are_texts else f"{', '.join(names or ())} in this order"
        raise InputError(
            f"{place_of(data)}: the labels of config {config!r} are {found}; they must be {', '.join(expected)} as "
            "class ids (see datasets.ClassLabel and Dataset.align_labels_with_mapping)"
        )


def check_columns(rows: "Dataset", columns: Iterable[str], reader: str) -> None:
    """Raises InputError if rows lack a column that ``reader``, in words, needs."""
    if missing := [column for column in columns if column not in rows.column_names]:
        raise InputError(
            f"{reader} needs the column {missing[0]!r}, and the {rows.split or 'chosen'} split has only "
            f"{', '.join(rows.column_names)}; name another view or other data"
        )


def load_labelled_split(data: Data, config: str, split: str) -> "Dataset":
    """One split of one config, as :func:`load_split` returns it, if each of its rows has a label.

    Raises:
        InputError: also if there is no column ``label``, or a row has no label.
    """
    rows = load_split(data, config, split)
    if "label" not in rows.column_names:
        raise InputError(f"{place_of(data)}: the {split} split of {config!r} has no column 'label'")
    if unlabelled := len(rows) - len(labelled(rows)):
        raise InputError(
            f"{place_of(data)}: {unlabelled:,} of the {len(rows):,} rows of the {split} split of {config!r} have no "
            "label; name a split or a config whose rows all have one"
        )
    return rows


def has_label(label: int | None) -> bool:
    """Whether a class id is that of a label; a row without a label has None, or a number below 0."""
    return label is not None and label >= 0


def labelled(rows: "Dataset") -> "Dataset":
    """The rows that have a label."""
    return rows.select([index for index, label in enumerate(rows["label"][:]) if has_label(label)])


@lru_cache(maxsize=32)
def _load_folder(folder: Path, config: str | None, split: str, state: tuple[tuple[str, int, int], ...]) -> "Dataset":
    """Rows of a data repo; cached, because training and evaluation load the same split several times."""
    from datasets import load_dataset

    with no_data_bars():
        return load_dataset(str(folder), config, split=split)


def _state(folder: Path) -> tuple[tuple[str, int, int], ...]:
    """The name, size and modification time of every file of a folder, which change with its content."""
    files = ((file, file.stat()) for file in sorted(folder.rglob("*")) if file.is_file())
    return tuple((str(file), status.st_size, status.st_mtime_ns) for file, status in files)


def of_bot(rows: "Dataset", bot: str | None) -> "Dataset":
    """The rows with replies of a bot, in their order; all rows for None.

    Raises:
        InputError: the bot has no rows, or there is no such column.
    """
    if bot is None:
        return rows
    place = f"the {rows.split or 'chosen'} split"
    if not len(rows):
        raise InputError(f"data.bot is {bot!r}, and {place} has no rows; name other data")
    names = getattr(rows.features.get("bot"), "names", None) or ()
    bots = np.asarray(rows["bot"] if names else ())
    known = [name for number, name in enumerate(names) if number in bots]
    if bot not in known:
        raise InputError(
            f"data.bot is {bot!r}, and the bots of {place} are {', '.join(known) or 'not class labels'}; name one of "
            "them, or remove data.bot"
        )
    return rows.select(np.flatnonzero(bots == names.index(bot)))


def bots_of(rows: "Dataset") -> list[int]:
    """The number of the bot of each row; ``ONE_BOT`` for all rows if there is no column ``bot``."""
    return rows["bot"][:] if "bot" in rows.column_names else [ONE_BOT] * len(rows)


def write_splits(folder: Path, config: str, splits: "Mapping[str, Dataset]") -> dict[str, str]:
    """Writes the splits of a config as Parquet into the folder of a data repo; returns split -> path in the repo.

    `datasets` caches a local folder by its card and its file names, and not by the content of the files. Without the
    digest in the names, it would return the old rows of a folder that was built again.
    """
    files = {}
    for split, rows in splits.items():
        # Not to the file itself: where the disk is full, pyarrow may end the process instead of raising an error.
        content = BytesIO()
        rows.to_parquet(content)
        digest = hashlib.sha256(content.getvalue()).hexdigest()[:16]
        files[split] = f"{config}/{split}-00000-of-00001-{digest}.parquet"
        (folder / config).mkdir(parents=True, exist_ok=True)
        (folder / files[split]).write_bytes(content.getvalue())
    return files


def write_repo(out: Path, configs: "Mapping[str, Mapping[str, Dataset]]", data: "DatasetCardData", body: str) -> None:
    """Writes a data repo: a Parquet file for each split, and a card. It replaces an earlier folder.

    ``load_dataset`` reads the first config if none is named.
    """
    with no_data_bars(), new_folder(out) as folder:
        files = {config: write_splits(folder, config, splits) for config, splits in configs.items()}
        (folder / "README.md").write_text(data_card(data, files, body), encoding="utf-8")


def data_card(
    data: "DatasetCardData", files: Mapping[str, Mapping[str, str]], body: str, default: str | None = None
) -> str:
    """The card of a data repo: its metadata with the files of each config, then its text.

    ``load_dataset`` reads the default config if none is named; by default it is the first.
    """
    from datasets.utils.metadata import MetadataConfigs

    default = default or next(iter(files))
    configs: dict[str, dict[str, Any]] = {
        config: {"data_files": [{"split": split, "path": path} for split, path in paths.items()]}
        for config, paths in files.items()
    }
    configs[default]["default"] = True
    MetadataConfigs(configs).to_dataset_card_data(data)
    return f"---\n{data.to_yaml()}\n---\n\n{body}"


def name_of(data: Data) -> str:
    """The name in the card of a data repo (``CDConv``, ``CDConv sample``, ...), or ``UNNAMED``.

    A path or a Hub id is not a name, because a copy of the data has another one.

    Raises:
        InputError: the card cannot be read.
    """
    return str(_metadata(data).get("pretty_name") or UNNAMED)


def name_if_known(data: Data) -> str | None:
    """The name of a data repo as :func:`name_of` gives it.

    None for rows in memory, and for a Hub repo whose card is not in the cache.

    Raises:
        InputError: the card of a folder cannot be read.
    """
    if isinstance(data, Mapping):
        return None
    try:
        return name_of(data)
    except InputError:
        if Path(data).is_dir():
            raise
        return None


def languages_of(data: Data) -> list[str]:
    """The languages in the card of a data repo, without scripts and regions (``zh``, ``en``, ...).

    Chinese if the card names none. Every code of a Chinese language is ``zh``. Of a repo of CDConv, only the config
    ``crossed-en`` is in English, so English does not count: a recipe reads that config from the package.

    Raises:
        InputError: the card cannot be read.
    """
    card = _metadata(data)
    named = card.get("language") or CHINESE
    codes = [code for code in (named if isinstance(named, list) else [named]) if isinstance(code, str)]
    plain = [re.split("[-_]", code.lower())[0] for code in codes] or [CHINESE]
    found = list(dict.fromkeys(CHINESE if code in CHINESE_CODES else code for code in plain))
    beside_crossed = all(name in str(card.get("configs")) for name in CROSSED_CONFIGS)
    return [CHINESE] if beside_crossed and found == [CHINESE, "en"] else found


def _metadata(data: Data) -> "DatasetCardData":
    """The metadata in the card of a data repo; rows in memory have none."""
    from huggingface_hub import DatasetCard, DatasetCardData
    from yaml import YAMLError

    if isinstance(data, Mapping):
        return DatasetCardData()
    try:
        if Path(data).is_dir():
            with no_hub_warnings():  # a README without metadata is no card; whoever asks for them says what is missing
                return cast("DatasetCardData", DatasetCard.load(Path(data) / "README.md").data)
        with quick_hub():
            return DatasetCard.load(str(data)).data
    except (OSError, ValueError, YAMLError) as error:
        raise InputError(f"{data}: the card of the data set cannot be read ({first_line(error)})") from error


def _configs_of(data: Data) -> list[str]:
    """The configs that the card of a data repo names; empty where it names none or cannot be read."""
    if not isinstance(data, Mapping):
        _check_place(data)
    with suppress(InputError):
        configs = _metadata(data).get("configs")
        return [str(one.get("config_name")) for one in configs or () if isinstance(one, Mapping)]
    return []


def fingerprint(*parts: "Dataset") -> str:
    """A digest of all values, equal exactly for equal rows in the same order.

    The names of the columns and the ends of the parts do not change it.
    """
    digest = hashlib.sha256()
    for part in parts:
        for batch in part.with_format("arrow").iter(1000):  # ten times as fast as row by row
            for values in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                digest.update(repr(values).encode("utf-8"))
    return digest.hexdigest()[:16]
