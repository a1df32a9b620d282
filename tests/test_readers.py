"""Files and pipes of chats: every format, and the errors for input without a chat."""

import json
from io import BytesIO

import pyarrow
import pytest
from helpers.chats import CHAT, TEXTS, line, objects, sharegpt, write_csv
from pyarrow import parquet

from contradiction.chats import csv_files, formats, readers
from contradiction.conversation import read_turns
from contradiction.errors import InputError
from contradiction.inputs.views import CONVERSATION


def chat_files(folder, chats):
    """The same chats in every readable format."""
    rows = [{"id": f"c{index}", "messages": chat} for index, chat in enumerate(chats)]
    texts = [[message["content"] for message in chat] for chat in chats]
    columns = [[*column] for column in zip(*texts, strict=True)]
    (folder / "a.json").write_text(json.dumps(rows), encoding="utf-8")
    (folder / "a.ndjson").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    write_csv(
        folder / "a.csv", ["id", *CONVERSATION], [[row["id"], *text] for row, text in zip(rows, texts, strict=True)]
    )
    cells = [[json.dumps(row["messages"], ensure_ascii=False), row["id"]] for row in rows]
    write_csv(folder / "b.csv", ["messages", "id"], cells, encoding="utf-8-sig")
    named = [
        dict(zip(("id", *CONVERSATION), (row["id"], *text), strict=True)) for row, text in zip(rows, texts, strict=True)
    ]
    (folder / "b.jsonl").write_text("\n".join(map(json.dumps, named)), encoding="utf-8")
    write_csv(folder / "a.tsv", named[0], [row.values() for row in named], delimiter="\t")
    conversations = [{"id": row["id"], "conversations": sharegpt(row["messages"])} for row in rows]
    (folder / "c.jsonl").write_text("\n".join(map(json.dumps, conversations)), encoding="utf-8")
    parquet.write_table(pyarrow.Table.from_pylist(conversations), folder / "d.parquet")
    parquet.write_table(pyarrow.Table.from_pylist(rows), folder / "a.parquet", row_group_size=7)
    text = pyarrow.table({"messages": [cell for cell, _ in cells], "id": [row["id"] for row in rows]})
    parquet.write_table(text, folder / "b.parquet")
    parquet.write_table(
        pyarrow.table(
            {
                **dict(zip(CONVERSATION, columns, strict=True)),
                "label": [0] * len(rows),
                "id": [row["id"] for row in rows],
            }
        ),
        folder / "c.parquet",
    )
    return sorted(folder.iterdir())


def test_all_formats_of_the_same_chats_give_the_same_verdicts(detect, sample_chats, tmp_path):
    verdicts = {}
    for file in chat_files(tmp_path, sample_chats[:40]):
        code, answers, err = detect(file, "--quiet")
        assert (code, err) == (0, [])
        key = "line" if file.suffix in (".ndjson", ".jsonl") else "row"
        assert [answer.pop(key) for answer in answers] == list(range(1, 41))
        verdicts[file.name] = answers
    assert len(verdicts) == 11
    assert [row["id"] for row in verdicts["a.json"]] == [f"c{index}" for index in range(40)]
    assert all(answers == verdicts["a.json"] for answers in verdicts.values())
    assert len({row["label"] for row in verdicts["a.json"]}) > 1, "otherwise the test could not fail"


@pytest.mark.parametrize(
    "content",
    [
        CHAT,
        {"messages": CHAT},
        [CHAT],
        [{"messages": CHAT, "id": None}],
        sharegpt(CHAT),
        {"conversations": sharegpt(CHAT)},
    ],
)
def test_json_is_one_chat_or_a_list_of_chats(detect, content):
    code, answers, _ = detect("--format", "json", stdin=json.dumps(content).encode())
    assert (code, [answer["row"] for answer in answers]) == (0, [1])
    assert answers[0]["checked"]


BAD = {
    b"{": "not JSON (Expecting property name enclosed in double quotes, column 2)",
    b"[]": "messages is empty",
    b'{"text": "", "lang": "zh"}': 'an object with the keys text, lang; a chat must be {"messages": [...]}, ',
    b"{}": "an object with no keys; a chat must be",
    b"3": "a number; a chat must be",
    b"null": "null; a chat must be",
    b'{"messages": null}': "messages is null; it must be a list",
    '{"messages": "你好"}'.encode(): "messages: text that is not JSON (",
    b'{"messages": [{"role": "user", "content": 3}]}': "content is a number",
    b'{"conversations": [{"from": "narrator", "value": ""}]}': "messages[0]: from 'narrator'; allowed are human, ",
    b'{"conversations": [{"from": "human"}]}': "messages[0] has no 'value'",
    '{"id": "\u554a\xff"}'.encode("gb18030"): "not in UTF-8 (from byte 8 on)",
    b'{"messages": [{"role": "user", "content": "\\ud800"}]}': "lone surrogate",
    line(id=[1]).encode(): "its id is a list; it must be text or a number",
    b"[" * 100_000: "not JSON (",
}


def test_a_bad_line_is_reported_by_number_and_saved_and_the_rest_is_judged(detect, tmp_path):
    file = tmp_path / "chats.jsonl"
    file.write_bytes(
        b"\n".join([line().encode(), *BAD, line(id="\ud800").encode("utf-8", "surrogatepass"), line().encode()])
    )
    code, answers, err = detect(file)
    assert code == 1
    assert [answer["line"] for answer in answers] == [1, len(BAD) + 3]
    numbers = range(2, len(BAD) + 3)
    assert [line.split(": ")[1] for line in err[:-1]] == [f"{file}:{number}" for number in numbers]
    assert err[-1].endswith(f"; {len(BAD) + 1} inputs rejected → {file}.rejected.jsonl")
    kept = objects(tmp_path / "chats.jsonl.rejected.jsonl")
    assert [answer["line"] for answer in kept] == list(numbers)
    for result, (raw, reason) in zip(kept, BAD.items(), strict=False):
        assert reason in result["error"]
        assert result["input"] == (raw.decode("utf-8", "replace") if len(raw) < 2000 else "[" * 2000 + "…")


def test_a_name_with_invalid_unicode_is_escaped(detect):
    code, [answer], _ = detect(stdin=b'{"id": "\\ud800", "messages": ' + json.dumps(CHAT).encode() + b"}")
    assert (code, answer["id"]) == (0, "\ud800")


def test_text_instead_of_messages_is_reported(detect):
    _, _, [message, _] = detect(stdin=b'{"messages": "hello"}')
    assert "<stdin>:1: messages: text that is not JSON" in message
    assert message.endswith("; it must be a list of messages")


def test_rejected_lines_that_cannot_be_saved_are_only_reported(detect, tmp_path):
    file = tmp_path / "chats.jsonl"
    file.write_text("{bad\n" + line(), encoding="utf-8")
    (tmp_path / "chats.jsonl.rejected.jsonl").symlink_to(tmp_path / "no" / "such" / "folder")
    (tmp_path / "no").write_text("", encoding="utf-8")
    code, answers, err = detect(file)
    assert (code, [answer["line"] for answer in answers]) == (1, [2])
    assert f"{file}:1: not JSON" in err[0]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "u1,b1,u2,b2\n你,好,吗,好\n".encode("gb18030"), "a.csv:2: not in UTF-8"),
        ("a.csv", "u1,b1,u2,b2\n你,好,吗,好\n".encode("utf-16"), "a.csv:1: not in UTF-8"),
        ("a.csv", b"", "a.csv: no CSV with a header"),
        ("a.jsonl", "\n".join([line()] * 3).encode("gb18030"), "a.jsonl:1: not in UTF-8; save it as UTF-8"),
        ("a.json", line().encode("gb18030"), "a.json: not in UTF-8; save it as UTF-8"),
        ("a.csv", b"text;label\n", "it has the column text;label; there must be messages, conversations, or u1,"),
        ("a.csv", b"u1;b1;u2;b2\n", "(u1, b1, u2, b2); save it with commas"),
        ("a.csv", b"id\tmessages\n", "names columns (id, messages) with tabs between; --format tsv reads it"),
        ("a.tsv", b"id,messages\n", "names columns (id, messages); --format csv reads it"),
        (
            "a.jsonl",
            json.dumps({"messages": CHAT}, indent=1).encode(),
            "its first line is { alone, as of JSON over many",
        ),
        ("a.jsonl", b'"u1","b1","u2","b2"\na,b,c,d\n', "names columns (u1, b1, u2, b2); --format csv reads it"),
        ("a.json", line().encode() + b"\n" + line().encode(), "has the format jsonl"),
        ("a.json", b"[\n1,\n", "not JSON (Expecting value, line 3, column 1)"),
        (
            "a.jsonl",
            "用户：你好\n客服：在的\n".encode(),
            "begins with a speaker, as of a transcript; --format text reads it",
        ),
        ("a.parquet", b"PAR1", "a.parquet: no Parquet file"),
        ("a.xlsx", b"", ".xlsx is no known type of file; "),
    ],
)
def test_a_file_of_another_format_prints_one_line(detect, name, content, message, tmp_path):
    (tmp_path / name).write_bytes(content)
    code, answers, err = detect(tmp_path / name)
    assert (code, answers, len(err)) == (2, [], 1)
    assert message in err[0]
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_csv_through_a_pipe_prints_one_line_that_names_the_option(detect):
    content = ("u1,b1,u2,b2\n" + "你,好,吗,好\n" * 9).encode()
    code, answers, [message] = detect("-", stdin=content)
    assert (code, answers) == (2, [])
    assert message == "cdconv: <stdin>: its first line names columns (u1, b1, u2, b2); --format csv reads it"
    assert len(detect("-", "--format", "csv", stdin=content)[1]) == 9


@pytest.mark.parametrize("bad", [b'"a,b,c,d\n', b'a","\n', b'"a\n\n'])
def test_many_unclosed_quotes_take_no_longer_than_other_lines(bad):
    count = 20_000
    file = [b"u1,b1,u2,b2\n", *[bad] * count, "你,好,吗,好\n".encode()]
    entries = list(csv_files.read_csv((b"".join(file)).splitlines(keepends=True), "a.csv", "csv"))
    assert len(entries) == count + 1
    assert all(entry.error for entry in entries[:-1]) and entries[-1].messages
    assert [entry.number for entry in entries] == list(range(1, count + 2))
    assert entries[-1].end == sum(map(len, file))


@pytest.mark.parametrize(
    "cells",
    [
        {"messages": ["x" * 10**7]},  # compressed
        {"messages": ["x" * 10**5] * 100},  # the same text again and again, stored once
        {"messages": [[{"role": "user", "content": "x" * 10**5}] * 100]},
        {"messages": ["x"], "more": [{"a": ["x" * 10**5] * 100}]},
        {"messages": ["x"], "more": pyarrow.array([[("key", "x" * 10**5)] * 100], pyarrow.map_("string", "string"))},
        {"messages": ["x"], "more": [[None] * 3 * 10**6]},
    ],
)
def test_the_unpacked_size_of_a_parquet_file_counts_every_cell(tmp_path, cells):
    file = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table(cells), file, compression="zstd")
    assert file.stat().st_size < 10**5
    assert readers.unpacked_size(file, limit=10**9) >= 10**7
    assert readers.unpacked_size(file, limit=10**6) > 10**6


def test_the_unpacked_size_of_a_usual_parquet_file_is_close_to_its_text(tmp_path):
    texts = [str(number) * 10 for number in range(1000)]
    parquet.write_table(pyarrow.table({"messages": texts}), tmp_path / "a.parquet")
    assert sum(map(len, texts)) <= readers.unpacked_size(tmp_path / "a.parquet", 10**9) < 2 * sum(map(len, texts))
    (tmp_path / "a.parquet").write_bytes(b"PAR1" * 10)
    with pytest.raises(InputError, match="a.parquet: damaged"):
        readers.unpacked_size(tmp_path / "a.parquet", 10**9)


def test_lines_that_arrive_in_pieces_are_joined():
    class Slow(BytesIO):
        def read1(self, size=-1):
            return super().read1(3)

    content = b"one\ntwo two\n\nthree"
    assert [line for lines in readers.arriving_lines(Slow(content)) for line in lines] == content.split(b"\n")


def test_a_byte_order_mark_does_not_lose_the_first_line(detect, tmp_path):
    file = tmp_path / "chats.jsonl"
    file.write_bytes(b"\xef\xbb\xbf" + line().encode() + b"\r\n")
    code, [answer], _ = detect(file)
    assert (code, answer["line"]) == (0, 1)


def test_a_logged_request_ends_with_its_response():
    *request_messages, answer = CHAT
    request = {"model": "bot", "messages": request_messages, "choices": [{"index": 0, "message": answer}]}
    assert formats.chat_from_json(request) == (CHAT, None)
    assert formats.chat_from_json(request | {"messages": CHAT}) == (CHAT, None)  # the reply is already there
    for others in (None, [], ["A", "B"], "A"):  # from another kind of data
        assert formats.chat_from_json(request | {"choices": others}) == (request_messages, None)
    logged = {**answer, "refusal": None, "annotations": []}  # as the API answers
    both = request | {"messages": [*request_messages, answer], "choices": [{"message": logged}]}
    assert formats.chat_from_json(both) == ([*request_messages, answer], None)
    with pytest.raises(InputError, match="choices: 2 answers"):
        formats.chat_from_json(request | {"choices": [{"message": answer}] * 2})


U1, B1, U2, B2 = TEXTS


@pytest.mark.parametrize(
    "row",
    [
        {"instruction": U2, "input": "", "output": B2, "history": [[U1, B1]], "system": "你是一只猫"},  # LLaMA-Factory
        {"Instruction": U2, "Output": B2, "History": [[U1, B1]]},
        {"query": U2, "response": B2, "history": [[U1, B1]], "system": None, "session_id": "s"},  # ms-swift
        {"request": {"model": "bot", "messages": CHAT[:3]}, "response": {"choices": [{"message": CHAT[3]}]}},
        {"messages": [{**message, "role": message["role"].title()} for message in CHAT]},
        {"conversations": [{**message, "from": message["from"].upper()} for message in sharegpt(CHAT)]},
    ],
)
def test_rows_of_training_tools_and_logged_requests_are_the_same_chat(detect, row):
    messages, name = formats.chat_from_json({"id": 7, **row})
    assert (name, [turn.reply for turn in read_turns(messages)]) == (7, [B1, B2])
    assert [turn.user for turn in read_turns(messages)] == [U1, U2]
    plain, given = (detect(stdin=json.dumps({"id": 7, **each}).encode()) for each in ({"messages": CHAT}, row))
    assert given == plain


def test_an_instruction_and_its_input_are_one_message():
    messages, _ = formats.chat_from_json({"instruction": "翻译", "input": "cat", "output": "猫"})
    assert [message["content"] for message in messages] == ["翻译\ncat", "猫"]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"query": U1, "response": B1, "session_id": "s"}, "session_id but no history; .* earlier turns in history"),
        ({"query": U1, "response": {"choices": []}}, "response is an object; it must be text"),
        ({"instruction": U1, "output": [B1, B2]}, "output is a list; it must be text"),
        ({"instruction": U1, "input": 3, "output": B1}, "input is a number; it must be text"),
        (
            {"query": U2, "response": B2, "history": [[U1]]},
            r"history\[0\]: .*; it must be \[what the user said, the reply",
        ),
        ({"query": U2, "response": B2, "history": [[U1, None]]}, r"history\[0\]\[1\] is null"),
        ({"query": U2, "response": B2, "history": U1}, "history is text; it must be a list of"),
        ({"request": {"messages": CHAT}, "response": None}, "the keys request, response; a chat must be"),
        (  # a line of OpenAI's Batch output, which lacks the request
            {"custom_id": "1", "response": {"body": {"choices": [{"message": CHAT[3]}]}}},
            "the keys custom_id, response; a chat must be .*instruction and output, or with query and response",
        ),
    ],
)
def test_a_row_that_lacks_a_part_of_its_chat_is_refused(row, message):
    with pytest.raises(InputError, match=message):
        formats.chat_from_json(row)


@pytest.mark.parametrize(
    ("content", "count"),
    [
        ({"data": [{"messages": CHAT}, CHAT]}, 2),
        ({"data": CHAT}, 1),
        ({"version": 1, "conversations": [{"conversations": sharegpt(CHAT)}, {"messages": CHAT}]}, 2),
        ({"conversations": [CHAT, CHAT, CHAT]}, 3),
        ({"conversations": sharegpt(CHAT), "data": [CHAT, CHAT]}, 1),  # one chat of ShareGPT
        ({"messages": CHAT, "conversations": [CHAT, CHAT]}, 1),
    ],
)
def test_an_object_in_json_may_hold_a_list_of_chats(detect, content, count):
    code, answers, _ = detect("--format", "json", stdin=json.dumps(content).encode())
    assert (code, [answer["row"] for answer in answers]) == (0, [*range(1, count + 1)])


def test_a_duplicate_key_rejects_the_line(detect):
    twice = line()[:-1] + ', "messages": []}'
    inside = line().replace('"role": "user"', '"role": "user", "role": "assistant"', 1)
    code, answers, err = detect(stdin="\n".join([twice, inside, line()]).encode())
    assert (code, [answer["line"] for answer in answers]) == (1, [3])
    assert "the key 'messages' twice" in err[0] and "the key 'role' twice" in err[1]
