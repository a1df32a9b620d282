"""The training rows: parts of them, and rows made from them, from crossed chats and from NLI pairs."""

from collections import Counter, defaultdict

import numpy as np
import pytest
from datasets import ClassLabel, Dataset, Features, Value
from helpers.chats import write_jsonl
from helpers.runs import TINY, train
from transformers import AutoTokenizer

from contradiction.data import nli
from contradiction.data.corpora.crossed import FOLDER, Pair, Quadruple, batches, read_batch
from contradiction.data.splits import load_split, of_bot
from contradiction.errors import InputError
from contradiction.evaluation.model_card import model_card
from contradiction.io.files import read_json
from contradiction.labels import LABELS
from contradiction.training import augmentation, loop, record
from contradiction.training.augmentation import (
    context_negative_rows,
    crossed_rows,
    fraction_of,
    nli_rows,
    training_rows,
)
from contradiction.training.loaders import encode_rows
from contradiction.training.losses import ALLOWED, SOFT, UNLABELLED
from contradiction.training.recipe import Recipe
from contradiction.training.run import run_request

QUICK = Recipe.of(name="quick", view="flatten", config="4-class", scratch=TINY, epochs=1)


def test_each_share_contains_the_smaller_ones_and_rows_keep_their_order(rows):
    shares = [0.01, 0.1, 0.25, 0.5, 0.9, 1.0]
    ids = [fraction_of(rows, share, 23)["id"][:] for share in shares]
    assert ids[-1] == rows["id"][:]
    for less, more in zip(ids, ids[1:], strict=False):
        kept = set(less)
        assert kept < set(more)
        assert [number for number in more if number in kept] == less


def test_a_share_keeps_the_label_proportions_and_every_label(rows):
    whole = Counter(rows["label"])
    for share in (0.1, 0.5):
        counts = Counter(fraction_of(rows, share, 23)["label"])
        assert counts == {label: max(1, round(share * count)) for label, count in whole.items()}
    assert set(fraction_of(rows, 1e-9, 23)["label"]) == set(whole)


def test_training_uses_the_share_and_validates_on_all_rows(sample_repo, rows, tmp_path, monkeypatch):
    read = []
    monkeypatch.setattr(loop, "encode_rows", lambda part, *rest: read.append(part["id"][:]) or encode_rows(part, *rest))
    half = QUICK.with_changes(train_fraction=0.5)
    folder = train(half, data=sample_repo, out=tmp_path / "half")
    assert read[0] == list(fraction_of(rows, 0.5, half.seed)["id"])
    assert read[1] == list(load_split(sample_repo, "4-class", "validation")["id"])
    run = read_json(folder / "run.json")
    assert run["request"]["recipe"]["data"]["train_fraction"] == 0.5
    # The data is the same, and only the recipe says that fewer rows were used.
    assert run["request"]["data"] == run_request(QUICK, sample_repo)["data"]
    assert "- data: 50 % of the training split of CDConv sample" in model_card(folder).text


def test_an_unknown_bot_is_named_and_no_run_starts(sample_repo, rows, tmp_path, monkeypatch):
    assert {*of_bot(rows, "plato")["bot"]} == {rows.features["bot"].str2int("plato")}
    data = {split: of_bot(load_split(sample_repo, "4-class", split), "eva") for split in ("train", "validation")}
    with pytest.raises(InputError, match="the bots of the train split are eva"):
        train(QUICK.with_changes(bot="plato"), data=data, out=tmp_path / "run")
    assert not any(tmp_path.iterdir())


def test_each_history_row_gets_another_first_turn_of_its_bot_and_becomes_consistent(rows):
    names = rows.features["label"]
    history = [row for row in rows if names.int2str(row["label"]) == "history"]
    made_rows = list(context_negative_rows(rows, 2, 23))
    assert [row["id"] for row in made_rows] == [row["id"] for row in history for _ in range(2)]
    first = {(row["u1"], row["b1"], row["bot"]) for row in rows}
    for row, made in zip([row for row in history for _ in range(2)], made_rows, strict=True):
        assert (made["u2"], made["b2"], made["bot"]) == (row["u2"], row["b2"], row["bot"])
        assert made["u1"] != row["u1"] and (made["u1"], made["b1"], made["bot"]) in first
        assert names.int2str(made["label"]) == "non-contradiction"
    assert made_rows == list(context_negative_rows(rows, 2, 23)) != list(context_negative_rows(rows, 2, 42))


def test_rows_without_a_bot_count_as_one_bot(rows):
    alone = of_bot(rows, "eva")
    both = QUICK.with_changes(context_negatives=1, transfer_per_row=1, teachers=["some/teacher"])
    named, made = (training_rows(part, both).rows for part in (alone, alone.remove_columns("bot")))
    for column in ("id", "u1", "b1", "u2", "b2", "label"):
        assert list(named[column]) == list(made[column])


def test_a_bot_with_one_context_has_no_other_first_turn(rows):
    first = rows[rows["label"][:].index(3)]["u1"]
    one = rows.filter(lambda row: row["u1"] == first)
    with pytest.raises(InputError, match="no row of another context"):
        context_negative_rows(one, 1, 23)


# Crossed chats as training rows.


# A small batch of each style.
BATCHES = ("a1", "e1", "i1", "l1", "w9")


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


# NLI pairs that training reads beside the rows, as conversations.


KINDS = ("entailment", "neutral", "contradiction")


def held_out(folder):
    """A corpus of one pair, for a validation split."""
    file = folder / "held_out.tsv"
    file.write_text("premise\thypo\tlabel\n他在跑\t他在动\tentailment\n", encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """An NLI data repo, as `cdconv data nli` writes it, with more pairs than the sample has rows."""
    folder = tmp_path_factory.mktemp("nli")
    corpus = folder / "corpus.tsv"
    lines = [f"前提{number}\t假设{number}\t{KINDS[number % 3]}" for number in range(900)]
    corpus.write_text("\n".join(["premise\thypo\tlabel", *lines]) + "\n", encoding="utf-8")
    nli.build([corpus], [held_out(folder)], folder / "nli")
    return folder / "nli"


def test_a_pair_becomes_the_two_replies_of_a_row_and_only_a_contradiction_is_history(rows, pairs):
    read = load_split(pairs, "nli", "train")
    conversations = nli_rows(rows, read, 2, 23)
    names = rows.features["label"]
    kind = {(pair["premise"], pair["hypothesis"]): read.features["label"].int2str(pair["label"]) for pair in read}
    assert len(conversations) == len({(row["b1"], row["b2"]) for row in conversations}) == 2 * len(rows)
    for row in conversations:
        expected = "history" if kind[row["b1"], row["b2"]] == "contradiction" else "non-contradiction"
        assert names.int2str(row["label"]) == expected
    # The user turns are those of the rows, each repeated the requested number of times.
    assert sorted(conversations["id"]) == sorted([*rows["id"]] * 2)
    user_turns = {row["id"]: (row["u1"], row["u2"]) for row in rows}
    assert all(user_turns[row["id"]] == (row["u1"], row["u2"]) for row in conversations)
    assert conversations["b2"][:] == nli_rows(rows, read, 2, 23)["b2"][:] != nli_rows(rows, read, 2, 42)["b2"][:]


def test_teachers_do_not_judge_rows_with_a_certain_label(rows, pairs):
    recipe = QUICK.with_changes(nli=str(pairs), context_negatives=1, transfer_per_row=1, teachers=["some/teacher"])
    made_rows = training_rows(rows, recipe)
    assert made_rows.rows["id"][: len(rows)] == rows["id"]
    assert set(made_rows.rows["label"][len(rows) : made_rows.teacher_rows]) == {None}
    assert None not in made_rows.rows["label"][made_rows.teacher_rows :]
    assert made_rows.rows["b2"][-len(rows) :] == nli_rows(rows, load_split(pairs, "nli", "train"), 1, 23)["b2"]


def test_a_certain_label_is_the_only_target_of_the_student(rows, quick_model):
    heard = [[0.25, 0.25, 0.25, 0.25]]
    examples = encode_rows(
        rows.select(range(3)), QUICK, AutoTokenizer.from_pretrained(quick_model), soft=np.array(heard)
    )
    assert examples[0][SOFT] == heard[0]
    for example in examples[1:]:
        assert example[SOFT] == [float(label == example["labels"]) for label in range(4)]


def test_training_reads_nli_pairs_and_the_record_and_card_name_them(sample_repo, pairs, tmp_path):
    folder = train(QUICK.with_changes(nli=str(pairs)), data=sample_repo, out=tmp_path / "run")
    kept = record.read(folder)["request"]["recipe"]["augmentation"]
    assert kept["nli"].startswith("nli@") and kept["nli_pairs_per_row"] == 1
    card = model_card(folder).text
    assert "1 pair of `nli` for each training row" in card
    assert "cdconv train run.json --nli FOLDER" in card


def test_too_few_pairs_are_reported(rows, pairs):
    few = load_split(pairs, "nli", "train").select(range(5))
    with pytest.raises(InputError, match="nli_pairs_per_row: 1 for each of .* and there are 5 pairs; 0 is the most"):
        nli_rows(rows, few, 1, 23)


def test_a_pair_known_only_to_contradict_is_learnt_as_any_contradiction(rows, tmp_path, encoder):
    lines = [{"earlier": f"I have {n} cats.", "last": f"I have no cats at all, {n}.", "label": n % 2} for n in range(6)]
    two_way = write_jsonl(tmp_path / "pairs.train.jsonl", lines)
    nli.build([two_way], [held_out(tmp_path)], tmp_path / "nli")
    pairs = load_split(tmp_path / "nli", "nli", "train")
    recipe = Recipe.of(name="trial", view="nli", config="nli", backbone=str(encoder))
    examples = encode_rows(pairs, recipe, AutoTokenizer.from_pretrained(encoder))
    contradicts = [line["label"] == 1 for line in lines]
    assert [example["labels"] for example in examples] == [2 if flag else UNLABELLED for flag in contradicts]
    assert [example[ALLOWED] for example in examples] == [[not flag, not flag, flag] for flag in contradicts]
    conversations = nli_rows(rows.select(range(6)), pairs, 1, 23)
    history = rows.features["label"].str2int("history")
    by_text = {line["last"]: line["label"] == 1 for line in lines}
    assert all((row["label"] == history) == by_text[row["b2"]] for row in conversations)
