"""Builds the data repo: Parquet for every config and split, and a card made from the data."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import cdconv
from contradiction.data import checklists
from contradiction.data.card import data_set_card
from contradiction.data.corpora import crossed
from contradiction.data.sources import Source
from contradiction.data.splits import write_split
from contradiction.errors import InputError
from contradiction.io.files import check_folder, new_folder
from contradiction.io.quiet import no_data_bars
from contradiction.io.tables import Table
from contradiction.labels import CHECKLISTS, CROSSED

if TYPE_CHECKING:
    from datasets import Dataset, DatasetInfo


def build(source: Source, out: str | Path, with_checklists: bool = False, baselines: Table | None = None) -> Path:
    """Writes the data repo that ``load_dataset(out, config)`` reads.

    The folder appears under its name only when it is whole; one that was built before is replaced.

    Args:
        source: the raw file.
        out: the folder.
        with_checklists: also the configs of ``contradiction.data.checklists``.
        baselines: what the artefact baselines reach on the released file, for the card; without it there is none.

    Raises:
        InputError: ``out`` is something else than a data repo or an empty folder, or the source is too small for
            checklists.
    """
    from datasets.info import DatasetInfosDict

    out = Path(out)
    check_folder(out)
    if out.exists() and not _replaceable(out):
        raise InputError(f"{out}: not a data repo, so it will not be replaced; name a new folder")
    with no_data_bars(), tempfile.TemporaryDirectory() as cache, new_folder(out) as folder:
        infos, files = DatasetInfosDict(), {}
        for config in cdconv.CDConv.BUILDER_CONFIGS:
            builder = cdconv.CDConv(cache_dir=cache, config_name=config.name, source=str(source.path))
            builder.download_and_prepare()
            files[config.name] = {
                split: f"{config.name}/{write_split(rows, folder / config.name, split)}"
                for split, rows in builder.as_dataset().items()
            }
            info = builder.info
            info.download_size = sum(file.stat().st_size for file in (folder / config.name).iterdir())
            infos[config.name] = info
        made = _checklists(source) if with_checklists else {}
        for name, rows in made.items():
            path = folder / name / write_split(rows, folder / name, checklists.SPLIT)
            files[name] = {checklists.SPLIT: f"{name}/{path.name}"}
            infos[name] = _info({checklists.SPLIT: rows}, path.stat().st_size)
        written = crossed.build()
        files[CROSSED] = {
            split: f"{CROSSED}/{write_split(rows, folder / CROSSED, split)}" for split, rows in written.items()
        }
        infos[CROSSED] = _info(written, sum(file.stat().st_size for file in (folder / CROSSED).iterdir()))
        data_set_card(source, infos, files, made, baselines).save(folder / "README.md")
    return out


def _checklists(source: Source) -> dict[str, "Dataset"]:
    rows = cdconv.read_rows(source.path)
    return checklists.build({"": cdconv.official_split(rows), "-grouped": cdconv.grouped_split(rows)})


def _info(splits: "Mapping[str, Dataset]", download_size: int) -> "DatasetInfo":
    """What the builder writes down of its configs, for rows that were not made by it."""
    from datasets import SplitDict, SplitInfo

    info = next(iter(splits.values())).info.copy()
    info.splits = SplitDict(
        {name: SplitInfo(name, num_bytes=rows.data.nbytes, num_examples=len(rows)) for name, rows in splits.items()}
    )
    info.download_size, info.dataset_size = download_size, sum(rows.data.nbytes for rows in splits.values())
    return info


def _replaceable(path: Path) -> bool:
    if not path.is_dir():
        return False
    # A card, and nothing but Parquet in folders named like configs: anything else is somebody's work.
    configs = {*(config.name for config in cdconv.CDConv.BUILDER_CONFIGS), *CHECKLISTS, CROSSED}
    card = path / "README.md"
    # As bytes: whatever lies there is somebody's, and need not be UTF-8.
    if card.is_file() and b"dataset_info:" not in card.read_bytes():
        return False
    inside = [file.relative_to(path) for file in path.rglob("*") if not file.is_dir()]
    return all(
        file == Path("README.md") or (len(file.parts) == 2 and file.parts[0] in configs and file.suffix == ".parquet")
        for file in inside
    )
