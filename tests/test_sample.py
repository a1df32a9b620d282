"""The embedded sample: in the format of CDConv, complete enough for every step, and none of it from CDConv."""

import json
import unicodedata

import pytest

import cdconv
from contradiction.data.sources import SAMPLE
from contradiction.data.statistics import overlap

ROWS = cdconv.read_rows(SAMPLE)
SPLITS = {"": cdconv.official_split(ROWS), "-grouped": cdconv.grouped_split(ROWS)}


def utterances(path):
    """Every utterance of a raw file, without punctuation and spaces."""
    lines = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
    texts = (line[column] for line in lines for column in ("u1", "b1", "u2", "b2"))
    return {"".join(char for char in text if unicodedata.category(char)[0] not in "PZ") for text in texts}


def test_sample_is_large_enough_to_show_every_step():
    assert len(ROWS) >= 240


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("label", {0, 1, 2, 3}),
        ("persona", {None, 0, 1, 2, 3}),
        ("bot", {"eva", "plato"}),
        ("batch", {1, 2, 3, 4, 5}),
        ("trigger", set(cdconv.TRIGGERS.values())),
    ],
)
def test_sample_holds_every_value_of(column, values):
    assert {row[column] for row in ROWS} == values


@pytest.mark.parametrize("split", SPLITS, ids=["official", "grouped"])
@pytest.mark.parametrize("task", cdconv.LABELS)
def test_every_class_stands_in_every_split_of_the_sample(task, split):
    for side, rows in SPLITS[split].items():
        labels = {cdconv.label_of(row, task) for row in rows} - {None}
        assert labels == set(range(len(cdconv.LABELS[task]))), side


def test_sample_holds_no_conversation_twice():
    assert len({tuple(row[column] for column in cdconv.UTTERANCES) for row in ROWS}) == len(ROWS)


def test_sample_shows_the_leak_of_the_official_split_and_its_cure():
    context = ("u1", "b1", "u2")
    assert overlap(SPLITS[""], context) > 0.2
    assert overlap(SPLITS["-grouped"], context) == 0
    assert overlap(SPLITS["-grouped"], ("u1",)) == 0


def test_no_sentence_of_the_sample_is_from_the_release(release):
    ours = {text for text in utterances(SAMPLE) if len(text) >= 6}
    assert len(ours) > 500  # there is something to compare
    assert ours & utterances(release) == set()
