"""Chats in CSV, TSV and Parquet, also with one message in each row: only bad rows are rejected."""

import json
from decimal import Decimal

import pyarrow
import pytest
from helpers.chats import CHAT, TEXTS, chat, line, objects, write_csv, write_jsonl
from pyarrow import parquet

from contradiction.chats import formats, readers
from contradiction.data import labelled as labels
from contradiction.errors import InputError
from contradiction.inputs.views import CONVERSATION


def test_parquet_rows_are_read_incrementally(tmp_path, monkeypatch):
    monkeypatch.setattr(formats, "ROWS_AT_ONCE", 10)
    table = pyarrow.Table.from_pylist([{"messages": CHAT}] * 100)
    parquet.write_table(table, tmp_path / "a.parquet", row_group_size=20)
    [entries] = readers.open_file(tmp_path / "a.parquet").arrivals
    before = pyarrow.total_allocated_bytes()
    next(iter(entries))
    held = pyarrow.total_allocated_bytes() - before
    assert 0 < held < table.nbytes


def test_only_the_bad_rows_of_csv_and_parquet_are_rejected(detect, tmp_path):
    rows = tmp_path / "a.csv"
    good = f'1,"{TEXTS[0]}\n","{TEXTS[1]}",{TEXTS[2]},{TEXTS[3]}\r\n'
    quoted = ",".join(f'"{text}"' for text in ("4", *TEXTS)) + "\r\n"  # whose quotes do not close the one before them
    bad = ['2,a"b,c', '3,"a"b,c,d,e', '4,a,"b,c,d']
    text = "".join(["id,u1,b1,u2,b2\r\n", good, *(f"{row}\r\n" for row in bad), quoted, "\r\n", good])
    rows.write_text(text, encoding="utf-8")
    code, answers, _ = detect(rows)
    assert (code, [answer["row"] for answer in answers]) == (1, [1, 5, 6])
    kept = objects(tmp_path / "a.csv.rejected.jsonl")
    reasons = ["3 cells", "not a row of cells", "a quote that is not closed"]
    assert [result["error"].split("; ")[0].split(" (")[0] for result in kept] == reasons
    assert [result["input"] for result in kept] == bad
    table = pyarrow.table({"messages": [json.dumps(CHAT), None, "{"], "id": [1, 2, 3]})
    parquet.write_table(table, tmp_path / "a.parquet")
    code, answers, err = detect(tmp_path / "a.parquet")
    assert (code, [(answer["row"], answer["id"]) for answer in answers]) == (1, [(1, 1)])
    assert "a.parquet: row 2: messages is null" in err[0]
    assert objects(tmp_path / "a.parquet.rejected.jsonl")[1]["input"] == '{"messages": "{", "id": 3}'


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        (pyarrow.array([10**15], pyarrow.timestamp("ms")), "id: a timestamp[ms] that Python cannot hold"),
        (pyarrow.array([2**31 - 1], pyarrow.date32()), "id: a date32[day] that Python cannot hold"),
        (pyarrow.array([0], pyarrow.timestamp("ms", "No/Where")), "id: a timestamp[ms, tz=No/Where] that Python"),
        (pyarrow.array([b"\xff"]).view(pyarrow.string()), "id: text that is not in UTF-8"),
    ],
)
def test_a_cell_that_python_cannot_represent_rejects_only_its_row(detect, tmp_path, cell, message):
    file = tmp_path / "a.parquet"
    named = pyarrow.concat_arrays([cell, pyarrow.nulls(1, cell.type)])
    parquet.write_table(pyarrow.table({"messages": [json.dumps(CHAT)] * 2, "id": named}), file)
    code, answers, err = detect(file)
    assert (code, [answer["row"] for answer in answers]) == (1, [2])
    assert f"{file}: row 1: {message}" in err[0]
    [kept] = objects(tmp_path / "a.parquet.rejected.jsonl")
    assert json.loads(kept["input"]) == {"messages": json.dumps(CHAT), "id": None}


def test_empty_cells_mean_the_same_in_every_form(detect, tmp_path):
    header, texts = [*CONVERSATION], [*TEXTS[:3], None]
    write_csv(tmp_path / "a.csv", header, [texts])
    parquet.write_table(
        pyarrow.table({name: [text] for name, text in zip(header, texts, strict=True)}), tmp_path / "a.parquet"
    )
    (tmp_path / "a.jsonl").write_text(json.dumps(dict(zip(header, texts, strict=True))), encoding="utf-8")
    for name in ("a.csv", "a.parquet", "a.jsonl"):
        code, [answer], _ = detect(tmp_path / name)
        assert (code, answer["label"], answer["reason"]) == (0, None, "the reply holds no words"), name


def test_a_table_with_one_message_in_each_row_may_have_further_columns(tmp_path):
    header = ["session_id", "role", "content", "instruction", "output"]
    rows = [["s", message["role"], message["content"], "", ""] for message in CHAT]
    write_csv(tmp_path / "a.csv", header, rows)
    [entry] = entries_of(tmp_path / "a.csv")
    assert entry.messages == CHAT
    write_csv(tmp_path / "b.csv", ["instruction", "output", "author", "text"], [[*TEXTS[:2], "me", "both"]])
    [entry] = entries_of(tmp_path / "b.csv")
    assert entry.messages == CHAT[:2]


def test_damage_further_on_in_a_file_prints_one_line(tmp_path):
    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table({"messages": [line()] * 50}), path, row_group_size=10, compression="none")
    content = bytearray(path.read_bytes())
    content[4:60] = bytes(56)
    path.write_bytes(content)
    [entries] = readers.open_file(path).arrivals
    with pytest.raises(InputError, match="damaged after row 0"):
        list(entries)


def test_a_quote_within_a_cell_is_text_also_before_a_cell_of_several_lines(tmp_path):
    rows = 'u1,b1,u2,b2\n你,5"的屏幕,吗,"好\n的"\n你,好,"吗\n吗",6"的\n'
    (tmp_path / "a.csv").write_text(rows, encoding="utf-8")
    texts = [[message["content"] for message in entry.messages] for entry in entries_of(tmp_path / "a.csv")]
    assert texts == [["你", '5"的屏幕', "吗", "好\n的"], ["你", "好", "吗\n吗", '6"的']]


OTHER = chat("你好", "在的")


def entries_of(path):
    return [*readers.open_file(path)]


def rows_of(name, messages):
    return [[name, message["role"], message["content"]] for message in messages]


@pytest.mark.parametrize(
    "header",
    [
        ("session_id", "role", "content"), ("Conversation ID", "Speaker", "Text"), ("chatId", "SENDER", "message"),
        ("对话ID", "角色", "内容"), ("id", "from", "value"),
    ],
)  # fmt: skip
def test_rows_are_grouped_into_chats_in_the_order_in_which_these_begin(tmp_path, header):
    first, second = rows_of("b", CHAT), rows_of("a", OTHER)
    write_csv(tmp_path / "a.csv", header, [first[0], second[0], *first[1:], second[1]])
    entries = entries_of(tmp_path / "a.csv")
    assert [(entry.number, entry.id, entry.messages) for entry in entries] == [(1, "b", CHAT), (2, "a", OTHER)]
    assert entries[0].end < entries[1].end == (tmp_path / "a.csv").stat().st_size


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


def test_json_with_a_turn_each_is_read_and_a_later_line_that_is_no_turn_rejects_its_chat(tmp_path):
    said = [{"session_id": "s", "query": TEXTS[at], "response": TEXTS[at + 1]} for at in (0, 2)]
    (tmp_path / "a.json").write_text(json.dumps(said), encoding="utf-8")
    assert [entry.messages for entry in entries_of(tmp_path / "a.json")] == [CHAT]
    for key, value in {"history": "a", "input": "a", "response": {"text": "a"}, "query": ["b"]}.items():
        write_jsonl(tmp_path / "a.jsonl", [*said, said[0] | {key: value}])
        [entry] = entries_of(tmp_path / "a.jsonl")
        assert "line 3" in entry.error and key in entry.error


def test_a_line_of_json_that_is_no_message_of_a_chat_is_reported_and_calls_of_tools_are_skipped(detect, tmp_path):
    said = [{"session_id": "s", **message} for message in CHAT]
    call = {"session_id": "s", "role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}
    stranger = {"session_id": "t", "role": "旁白", "content": "夜里"}
    others = [{"role": "user", "content": "谁"}, stranger, {**said[0], "session_id": [1]}, 5]
    lines = [*map(json.dumps, [*said[:3], call, said[3], *others]), "{"]
    (tmp_path / "a.jsonl").write_text("\n".join(lines), encoding="utf-8")
    code, [answer], err = detect(tmp_path / "a.jsonl")
    assert (code, answer["id"], answer["reply"]) == (1, "s", [4])
    reasons = ("session_id is empty", "role in line 7: '旁白'", "session_id is a list", "a number; it must", "not JSON")
    for number, (line_, reason) in enumerate(zip(err, reasons, strict=False), 6):
        assert f"a.jsonl:{number}: {reason}" in line_


def test_messages_with_ids_of_their_own_are_one_chat_in_json_and_no_chat_in_lines(tmp_path):
    messages = [{"id": str(number), **message} for number, message in enumerate(CHAT)]
    (tmp_path / "a.json").write_text(json.dumps(messages), encoding="utf-8")
    [entry] = entries_of(tmp_path / "a.json")
    assert entry.turns == 2
    write_jsonl(tmp_path / "a.jsonl", messages)
    with pytest.raises(InputError, match="has an id of its own, so it names the message; a column session_id"):
        entries_of(tmp_path / "a.jsonl")


def test_a_chat_is_named_by_any_number_and_a_missing_one_is_reported(tmp_path):
    for names in ([7.0] * 4, [Decimal(7)] * 4):  # as pandas and databases write whole numbers
        rows = [{"session_id": name, **message} for name, message in zip(names, CHAT, strict=True)]
        table = pyarrow.Table.from_pylist([*rows, {"session_id": None, "role": "user", "content": "谁"}])
        parquet.write_table(table, tmp_path / "a.parquet")
        entry, left_out = entries_of(tmp_path / "a.parquet")
        assert (str(entry.id).removesuffix(".0"), entry.messages) == ("7", CHAT)
        assert left_out.error.startswith("session_id is empty; it must say which chat")
    parquet.write_table(pyarrow.table({"id": [float("nan")], "messages": [CHAT]}), tmp_path / "b.parquet")
    assert [entry.id for entry in entries_of(tmp_path / "b.parquet")] == [None]


def test_an_unknown_speaker_rejects_the_chat_and_an_unreadable_row_is_reported(detect, tmp_path):
    file = tmp_path / "a.csv"
    rows = ["session_id,role,content", "a,user,你好", "b,旁白,夜里", "a,assistant", "a,assistant,在的", ",user,谁"]
    file.write_text("\n".join(rows), encoding="utf-8")
    code, [answer], err = detect(file)
    assert (code, answer["row"], answer["id"]) == (1, 1, "a")
    kept = objects(tmp_path / "a.csv.rejected.jsonl")
    assert [row["row"] for row in kept] == [2, 3, 5]
    assert kept[0]["error"].startswith("role in row 2: '旁白' is no known speaker")
    assert [line.split(": ")[1:3] for line in err[:3]] == [[str(file), f"row {number}"] for number in (2, 3, 5)]
    assert kept[1]["error"] == "2 cells; the header names 3 columns; its chat is judged without this row"
    assert kept[2]["error"].startswith("session_id is empty; it must say which chat")


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (("role", "content"), "each row is a message"),
        (("id", "role", "content"), "each row has an id of its own, so it names the message; a column session_id"),
        (("role", "session_id", "role", "content"), "2 columns are called role; rename all but one"),
        (("session_id", "role"), "the columns are: session_id, role"),
    ],
)
def test_a_table_that_does_not_name_chats_speakers_and_texts_is_refused(tmp_path, header, message):
    write_csv(tmp_path / "a.csv", header, [[f"{name} {row}" for name in header] for row in range(3)])
    with pytest.raises(InputError) as error:
        entries_of(tmp_path / "a.csv")
    assert message in str(error.value)


def test_keys_that_only_later_messages_have_are_read_too(tmp_path, detect):
    said = [{"session_id": "s", **message} for message in CHAT]
    file, labelled = tmp_path / "a.jsonl", {**said[-1], "label": "history"}
    write_jsonl(file, [*said[:-1], labelled])
    [row] = labels.read(file)
    assert (row.label, len(row.messages)) == ("history", len(CHAT))
    write_jsonl(file, [*said[:-1], {**labelled, "response": "养了"}])
    assert "response in line 4 may hold what was said" in detect(file)[2][0]
