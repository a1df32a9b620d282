"""The crossed corpus: its form and its splits. Neither side alone reveals the label."""

import json

import pytest
from helpers.corpora import READ_ALL

from contradiction.data.corpora import crossed
from contradiction.data.splits import load_split
from contradiction.errors import InputError
from contradiction.labels import CATEGORIES, HISTORY, INTRA, NON_CONTRADICTION
from experiments import crossed_gates

ASK, ASK_AGAIN = {"role": "user", "content": "你养宠物吗"}, {"role": "user", "content": "周末一般干嘛"}


def quadruple(number, batch="b1", **changes):
    replies = {"a": "养了只橘猫", "b": "没养，租房不让"}
    chats = {
        chat: [ASK, {"role": "assistant", "content": f"{text}{number}"}, ASK_AGAIN] for chat, text in replies.items()
    }
    return {
        "id": f"{batch}-{number:03d}", "batch": batch, "phenomenon": "possession", "label": "history", **chats,
        "reply_a": f"给猫剪指甲{number}", "reply_b": f"连个活物都没有{number}", "evidence": 1, **changes,
    }  # fmt: skip


def write(folder, splits, **lines):
    folder.mkdir(exist_ok=True)
    for batch, rows in lines.items():
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (folder / f"{batch}.jsonl").write_text(text, encoding="utf-8")
    listed = [f"{name},{split},short,none" for split, names in splits.items() for name in names]
    (folder / "batches.csv").write_text("\n".join(["batch,split,style,brief", *listed]), encoding="utf-8")
    return folder


@pytest.fixture(scope="module", params=crossed.FOLDERS)
def corpus(request):
    return request.param


@pytest.fixture(scope="module")
def published(corpus):
    return READ_ALL(crossed.FOLDERS[corpus])


def test_every_chat_and_every_reply_occurs_once_with_each_label(published):
    for items in published.values():
        for item in items:
            judged = list(item.judged())
            assert [row.label != NON_CONTRADICTION for row in judged] == [False, True] * (len(judged) // 2)
            if item.label != INTRA:
                sides = {(tuple(message["content"] for message in row.messages), row.reply) for row in judged}
                assert len(sides) == 4
                assert len({chat for chat, _ in sides}) == len({reply for _, reply in sides}) == 2


def test_every_item_has_the_form_that_is_documented(published):
    for item in (item for items in published.values() for item in items):
        assert item.phenomenon in crossed.PHENOMENA and item.label in CATEGORIES
        for row in item.judged():
            roles = [message["role"] for message in row.messages]
            assert roles == ["user", *["assistant", "user"] * (len(roles) // 2)]
            assert all(text.strip() for text in (row.reply, *(message["content"] for message in row.messages)))
        if item.label == INTRA:
            assert all(clause in item.bad for clause in item.clauses) and len(item.clauses) == 2
        else:
            assert len(item.a) == len(item.b) and item.a[item.evidence] != item.b[item.evidence]
            assert item.label != HISTORY or item.a[item.evidence]["role"] == "assistant"


def test_ids_are_unique_and_every_batch_is_in_one_split(published, corpus):
    folder = crossed.FOLDERS[corpus]
    assert crossed.batches(folder).keys() == {file.stem for file in folder.glob("*.jsonl")}
    assert set(published) == {"train", "validation", "test"}
    splits = {(item.batch, split) for split, items in published.items() for item in items}
    assert len({batch for batch, _ in splits}) == len(splits)
    ids = [item.id for items in published.values() for item in items]
    assert len(ids) == len(set(ids))


def test_the_published_corpus_passes_every_gate(corpus):
    failed = [check for check in crossed_gates.check(crossed.FOLDERS[corpus]) if not check.passed]
    assert not failed


def test_the_crossed_corpus_is_a_config_of_the_built_data_repo(corpus, published, sample_repo):
    for split, items in published.items():
        rows = load_split(sample_repo, corpus, split)
        assert len(rows) == sum(1 for item in items for _ in item.judged())
    assert rows[1]["messages"][rows[1]["evidence"]]["role"] == "assistant"
    assert rows.features["label"].names[rows[1]["label"]] == "history"


@pytest.mark.parametrize("line", [{"label": "history"}, quadruple(1, more=1), {"a": 1}, ["a"]])
def test_the_error_names_the_place_of_a_bad_line(tmp_path, line):
    with pytest.raises(InputError, match=r"b1\.jsonl:2: "):
        crossed.read("train", write(tmp_path / "it", {"train": ["b1"]}, b1=[quadruple(0), line]))
    (tmp_path / "it" / "batches.csv").write_text("batch,file\nb1,b1.jsonl\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"batches\.csv: cannot be read"):
        crossed.read("train", tmp_path / "it")


def test_a_corpus_that_overlaps_or_repeats_itself_fails(tmp_path):
    leaking = quadruple(0, batch="b2", reply_a="养了只橘猫0，给它剪指甲", reply_b="没养，租房不让0，清静")
    folder = write(
        tmp_path / "it", {"train": ["b1"], "test": ["b2", "b3"]},
        b1=[quadruple(0)], b2=[leaking], b3=[quadruple(0, batch="b3")],
    )  # fmt: skip
    failed = {check.name for check in crossed_gates.check(folder) if not check.passed}
    assert failed == {
        "replies that share more words with their own chat, AUC",
        "the same, the batch with the highest",
        "near-duplicate items across splits",
    }
