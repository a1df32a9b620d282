"""The card of a data repo, by huggingface_hub's card tools; the prose lies in ``templates/``."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

import cdconv
from contradiction.data import checklists, crossed_checks, statistics
from contradiction.data.sources import Source
from contradiction.io.tables import Table
from contradiction.io.templates import render
from contradiction.labels import LABELS

if TYPE_CHECKING:
    from datasets import Dataset
    from datasets.info import DatasetInfosDict
    from huggingface_hub import DatasetCard

# Lines of the released file that show a category well; the first and the last share their context.
EXAMPLES = (275, 1617, 3936, 274)
TRIGGERS = {
    "short": "it is a short utterance that says little",
    "inquiring-bot": "it asks about something that `b1` names",
    "inquiring-user": "it asks about something that `u1` names",
    "inquiring-user-m": "it asks whether the bot knows what `u1` said: 你知道…吗？",
    "paraphrasing": "it is `u1`, translated and translated back",
    "perturb-synonym": "it is `u1` with words replaced by synonyms",
    "perturb-antonym": "it is `u1` with words replaced by antonyms",
    "perturb-negative": "it is `u1` with a negation put into it",
}


def data_set_card(
    source: Source,
    infos: "DatasetInfosDict",
    files: Mapping[str, Mapping[str, str]],
    made: Mapping[str, "Dataset"],
    baselines: Table | None = None,
) -> "DatasetCard":
    """The card of a data repo; every figure in it is counted from the source, or in the table handed in.

    Args:
        source: the raw file.
        infos: what `datasets` says of each config.
        files: config -> split -> path in the repo.
        made: the checklists, by config; empty where there are none.
        baselines: what the artefact baselines reach on the released file; shown in the card of that one alone.
    """
    from datasets.utils.metadata import MetadataConfigs
    from huggingface_hub import DatasetCard, DatasetCardData

    rows = cdconv.read_rows(source.path)
    splits = {"": cdconv.official_split(rows), "-grouped": cdconv.grouped_split(rows)}
    data = DatasetCardData(
        pretty_name={"release": "CDConv", "sample": "CDConv sample"}.get(
            source.kind, "CDConv, from a file of your own"
        ),
        language=["zh"],
        license={"release": cdconv.LICENSE, "sample": "cc0-1.0"}.get(source.kind, "unknown"),
        size_categories=[_size_category(len(rows))],
        task_categories=["text-classification"],
        task_ids=["natural-language-inference"],
        tags=["dialogue", "contradiction-detection", "consistency"],
        source_datasets=["original"],
    )
    infos.to_dataset_card_data(data)
    MetadataConfigs(
        {
            config: {
                "data_files": [{"split": split, "path": path} for split, path in paths.items()],
                **({"default": True} if config == cdconv.CDConv.DEFAULT_CONFIG_NAME else {}),
            }
            for config, paths in files.items()
        }
    ).to_dataset_card_data(data)
    examples = _examples(rows, source.kind)
    body = render(
        "data_set_card.md",
        source=source,
        release={"url": cdconv.URL, "sha256": cdconv.SHA256, "homepage": cdconv.HOMEPAGE},
        rows=len(rows),
        examples=examples,
        shown=_shown(examples[-1]),
        triggers=Table(
            "",
            ("trigger", "in the raw file", "how `u2` is made"),
            [(name, raw, TRIGGERS[name]) for raw, name in cdconv.TRIGGERS.items()],
        ),
        splits=statistics.split_sizes(splits),
        leaks=statistics.leaks(splits),
        checklists=checklists.sizes(made) if made else None,
        crossed=crossed_checks.size_table(),
        tables=statistics.table3(rows),
        baselines=baselines if source.kind == "release" else None,
        citation=cdconv.CITATION,
    )
    return DatasetCard(f"---\n{data.to_yaml()}\n---\n\n{body}")


def _examples(rows: list[cdconv.Row], kind: str) -> list[tuple[str, cdconv.Row]]:
    """One row a category, by label name: well-chosen ones of the release, else the first."""
    labels = [row["label"] for row in rows]
    chosen = EXAMPLES if kind == "release" else [labels.index(label) + 1 for label in sorted(set(labels))]
    return [(LABELS["4-class"][labels[number - 1]], rows[number - 1]) for number in chosen]


def _shown(example: tuple[str, cdconv.Row]) -> str:
    """A row as the config 4-class has it, on one line, with the names of its classes."""
    label, row = example
    columns = {key: value for key, value in row.items() if key != "persona"}
    return json.dumps({**columns, "label": label}, ensure_ascii=False)


def _size_category(rows: int) -> str:
    for limit, name in ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K")):
        if rows < limit:
            return name
    return "n>100K"
