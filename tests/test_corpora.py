"""The registry of corpora: one schema for every public format, and each builds a data repo that loads."""

import re
from collections import Counter

import pytest
from datasets import load_dataset
from helpers.chats import write_jsonl
from helpers.corpora import CLAIM, ITEM, OCNLI, PROBE
from helpers.pages import ROOT, blocks

from contradiction.data import corpora
from contradiction.data.corpora import CHATS, PAIRS, WHOLE, Row, data_repo, local_splits, pairs, read_split
from contradiction.errors import InputError


def rows_of(copies, name, config=None, split="validation"):
    return read_split(corpora.find(name), copies / name, config, split)


def test_every_corpus_has_the_metadata_that_a_user_needs():
    known = corpora.all_corpora()
    for corpus in known.values():
        assert corpus.title and corpus.citation and corpus.homepage and corpus.license and corpus.size
        assert corpus.languages
        assert corpus.configs and all(config.shape in (PAIRS, CHATS, WHOLE) for config in corpus.configs)
        assert all(re.fullmatch("[0-9a-f]{64}", checksum) for checksum in corpus.checksums.values())
        assert corpus.checksums or corpus.bundled


@pytest.mark.parametrize("name", sorted(corpora.all_corpora()))
def test_every_corpus_builds_a_repo_that_loads(copies, tmp_path, name):
    corpus = corpora.find(name)
    source = None if name == "contrast" else copies / name  # which is part of the package
    splits, _ = data_repo.build(corpus, source, tmp_path / name)
    for (config, split), read in splits.items():
        loaded = load_dataset(str(tmp_path / name), config, split=split)
        assert [row["id"] for row in loaded] == [row.id for row in read.rows]
        names = loaded.features["label"]
        assert [row and row.label for row in read.rows] == [
            None if label is None else names.int2str(label) for label in loaded["label"]
        ]
        texts = {PAIRS: ("premise", "hypothesis"), CHATS: ("messages", "reply"), WHOLE: ("chat", "reply")}
        assert all(loaded[0][column] for column in texts[corpus.config(config).shape][config == "alone" :])
    assert f"license: {corpus.license}" in (tmp_path / name / "README.md").read_text(encoding="utf-8")


def test_joined_lines_of_cnli_are_split_and_damaged_ones_skipped(copies):
    read = rows_of(copies, "cnli", split="train")
    assert [row.id for row in read.rows] == ["AE1", "AC2", "AN3", "BC4", "BE8", "BC9"]
    assert read.rows[3] == Row("BC4", "contradiction", premise="他在跑", hypothesis="他没动")
    assert read.notes == Counter({pairs.JOINED: 2, pairs.DAMAGED: 2, pairs.REPEATED: 1})


def test_decode_makes_the_last_speaker_the_assistant_and_keeps_the_evidence(copies):
    clash, fine = rows_of(copies, "decode", "dialogues", "test").rows
    assert (clash.label, clash.evidence, clash.reply) == ("contradiction", (0, 2), "i never had a dog")
    assert [message["role"] for message in clash.messages] == ["assistant", "user", "assistant", "user"]
    assert (fine.label, fine.evidence) == ("non-contradiction", ())
    (chat,) = rows_of(copies, "decode", "dialogues", "human_bot").rows
    assert (chat.evidence, chat.source, chat.extra["bot"]) == (None, "c1", "live/x")  # not marked in the source


def test_decode_is_also_read_from_pairs_and_from_flat_dialogues_whose_evidence_they_hold(copies):
    clash, fine = rows_of(copies, "decode", "dialogues").rows
    assert [message["content"] for message in clash.messages] == ["i like tea", "me too", "you said coffee"]
    assert [message["role"] for message in clash.messages] == ["user", "assistant", "user"]
    assert (clash.evidence, fine.evidence) == ((1,), ())
    read, made = (rows_of(copies, "decode", "nli-2-class", split).rows for split in ("validation", "test"))
    assert [(row.premise, row.hypothesis) for row in read] == [("me too", "i hate tea"), ("i like tea", "good")]
    assert [row.premise for row in made] == ["i have a dog", "he is old", "he is old"]
    assert [row.label for row in [*read, *made]] == [clash.label, fine.label, clash.label, clash.label, fine.label]


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


def test_the_probes_are_read_from_the_authors_tree_and_from_a_flat_copy(tmp_path):
    tree = {
        "chinese-hans-full": "hans",
        "diagnostics-new-with-categories": "diagnostics",
        "new_logic_test": "logic",
        "stress_data_final/distraction_hypo_final": "distraction_hypo",
        "stress_data_final/spelling_final": "spelling",
    }
    for file, probe in tree.items():
        write_jsonl(tmp_path / "tree" / "data" / f"{file}.json", [PROBE])
        write_jsonl(tmp_path / "flat" / f"{probe}.json", [PROBE])
    corpus = corpora.find("probing")
    for source in ("tree", "tree/data", "flat"):
        read = read_split(corpus, tmp_path / source, None, "test")
        assert {row.extra["probe"]: row.id for row in read.rows} == {probe: f"{probe}-1" for probe in tree.values()}
        assert len(read.rows) == 5 and len(read.changed) == 4  # all but the spelling probe have a checksum


@pytest.mark.parametrize(
    ("name", "file", "rows", "message"),
    [
        ("decode", "test.jsonl", [{"is_contradiction": 0, "turns": []}], "test.jsonl:1: must have .*; has turns []"),
        ("decode", "dialogues.dev.jsonl", [{"last": "<0> a"}], "dialogues.dev.jsonl:1: must have history (utterances"),
        ("decode", "pairs.dev.jsonl", [{"earlier": "a", "last": 3, "label": 1}], "pairs.dev.jsonl:1: last is a number"),
        ("mutual", "mutual.dev.jsonl", [{**ITEM, "answers": "E"}], "answers (A, B, C, D or empty); has .*answers 'E'"),
        ("mutual", "mutual.dev.jsonl", [{**ITEM, "article": "?"}], "mutual.dev.jsonl:1: must have .* article '?'"),
        ("mutual", "mutual.dev.jsonl", [ITEM, ITEM], "mutual.dev.jsonl:2: another item has the id 'dev_1'"),
        ("ocnli", "dev.json", [{**OCNLI[0], "sentence2": 3}], "dev.json:1: sentence2 is a number"),
        ("ocnli", "dev.json", [["甲", "乙"]], "dev.json:row 1: got text"),
        ("dialfact", "testsmall.jsonl", [{**CLAIM, "context": 5}], "testsmall.jsonl:1: must have .* context 5"),
        ("dialfact", "testsmall.jsonl", [{**CLAIM, "response_label": "NO"}], "REFUTES, .*response_label 'NO'"),
    ],
)
def test_an_error_names_the_place_of_a_wrong_line(tmp_path, name, file, rows, message):
    write_jsonl(tmp_path / file, rows)
    with pytest.raises(InputError) as error:
        data_repo.read_all(corpora.find(name), tmp_path)
    assert all(part in str(error.value) for part in message.split(".*")) and "\n" not in str(error.value)


def test_the_error_for_a_missing_corpus_says_where_to_get_it(tmp_path):
    decode = corpora.find("decode")
    for source in (None, tmp_path, tmp_path / "nowhere"):
        with pytest.raises(InputError, match=r"decode_v0\.1\.zip|`cdconv corpora show decode` names its files"):
            data_repo.read_all(decode, source)
    with pytest.raises(InputError, match="corpus 'decod' .*anli, "):
        corpora.find("decod")
    with pytest.raises(InputError, match=r"none: no such file or folder; without it, contrast is read from "):
        data_repo.read_all(corpora.find("contrast"), tmp_path / "none")


def test_a_new_corpus_needs_one_file_only(run, tmp_path, monkeypatch):
    code = next(block for block in blocks(ROOT / "docs" / "extending.md", "python") if "CORPUS =" in block)
    assert len(code.splitlines()) < 40
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "weather.py").write_text(code, encoding="utf-8")
    monkeypatch.setattr(corpora, "__path__", [*corpora.__path__, str(tmp_path / "package")])
    (tmp_path / "weather.csv").write_text(
        "今天下雨吗,不下,在下大雨呢,1\n今天下雨吗,下,在下大雨呢,0\n", encoding="utf-8"
    )
    code, out, _ = run("corpora")
    assert code == 0 and "weather" in out
    code, _, err = run("corpora", "build", "weather", "--source", tmp_path, "--out", tmp_path / "out")
    assert code == 0, err
    assert load_dataset(str(tmp_path / "out"), split="test")["label"][:] == [1, 0]


def test_the_commands_list_show_and_build(run, copies, tmp_path, monkeypatch):
    monkeypatch.setenv("CDCONV_CORPORA", str(copies))
    code, out, _ = run("corpora")
    assert code == 0 and re.search(r"decode +en +not stated .*validation, test, human_bot, a2t, rct", out)
    code, out, _ = run("corpora", "show", "decode")
    assert code == 0 and "decode_v0.1.zip" in out and "dialogues.dev.jsonl" in out
    code, out, err = run("corpora", "build", "cnli", "--out", tmp_path / "cnli")
    assert code == 0 and "2 lines that held several records" in err and "train" in out
    code, _, err = run("corpora", "build", "cnli", "--out", tmp_path / "cnli")
    assert (code, "exists already" in err) == (2, True)


def test_a_file_belongs_to_the_split_that_its_full_path_names(tmp_path):
    anli, mutual = corpora.find("anli"), corpora.find("mutual")
    write_jsonl(tmp_path / "R3" / "train.jsonl", [{"uid": "u", "context": "a", "hypothesis": "b", "label": "c"}])
    write_jsonl(tmp_path / "data" / "mutual" / "dev" / "dev_1.txt", [ITEM])
    for corpus, file, expected_split in (
        (anli, "R3/train.jsonl", [("r3", "train")]),
        (mutual, "data/mutual/dev/dev_1.txt", [("mutual", "validation"), ("chat-response", "validation")]),
    ):
        assert [(config.name, split) for config, split in local_splits(corpus, tmp_path / file)] == expected_split
    with pytest.raises(InputError, match="holds no R1"):
        read_split(anli, tmp_path / "R3" / "train.jsonl", None, "train")
