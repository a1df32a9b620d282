"""A small copy of every corpus in its public format."""

import json
import shutil
from contextlib import contextmanager
from functools import cache
from unittest.mock import patch

import pytest
from helpers.chats import chat, write_jsonl

from contradiction.data import build
from contradiction.data.corpora import crossed
from contradiction.labels import LABELS

CHAT = chat("你养宠物吗", "养猫", "哦")
CNLI = [
    "AE1\t他在吃饭\t他在吃东西\tentailment\r", "AC2\t他在吃饭\t他在睡觉\tcontradiction\t\t\t\t\t\t\t\t",
    "AN3\t他在跑\t他很饿\tneutralBC4\t他在跑\t他没动\tcontradiction", "AC5\t他在跑\t他没动\tcontradiction",
    "AC6\t他在\t走\t他没动\tcontradiction", "AE7\t她在走\t她在动\tentailmen",
    "BE8\t她在走\t她在动\tentailment\t\t\tBC9\t她在走\t她在睡\tcontradiction",
]  # fmt: skip


def turn(agent, text, **more):
    return {"agent_id": agent, "text": text, "turn_id": 0, **more}


def release(name, turns, label, marked, **more):
    return {
        "record_id": name, "turns": turns, "is_contradiction": label,
        "aggregated_contradiction_indices": marked, **more,
    }  # fmt: skip


TURNS = [turn(0, "i have a dog"), turn(1, "nice"), turn(0, "he is old"), turn(1, "oh")]
HUMAN_BOT = [turn(0, "hi"), turn(1, "i am a nurse"), turn(0, "really?"), turn(1, "no, a cook")]
DIALOGUES = {
    "test": [release("r1", [*TURNS, turn(0, "i never had a dog")], True, [0, 2, 4]),
             release("r2", [*TURNS, turn(0, "he barks")], False, [])],
    "human-bot": [release("h1", HUMAN_BOT, True, [], auxiliary={"original_model": "live/x"}, conversation_id="c1")],
    "a2t": [release("a1", [*TURNS, turn(0, "hm"), turn(1, "yes"), turn(0, "i never had a dog")], True, [0, 2, 6])],
    "rct": [release("t1", [*TURNS[1:], turn(0, "i never had a dog")], False, [])],
}  # fmt: skip
FLAT = [
    {"history": "<0> i like tea <1> me too <0> you said coffee", "last": "<1> i hate tea", "label": 1},
    {"history": "<0> i like tea <1> me too", "last": "<0> good", "label": 0},
]
PAIRS_OF_FLAT = [
    {"earlier": "me too", "last": "i hate tea", "label": 1}, {"earlier": "i like tea", "last": "good", "label": 0},
]  # fmt: skip
CLAIM = {
    "context_id": "1___9", "id": "1___9--0", "data_type": "written", "context": ["hi", "hello", "tell me more "],
    "response": " it was in 1997. ", "response_label": "REFUTES", "type_label": "factual",
    "evidence_list": [["A", "https://x", "It was in 1998.", "0"], ["A", "https://x", "", "1"]],
}  # fmt: skip
ITEM = {
    "id": "dev_1", "answers": "B", "article": "m : hi , it 's ten : go . f : ok . m ; bye .",
    "options": ["f : see you .", "f : bye .", "m : no .", "f : what ?"],
}  # fmt: skip
PROBE = {"sentence1": "甲", "sentence2": "乙", "label": "neutral", "category": "x"}
OCNLI = [
    {"level": "easy", "sentence1": "甲", "sentence2": "乙", "label": label, "genre": "lit", "prem_id": "lit_1", "id": 0}
    for label in ("neutral", "-")
]


@pytest.fixture(scope="session")
def copies(tmp_path_factory):
    """A folder with a small copy of every corpus in its public format."""
    folder = tmp_path_factory.mktemp("corpora")
    write_jsonl(folder / "ocnli" / "dev.json", OCNLI)
    write_jsonl(folder / "probing" / "hans.json", [PROBE])
    write_jsonl(
        folder / "anli" / "R1.dev.jsonl", [{"uid": "u", "context": "a", "hypothesis": "b", "label": "c", "genre": "w"}]
    )
    (folder / "cmnli").mkdir()
    row = {"id": 0, "text_a": "甲", "text_b": "乙", "text_c": "", "label": "矛盾"}
    (folder / "cmnli" / "dev.json").write_text(json.dumps([row], ensure_ascii=False), encoding="utf-8")
    (folder / "xnli").mkdir()
    (folder / "xnli" / "dev.tsv").write_text("text_a\ttext_b\tlabel\n甲\t乙\tneutral\n", encoding="utf-8")
    (folder / "cnli").mkdir()
    (folder / "cnli" / "train.txt").write_text("\n".join(CNLI) + "\n", encoding="utf-8")
    for name, rows in DIALOGUES.items():
        write_jsonl(folder / "decode" / f"{name}.jsonl", rows)
    write_jsonl(folder / "decode" / "dialogues.dev.jsonl", FLAT)
    write_jsonl(folder / "decode" / "pairs.dev.jsonl", PAIRS_OF_FLAT)
    write_jsonl(folder / "dialfact" / "testsmall.jsonl", [CLAIM])
    write_jsonl(folder / "mutual" / "mutual.dev.jsonl", [ITEM])
    write_jsonl(
        folder / "mutual" / "data" / "mutual_plus" / "test" / "test_1.txt", [{**ITEM, "id": "test_1", "answers": " "}]
    )
    for name, chosen in (
        ("crossed", ("l1", "t1", "t2")), ("crossed-long", ("lr1", "lv1", "lt1")), ("crossed-en", ("en4", "en1", "en2")),
    ):  # fmt: skip
        (folder / name).mkdir()
        for batch in chosen:
            shutil.copy(crossed.FOLDERS[name] / f"{batch}.jsonl", folder / name)
        lines = [f"{batch},{split},short," for batch, split in zip(chosen, crossed.SPLITS, strict=True)]
        (folder / name / "batches.csv").write_text("\n".join(["batch,split,style,brief", *lines]), encoding="utf-8")
    return folder


ROWS = {"train": 48, "validation": 16}
ANIMALS = ("cat", "dog", "horse", "fish")


def dialogue(number):
    clash, animal = number % 2, ANIMALS[number % 4]
    last = f"i never had a {animal}" if clash else f"my {animal} is old"
    turns = [turn(0, f"i have a {animal}"), turn(1, "nice"), turn(0, "it barks"), turn(1, "oh"), turn(0, last)]
    return release(str(number), turns, bool(clash), [0, 4] if clash else [])


def item(number):
    options = [f"f : the {animal} ." for animal in ANIMALS]
    return {"id": str(number), "answers": "ABCD"[number % 4], "options": options,
            "article": f"m : hello . f : hi . m : which of them , the {ANIMALS[number % 4]} ?"}  # fmt: skip


def claim(number):
    label = ("SUPPORTS", "REFUTES", "NOT ENOUGH INFO")[number % 3]
    return {"context_id": str(number), "id": str(number), "context": ["hi"], "response": f"fact {number} is {label}",
            "response_label": label, "type_label": ["factual", "personal"][number % 2],
            "evidence_list": [["t", "u", f"fact {number}", "0"]]}  # fmt: skip


def pair(number):
    label = LABELS["nli"][number % 3]
    return {"sentence1": f"甲{number}吃饭", "sentence2": f"乙{number % 7}{label[:2]}", "label": label,
            "level": ["easy", "hard"][number % 2], "genre": "lit", "prem_id": str(number)}  # fmt: skip


@pytest.fixture(scope="session")
def larger(tmp_path_factory):
    """Copies with enough rows to fit a model to."""
    folder = tmp_path_factory.mktemp("larger")
    for name, make, files in (
        ("decode", dialogue, ("train.jsonl", "dev.jsonl")),
        ("mutual", item, ("mutual.train.jsonl", "mutual.dev.jsonl")),
        ("dialfact", claim, ("augmented.jsonl", "valid_split.jsonl")),
        ("ocnli", pair, ("train.50k.json", "dev.json")),
    ):
        for file, count in zip(files, ROWS.values(), strict=True):
            write_jsonl(folder / name / file, [make(number) for number in range(count)])
    return folder


READ_ALL, BUILD = cache(crossed.read_all), build.crossed_splits
ENCODED = {}


def encoded(items):
    """The rows of a corpus that ``READ_ALL`` returned, encoded once."""
    if id(items) not in ENCODED:
        ENCODED[id(items)] = BUILD(items)
    return ENCODED[id(items)]


@contextmanager
def sharing_crossed():
    """All builds share one copy of the crossed corpora, because reading and encoding it takes most of their time."""
    with patch.object(crossed, "read_all", READ_ALL), patch.object(build, "crossed_splits", encoded):
        yield


@pytest.fixture
def crossed_once():
    with sharing_crossed():
        yield
