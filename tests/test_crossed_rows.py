"""Crossed chats as training rows."""

from collections import Counter, defaultdict

import pytest
from datasets import ClassLabel, Dataset, Features, Value

from contradiction.data.corpora.crossed import FOLDER, Pair, Quadruple, batches, read_batch
from contradiction.errors import InputError
from contradiction.labels import LABELS
from contradiction.training import augmentation
from contradiction.training.augmentation import crossed_rows

# A few batches of each style.
BATCHES = ("a1", "b1", "e1", "i1", "l1", "v8", "w9")


def items_of_batches():
    return [item for batch in BATCHES for item in read_batch(FOLDER / f"{batch}.jsonl")]


def rows_with(labels):
    """One row in the columns of the data set."""
    text = Value("string")
    features = Features(
        id=Value("int32"), u1=text, b1=text, u2=text, b2=text, label=ClassLabel(names=list(labels)), trigger=text,
        group=Value("int64"),
    )  # fmt: skip
    row = {"id": 1, "u1": "a", "b1": "b", "u2": "c", "b2": "d", "label": 0, "trigger": "e", "group": 0}
    return Dataset.from_list([row], features=features)


@pytest.fixture(scope="module")
def made():
    return crossed_rows(rows_with(LABELS["4-class"]), first_group=1, seed=23, batches=BATCHES)


def test_every_reply_of_a_quadruple_occurs_with_both_labels(made):
    items = items_of_batches()
    by_group = defaultdict(list)
    for row in made.to_list():
        by_group[row["group"]].append(row)
    assert sorted(by_group) == list(range(1, len(items) + 1))
    for group, item in enumerate(items, start=1):
        sides = {(row["b2"], row["label"] > 0) for row in by_group[group]}
        if isinstance(item, Quadruple):
            assert sides == {(reply, side) for reply in (item.reply_a, item.reply_b) for side in (False, True)}
        else:
            assert sides == {(item.good, False), (item.bad, True)}


def test_a_contradiction_is_read_with_its_evidence(made):
    items = items_of_batches()
    for row in made.to_list():
        item = items[row["group"] - 1]
        if row["label"] and isinstance(item, Quadruple):
            evidence = {chat[item.evidence]["content"] for chat in (item.a, item.b)}
            assert evidence & {row["u1"], row["b1"], row["u2"]}


def test_a_long_chat_gives_two_more_rows_without_a_contradiction(made):
    rows = Counter(made["group"])
    for group, item in enumerate(items_of_batches(), start=1):
        if isinstance(item, Pair):
            assert rows[group] == 2
        else:
            assert rows[group] == (4 if len(item.a) < 5 else 6)


def test_rows_with_two_labels_depend_on_the_seed():
    two = rows_with(LABELS["2-class"])
    first, again, other = (crossed_rows(two, first_group=1, seed=seed, batches=BATCHES) for seed in (1, 1, 2))
    assert set(first["label"]) == {0, 1}
    assert first.to_dict() == again.to_dict() != other.to_dict()


def test_context_negatives_are_consistent_replies_without_their_chat():
    rows, items = rows_with(LABELS["4-class"]), items_of_batches()
    plain, more = (
        crossed_rows(rows, first_group=1, seed=23, context_negatives=times, batches=BATCHES) for times in (0, 2)
    )
    quadruples = [group for group, item in enumerate(items, start=1) if isinstance(item, Quadruple)]
    assert Counter(more["group"]) - Counter(plain["group"]) == Counter({group: 2 for group in quadruples})
    before = Counter()
    for row in more.to_list():
        item = items[row["group"] - 1]
        if isinstance(item, Quadruple) and item.a[1] != item.b[1] and len(item.a) == 3:
            own = {(chat[0]["content"], chat[1]["content"]) for chat in (item.a, item.b)}
            if (row["u1"], row["b1"]) not in own:
                assert row["label"] == 0 and row["b2"] in (item.reply_a, item.reply_b)
                question = "its own" if row["u2"] == item.a[-1]["content"] else "another"
                before[question if row["b1"] else "no first turn"] += 1
    assert len(before) == 3 and min(before.values()) > 0.3 * max(before.values()), before


def test_without_names_all_batches_of_the_training_split_are_read(monkeypatch):
    read = []
    monkeypatch.setattr(augmentation, "read_batch", lambda file: read.append(file.stem) or read_batch(file)[:1])
    groups = crossed_rows(rows_with(LABELS["2-class"]), first_group=0, seed=1)["group"]
    assert read == [batch.name for batch in batches().values() if batch.split == "train"]
    assert set(groups) == set(range(len(read)))
    with pytest.raises(InputError, match="crossed_batches: 't1'"):
        crossed_rows(rows_with(LABELS["2-class"]), first_group=0, seed=1, batches=["e1", "t1"])
