"""The registry of corpora: one schema for every public format, and each builds a data repo that loads."""

import json
import re
import runpy
from collections import Counter
from pathlib import Path

import pytest
from datasets import load_dataset
from helpers.chats import write_jsonl

from contradiction.data import corpora as package
from contradiction.data.corpora import cnli, data_repo, nli, registry
from contradiction.data.corpora.corpus import CHATS, PAIRS, REPEATED_ID, WHOLE, Note, Row, local_splits, read_split
from contradiction.errors import InputError
from contradiction.evaluation.corpora import selection

WRITTEN_PAIRS = runpy.run_path(str(Path(__file__).parents[1] / "experiments" / "written_pairs.py"))["CORPUS"]
CHAT = [
    {"role": "user", "content": "你养宠物吗"},
    {"role": "assistant", "content": "养猫"},
    {"role": "user", "content": "哦"},
]
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
WRITTEN = {
    "id": "w1-001", "batch": "w1", "phenomenon": "habit", "messages": CHAT, "good": "嗯", "bad": "没养",
    "label": "history", "evidence": 1, "evidence_span": "养猫", "bad_span": "没养",
}  # fmt: skip
OCNLI = [
    {"level": "easy", "sentence1": "甲", "sentence2": "乙", "label": label, "genre": "lit", "prem_id": "lit_1", "id": 0}
    for label in ("neutral", "-")
]


@pytest.fixture(scope="module")
def copies(tmp_path_factory):
    """A folder with a small copy of every corpus in its public format."""
    folder = tmp_path_factory.mktemp("corpora")
    write_jsonl(folder / "ocnli" / "dev.json", OCNLI)
    write_jsonl(
        folder / "probing" / "hans.json", [{"sentence1": "甲", "sentence2": "乙", "label": "neutral", "category": "x"}]
    )
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
    write_jsonl(folder / "written" / "w1.jsonl", [WRITTEN])
    return folder


def corpus_of(name):
    return WRITTEN_PAIRS if name == WRITTEN_PAIRS.name else registry.find(name)


def rows_of(copies, name, config=None, split="validation"):
    return read_split(corpus_of(name), copies / name, config, split)


def test_every_corpus_has_the_metadata_that_a_user_needs():
    known = registry.all_corpora()
    assert {"ocnli", "cmnli", "xnli", "cnli", "decode", "dialfact", "mutual", "crossed"} <= set(known)
    for corpus in known.values():
        assert corpus.title and corpus.origin and corpus.home and corpus.licence and corpus.size and corpus.languages
        assert corpus.configs and all(config.shape in (PAIRS, CHATS, WHOLE) for config in corpus.configs)
        assert all(re.fullmatch("[0-9a-f]{64}", checksum) for checksum in corpus.checksums.values())
        assert corpus.checksums or corpus.bundled


@pytest.mark.parametrize("name", sorted(registry.all_corpora()))
def test_every_corpus_builds_a_repo_that_loads(copies, tmp_path, name):
    corpus = registry.find(name)
    built = data_repo.build(corpus, registry.local_copy(corpus, copies), tmp_path / name)
    for (config, split), read in built.splits.items():
        loaded = load_dataset(str(tmp_path / name), config, split=split)
        assert [row["id"] for row in loaded] == [row.id for row in read.rows]
        names = loaded.features["label"]
        assert [row and row.label for row in read.rows] == [
            None if label is None else names.int2str(label) for label in loaded["label"]
        ]
        texts = {PAIRS: ("premise", "hypothesis"), CHATS: ("messages", "reply"), WHOLE: ("chat", "reply")}
        assert all(loaded[0][column] for column in texts[corpus.config(config).shape])
    assert f"license: {corpus.licence}" in (tmp_path / name / "README.md").read_text(encoding="utf-8")


def test_joined_lines_of_cnli_are_split_and_damaged_ones_skipped(copies):
    read = rows_of(copies, "cnli", split="train")
    assert [row.id for row in read.rows] == ["AE1", "AC2", "AN3", "BC4", "BE8", "BC9"]
    assert read.rows[3] == Row("BC4", "contradiction", premise="他在跑", hypothesis="他没动")
    assert read.notes == Counter({cnli.JOINED: 2, cnli.DAMAGED: 2, cnli.REPEATED: 1})


def test_decode_makes_the_last_speaker_the_assistant_and_keeps_the_evidence(copies):
    clash, fine = rows_of(copies, "decode", "dialogues", "test").rows
    assert (clash.label, clash.evidence, clash.reply) == ("contradiction", (0, 2), "i never had a dog")
    assert [message["role"] for message in clash.messages] == ["assistant", "user", "assistant", "user"]
    assert (fine.label, fine.evidence) == ("non-contradiction", ())
    (chat,) = rows_of(copies, "decode", "dialogues", "human_bot").rows
    assert (chat.evidence, chat.source, chat.extra["bot"]) == (None, "c1", "live/x")  # not marked in the source


def test_flat_decode_dialogues_take_their_evidence_from_the_pairs(copies):
    clash, fine = rows_of(copies, "decode", "dialogues").rows
    assert [message["content"] for message in clash.messages] == ["i like tea", "me too", "you said coffee"]
    assert [message["role"] for message in clash.messages] == ["user", "assistant", "user"]
    assert (clash.evidence, fine.evidence) == ((1,), ())


def test_decode_pairs_are_read_or_extracted_from_dialogues(copies):
    pairs = rows_of(copies, "decode", "nli-2-class").rows
    assert [(row.premise, row.hypothesis, row.label) for row in pairs] == [
        ("me too", "i hate tea", "contradiction"), ("i like tea", "good", "non-contradiction"),
    ]  # fmt: skip
    cut = rows_of(copies, "decode", "nli-2-class", "test").rows
    assert [(row.premise, row.label) for row in cut] == [
        ("i have a dog", "contradiction"), ("he is old", "contradiction"), ("he is old", "non-contradiction"),
    ]  # fmt: skip


def test_mutual_gives_one_row_per_reply_and_speakers_alternate(copies):
    rows = rows_of(copies, "mutual", "mutual").rows
    assert [row.label for row in rows] == ["wrong", "right", "wrong", "wrong"]
    assert {row.source for row in rows} == {"dev_1"}
    assert [message["content"] for message in rows[0].messages] == ["hi , it 's ten : go .", "ok .", "bye ."]
    assert [message["role"] for message in rows[0].messages] == ["user", "assistant", "user"]
    assert rows[2].reply == "no ."
    assert {row.label for row in rows_of(copies, "mutual", "mutual_plus", "test").rows} == {None}


def test_a_claim_keeps_the_passages_that_have_text(copies):
    (claim,) = rows_of(copies, "dialfact", split="test").rows
    assert (claim.label, claim.extra["verifiable"], claim.extra["passages"]) == ("refutes", True, ["It was in 1998."])
    assert [message["role"] for message in claim.messages] == ["user", "assistant", "user"]


def test_written_pairs_yield_both_replies(copies):
    good, bad = rows_of(copies, "written", split="train").rows
    assert (good.reply, good.label, good.evidence) == ("嗯", "non-contradiction", ())
    assert (bad.reply, bad.label, bad.evidence, bad.extra["evidence_clause"]) == ("没养", "history", (1,), "养猫")


@pytest.mark.parametrize(
    ("name", "file", "row", "message"),
    [
        ("decode", "test.jsonl", {"turns": []}, "test.jsonl:1: not a dialogue"),
        ("decode", "test.jsonl", {"text": "a"}, "test.jsonl:1: has text"),
        ("decode", "pairs.dev.jsonl", {"earlier": "a", "last": "b", "label": 2}, "pairs.dev.jsonl:1: label is 2"),
        ("dialfact", "testsmall.jsonl", {**CLAIM, "response_label": "?"}, "testsmall.jsonl:1: response_label '?'"),
        ("mutual", "mutual.dev.jsonl", {**ITEM, "answers": "E"}, "mutual.dev.jsonl:1: must have four options"),
        ("mutual", "mutual.dev.jsonl", {"id": "x"}, "mutual.dev.jsonl:1: the key 'article'"),
        ("written", "w1.jsonl", {**WRITTEN, "label": "x"}, "w1.jsonl:1: label 'x'"),
        ("ocnli", "dev.json", {"sentence1": "甲"}, "dev.json:1: has sentence1"),
        ("ocnli", "dev.json", ["甲", "乙"], "dev.json:row 1: got text"),
        (
            "dialfact",
            "testsmall.jsonl",
            {**CLAIM, "evidence_list": [[]]},
            "testsmall.jsonl: the data after row 0 is not",
        ),
        ("dialfact", "testsmall.jsonl", {**CLAIM, "context": 5}, "testsmall.jsonl: the data after row 0 is not"),
        ("mutual", "mutual.dev.jsonl", {**ITEM, "answers": None}, "mutual.dev.jsonl: the data after row 0 is not"),
        ("written", "w1.jsonl", {**WRITTEN, "evidence": 7}, "w1.jsonl: the data after row 1 is not"),
        ("written", "w1.jsonl", {**WRITTEN, "good": 3}, "a number where text is expected"),
    ],
)
def test_an_error_names_the_place_of_a_wrong_line(tmp_path, name, file, row, message):
    write_jsonl(tmp_path / file, [row])
    with pytest.raises(InputError) as error:
        data_repo.read_all(corpus_of(name), tmp_path)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_the_error_for_a_missing_corpus_says_where_to_get_it(tmp_path):
    decode = registry.find("decode")
    for source in (None, tmp_path, tmp_path / "nowhere"):
        with pytest.raises(InputError, match=r"decode_v0\.1\.zip|its files are"):
            data_repo.read_all(decode, source)
    with pytest.raises(InputError, match="corpus 'decod' .*anli, "):
        registry.find("decod")


def test_rows_with_the_same_id_are_numbered(tmp_path):
    write_jsonl(tmp_path / "w1.jsonl", [WRITTEN, WRITTEN])
    read = read_split(WRITTEN_PAIRS, tmp_path, None, "train")
    assert [row.id for row in read.rows] == ["w1-001-good", "w1-001-bad", "w1-001-good#2", "w1-001-bad#2"]
    assert read.notes == {REPEATED_ID: 2}


def test_two_items_with_the_same_id_stay_separate(tmp_path):
    write_jsonl(tmp_path / "mutual.dev.jsonl", [ITEM, ITEM])
    rows = read_split(registry.find("mutual"), tmp_path, None, "validation").rows
    assert [row.source for row in rows] == ["dev_1"] * 4 + ["dev_1#2"] * 4
    items = selection.by_item(rows)
    assert selection.figures(items, [[0.0] * len(item) for item in items])["r1"] == 0.25
    # The claims of one chat belong together, even if one occurs twice.
    write_jsonl(tmp_path / "testsmall.jsonl", [CLAIM, CLAIM])
    claims = read_split(registry.find("dialfact"), tmp_path, None, "test").rows
    assert [(row.id, row.source) for row in claims] == [("1___9--0", "1___9"), ("1___9--0#2", "1___9")]


def test_a_test_set_without_labels_is_read(tmp_path):
    write_jsonl(tmp_path / "test.json", [{key: value for key, value in OCNLI[0].items() if key != "label"}])
    (row,) = read_split(registry.find("ocnli"), tmp_path, None, "test").rows
    assert (row.label, row.premise, row.source) == (None, "甲", "lit_1")


def test_a_known_file_with_other_content_is_reported(copies):
    assert rows_of(copies, "ocnli").changed == ["dev.json"]


def test_a_new_corpus_needs_one_file_only(run, tmp_path, monkeypatch):
    page = Path(__file__).resolve().parents[1] / "docs" / "extending.md"
    code = next(
        block for block in re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL) if "CORPUS =" in block
    )
    assert len(code.splitlines()) < 40
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "weather.py").write_text(code, encoding="utf-8")
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path / "package")])
    (tmp_path / "weather.csv").write_text(
        "今天下雨吗,不下,在下大雨呢,1\n今天下雨吗,下,在下大雨呢,0\n", encoding="utf-8"
    )
    code, out, _ = run("corpora")
    assert code == 0 and "weather" in out
    code, _, err = run("corpora", "build", "weather", "--source", tmp_path, "--out", tmp_path / "out")
    assert code == 0, err
    assert load_dataset(str(tmp_path / "out"), split="test")["label"][:] == [1, 0]


def test_the_commands_list_show_and_build(run, copies, tmp_path):
    code, out, _ = run("corpora", "--folder", copies)
    assert code == 0 and re.search(r"decode +en .*validation, test, human_bot, rct", out)
    code, out, _ = run("corpora", "show", "decode", "--folder", copies)
    assert code == 0 and "decode_v0.1.zip" in out and "dialogues.dev.jsonl" in out
    code, out, err = run("corpora", "build", "cnli", "--folder", copies, "--out", tmp_path / "cnli")
    assert code == 0 and "2 lines that held several records" in err and "train" in out
    code, _, err = run("corpora", "build", "cnli", "--folder", copies, "--out", tmp_path / "cnli")
    assert (code, "exists already" in err) == (2, True)


def test_data_build_accepts_a_corpus(run, copies, tmp_path, monkeypatch):
    code, _, err = run("data", "build", "--corpus", "cnli", "--source", copies / "cnli", "--out", tmp_path / "one")
    assert code == 0, err
    assert run("corpora", "build", "cnli", "--folder", copies, "--out", tmp_path / "two")[0] == 0
    one, two = (load_dataset(str(tmp_path / name), split="train") for name in ("one", "two"))
    assert one.to_dict() == two.to_dict()
    monkeypatch.chdir(tmp_path)
    assert run("data", "build", "--corpus", "cnli", "--source", copies / "cnli")[0] == 0
    assert (tmp_path / "cnli" / "README.md").is_file()
    assert run("data", "build", "--corpus", "cnli", "--source", copies / "cnli", "--checklists")[0] == 2


def test_the_corpora_folder_option_works_before_the_command(run, copies, tmp_path, monkeypatch):
    monkeypatch.setenv(registry.VARIABLE, str(tmp_path))
    code, _, err = run("corpora", "--folder", copies, "build", "ocnli", "--out", tmp_path / "before")
    assert code == 0, err
    code, _, err = run("corpora", "--folder", tmp_path, "build", "ocnli", "--folder", copies, "--out", tmp_path / "b")
    assert code == 0, err
    assert run("corpora", "build", "ocnli", "--out", tmp_path / "none")[0] == 2
    monkeypatch.setenv(registry.VARIABLE, str(copies))
    code, _, err = run("corpora", "build", "ocnli", "--out", tmp_path / "variable")
    assert code == 0, err


def test_a_file_belongs_to_the_split_that_its_full_path_names(tmp_path):
    anli, mutual = registry.find("anli"), registry.find("mutual")
    write_jsonl(tmp_path / "R3" / "train.jsonl", [{"uid": "u", "context": "a", "hypothesis": "b", "label": "c"}])
    write_jsonl(tmp_path / "data" / "mutual" / "dev" / "dev_1.txt", [ITEM])
    for corpus, file, expected_split in (
        (anli, "R3/train.jsonl", [("r3", "train")]),
        (mutual, "data/mutual/dev/dev_1.txt", [("mutual", "validation"), ("chat-response", "validation")]),
    ):
        assert [(config.name, split) for config, split in local_splits(corpus, tmp_path / file)] == expected_split
    with pytest.raises(InputError, match="holds no R1"):
        read_split(anli, tmp_path / "R3" / "train.jsonl", None, "train")


def test_a_training_repo_accepts_cnli_and_two_way_pairs(copies, tmp_path):
    train = [copies / "cnli" / "train.txt", copies / "decode" / "pairs.dev.jsonl"]
    dev = [copies / "xnli" / "dev.tsv", copies / "decode" / "test.jsonl"]
    built = nli.build(train, dev, tmp_path / "nli")
    assert (built.train, built.validation, built.two_way) == (8, 4, 1)
    assert built.notes[cnli.JOINED] == 2
    rows = load_dataset(str(tmp_path / "nli"), "nli", split="train")
    assert rows["label"][-2:] == [2, nli.UNKNOWN]
    assert rows["contradiction"][-2:] == [True, False]
    assert [label == 2 for label in rows["label"]] == rows["contradiction"][:]
    two = load_dataset(str(tmp_path / "nli"), "nli-2-class", split="train")
    assert two["label"][:] == [int(flag) for flag in rows["contradiction"]]
    assert -1 not in load_dataset(str(tmp_path / "nli"), "nli", split="validation")["label"]
    assert len(load_dataset(str(tmp_path / "nli"), "nli-2-class", split="validation")) == 4
    nli.build(train[:1], dev[:1], tmp_path / "three")
    three = load_dataset(str(tmp_path / "three"), "nli", split="train")
    assert three.column_names == ["id", "premise", "hypothesis", "label"]  # unchanged if all labels are known


def test_pairs_of_an_evaluation_set_are_excluded_whatever_their_punctuation(copies, tmp_path, run):
    evaluation_file = tmp_path / "seen.tsv"
    evaluation_file.write_text(
        "text_a\ttext_b\tlabel\n他在吃饭。\t 他在吃东西!\tneutral\nMe too.\ti hate TEA\tneutral\n", encoding="utf-8"
    )
    train = [copies / "cnli" / "train.txt", copies / "decode" / "pairs.dev.jsonl"]
    dev = copies / "xnli" / "dev.tsv"
    assert nli.build(train, [dev], tmp_path / "nli", exclude=[evaluation_file]).excluded == 2
    code, out, err = run(
        "data", "nli", "--train", train[0], "--validation", dev, "--exclude", evaluation_file, "--out", tmp_path / "b"
    )
    assert (
        code == 0
        and "5 training" in out
        and "1 training pairs left out because an excluded corpus contains them" in err
    )


def test_unlabelled_pairs_are_excluded_too(copies, tmp_path, monkeypatch):
    pair = {"sentence1": "他在吃饭", "sentence2": "他在吃东西"}
    test = tmp_path / "corpora" / "cmnli" / "test.json"
    write_jsonl(test, [pair])
    monkeypatch.setenv(registry.VARIABLE, str(tmp_path / "corpora"))
    data_repo.build(registry.find("cmnli"), test.parent, tmp_path / "repo")  # its labels are null
    disputed = tmp_path / "disputed.json"
    write_jsonl(disputed, [{**pair, "label": "-"}])
    for number, exclude in enumerate(("cmnli", test, f"{tmp_path / 'repo'}:nli", disputed)):
        train, dev = copies / "cnli" / "train.txt", copies / "xnli" / "dev.tsv"
        assert nli.build([train], [dev], tmp_path / str(number), exclude=[exclude]).excluded == 1
    assert nli.read("cmnli", "test") == nli.read(f"{tmp_path / 'repo'}:nli", "test") == nli.read(disputed) == []
    with pytest.raises(InputError, match="label None; allowed are"):
        nli.read(test)


def test_pairs_are_found_by_the_name_of_their_corpus(copies, tmp_path, monkeypatch):
    monkeypatch.setenv(registry.VARIABLE, str(copies))
    assert len(nli.read("cnli")) == 6
    assert nli.read("ocnli", "validation") == [("甲", "乙", "neutral")]
    assert len(nli.read("decode", nli.ALL)) == 5
    with pytest.raises(InputError, match="mutual: the local copy has no train split of pairs; it has none"):
        nli.read("mutual")
    monkeypatch.delenv(registry.VARIABLE)
    with pytest.raises(InputError, match=registry.VARIABLE):
        nli.read("ocnli")


def test_a_reader_of_cnli_yields_rows_and_notes(copies):
    items = list(cnli.read(copies / "cnli" / "train.txt"))
    assert {type(record) for record in items} == {Row, Note}
