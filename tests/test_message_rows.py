"""Tables with one message in each row, and column names in any case."""

import json

import pyarrow
import pytest
from helpers.chats import CHAT, TEXTS, chat, line, objects, write_csv
from pyarrow import parquet

from contradiction.chats import readers
from contradiction.errors import InputError

OTHER = chat("你好", "在的")


def entries_of(path):
    return [*readers.open_file(path)]


def rows_of(name, messages):
    return [[name, message["role"], message["content"]] for message in messages]


@pytest.mark.parametrize(
    "header",
    [
        ("session_id", "role", "content"),
        ("Conversation ID", "Speaker", "Text"),
        ("chatId", "SENDER", "message"),
        ("对话ID", "角色", "内容"),
        ("id", "from", "value"),
    ],
)
def test_rows_are_grouped_into_chats_in_the_order_in_which_these_begin(tmp_path, header):
    first, second = rows_of("b", CHAT), rows_of("a", OTHER)
    write_csv(tmp_path / "a.csv", header, [first[0], second[0], *first[1:], second[1]])
    entries = entries_of(tmp_path / "a.csv")
    assert [(entry.number, entry.id, entry.messages) for entry in entries] == [(1, "b", CHAT), (2, "a", OTHER)]
    assert entries[0].end < entries[1].end == (tmp_path / "a.csv").stat().st_size


def test_a_table_of_messages_gets_the_verdicts_of_the_same_chats_in_json(detect, tmp_path):
    write_csv(tmp_path / "a.tsv", ("session_id", "role", "content"), rows_of("x", CHAT), delimiter="\t")
    code, [answer], _ = detect(tmp_path / "a.tsv")
    _, [expected], _ = detect(stdin=line(id="x").encode())
    assert code == 0
    assert answer.pop("row") == expected.pop("line") == 1
    assert answer == expected


def test_json_and_parquet_with_a_message_each_are_the_chats_of_the_same_table(detect, tmp_path):
    file, header = tmp_path / "a.jsonl", ("session_id", "role", "text", "time")
    first, second = (
        [[*row, f"2024-05-01 10:0{at}"] for at, row in enumerate(rows_of(n, c))] for n, c in ((7, CHAT), (8, OTHER))
    )
    rows = [first[0], second[0], *reversed(first[1:]), second[1]]
    lines = [json.dumps(dict(zip(header, row, strict=True)), ensure_ascii=False) for row in rows]
    file.write_text("\n" + "\n\n".join(lines), encoding="utf-8")
    (tmp_path / "a.json").write_text(f"[{','.join(lines)}]", encoding="utf-8")
    write_csv(tmp_path / "a.csv", header, rows)
    columns = dict(zip(header, zip(*rows, strict=True), strict=True))
    parquet.write_table(pyarrow.table(columns), tmp_path / "a.parquet")
    expected = [("7", CHAT), ("8", OTHER)]
    for name in ("a.jsonl", "a.json", "a.csv", "a.parquet"):
        assert [(str(entry.id), entry.messages) for entry in entries_of(tmp_path / name)] == expected, name
    assert [entry.number for entry in entries_of(file)] == [2, 4]
    code, answers, err = detect(file)
    assert (code, [(answer["line"], answer["id"]) for answer in answers]) == (0, [(2, 7), (4, 8)])
    assert "sorted, oldest first (chats: 1)" in err[0]
    assert detect(stdin=file.read_bytes())[1] == answers


def test_a_line_of_json_that_is_no_message_of_a_chat_is_reported_and_calls_of_tools_are_skipped(detect, tmp_path):
    said = [{"session_id": "s", **message} for message in CHAT]
    call = {"session_id": "s", "role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}
    stranger = {"session_id": "t", "role": "旁白", "content": "夜里"}
    others = [{"role": "user", "content": "谁"}, stranger, {**said[0], "session_id": [1]}, 5]
    lines = [*map(json.dumps, [*said[:3], call, said[3], *others]), "{"]
    (tmp_path / "a.jsonl").write_text("\n".join(lines), encoding="utf-8")
    code, [answer], err = detect(tmp_path / "a.jsonl")
    assert (code, answer["id"], answer["reply"]) == (1, "s", [4])
    reasons = (
        "session_id is empty",
        "role in line 7: '旁白'",
        "session_id is a list",
        "a number; it must be",
        "not JSON",
    )
    for number, (line_, reason) in enumerate(zip(err, reasons, strict=False), 6):
        assert f"a.jsonl:{number}: {reason}" in line_


def test_messages_with_ids_of_their_own_are_one_chat_in_json_and_no_chat_in_lines(tmp_path):
    messages = [{"id": str(number), **message} for number, message in enumerate(CHAT)]
    (tmp_path / "a.json").write_text(json.dumps(messages), encoding="utf-8")
    [entry] = entries_of(tmp_path / "a.json")
    assert entry.turns == 2
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, messages)), encoding="utf-8")
    with pytest.raises(InputError, match="has an id of its own, so it names the message; a column session_id"):
        entries_of(tmp_path / "a.jsonl")


def test_speakers_have_many_names_and_unread_columns_may_be_there(tmp_path):
    names = ("用户", "Bot", "customer", "assistant")
    rows = [["s", "9:00", name, text] for name, text in zip(names, TEXTS, strict=True)]
    write_csv(tmp_path / "a.csv", ("session_id", "time", "role", "content"), rows)
    [entry] = entries_of(tmp_path / "a.csv")
    assert entry.messages == CHAT


def test_an_unknown_speaker_rejects_the_chat_and_an_unreadable_row_is_reported(detect, tmp_path):
    file = tmp_path / "a.csv"
    rows = ["session_id,role,content", "a,user,你好", "b,旁白,夜里", "a,assistant", "a,assistant,在的", ",user,谁"]
    file.write_text("\n".join(rows), encoding="utf-8")
    code, [answer], err = detect(file)
    assert (code, answer["row"], answer["id"]) == (1, 1, "a")
    kept = objects(tmp_path / "a.csv.rejected.jsonl")
    assert [row["row"] for row in kept] == [2, 3, 5]
    assert kept[0]["error"].startswith("role in data row 2: '旁白' is no known speaker")
    assert [line.split(": ")[1:3] for line in err[:3]] == [[str(file), f"data row {number}"] for number in (2, 3, 5)]
    assert kept[1]["error"] == "2 cells; the header names 3 columns; its chat is judged without this row"
    assert kept[2]["error"].startswith("session_id is empty; it must say which chat")


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (("role", "content"), "so each row is a message; a column session_id must say which chat the row belongs to"),
        (("id", "role", "content"), "each row has an id of its own, so it names the message; a column session_id"),
        (("role", "session_id", "role", "content"), "2 columns are called role; rename all but one"),
        (("session_id", "role"), "it has the columns session_id, role"),
    ],
)
def test_a_table_that_does_not_name_chats_speakers_and_texts_is_refused(tmp_path, header, message):
    write_csv(tmp_path / "a.csv", header, [[f"{name} {row}" for name in header] for row in range(3)])
    with pytest.raises(InputError) as error:
        entries_of(tmp_path / "a.csv")
    assert message in str(error.value)


def test_a_table_of_messages_that_is_read_as_json_lines_names_the_format(tmp_path):
    write_csv(tmp_path / "a.jsonl", ("session_id", "role", "content"), rows_of("x", CHAT))
    with pytest.raises(InputError, match=r"names columns \(session_id, role, content\); --format csv reads it"):
        entries_of(tmp_path / "a.jsonl")


def test_column_names_and_keys_may_differ_in_case(tmp_path):
    write_csv(tmp_path / "a.csv", ("ID", "U1", "B1", "U2", "B2"), [["x", *TEXTS]])
    parquet.write_table(pyarrow.table({"Messages": [json.dumps(CHAT)], "Id": ["x"]}), tmp_path / "a.parquet")
    (tmp_path / "a.jsonl").write_text(json.dumps({"Id": "x", "Messages": CHAT}), encoding="utf-8")
    for file in ("a.csv", "a.parquet", "a.jsonl"):
        assert [(entry.id, entry.messages) for entry in entries_of(tmp_path / file)] == [("x", CHAT)]
    both = pyarrow.table({"Messages": ["[]"], "messages": [json.dumps(CHAT)]})
    parquet.write_table(both, tmp_path / "b.parquet")
    with pytest.raises(InputError, match="2 columns are called Messages"):
        entries_of(tmp_path / "b.parquet")
