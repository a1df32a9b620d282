"""Files and pipes of chats: every format, and the errors for input without a chat."""

import gzip
import json
from datetime import datetime
from io import BufferedReader, BytesIO
from zipfile import ZipFile

import pyarrow
import pytest
from datasets import ClassLabel, Dataset, Features, Value
from helpers.chats import CHAT, chat, line, objects, sharegpt, write_csv, write_jsonl
from pyarrow import parquet

from contradiction.chats import formats, readers
from contradiction.errors import InputError
from contradiction.inputs.views import CONVERSATION


def chat_files(folder, chats):
    """The same chats in every readable format."""
    rows = [{"id": f"c{index}", "messages": chat} for index, chat in enumerate(chats)]
    texts = [[message["content"] for message in chat] for chat in chats]
    (folder / "a.json").write_text(json.dumps(rows), encoding="utf-8")
    write_jsonl(folder / "a.ndjson", rows)
    cells = [[json.dumps(row["messages"], ensure_ascii=False), row["id"]] for row in rows]
    write_csv(folder / "b.csv", ["messages", "id"], cells, encoding="utf-8-sig")
    header = ("id", *CONVERSATION)
    named = [dict(zip(header, (row["id"], *text), strict=True)) for row, text in zip(rows, texts, strict=True)]
    write_jsonl(folder / "b.jsonl", named)
    write_csv(folder / "a.csv", header, [row.values() for row in named])
    write_csv(folder / "a.tsv", header, [row.values() for row in named], delimiter="\t")
    conversations = [{"id": row["id"], "conversations": sharegpt(row["messages"])} for row in rows]
    write_jsonl(folder / "c.jsonl", conversations)
    parquet.write_table(pyarrow.Table.from_pylist(conversations), folder / "d.parquet")
    parquet.write_table(pyarrow.Table.from_pylist(rows), folder / "a.parquet", row_group_size=7)
    text = pyarrow.table({"messages": [cell for cell, _ in cells], "id": [row["id"] for row in rows]})
    parquet.write_table(text, folder / "b.parquet")
    parquet.write_table(pyarrow.Table.from_pylist([{**row, "label": 0} for row in named]), folder / "c.parquet")
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


BAD = {
    b"{": "not JSON (Expecting property name enclosed in double quotes, column 2)",
    b'{"text": "", "lang": "zh"}': "an object with the keys: text, lang; a chat must be",
    b"{}": "an object with the keys: none",
    b'{"messages": [], "reply": "a", "reply": "b"}': "an object has the key 'reply' twice",
    json.dumps({"messages": '[{"content": "a", "content": "b"}]'}).encode(): "an object has the key 'content' twice",
    b'{"messages": [{"role": "user", "content": 3}]}': "content is a number",
    b'{"conversations": [{"from": "narrator", "value": ""}]}': "messages[0]: from 'narrator' is no known speaker",
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


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "u1,b1,u2,b2\n你,好,吗,好\n".encode("gb18030"), "a.csv:2: not in UTF-8"),
        ("a.csv", b"", "a.csv: no CSV with a header"),
        ("a.jsonl", "\n".join([line()] * 3).encode("gb18030"), "a.jsonl:1: not in UTF-8; save it as UTF-8"),
        ("a.jsonl", json.dumps({"messages": CHAT}, indent=1).encode(), "--format json reads"),
        ("a.jsonl", b'"u1","b1","u2","b2"\na,b,c,d\n', "--format csv reads"),
        ("a.json", line().encode() + b"\n" + line().encode(), "--format jsonl reads"),
        ("a.jsonl", "用户：你好\n客服：在的\n".encode(), "--format text reads"),
        ("a.parquet", b"PAR1", "a.parquet: no Parquet file"),
        ("a.jsonl.gz", gzip.compress(line().encode())[:-9], "a.jsonl.gz: is no gzip file, or is damaged"),
        ("a.xls", b"", ".xls is no known type of file; "),
        ("a.jsonl", b"", "a.jsonl: holds no chat"),
        ("a.csv", b"u1,b1,u2,b2\n", "a.csv: holds no chat"),
        ("a.csv", "text\n你好\n".encode(), "a.csv: the columns are: text; a chat must be"),
    ],
)
def test_a_file_without_chats_prints_one_line_before_a_model_is_loaded(detect, name, content, message, tmp_path):
    (tmp_path / name).write_bytes(content)
    code, answers, err = detect(tmp_path / name, model=tmp_path / "nowhere")
    assert (code, answers, len(err)) == (2, [], 1)
    assert message in err[0]
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(
    "text",
    [
        "u1;b1;u2;b2\n你;好;吗;好\n",
        "sep=;\nu1;b1;u2;b2\n你;好;吗;好\n",
        "\ufeffsep=,\r\nu1,b1,u2,b2\r\n你,好,吗,好\r\n",
        "u1\tb1\tu2 \t b2\n你\t好\t吗\t好\n",
        "u1,b1,u2,b2\r你,好,吗,好\r",
        "会话ID,发送者,内容\r1,使用者,你\r1,機器人,好\r1,用戶,吗\r1,聊天機器人,好",
        "session_id,query,response,label\n1,你,好,\n1,吗,好,history\n",
    ],
)
def test_a_table_may_have_another_delimiter_line_ends_or_columns(text, tmp_path):
    for name in ("a.csv", "a.tsv"):
        (tmp_path / name).write_bytes(text.encode())
        [entry] = readers.open_file(tmp_path / name)
        assert entry.messages == chat("你", "好", "吗", "好")
        assert entry.label == ("history" if "history" in text else None)


@pytest.mark.parametrize(
    ("times", "wanted"),
    [
        (["2024-05-01 10:03", "2024-05-01 10:02", "2024-05-01 10:01", "2024-05-01 10:00"], "4321"),
        (["2024/5/1 10:00:09", "2024/5/1 9:00:10", "2024/5/1 10:00:08", "2024/5/1 10:01:00"], "2314"),
        (
            ["2024年5月1日 下午1:03", "2024年5月1日 下午1:02", "2024年5月1日 上午11:01", "2024年5月1日 上午11:00"],
            "4321",
        ),
        (["2", "2", "1", "1"], "3412"),  # turns: the newest first, and in each the user first
        (["5/1/2024 10:03 AM", "5/1/2024 10:02 AM", "5/1/2024 10:01 AM", "5/1/2024 10:00 AM"], "4321"),
        (["May 1, 2024 10:03", "May 1, 2024 10:02", "May 1, 2024 10:01", "May 1, 2024 10:00"], "4321"),
        (["10:03:00,512", "10:02:00,117", "10:01:00,300", "10:00:00,004"], "4321"),  # as Python logs it
        (["5/1/2024 1:01 am", "5/1/2024 1:00 am", "5/1/2024 12:59 am", "5/1/2024 12:58 am"], "4321"),
        (["23:58", "23:59", "00:00", "00:01"], "1234"),  # past midnight
        (["", "10:02", "10:01", "10:00"], "1234"),
        (["May 1, 2024 10:03", "May 2, 2024 10:02", "May 3, 2024 10:01", "May 4, 2024 10:00"], "1234"),  # unknown form
        (["12月31日 23:58", "12月31日 23:59", "1月1日 00:00", "1月1日 00:01"], "1234"),  # past New Year
    ],
)
def test_messages_are_sorted_by_their_times(times, wanted, tmp_path):
    users = "13" if wanted in ("1234", "3412") else "24" if wanted == "4321" else "21"
    rows = [[1, "user" if str(n) in users else "bot", str(n), time] for n, time in enumerate(times, 1)]
    write_csv(tmp_path / "a.csv", ["session_id", "role", "content", "时间"], rows)
    chats = readers.open_file(tmp_path / "a.csv")
    [entry] = chats
    assert "".join(message["content"] for message in entry.messages) == wanted
    assert len(chats.notes) == (wanted != "1234")


@pytest.mark.parametrize("name", ["a.json.gz", "a.jsonl.gz", "a.csv.gz", "a.txt.gz", "packed.jsonl"])
def test_packed_files_are_read(name, tmp_path):
    rows = ["u1,b1,u2,b2", ",".join(message["content"] for message in CHAT)]
    lines = [f"{role}：{message['content']}" for role, message in zip(("用户", "机器人") * 2, CHAT, strict=True)]
    text = {"csv": "\n".join(rows), "txt": "\n".join(lines)}.get(name.split(".")[1], line())
    (tmp_path / name).write_bytes(gzip.compress(text.encode()))
    [entry] = readers.open_file(tmp_path / name)
    assert entry.messages == CHAT


def test_a_pipe_may_be_packed(detect):
    assert detect(stdin=gzip.compress(line().encode()))[:2] == detect(stdin=line().encode())[:2]


def test_the_first_sheet_of_an_excel_file_is_read(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.title = "notes"  # empty
    sheet, other = book.create_sheet("chats"), book.create_sheet("more")
    times = [datetime(2024, 5, 1, 10, minute) for minute in (3, 2, 1, 0)]
    sheet.append(["session_id", "role", "content", "time", None])
    for time, message in zip(times, reversed(CHAT), strict=True):
        sheet.append([7, message["role"], message["content"], time])
    other.append(["x"])
    book.save(tmp_path / "a.xlsx")
    chats = readers.open_file(tmp_path / "a.xlsx")
    [entry] = chats
    assert (entry.messages, entry.id, entry.number) == (CHAT, "7", 1)
    assert "sorted" in " ".join(chats.notes) and "more" in " ".join(chats.notes)
    with ZipFile(tmp_path / "a.xlsx") as packed:
        place = packed.getinfo("xl/worksheets/sheet2.xml").header_offset + 30 + len("xl/worksheets/sheet2.xml")
    unpackable = bytearray((tmp_path / "a.xlsx").read_bytes())
    unpackable[place] = 255  # a kind of block that does not exist
    older = bytes.fromhex("d0cf11e0a1b11ae1") + bytes(600)  # the format of .xls
    for damaged in (b"PK", older, unpackable):
        (tmp_path / "b.xlsx").write_bytes(damaged)
        with pytest.raises(InputError, match=r"b\.xlsx: no Excel file"):
            list(readers.open_file(tmp_path / "b.xlsx"))


@pytest.mark.parametrize("far", [b'<c r="XFD3"', b'<row r="99999999999"'])
def test_a_small_excel_file_that_names_a_far_cell_is_refused_and_fills_no_memory(tmp_path, far):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (["messages", ""], ["[]", "x"], ["[]", "x"]):
        book.active.append(row)
    book.save(tmp_path / "near.xlsx")
    near = b'<c r="B3"' if b"XFD" in far else b'<row r="3"'
    with ZipFile(tmp_path / "near.xlsx") as whole, ZipFile(tmp_path / "far.xlsx", "w") as changed:
        for name in whole.namelist():
            changed.writestr(name, whole.read(name).replace(near, far))
    with pytest.raises(InputError, match=r"more than 1,048,576 rows or 1,000 columns"):
        list(readers.open_file(tmp_path / "far.xlsx"))


def test_classes_of_a_parquet_file_have_their_names(tmp_path):
    labels = ClassLabel(names=["non-contradiction", "history"])
    features = Features(
        messages=[{"role": Value("string"), "content": Value("string")}], reply=Value("string"), label=labels
    )
    rows = Dataset.from_list([{"messages": CHAT[:3], "reply": CHAT[3]["content"], "label": 1}] * 2, features=features)
    rows.to_parquet(tmp_path / "a.parquet")
    entries = [*readers.open_file(tmp_path / "a.parquet")]
    assert [(entry.messages, entry.label) for entry in entries] == [(CHAT, "history")] * 2
    for other in (b"{", b'{"info": null}', b'{"info": {"features": {"id": {"_type": "ClassLabel"}}}}'):
        table = pyarrow.Table.from_pylist([{"messages": CHAT, "id": 1}]).replace_schema_metadata({"huggingface": other})
        parquet.write_table(table, tmp_path / "b.parquet")
        assert [entry.id for entry in readers.open_file(tmp_path / "b.parquet")] == [1]


@pytest.mark.parametrize("bad", [b'"a,b,c,d\n', b'a","\n', b'"a\n\n'])
def test_many_unclosed_quotes_take_no_longer_than_other_lines(bad):
    count = 20_000
    file = [b"u1,b1,u2,b2\n", *[bad] * count, "你,好,吗,好\n".encode()]
    stream = BufferedReader(BytesIO(b"".join(file)))
    entries = [*readers.open_stream(stream, "a.csv", "csv")]
    assert len(entries) == count + 1
    assert all(entry.error for entry in entries[:-1]) and entries[-1].messages
    assert [entry.number for entry in entries] == list(range(1, count + 2))
    assert entries[-1].end == sum(map(len, file))


def test_lines_that_arrive_in_pieces_are_joined():
    class Slow(BytesIO):
        def readinto(self, buffer):
            return super().readinto(memoryview(buffer)[:3])

    content = b"one\ntwo two\r\n\rthree"
    groups = formats.arriving_lines(formats.stream_blocks(BufferedReader(Slow(content), 2), "a pipe"))
    assert [line for lines in groups for line in lines] == [b"one\n", b"two two\r\n", b"\r", b"three"]


def test_a_byte_order_mark_does_not_lose_the_first_line(detect, tmp_path):
    file = tmp_path / "chats.jsonl"
    file.write_bytes(b"\xef\xbb\xbf" + line().encode() + b"\r\n")
    code, [answer], _ = detect(file)
    assert (code, answer["line"]) == (0, 1)


@pytest.mark.parametrize(
    ("content", "count"),
    [
        (CHAT, 1),
        ([{"messages": CHAT, "id": None}], 1),
        ({"conversations": sharegpt(CHAT)}, 1),
        ({"data": [{"messages": CHAT}, CHAT]}, 2),
        ({"data": CHAT}, 1),
        ({"chats": {"list": [{"messages": CHAT}, {"messages": CHAT}]}}, 2),  # of Telegram
        ({"version": 1, "conversations": [{"conversations": sharegpt(CHAT)}, {"messages": CHAT}]}, 2),
        ({"conversations": [CHAT, CHAT, CHAT]}, 3),
        ({"conversations": sharegpt(CHAT), "data": [CHAT, CHAT]}, 1),  # one chat of ShareGPT
        ([{"instruction": "你好", "output": "在的", "author": "me"}] * 2, 2),  # no messages of one chat
    ],
)
def test_json_is_one_chat_or_a_list_of_chats_perhaps_in_an_object(detect, content, count):
    code, answers, _ = detect("--format", "json", stdin=json.dumps(content).encode())
    assert (code, [answer["row"] for answer in answers]) == (0, [*range(1, count + 1)])
