"""The embedded sample has the format of CDConv, is complete enough for every step, copies nothing, and is crossed."""

import unicodedata

import pytest
from helpers.chats import objects
from sklearn.metrics import roc_auc_score

from contradiction import cdconv
from contradiction.data.corpora.crossed import read
from contradiction.data.statistics import overlap
from contradiction.inputs.views import CONVERSATION
from contradiction.paths import SAMPLE
from experiments.crossed_gates import ngram_auc

ROWS = cdconv.read_rows(SAMPLE)
SPLITS = {"": cdconv.official_split(ROWS), "-grouped": cdconv.grouped_split(ROWS)}
CONTRADICTS = [row["label"] != cdconv.NON_CONTRADICTION for row in ROWS]
FIRSTS = [row["u1"] for row in ROWS]


def words(text):
    """The text without punctuation and spaces."""
    return "".join(char for char in text if unicodedata.category(char)[0] not in "PZ")


def utterances(path):
    """Every utterance of a raw file, without punctuation and spaces."""
    return {words(line[column]) for line in objects(path) for column in CONVERSATION}


@pytest.mark.parametrize("split", SPLITS, ids=["official", "grouped"])
@pytest.mark.parametrize("task", cdconv.LABELS)
def test_every_class_is_in_every_split_of_the_sample(task, split):
    for side, rows in SPLITS[split].items():
        labels = {cdconv.label_of(row, task) for row in rows} - {None}
        assert labels == set(range(len(cdconv.LABELS[task]))), side


def test_sample_shows_the_leak_of_the_official_split_and_its_cure():
    context = ("u1", "b1", "u2")
    assert overlap(SPLITS[""], context) > 0.2
    assert overlap(SPLITS["-grouped"], context) == 0
    assert overlap(SPLITS["-grouped"], ("u1",)) == 0


def test_no_sentence_of_the_sample_is_from_the_release(release):
    sample = {text for text in utterances(SAMPLE) if len(text) >= 6}
    assert len(sample) > 500  # there is enough to compare
    assert sample & utterances(release) == set()


def test_no_sentence_of_the_sample_is_in_the_crossed_training_corpus():
    sample = {text for text in utterances(SAMPLE) if len(text) >= 6}
    rows = [row for split in ("train", "validation") for item in read(split) for row in item.judged()]
    learned = {words(text) for row in rows for text in (row.reply, *(message["content"] for message in row.messages))}
    assert len(learned) > 1000
    assert sample & learned == set()


def test_neither_the_reply_nor_its_length_nor_the_chat_alone_reveals_a_contradiction():
    replies = [row["b2"] for row in ROWS]
    chats = [" ".join(row[column] for column in ("u1", "b1", "u2")) for row in ROWS]
    assert 0.4 < ngram_auc(replies, CONTRADICTS, FIRSTS) < 0.6
    assert 0.4 < ngram_auc(chats, CONTRADICTS, FIRSTS) < 0.6
    assert 0.4 < roc_auc_score(CONTRADICTS, [len(reply) for reply in replies]) < 0.6
