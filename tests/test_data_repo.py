"""The output of `cdconv data build`, and how it loads."""

import hashlib
import json
import re
import shutil

import datasets
import pytest
from datasets import ClassLabel, Value, load_dataset
from helpers.data_repo import CONFIGS, FILES, IN_REPO, NAMES, SPLITS, TRIGGERS, UTTERANCES, contents, header
from huggingface_hub import DatasetCardData

from contradiction import cdconv
from contradiction.data import build
from contradiction.data.build import Source
from contradiction.data.splits import fingerprint, languages_of, load_split, of_bot, write_repo
from contradiction.errors import InputError
from contradiction.paths import SAMPLE

pytestmark = pytest.mark.usefixtures("no_default_source", "crossed_once")


@pytest.fixture
def cache_beside_repo(repo, tmp_path, monkeypatch):
    """Changes to a folder that holds the data repo `cdconv/` and `cdconv.py` beside it, and returns an empty cache."""
    home = tmp_path / "home"
    shutil.copytree(repo, home / "cdconv")
    shutil.copy(cdconv.__file__, home)
    monkeypatch.chdir(home)
    return str(tmp_path / "cache")


def test_repo_holds_a_card_and_parquet_and_no_code(repo):
    plain = {re.sub(r"-[0-9a-f]{16}\.parquet$", ".parquet", name) for name in contents(repo)}
    assert plain == {
        "README.md",
        build.MARKER,
        *(f"{config}/{split}-00000-of-00001.parquet" for config in IN_REPO for split in SPLITS),
    }


def test_a_rebuilt_repo_never_loads_the_old_rows(tmp_path):
    """`datasets` caches a local folder by its card alone. Here even the sizes of all splits stay the same."""
    rows = SAMPLE.read_text(encoding="utf-8").splitlines(keepends=True)
    source, out = tmp_path / "own.jsonl", tmp_path / "cdconv"
    versions = []
    for mark in "甲乙":
        source.write_text("".join(row.replace('"b2": "', f'"b2": "{mark}') for row in rows), encoding="utf-8")
        build.build(build.find(str(source)), out)
        versions.append(load_dataset(str(out), "4-class", split="test")["b2"][0][0])
    assert versions == ["甲", "乙"]


def test_a_fingerprint_is_a_digest_of_all_values_row_by_row(sample_repo):
    for config in ("4-class", "crossed"):  # plain columns, and lists of objects
        rows = load_dataset(str(sample_repo), config, split="validation")
        expected = hashlib.sha256("".join(repr(tuple(row.values())) for row in rows).encode()).hexdigest()[:16]
        assert fingerprint(rows) == fingerprint(rows.select(range(9)), rows.select(range(9, len(rows)))) == expected


def test_a_bot_that_the_data_does_not_know_is_one_clear_error(sample_repo):
    rows = load_dataset(str(sample_repo), "4-class", split="validation")
    with pytest.raises(InputError, match="data.bot is 'eliza', and the bots of this data repo are eva, plato"):
        of_bot(rows, "eliza")
    with pytest.raises(InputError, match="not class labels"):
        of_bot(rows.cast_column("bot", Value("string")), "eva")


def test_labels_in_another_order_are_rejected(sample_repo, tmp_path):
    rows = load_dataset(str(sample_repo), "2-class", split="test")
    names = sorted(NAMES["2-class"])  # as `Dataset.class_encode_column` orders them
    others = rows.align_labels_with_mapping({name: number for number, name in enumerate(names)}, "label")
    assert others.features["label"].names == names != NAMES["2-class"]
    write_repo(tmp_path / "own", {"2-class": {"test": others}}, DatasetCardData(pretty_name="own"), "")
    with pytest.raises(InputError, match="contradiction, non-contradiction in this order; they must be non-"):
        load_split(tmp_path / "own", "2-class", "test")


@pytest.mark.parametrize("config", CONFIGS)
def test_bare_name_loads_every_row_and_type_beside_the_module(config, lines, cache_beside_repo):
    loaded = load_dataset("cdconv", config, cache_dir=cache_beside_repo)
    task = config.removesuffix("-grouped")
    assert list(loaded) == SPLITS
    ids = []
    for side in loaded.values():
        assert list(side.features.items()) == [
            ("id", Value("int32")),
            *((column, Value("string")) for column in UTTERANCES),
            ("label", ClassLabel(names=NAMES[task])),
            ("trigger", ClassLabel(names=list(TRIGGERS))),
            ("bot", ClassLabel(names=["eva", "plato"])),
            ("batch", Value("int8")),
        ]
        for row in side.to_list():
            line = lines[row["id"] - 1]
            label = {"2-class": line["label"] > 0, "4-class": line["label"], "persona": line.get("persona")}[task]
            assert row["label"] == label
            assert [row[column] for column in UTTERANCES] == [line[column] for column in UTTERANCES]
            assert list(TRIGGERS.values())[row["trigger"]] == line["method"]
            assert ["eva", "plato"][row["bot"]] == line["model"]
            assert FILES[row["batch"] - 1] == line["file"]
            ids.append(row["id"])
    split = cdconv.official_split if task == config else cdconv.grouped_split
    source = [dict(line, id=number, persona=line.get("persona")) for number, line in enumerate(lines, start=1)]
    wanted = [row["id"] for side in split(source).values() for row in side if task != "persona" or row["label"] == 3]
    assert ids == wanted


def test_without_a_name_the_config_is_4_class(cache_beside_repo):
    assert datasets.get_dataset_config_names("cdconv") == sorted(IN_REPO)
    loaded = load_dataset("cdconv", cache_dir=cache_beside_repo)
    assert {side.config_name for side in loaded.values()} == {"4-class"}
    assert loaded["test"].features["label"].names == NAMES["4-class"]


def test_recorded_sizes_are_checked_and_right(repo, tmp_path):
    for info in header(repo)[0]["dataset_info"]:
        config = info["config_name"]
        loaded = load_dataset(str(repo), config, cache_dir=str(tmp_path), verification_mode="all_checks")
        assert {split["name"]: split["num_examples"] for split in info["splits"]} == loaded.num_rows
        assert info["download_size"] == sum(file.stat().st_size for file in (repo / config).iterdir())
        assert info["dataset_size"] == sum(split["num_bytes"] for split in info["splits"])


def test_the_same_source_builds_the_same_bytes(sample_repo, tmp_path):
    again = build.build(Source(SAMPLE, "sample"), tmp_path / "again")
    assert contents(again) == contents(sample_repo)


@pytest.mark.parametrize(
    ("language", "codes"),
    [
        ("zh-CN", ["zh"]),
        (["cmn", "yue"], ["zh"]),
        ([None], ["zh"]),
        (None, ["zh"]),
    ],
)
def test_the_languages_of_a_card_have_no_scripts_and_regions(language, codes, tmp_path):
    (tmp_path / "README.md").write_text(f"---\nlanguage: {json.dumps(language)}\n---\n", encoding="utf-8")
    assert languages_of(tmp_path) == codes
