"""The crossed corpus: its form and its splits. Neither side alone reveals the label."""

import pytest
from helpers.chats import write_jsonl
from helpers.corpora import READ_ALL

from contradiction.data.corpora import all_corpora, crossed
from contradiction.data.splits import load_split
from contradiction.errors import InputError
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
    for batch, rows in lines.items():
        write_jsonl(folder / f"{batch}.jsonl", rows)
    listed = [f"{name},{split},short,none" for split, names in splits.items() for name in names]
    (folder / "batches.csv").write_text("\n".join(["batch,split,style,brief", *listed]), encoding="utf-8")
    return folder


@pytest.fixture(scope="module", params=crossed.FOLDERS)
def corpus(request):
    return request.param


@pytest.fixture(scope="module")
def published(corpus):
    return READ_ALL(crossed.FOLDERS[corpus])


def test_ids_are_unique_and_every_batch_is_in_one_split(published):
    assert set(published) == {"train", "validation", "test"}
    splits = {(item.batch, split) for split, items in published.items() for item in items}
    assert len({batch for batch, _ in splits}) == len(splits)
    ids = [item.id for items in published.values() for item in items]
    assert len(ids) == len(set(ids))


def test_the_published_corpus_passes_every_gate(corpus):
    failed = [check for check in crossed_gates.check(crossed.FOLDERS[corpus]) if not check.passed]
    assert not failed


def test_the_crossed_corpus_is_a_config_of_the_built_data_repo(corpus, published, sample_repo):
    sizes = []
    for split, items in published.items():
        rows = load_split(sample_repo, corpus, split)
        assert len(rows) == sum(1 for item in items for _ in item.judged())
        sizes.append(f"{split} {len(rows):,}")
    assert all_corpora()[corpus].size == ", ".join(sizes)
    assert rows[1]["messages"][rows[1]["evidence"]]["role"] == "assistant"
    assert rows.features["label"].names[rows[1]["label"]] == "history"


@pytest.mark.parametrize("line", [{"label": "history"}, quadruple(1, more=1), {"a": 1}, ["a"]])
def test_the_error_names_the_place_of_a_bad_line(tmp_path, line):
    with pytest.raises(InputError, match=r"b1\.jsonl:2: "):
        crossed.read("train", write(tmp_path / "it", {"train": ["b1"]}, b1=[quadruple(0), line]))
    (tmp_path / "it" / "batches.csv").write_text("batch,file\nb1,b1.jsonl\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"batches\.csv: cannot be read"):
        crossed.read("train", tmp_path / "it")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"evidence": 9}, "list index out of range"),
        ({"evidence": -2}, "differ in the message of evidence"),
        ({"a": "hello"}, "not of the documented form"),
        ({"a": [ASK, ASK, ASK_AGAIN]}, "a chat alternates"),
        ({"reply_a": None}, "must be a text"),
        ({"label": "histroy"}, "no label 'histroy'"),
        ({"clauses": ["养了"]}, "not of the documented form"),
    ],
)
def test_an_item_of_another_form_is_one_line(tmp_path, changes, message):
    folder = write(tmp_path / "it", {"train": ["b1", "b2"]}, b1=[quadruple(0)], b2=[quadruple(1, "b2", **changes)])
    with pytest.raises(InputError, match=f"it: item 'b2-001': .*{message}"):
        crossed_gates.check(folder)


@pytest.mark.parametrize("splits", [{"train": ["b1", "b2"]}, {"train": []}, {"train": ["b1", "b1"]}, {"trian": ["b1"]}])
def test_each_file_is_one_batch_of_a_split(tmp_path, splits):
    with pytest.raises(InputError, match=r"batches\.csv: must list .* look at b"):
        crossed.batches(write(tmp_path / "it", splits, b1=[quadruple(0)]))


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
