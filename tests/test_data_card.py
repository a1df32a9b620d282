"""The card of the data set."""

import json
import re

import datasets
import pytest
import yaml
from datasets import ClassLabel
from helpers.data_repo import (
    CONFIGS,
    IN_REPO,
    NAMES,
    UTTERANCES,
    header,
    write,
)
from huggingface_hub import DatasetCard, DatasetCardData

from contradiction import cdconv
from contradiction.data import build
from contradiction.data.build import Source
from contradiction.data.splits import load_split
from contradiction.paths import SAMPLE

pytestmark = pytest.mark.usefixtures("no_default_source", "crossed_once")


def test_card_metadata_uses_values_that_the_hub_accepts(repo, kind):
    front, _ = header(repo)
    data = DatasetCardData(**front)
    assert yaml.safe_load(data.to_yaml()) == front
    assert DatasetCard.load(repo / "README.md").data.to_dict() == front
    assert front["language"] == ["zh"]
    assert front["task_categories"] == ["text-classification"]
    infos = datasets.info.DatasetInfosDict.from_dataset_card_data(data)
    assert infos["4-class"].features["label"] == ClassLabel(names=NAMES["4-class"])


def test_card_metadata_name_the_licence_the_writers_and_the_annotators_of_every_config(repo, kind):
    front, body = header(repo)
    licences, writers, annotators = {
        "release": (["cc-by-nc-4.0", "cc0-1.0"], ["machine-generated", "other"], ["other", "machine-generated"]),
        "sample": (["cc0-1.0"], ["machine-generated"], ["machine-generated"]),
    }[kind]
    assert (front["license"], front["language_creators"], front["annotations_creators"]) == (
        licences,
        writers,
        annotators,
    )
    assert (front["multilinguality"], front["source_datasets"]) == (["monolingual"], ["original"])
    assert "Which model it was is not recorded." in body


def test_the_size_on_the_card_counts_every_conversation_once(repo, lines):
    from datasets import load_dataset

    crossed = sum(rows.num_rows for name in IN_REPO[len(CONFIGS) :] for rows in load_dataset(str(repo), name).values())
    front, body = header(repo)
    assert len(lines) + crossed > 100_000
    assert front["size_categories"] == ["100K<n<1M"]
    assert f" {crossed:,} " in body


def test_the_links_on_the_card_work_outside_this_repository(repo):
    links = re.findall(r"\]\(([^)]+)\)", header(repo)[1])
    headings = re.findall(r"^#+ (.+)$", header(repo)[1], flags=re.MULTILINE)
    places = {f"#{heading.lower().replace(' ', '-')}" for heading in headings}
    assert links
    assert [link for link in links if not link.startswith("https://") and link not in places] == []


def test_the_code_on_the_card_runs(sample_repo, tmp_path, monkeypatch, capsys):
    (tmp_path / "cdconv").symlink_to(sample_repo)
    monkeypatch.chdir(tmp_path)
    [code] = re.findall(r"```python\n(.*?)```", header(sample_repo)[1], flags=re.DOTALL)
    exec(code, {})
    row = load_split(sample_repo, "4-class", "test")[0]
    assert capsys.readouterr().out.split()[-1] == NAMES["4-class"][row["label"]]


def test_card_shows_a_conversation_of_every_category(repo, lines):
    body = header(repo)[1]
    shown = re.findall(r"\*\*(.+)\*\*\n\n> user: (.+)<br>\n> bot: (.+)<br>\n> user: (.+)<br>\n> bot: (.+)\n", body)
    assert [name for name, *_ in shown] == NAMES["4-class"]
    real = {tuple(line[column] for column in UTTERANCES): line["label"] for line in lines}
    assert [NAMES["4-class"][real[tuple(texts)]] for _, *texts in shown] == NAMES["4-class"]


def test_card_of_the_release_names_its_source_licence_and_paper(release_repo):
    body = header(release_repo)[1]
    for part in (
        "# CDConv\n\n11,660 two-turn",
        "https://raw.githubusercontent.com/thu-coai/CDConv/2e88d215b2986a3719f9f63508e10a2e0fe72bfe/cdconv.txt",
        "ed8fe0ddb40afb36f9e19ea64c3eee7c319a22230a5b65444af44e8bbb122aab",
        "CC BY-NC 4.0",
        "@inproceedings{zheng-etal-2022-cdconv",
        "## Baselines\n",
        "| TF-IDF, context only |",
    ):
        assert part in body
    assert "not CDConv" not in body


def test_card_of_the_sample_says_that_it_is_not_cdconv(sample_repo):
    front, body = header(sample_repo)
    assert front["pretty_name"] == "CDConv sample"
    assert "**This is not CDConv.**" in body
    for part in ("CC BY-NC", "@inproceedings", cdconv.SHA256, "## Baselines"):
        assert part not in body


def test_card_of_a_user_supplied_file_claims_no_licence_or_origin(tmp_path):
    path = write(
        tmp_path / "mine.txt", [json.loads(line) for line in SAMPLE.read_text(encoding="utf-8").splitlines()][::-1]
    )
    source = build.find(str(path))
    assert source == Source(path, "custom")
    front, body = header(build.build(source, tmp_path / "out"))
    assert front["license"] == ["unknown", "cc0-1.0"]
    assert (front["language_creators"], front["annotations_creators"]) == (["other", "machine-generated"],) * 2
    assert "**This is not the released CDConv" in body
    assert "`mine.txt`" in body
    assert str(tmp_path) not in body
    assert "## Licence" not in body
    for part in ("CC BY-NC", "@inproceedings", cdconv.SHA256):
        assert part not in body
