"""Files that people really have, through every way in that takes them."""

import json
import shutil
from pathlib import Path

import pytest
from helpers.chats import CHAT, TEXTS, chat, objects, write_csv, write_jsonl

from contradiction.chats.names import USUAL, Speakers
from contradiction.chats.readers import open_file
from contradiction.data import labelled
from contradiction.errors import InputError
from contradiction.serving.review import chats_of
from contradiction.serving.review_store import LabelStore

CASES = Path(__file__).parent / "cases"
CANNOT, GLADLY = "我不会开车", "好呀，周末我来开"


@pytest.fixture
def reviewed(run, tmp_path, monkeypatch):
    """The last replies that `cdconv review` shows for a case, and its stderr."""
    monkeypatch.setattr("uvicorn.run", lambda *args, **options: None)

    def call(file, *options):
        code, _, err = run("review", shutil.copy(file, tmp_path), "--port", "7899", *options)
        labels = tmp_path / f"{Path(file).name}.review.jsonl"
        if not labels.exists():
            return code, [], err
        store = LabelStore(labels)
        return code, [item.messages[-1]["content"] for item, _, _ in store.reviewed()], err

    return call


def replies(file, speakers=None):
    return [entry.messages[-1]["content"] for entry in open_file(file, speakers=speakers or Speakers())]


@pytest.mark.parametrize(
    ("name", "last"),
    [
        ("reply_beside_messages.jsonl", [CANNOT, GLADLY]),
        ("chosen_rejected.jsonl", [GLADLY, CANNOT]),
        ("newest_first.csv", [CANNOT]),
        ("messages_in_a_cell.csv", ["会"]),
        ("excel_sep_line.csv", ["会，开了十年"]),
    ],
)
def test_the_reply_of_the_record_is_judged_and_reviewed(detect, reviewed, name, last):
    assert replies(CASES / name) == last
    code, verdicts, err = detect(CASES / name)
    assert code == 0 and len(verdicts) == len(last)
    assert [verdict["reply"] for verdict in verdicts] == [
        [len(entry.messages) - 1] for entry in open_file(CASES / name)
    ]
    assert reviewed(CASES / name)[:2] == (0, last)
    assert any("sorted" in line and "timestamp" in line for line in err) == (name == "newest_first.csv")


def test_a_labelled_record_is_read_by_the_same_reader():
    chats = labelled.read(CASES / "reply_beside_messages.jsonl")
    assert [(one.messages[-1]["content"], one.label) for one in chats] == [
        (CANNOT, "history"), (GLADLY, "non-contradiction"),
    ]  # fmt: skip
    with pytest.raises(InputError, match=r"chosen_rejected.jsonl:1: has no label"):
        labelled.read(CASES / "chosen_rejected.jsonl")


def test_the_answers_of_one_line_have_names_of_their_own(detect, tmp_path):
    out = tmp_path / "out.jsonl"
    assert detect(CASES / "chosen_rejected.jsonl", "--out", out)[0] == 0
    assert [(one["line"], one["id"]) for one in objects(out)] == [(1, "1/chosen"), (1, "1/rejected")]
    assert detect(CASES / "chosen_rejected.jsonl", "--out", out, "--resume")[0] == 0
    assert len(objects(out)) == 2


@pytest.mark.parametrize(("name", "stranger"), [("handover.txt", "人工客服"), ("group_chat.txt", "小王")])
def test_an_unknown_speaker_is_refused_by_name_until_an_option_says_who_it_is(detect, reviewed, name, stranger):
    code, verdicts, err = detect(CASES / name, "--quiet")
    assert (code, verdicts) == (1, [])
    assert stranger in err[0] and "--bot-name" in err[0] and "--user-name" in err[0]
    (CASES / f"{name}.rejected.jsonl").unlink()
    code, _, err = reviewed(CASES / name)
    assert code == 2 and stranger in err
    for option, role in (("--bot-name", "assistant"), ("--user-name", "user")):
        speakers = Speakers(**{"bots" if role == "assistant" else "users": (stranger,)})
        [entry] = open_file(CASES / name, speakers=speakers)
        assert len(entry.messages) == 4
        assert role in {message["role"] for message in entry.messages if message["content"][-1] in "呀了"}
        code, verdicts, _ = detect(CASES / name, option, stranger)
        assert (code, len(verdicts)) == (0, 1)
        assert reviewed(CASES / name, option, stranger)[0] == 0


def test_names_of_ones_own_are_known_in_columns_and_cells(tmp_path):
    names = {"user": "阿明", "assistant": "小助手"}
    rows = [[1, names[one["role"]], one["content"]] for one in CHAT]
    write_csv(tmp_path / "a.csv", ["session_id", "speaker", "text"], rows)
    write_csv(tmp_path / "b.csv", ["dialogue"], [["\n".join(f"{name}：{text}" for _, name, text in rows)]])
    for file, unknown in ((tmp_path / "a.csv", "阿明"), (tmp_path / "b.csv", "dialogue")):
        [entry] = open_file(file, speakers=Speakers(("阿明",), ("小助手",)))
        assert [message["content"] for message in entry.messages] == list(TEXTS)
        [entry] = open_file(file)
        assert unknown in entry.error


def test_labels_in_a_table_are_read(tmp_path):
    rows = [
        ["a", json.dumps(CHAT[:3]), CHAT[3]["content"], "history", "[1]"],
        ["b", json.dumps(CHAT), "", "contradiction", ""],
    ]
    write_csv(tmp_path / "labels.csv", ["id", "messages", "reply", "label", "evidence"], rows)
    chats = labelled.read(tmp_path / "labels.csv")
    assert [(one.id, one.messages, one.label, one.evidence) for one in chats] == [
        ("a", CHAT, "history", 1), ("b", CHAT, "contradiction", None),
    ]  # fmt: skip


def test_a_sample_for_review_has_sure_doubtful_and_random_chats(tmp_path, reviewed):
    file, verdicts = tmp_path / "a" / "chats.jsonl", tmp_path / "verdicts.jsonl"
    write_jsonl(file, [{"id": n, "messages": chat(*TEXTS[:3], f"我养了{n}只")} for n in range(100)])
    judged = [
        {"line": n + 1, "id": n, "probability": n / 100, "contradiction": n >= 40, **({"reply": [3]} if n % 2 else {})}
        for n in range(100)
    ]
    write_jsonl(verdicts, judged)
    code, last, _ = reviewed(file, "--verdicts", verdicts, "--sample", "15")
    numbers = [int(text.removeprefix("我养了").removesuffix("只")) for text in last]
    assert code == 0 and len(numbers) == 15 and numbers == sorted(numbers)
    assert {95, 96, 97, 98, 99, 37, 38, 39, 40, 41} <= {*numbers}
    code, _, err = reviewed(file, "--sample", "15")
    assert code == 2 and "--sample 15: chooses replies by their verdicts; name the file with --verdicts" in err
    write_jsonl(verdicts, judged[:1])
    code, _, err = reviewed(file, "--verdicts", verdicts)
    assert code == 2 and "no verdict on line 2" in err
    of_the_page = {"error": "too long"}
    for other in (of_the_page, {"verdicts": 3}, {"probability": "high", "contradiction": True}):
        write_jsonl(verdicts, [{"line": 1, "id": 0} | other])
        code, _, err = reviewed(file, "--verdicts", verdicts)
        assert code == 2 and "verdicts.jsonl:1: holds no verdict" in err


def test_a_sample_by_the_verdicts_of_a_scan_shows_each_chosen_reply_as_the_last(tmp_path, reviewed):
    file, verdicts = tmp_path / "a" / "chats.jsonl", tmp_path / "verdicts.jsonl"
    write_jsonl(file, [{"messages": CHAT}])
    scanned = [
        {"probability": chance, "contradiction": chance > 0.5, "reply": [place]}
        for chance, place in ((0.9, 1), (0.1, 3))
    ]
    write_jsonl(verdicts, [{"line": 1, "verdicts": scanned}])
    code, last, _ = reviewed(file, "--verdicts", verdicts, "--sample", "3")
    assert (code, last) == (0, [CHAT[1]["content"], CHAT[3]["content"]])
    names = [name for name, _ in chats_of(file, print, None, USUAL, verdicts, 3)]
    assert names == ["1/1", "1"], "the label of an earlier reply is none of the whole chat"
    goes_on = [*CHAT, {"role": "user", "content": "那好吧"}]
    write_jsonl(file, [{"messages": goes_on}])
    write_jsonl(verdicts, [{"line": 1, **scanned[1]}])
    assert chats_of(file, print, None, USUAL, verdicts, 1) == [("1", CHAT)], "also if the user has the last word"
