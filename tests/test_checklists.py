"""The checklists: how they change a test row, how the card describes them, and how they load."""

import os
import re
import subprocess
import sys
from collections import Counter
from itertools import pairwise

import pytest
from datasets import load_dataset
from helpers.chats import objects
from helpers.data_repo import contents, write
from helpers.pages import ROOT

from contradiction import cdconv
from contradiction.conversation import read_turns
from contradiction.data import build, checklists
from contradiction.data.splits import fingerprint, load_split
from contradiction.errors import InputError
from contradiction.inputs.views import CONVERSATION
from contradiction.paths import SAMPLE

pytestmark = pytest.mark.usefixtures("crossed_once")

NONE, INTRA, ROLE, HISTORY = range(4)
A2T, RCT = ["4-class-a2t", "4-class-a2t-grouped"], ["4-class-rct", "4-class-rct-grouped"]
CONFIGS = [*A2T, *RCT]
# Digests of all cells: a published test set must not change with the version of Python or of a library.
DIGESTS = {
    "4-class-a2t": "46917f3fa4b54c4e",
    "4-class-a2t-grouped": "30e46590ce00159b",
    "4-class-rct": "179e2fff0cd0b075",
    "4-class-rct-grouped": "9bdaff18b3001a7c",
}


@pytest.fixture(scope="module")
def loaded(checklists_repo, tmp_path_factory):
    """All checklists by config."""
    cache = str(tmp_path_factory.mktemp("cache"))
    splits = {
        config: load_dataset(str(checklists_repo), config, cache_dir=cache, verification_mode="all_checks")
        for config in CONFIGS
    }
    assert all(list(split) == ["test"] for split in splits.values())
    return {config: split["test"] for config, split in splits.items()}


@pytest.fixture(scope="module")
def rows(loaded):
    """The rows of all checklists by config, with the texts of their messages."""
    return {config: [{**row, "texts": texts_of(row)} for row in part.to_list()] for config, part in loaded.items()}


@pytest.fixture(scope="module")
def tests(sample_repo):
    """The ids of the test split that each checklist is made from, in order."""
    return {config: load_split(sample_repo, re.sub("-a2t|-rct", "", config), "test")["id"][:] for config in CONFIGS}


@pytest.fixture(scope="module")
def lines():
    return objects(SAMPLE)


def texts_of(row):
    """Checks that a row is a chat that a detector accepts, and returns the texts of its messages."""
    assert len(read_turns(row["messages"])) == len(row["messages"]) // 2
    assert [message["role"] for message in row["messages"]] == ["user", "assistant"] * (len(row["messages"]) // 2)
    return [message["content"] for message in row["messages"]]


@pytest.mark.parametrize("config", A2T)
def test_every_test_row_occurs_five_times_and_each_time_with_one_more_turn_of_other_conversations(
    config, rows, tests, lines
):
    bots = {}  # first turn -> the bots that have it in the test split
    for line in (lines[number - 1] for number in tests[config]):
        bots.setdefault((line["u1"], line["b1"]), set()).add(line["model"])
    assert [(row["id"], row["inserted"]) for row in rows[config]] == [
        (id_, n) for id_ in tests[config] for n in range(1, 6)
    ]
    for row in rows[config]:
        line, texts = lines[row["id"] - 1], row["texts"]
        own = [line[column] for column in CONVERSATION]
        assert texts[:2] + texts[-2:] == own and row["label"] == line["label"]
        assert len(texts) == 4 + 2 * row["inserted"] and {*own}.isdisjoint(texts[2:-2])
        inserted = list(zip(texts[2:-2:2], texts[3:-2:2], strict=True))
        assert all(line["model"] in bots[turn] for turn in inserted)
        assert len({line["u1"], *(user for user, _ in inserted)}) == row["inserted"] + 1
    for before, after in pairwise(rows[config]):
        if before["id"] == after["id"]:
            assert after["texts"][: 2 + 2 * before["inserted"]] == before["texts"][:-2]


@pytest.mark.parametrize("config", A2T)
def test_evidence_is_the_message_that_is_contradicted(config, rows, lines):
    about_user = {"设问-user", "设问-user-v2"}  # the triggers whose question is about the user's words
    counts = Counter()
    for row in rows[config]:
        line = lines[row["id"] - 1]
        texts = [row["messages"][index]["content"] for index in row["evidence"]]
        column = "u1" if line["method"] in about_user else "b1"
        assert texts == ([line[column]] if line["label"] == HISTORY else [])
        counts[len(texts), column] += 1
    assert counts[1, "u1"] > 0 < counts[1, "b1"]


@pytest.mark.parametrize("config", RCT)
def test_a_history_row_without_its_first_turn_or_with_another_one_contradicts_nothing(config, rows, tests, lines):
    ids = [number for number in tests[config] if lines[number - 1]["label"] != ROLE]
    assert [(row["id"], row["form"]) for row in rows[config]] == [(id_, form) for id_ in ids for form in (0, 1)]
    added = {row["id"]: row["texts"][2:4] for row in rows[config.replace("rct", "a2t")] if row["inserted"] == 1}
    for row in rows[config]:
        line = lines[row["id"] - 1]
        assert row["origin"] == line["label"]
        assert row["label"] == {NONE: NONE, INTRA: INTRA, HISTORY: NONE}[line["label"]]
        assert row["texts"] == [*(added[row["id"]] if row["form"] else []), line["u2"], line["b2"]]


def test_the_checklists_of_the_release_are_pinned(release):
    rows = cdconv.read_rows(release)
    made = checklists.build({"": cdconv.official_split(rows), "-grouped": cdconv.grouped_split(rows)})
    assert {config: fingerprint(part) for config, part in made.items()} == DIGESTS


def test_the_other_configs_equal_those_of_a_build_without_checklists(checklists_repo, sample_repo):
    kept = {name: content for name, content in contents(checklists_repo).items() if name.split("/")[0] not in CONFIGS}
    without = contents(sample_repo)
    del kept["README.md"], without["README.md"]
    assert kept == without


def test_the_command_builds_the_same_bytes_in_another_process(checklists_repo, tmp_path):
    """The other process orders sets and dicts by another hash seed."""
    done = subprocess.run(
        [sys.executable, "-m", "contradiction", "data", "build", "--source", "sample", "--checklists"],
        cwd=tmp_path, capture_output=True, text=True, env=os.environ | {"PYTHONHASHSEED": "7", "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0 and "not CDConv" in done.stderr, done.stderr
    assert re.fullmatch(
        rf"cdconv: .*checklists .*{re.escape(str(SAMPLE))}.*crossed, crossed-long and crossed-en\n", done.stdout
    )
    assert contents(tmp_path / "cdconv") == contents(checklists_repo)


@pytest.mark.filterwarnings("ignore:The least populated class")
def test_too_few_conversations_are_rejected_with_a_reason_and_nothing_is_left(lines, tmp_path):
    source = write(tmp_path / "small.txt", lines[:60])
    raw_source = build.find(str(source))
    with pytest.raises(InputError, match=r"the test split has \d other conversations with .* checklists need 5"):
        build.build(raw_source, tmp_path / "cdconv", with_checklists=True)
    assert list(tmp_path.iterdir()) == [source]
    build.build(raw_source, tmp_path / "cdconv")  # without checklists it is large enough
