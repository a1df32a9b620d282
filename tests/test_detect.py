"""`cdconv detect`: every kind of input, answers in order, nothing lost by a bad line, a kill or a pipe."""

import csv
import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import time
from io import BytesIO
from threading import Thread

import pyarrow
import pytest
from chats import chat
from pyarrow import parquet

from contradiction import cli
from contradiction.chats import formats, readers, streams, writers
from contradiction.detector import ContradictionDetector
from contradiction.errors import InputError
from contradiction.inputs.views import CONVERSATION
from contradiction.labels import LABELS
from contradiction.methods.decision import Rule
from contradiction.methods.loading import save_rule
from contradiction.verdict import NOTHING_BEFORE

TEXTS = ("你养猫吗？", "养了一只橘猫", "它叫什么名字？", "我没养过猫呀")


CHAT = chat(*TEXTS)


def line(messages=CHAT, **more):
    return json.dumps({**more, "messages": messages}, ensure_ascii=False)


@pytest.fixture(scope="module")
def model(random_model, tmp_path_factory):
    return shutil.copytree(random_model("4-class"), tmp_path_factory.mktemp("models") / "quick")


@pytest.fixture(scope="module")
def chats(sample_rows):
    return [chat(*(row[name] for name in CONVERSATION)) for row in sample_rows]


@pytest.fixture
def run(run, model):
    """Calls `cdconv detect` with the model; gives exit code, the objects on stdout, and the lines of stderr."""

    def call(*arguments, stdin=b"", model=model):
        code, out, err = run("detect", "--model", model, *arguments, stdin=stdin)
        lines = [json.loads(each) for each in out.splitlines()] if "--table" not in arguments else out
        return code, lines, err.splitlines()

    return call


def objects(path):
    return [json.loads(each) for each in path.read_text(encoding="utf-8").splitlines()]


def test_a_verdict_a_line_in_order(run, tmp_path):
    file = tmp_path / "chats.jsonl"
    other = [*CHAT[:3], {"role": "assistant", "content": "。。。"}]
    file.write_text("\n".join([line(), "", line(other), line(id="c")]) + "\n", encoding="utf-8")
    code, (first, second, third), err = run(file)
    assert code == 0
    assert [each["line"] for each in (first, second, third)] == [1, 3, 4]
    fields = ["label", "score", "scores", "probability", "evidence", "checked", "reason", "reply", "further"]
    assert list(first) == ["line", *fields]
    assert list(third) == ["line", "id", *fields]
    assert {**first, "line": 4, "id": "c"} == third
    assert (second["label"], second["checked"]) == (None, False)
    clashes = 2 * (first["label"] != "non-contradiction")
    said = "cdconv: 3 chats, 3 verdicts: 2 checked, 1 unchecked (1 of them without a label); "
    assert err == [f"{said}{clashes} contradictions; 0 rejected"]
    assert [path.name for path in tmp_path.iterdir()] == ["chats.jsonl"]


def test_verdicts_are_those_of_the_library(run, chats, model, tmp_path):
    file = tmp_path / "chats.jsonl"
    file.write_text("\n".join(map(line, chats)), encoding="utf-8")
    asked = {"max_turns": 5, "windowing": "structured", "categories": ("history",)}
    detector = ContradictionDetector.from_pretrained(model, **asked)
    threshold = sorted(each.scores["history"] for each in detector.batch(chats))[len(chats) // 2]
    expected = detector.with_settings(threshold=threshold).batch(chats)
    options = ["--max-turns", "5", "--reading", "structured", "--category", "history", "--threshold", str(threshold)]
    _, found, _ = run(file, *options)
    assert [each["label"] for each in found] == [each.label for each in expected]
    assert [each["score"] for each in found] == pytest.approx([each.score for each in expected], abs=1e-6)
    assert len({each["label"] for each in found}) == 2


def test_scan_gives_a_verdict_for_each_reply(run, tmp_path):
    file = tmp_path / "chats.jsonl"
    file.write_text(line([*CHAT, *chat("狗呢？", "养了两条")]) + "\n" + line(CHAT[:1]), encoding="utf-8")
    code, (first, second), err = run(file, "--scan")
    assert code == 0
    assert [each["reply"] for each in first["verdicts"]] == [[1], [3], [5]]
    assert second == {"line": 2, "verdicts": []}
    assert err[-1].startswith("cdconv: 2 chats, 3 verdicts: ")


def write_csv(path, header, rows, encoding="utf-8", **dialect):
    with path.open("w", encoding=encoding, newline="") as file:
        csv.writer(file, **dialect).writerows([header, *rows])


def sharegpt(messages):
    names = {"user": "human", "assistant": "gpt"}
    return [{"from": names[each["role"]], "value": each["content"]} for each in messages]


def as_files(folder, chats):
    """The same chats in every form that can be read."""
    rows = [{"id": f"c{index}", "messages": each} for index, each in enumerate(chats)]
    texts = [[message["content"] for message in each] for each in chats]
    columns = [[*TEXTS] for TEXTS in zip(*texts, strict=True)]
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
    write_csv(folder / "a.tsv", named[0], [each.values() for each in named], delimiter="\t")
    spoken = [{"id": row["id"], "conversations": sharegpt(row["messages"])} for row in rows]
    (folder / "c.jsonl").write_text("\n".join(map(json.dumps, spoken)), encoding="utf-8")
    parquet.write_table(pyarrow.Table.from_pylist(spoken), folder / "d.parquet")
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


def test_a_logged_request_ends_with_what_was_answered():
    *asked, answer = CHAT
    request = {"model": "bot", "messages": asked, "choices": [{"index": 0, "message": answer}]}
    assert formats.from_value(request) == (CHAT, None)
    assert formats.from_value(request | {"messages": CHAT}) == (CHAT, None)  # it is there already
    for others in (None, [], ["A", "B"], "A"):  # of another kind of data
        assert formats.from_value(request | {"choices": others}) == (asked, None)
    with pytest.raises(InputError, match="choices: 2 answers; a chat has one, so leave the one that was said"):
        formats.from_value(request | {"choices": [{"message": answer}] * 2})


def test_all_forms_of_the_same_chats_give_the_same_verdicts(run, chats, tmp_path):
    found = {}
    for file in as_files(tmp_path, chats[:40]):
        code, answers, err = run(file, "--quiet")
        assert (code, err) == (0, [])
        key = "line" if file.suffix in (".ndjson", ".jsonl") else "row"
        assert [answer.pop(key) for answer in answers] == list(range(1, 41))
        found[file.name] = answers
    assert len(found) == 11
    assert [each["id"] for each in found["a.json"]] == [f"c{index}" for index in range(40)]
    assert all(answers == found["a.json"] for answers in found.values())
    assert {each["label"] for each in found["a.json"]} <= set(LABELS["4-class"])


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
def test_json_is_one_chat_or_a_list_of_them(run, content):
    code, answers, _ = run("--format", "json", stdin=json.dumps(content).encode())
    assert (code, [each["row"] for each in answers]) == (0, [1])
    assert answers[0]["checked"]


def test_a_literal_chat(run):
    code, answers, _ = run("--text", json.dumps(CHAT))
    assert (code, [each["line"] for each in answers]) == (0, [1])


def test_rows_of_parquet_are_read_bit_by_bit(tmp_path, monkeypatch):
    monkeypatch.setattr(readers, "ROWS", 10)
    table = pyarrow.Table.from_pylist([{"messages": CHAT}] * 100)
    parquet.write_table(table, tmp_path / "a.parquet", row_group_size=20)
    [entries] = readers.open_file(tmp_path / "a.parquet").arrivals
    before = pyarrow.total_allocated_bytes()
    next(iter(entries))
    held = pyarrow.total_allocated_bytes() - before
    assert 0 < held < table.nbytes


BAD = {
    b"{": "not JSON (",
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


def test_a_bad_line_is_reported_by_number_kept_and_the_rest_goes_on(run, tmp_path):
    file = tmp_path / "chats.jsonl"
    file.write_bytes(
        b"\n".join([line().encode(), *BAD, line(id="\ud800").encode("utf-8", "surrogatepass"), line().encode()])
    )
    code, answers, err = run(file)
    assert code == 1
    assert [each["line"] for each in answers] == [1, len(BAD) + 3]
    numbers = range(2, len(BAD) + 3)
    assert [each.split(": ")[1] for each in err[:-1]] == [f"{file}:{number}" for number in numbers]
    assert err[-1].endswith(f"; {len(BAD) + 1} rejected → {file}.rejected.jsonl")
    kept = objects(tmp_path / "chats.jsonl.rejected.jsonl")
    assert [each["line"] for each in kept] == list(numbers)
    for each, (raw, said) in zip(kept, BAD.items(), strict=False):
        assert said in each["error"]
        assert each["input"] == (raw.decode("utf-8", "replace") if len(raw) < 2000 else "[" * 2000 + "…")


def test_a_name_that_is_no_valid_unicode_is_carried_escaped(run):
    code, [answer], _ = run(stdin=b'{"id": "\\ud800", "messages": ' + json.dumps(CHAT).encode() + b"}")
    assert (code, answer["id"]) == (0, "\ud800")


def test_bad_rows_of_csv_and_parquet_are_rejected_alone(run, tmp_path):
    rows = tmp_path / "a.csv"
    good = f'1,"{TEXTS[0]}\n","{TEXTS[1]}",{TEXTS[2]},{TEXTS[3]}\r\n'
    rows.write_text("id,u1,b1,u2,b2\r\n" + good + '2,a"b,c\r\n3,"a"b,c,d,e\r\n\r\n' + good, encoding="utf-8")
    code, answers, _ = run(rows)
    assert (code, [each["row"] for each in answers]) == (1, [1, 4])
    kept = objects(tmp_path / "a.csv.rejected.jsonl")
    assert [each["error"].split("; ")[0].split(" (")[0] for each in kept] == ["3 cells", "not a row of cells"]
    assert [each["input"] for each in kept] == ['2,a"b,c', '3,"a"b,c,d,e']
    table = pyarrow.table({"messages": [json.dumps(CHAT), None, "{"], "id": [1, 2, 3]})
    parquet.write_table(table, tmp_path / "a.parquet")
    code, answers, err = run(tmp_path / "a.parquet")
    assert (code, [(each["row"], each["id"]) for each in answers]) == (1, [(1, 1)])
    assert "a.parquet:2: messages is null" in err[0]
    assert objects(tmp_path / "a.parquet.rejected.jsonl")[1]["input"] == '{"messages": "{", "id": 3}'


def test_dates_and_the_like_are_ids_as_text(run, tmp_path):
    from datetime import date

    named = pyarrow.table({"messages": [json.dumps(CHAT)] * 2, "id": [date(2022, 12, 7), None]})
    parquet.write_table(named, tmp_path / "a.parquet")
    _, (first, second), _ = run(tmp_path / "a.parquet")
    assert (first["id"], "id" in second) == ("2022-12-07", False)


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        (pyarrow.array([10**15], pyarrow.timestamp("ms")), "id: a timestamp[ms] that Python cannot hold"),
        (pyarrow.array([2**31 - 1], pyarrow.date32()), "id: a date32[day] that Python cannot hold"),
        (pyarrow.array([0], pyarrow.timestamp("ms", "No/Where")), "id: a timestamp[ms, tz=No/Where] that Python"),
        (pyarrow.array([b"\xff"]).view(pyarrow.string()), "id: text that is not in UTF-8"),
    ],
)
def test_a_cell_that_python_cannot_hold_rejects_its_row_alone(run, tmp_path, cell, said):
    file = tmp_path / "a.parquet"
    named = pyarrow.concat_arrays([cell, pyarrow.nulls(1, cell.type)])
    parquet.write_table(pyarrow.table({"messages": [json.dumps(CHAT)] * 2, "id": named}), file)
    code, answers, err = run(file)
    assert (code, [each["row"] for each in answers]) == (1, [2])
    assert f"{file}:1: {said}" in err[0]
    [kept] = objects(tmp_path / "a.parquet.rejected.jsonl")
    assert json.loads(kept["input"]) == {"messages": json.dumps(CHAT), "id": None}


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["messages", "messages"], "2 columns are called messages; only one of them can be read"),
        (["id", "messages", "id", "id"], "3 columns are called id; only one of them can be read"),
        (["u1", "b1", "u2", "b2", "b2"], "2 columns are called b2; only one of them can be read"),
    ],
)
def test_a_column_that_is_there_twice_is_one_line(run, names, said, tmp_path):
    cells = [json.dumps(CHAT)] * len(names)
    write_csv(tmp_path / "a.csv", names, [cells])
    columns = [pyarrow.array([cell]) for cell in cells]
    parquet.write_table(pyarrow.Table.from_arrays(columns, names=names), tmp_path / "a.parquet")
    for file in (tmp_path / "a.csv", tmp_path / "a.parquet"):
        code, answers, [message] = run(file)
        assert (code, answers) == (2, [])
        assert f"{file}: {said}" in message


@pytest.mark.parametrize("name", ["messages", "conversations"])
@pytest.mark.parametrize(("ending", "delimiter"), [(".csv", ","), (".tsv", "\t")])
def test_a_single_column_is_a_form_like_others(run, name, ending, delimiter, tmp_path):
    file = tmp_path / f"a{ending}"
    write_csv(file, [name], [[json.dumps(CHAT if name == "messages" else sharegpt(CHAT))]], delimiter=delimiter)
    code, answers, _ = run(file)
    assert (code, [each["checked"] for each in answers]) == (0, [True])


def test_names_of_columns_may_have_spaces_around_them(run, tmp_path):
    file = tmp_path / "a.csv"
    file.write_text(f"u1, b1, u2 ,b2\n{','.join(TEXTS)}\n", encoding="utf-8")
    code, answers, _ = run(file)
    assert (code, [each["checked"] for each in answers]) == (0, [True])


def test_text_in_the_place_of_messages_is_said(run):
    _, _, [message, _] = run(stdin=b'{"messages": "hello"}')
    assert "<stdin>:1: messages: text that is not JSON" in message
    assert message.endswith("; it must be a list of messages")


def test_columns_that_are_not_read_may_be_there_twice(run, tmp_path):
    write_csv(tmp_path / "a.csv", ["messages", "note", "note", "b2", "b2"], [[json.dumps(CHAT), *"abcd"]])
    code, answers, _ = run(tmp_path / "a.csv")
    assert (code, [each["checked"] for each in answers]) == (0, [True])


def test_where_rejected_lines_cannot_be_written_they_are_only_said(run, tmp_path):
    file = tmp_path / "chats.jsonl"
    file.write_text("{bad\n" + line(), encoding="utf-8")
    (tmp_path / "chats.jsonl.rejected.jsonl").symlink_to(tmp_path / "no" / "such" / "folder")
    (tmp_path / "no").write_text("", encoding="utf-8")
    code, answers, err = run(file)
    assert (code, [each["line"] for each in answers]) == (1, [2])
    assert f"{file}:1: not JSON" in err[0]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.csv", "u1,b1,u2,b2\n你,好,吗,好\n".encode("gb18030"), "a.csv:2: not in UTF-8"),
        ("a.csv", "u1,b1,u2,b2\n你,好,吗,好\n".encode("utf-16"), "a.csv:1: not in UTF-8"),
        ("a.csv", b"", "a.csv: no CSV with a header"),
        ("a.jsonl", "\n".join([line()] * 3).encode("gb18030"), "a.jsonl:1: not in UTF-8; save it so, or convert it"),
        ("a.json", line().encode("gb18030"), "a.json: not in UTF-8; save it so, or convert it"),
        ("a.csv", b"text;label\n", "it has the column text;label; there must be messages, conversations, or u1,"),
        ("a.csv", b"u1;b1;u2;b2\n", "its columns (u1, b1, u2, b2) are parted by semicolons; save it with commas"),
        ("a.csv", b"id\tmessages\n", "names columns (id, messages) with tabs between; --format tsv reads it"),
        ("a.tsv", b"id,messages\n", "names columns (id, messages); --format csv reads it"),
        (
            "a.jsonl",
            json.dumps({"messages": CHAT}, indent=1).encode(),
            "its first line is { alone, as of JSON over many",
        ),
        ("a.jsonl", b'"u1","b1","u2","b2"\na,b,c,d\n', "names columns (u1, b1, u2, b2); --format csv reads it"),
        ("a.json", line().encode() + b"\n" + line().encode(), "of a file with a chat a line, the format is jsonl"),
        ("a.parquet", b"PAR1", "a.parquet: no Parquet file"),
        ("a.xlsx", b"", "its name tells no format"),
    ],
)
def test_a_file_of_another_kind_is_one_line(run, name, content, said, tmp_path):
    (tmp_path / name).write_bytes(content)
    code, answers, err = run(tmp_path / name)
    assert (code, answers, len(err)) == (2, [], 1)
    assert said in err[0]
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["no.jsonl"], "no.jsonl: no such file"),
        (["--format", "xml"], "'xml' is not one of"),
        (["--format", "parquet"], "cannot come through a pipe"),
        (["--text", "[1"], "--text: not JSON"),
        (["--text", '[{"role": "bot", "content": ""}]'], "--text: messages[0]: role 'bot'"),
        (["x.jsonl", "--text", "[]"], "only one of them can be judged"),
        (["--resume"], "--resume continues what stands in --out"),
        (["--resume", "--out", "v.jsonl"], "<stdin>: --resume needs a file"),
        (["--table", "--out", "v.jsonl"], "only one of them can be"),
        (["--only", "unchecked", "--out", "v.jsonl"], "--out keeps every verdict; only one of them can be"),
        (["."], ".: is a folder; name a file of chats"),
        (["--out", "."], "--out .: is a folder; name a file in it"),
        (["--out", "/dev/null"], "--out /dev/null: is no file that can be continued; without --out verdicts"),
        (["--threshold", "2"], "threshold '2'"),
        (["--prior", "3"], "prior 3.0"),
        (["--prior", "0.03"], "can only correct calibrated probabilities"),
        (["--category", "lie"], "category 'lie'"),
        (["--reading", "aloud"], "windowing 'aloud'"),
        (["--fail-on", "error"], "'error' is not"),
    ],
)
def test_misuse_is_one_line_and_exit_code_2(run, arguments, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, answers, err = run(*arguments, stdin=line().encode())
    assert (code, len(answers), len(err)) == (2, 0, 1), err
    assert err[0].startswith("cdconv: ")
    assert said in err[0]
    assert list(tmp_path.iterdir()) == []


def test_fail_on_is_exit_code_1_and_says_how_many(run):
    both = "\n".join([line(), line([*CHAT[:3], {"role": "assistant", "content": "。"}]), line()]).encode()
    every = ("--threshold", "0")
    assert run(*every, stdin=both)[0] == 0
    code, _, err = run(*every, "--fail-on", "contradiction", "--fail-on", "unchecked", "--quiet", stdin=both)
    assert (code, err) == (
        1,
        [
            "cdconv: 2 × contradiction, and --fail-on asks for none",
            "cdconv: 1 × unchecked, and --fail-on asks for none",
        ],
    )
    assert run("--threshold", "1", "--fail-on", "contradiction", stdin=both)[0] == 0


def test_only_shows_the_verdicts_that_are_asked_for(run):
    none = [*CHAT[:3], {"role": "assistant", "content": "。"}]
    both = "\n".join([line(id="a"), line([*none, *chat("狗呢？", "养了两条")], id="b"), line(none, id="c")]).encode()
    every = ("--threshold", "0.000001", "--category", "history")
    _, scanned, summary = run(*every, "--scan", stdin=both)
    for names, wanted in (
        (["contradiction"], lambda each: each["label"] == "history"),
        (["unchecked"], lambda each: not each["checked"]),
        (["contradiction", "unchecked"], lambda each: each["label"] == "history" or not each["checked"]),
    ):
        options = [part for name in names for part in ("--only", name)]
        code, answers, err = run(*every, "--scan", *options, stdin=both)
        expected = [each | {"verdicts": [*filter(wanted, each["verdicts"])]} for each in scanned]
        assert answers == [each for each in expected if each["verdicts"]] != scanned
        assert (code, err) == (0, summary), "what is not shown is counted"
    assert [each["id"] for each in run(*every, "--only", "contradiction", stdin=both)[1]] == ["a", "b"]
    assert "狗" not in run(*every, "--table", "--only", "unchecked", stdin=both)[1]


def test_the_summary_adds_up_and_tells_one_from_many():
    tally = streams.Tally()
    read = {"label": "history", "checked": True, "reason": None}
    guess, none = ({"label": label, "checked": False, "reason": "cut"} for label in ("history", None))
    tally.add([read, {"verdicts": [read, guess, none]}])
    assert str(tally) == (
        "2 chats, 4 verdicts: 2 checked, 2 unchecked (1 of them without a label); 3 contradictions; 0 rejected"
    )
    opening = {"label": None, "checked": False, "reason": NOTHING_BEFORE}
    tally.add([{"verdicts": [opening, read]}, {"verdicts": [opening]}])  # of the second chat nothing was checked
    assert str(tally) == (
        "4 chats, 7 verdicts: 3 checked, 1 on opening replies, 3 unchecked (2 of them without a label); "
        "4 contradictions; 0 rejected"
    )
    one = streams.Tally()
    one.add([read], rejected=1200)
    assert str(one) == (
        "1 chat, 1 verdict: 1 checked, 0 unchecked (0 of them without a label); 1 contradiction; 1,200 rejected"
    )


def test_probabilities_are_decided_on_exactly_and_written_rounded(run, model, chats, tmp_path):
    file = tmp_path / "chats.jsonl"
    file.write_text("\n".join(map(line, chats[:8])), encoding="utf-8")
    exact = ContradictionDetector.from_pretrained(model, threshold=0.5).batch(chats[:8])
    sure = sum(exact[0].scores[name] for name in LABELS["4-class"][1:])
    _, found, _ = run(file, "--threshold", "0.5")
    for each, verdict in zip(found, exact, strict=True):
        assert each["scores"] == {name: round(score, 6) for name, score in verdict.scores.items()}
        assert each["score"] == round(verdict.score, 6) == each["scores"][each["label"]]
    # A threshold above the exact probability, and not above the rounded one, or the other way round.
    for threshold in (sure - 1e-9, sure + 1e-9):
        [first, *_] = run(file, "--threshold", repr(threshold))[1]
        assert (first["label"] != "non-contradiction") == (sure >= threshold)


def test_further_clashes_are_rounded_too(run):
    messages = [*CHAT, *chat("狗呢？", "养了两条"), *chat("鱼呢？", "没有鱼")]
    [answer] = run("--threshold", "0", "--category", "history", stdin=line(messages).encode())[1]
    scores = [each["score"] for each in answer["further"]]
    assert len(scores) == 2
    assert scores == [round(score, 6) for score in scores]


def test_empty_cells_are_the_same_in_every_form(run, tmp_path):
    header, texts = [*CONVERSATION], [*TEXTS[:3], None]
    write_csv(tmp_path / "a.csv", header, [texts])
    parquet.write_table(
        pyarrow.table({name: [text] for name, text in zip(header, texts, strict=True)}), tmp_path / "a.parquet"
    )
    (tmp_path / "a.jsonl").write_text(json.dumps(dict(zip(header, texts, strict=True))), encoding="utf-8")
    for name in ("a.csv", "a.parquet", "a.jsonl"):
        code, [answer], _ = run(tmp_path / name)
        assert (code, answer["label"], answer["reason"]) == (0, None, "the reply holds no words"), name


def test_csv_through_a_pipe_is_one_line_that_names_the_option(run):
    content = ("u1,b1,u2,b2\n" + "你,好,吗,好\n" * 9).encode()
    code, answers, [message] = run("-", stdin=content)
    assert (code, answers) == (2, [])
    assert message == "cdconv: <stdin>: its first line names columns (u1, b1, u2, b2); --format csv reads it"
    assert len(run("-", "--format", "csv", stdin=content)[1]) == 9


def test_the_table_shows_replies_and_what_they_contradict(run):
    odd = [{**CHAT[0], "content": "[bold]猫[/bold]？"}, {**CHAT[1], "content": "[/red]有猫"}, *CHAT[2:]]
    code, out, _ = run("--table", "--threshold", "0", "--category", "history", stdin=line(odd, id="c7").encode())
    [row] = [each for each in out.splitlines() if "c7" in each]
    assert code == 0
    assert [cell for cell in row.split("  ") if cell.strip()][1:3] == [" 我没养过猫呀", " history"] or (
        row.index("我没养过猫呀") < row.index("history") < row.index("[/red]有猫")
    )


def test_the_table_shows_the_beginning_of_a_long_reply(run):
    code, out, _ = run("--table", stdin=line([*CHAT[:3], {"role": "assistant", "content": "没养" * 5000}]).encode())
    assert code == 0
    assert out.count("没养") < 300
    assert "…" in out


# --out and --resume


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(streams, "PART", 8)


@pytest.fixture(scope="module")
def mixed(chats, tmp_path_factory):
    """A file of good lines, bad ones and blank ones."""
    lines = [line(each, id=index) for index, each in enumerate(chats[:45])]
    for index in range(0, len(lines), 9):
        lines[index] = "{bad" if index % 2 else ""
    lines += ["{bad"] * 12  # whole parts of which nothing is judged
    file = tmp_path_factory.mktemp("mixed") / "chats.jsonl"
    file.write_text("\n".join(lines), encoding="utf-8")
    return file


@pytest.fixture
def whole(run, mixed, small_parts, tmp_path):
    """What an uninterrupted run keeps: the verdicts, and beside them what is rejected and what was asked."""
    out = tmp_path / "whole.jsonl"
    assert run(mixed, "--out", out)[0] == 1
    return out


def copied(out, to):
    for path in out.parent.glob(f"{out.name}*"):
        shutil.copy(path, path.with_name(path.name.replace(out.name, to)))
    return out.with_name(to)


def kept(out):
    return [path.read_bytes() for path in (out, writers.rejected(out))]


def test_out_takes_whole_lines_and_is_never_overwritten(run, mixed, tmp_path):
    out = tmp_path / "folder" / "v.jsonl"
    code, answers, err = run(mixed, "--out", out)
    assert (code, answers) == (1, [])
    _, expected, _ = run(mixed)
    assert objects(out) == expected
    shown = run(mixed)[2][-1].split(" → ")
    assert err[-1].split(" → ") == [shown[0], f"{out}.rejected.jsonl"]
    assert shown[1] == f"{mixed}.rejected.jsonl"
    before = kept(out)
    code, _, [said] = run(mixed, "--out", out)
    assert (code, "it is there already; --resume continues it" in said) == (2, True)
    assert kept(out) == before


def until(file, number):
    """The lines of a file up to a number of the input."""
    lines = file.read_bytes().splitlines(keepends=True)
    return b"".join(each for each in lines if json.loads(each)["line"] <= number)


def test_a_run_cut_anywhere_ends_with_the_same_files(run, mixed, whole):
    # The last number among what is rejected, and among the verdicts: those of a part are written after them.
    for refused, answered, torn in (
        (0, 0, b'{"line"'), (10, 10, b""), (28, 20, b'{"line": 21, "id": '), (28, 29, b""), (28, 33, b"\xe5"),
        (46, 45, b""), (57, 45, b"{"),
    ):  # fmt: skip
        cut = copied(whole, "cut.jsonl")
        cut.write_bytes(until(whole, answered) + torn)
        rejected = writers.rejected(cut)
        rejected.write_bytes(until(rejected, refused))
        code, _, err = run(mixed, "--out", cut, "--resume")
        assert kept(cut) == kept(whole), (refused, answered, torn)
        count = [len(each.splitlines()) for each in kept(whole)]
        assert code == 1
        assert err[-1].startswith(f"cdconv: {count[0]} chats, ")
        assert err[-1].endswith(f" {count[1]} rejected → {cut}.rejected.jsonl")


KILLED = """
import sys
from contradiction import cli
from contradiction.chats import streams
streams.PART = 8
sys.argv = ["cdconv", "detect", *sys.argv[1:]]
cli.main()
"""


def test_a_killed_process_is_continued_to_the_same_files(run, chats, model, small_parts, tmp_path):
    file, whole, cut = (tmp_path / name for name in ("chats.jsonl", "whole.jsonl", "cut.jsonl"))
    file.write_text("\n".join(["{bad", *map(line, chats[:300])]), encoding="utf-8")
    run(file, "--out", whole)
    command = [sys.executable, "-c", KILLED, str(file), "--model", str(model), "--out", str(cut)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None and (not cut.exists() or cut.stat().st_size < 1000):
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    assert 0 < cut.stat().st_size < whole.stat().st_size
    code, _, err = run(file, "--out", cut, "--resume")
    assert kept(cut) == kept(whole)
    assert (code, err[-1].split(", ")[0]) == (1, "cdconv: 300 chats")


def test_only_the_same_run_is_continued(run, mixed, whole, model, tmp_path):
    before = kept(whole)
    moved = shutil.copytree(model, tmp_path / "moved")
    (moved / "README.md").write_text("a card bears on no verdict", encoding="utf-8")
    same = shutil.copy(mixed, tmp_path / "renamed.jsonl")
    assert run(same, "--out", whole, "--resume", "--batch-size", "8", model=moved)[0] == 1  # for what is rejected
    assert [len(each.splitlines()) for each in kept(whole)] == [len(each.splitlines()) for each in before]
    before = kept(whole)
    save_rule(moved, Rule(temperature=2))
    other = tmp_path / "other.jsonl"
    other.write_bytes(mixed.read_bytes() + b"\n" + line().encode())
    for said, arguments, options in (
        ("another model", [mixed], {"model": moved}),
        ("another input", [other], {}),
        ("threshold unset, not 0.4", [mixed, "--threshold", "0.4"], {}),
        ("scan false, not true", [mixed, "--scan"], {}),
    ):
        code, _, [message] = run(*arguments, "--out", whole, "--resume", **options)
        assert (code, f"was made with {said}; --resume continues only the same run" in message) == (2, True), message
    assert kept(whole) == before
    (tmp_path / "whole.jsonl.run.json").unlink()
    code, _, [message] = run(mixed, "--out", whole, "--resume")
    assert (code, "no whole.jsonl.run.json lies beside it" in message) == (2, True)


def test_resume_starts_where_nothing_is_yet(run, mixed, tmp_path):
    out = tmp_path / "v.jsonl"
    run(mixed, "--out", out, "--resume")
    assert objects(out) == run(mixed)[1]


def test_a_file_that_is_none_of_ours_is_not_cut(run, mixed, tmp_path):
    out = tmp_path / "v.jsonl"
    run(mixed, "--out", out)
    out.write_text('{"line": 1, "label": null, "checked": false}\nnotes\n', encoding="utf-8")
    code, _, [message] = run(mixed, "--out", out, "--resume")
    assert (code, "v.jsonl:2: not a line that" in message) == (2, True)
    assert "notes" in out.read_text(encoding="utf-8")


def test_the_input_is_never_written_over(run, tmp_path):
    """By its own name, by that of what lies beside OUT, or by a link to it."""
    content = (line() + "\n{\n").encode()
    for name in ("a.jsonl", "a.jsonl.rejected.jsonl", "a.jsonl.run.json"):
        for link in (None, os.symlink, os.link):
            folder = tmp_path / f"{name}-{link and link.__name__}"
            folder.mkdir()
            file = folder / (name if link is None else "input.jsonl")
            file.write_bytes(content)
            if link:
                link(file, folder / name)
            before = sorted(folder.iterdir())
            for resume in ([], ["--resume"]):
                code, answers, [message] = run(file, "--format", "jsonl", "--out", folder / "a.jsonl", *resume)
                assert (code, answers) == (2, [])
                assert f"{folder / name}: is the input" in message
                assert sorted(folder.iterdir()) == before
                assert file.read_bytes() == content


def test_standard_input_is_not_written_over_either(model, tmp_path):
    file = tmp_path / "a.jsonl.rejected.jsonl"
    file.write_text(line(), encoding="utf-8")
    with (
        file.open("rb") as stdin,
        process(model, "--out", str(tmp_path / "a.jsonl"), stdin=stdin, stderr=subprocess.PIPE) as started,
    ):
        assert f"{file}: is the input".encode() in started.stderr.read()
    assert (started.returncode, list(tmp_path.iterdir())) == (2, [file])


@pytest.mark.parametrize("out", [False, True])
def test_a_file_of_rejected_lines_is_not_replaced_without_a_word(run, tmp_path, out, small_parts):
    file = tmp_path / "chats.jsonl"
    name, options = (tmp_path / "v.jsonl", ["--out", tmp_path / "v.jsonl"]) if out else (file, [])
    there = writers.rejected(name)
    there.write_text("notes\n", encoding="utf-8")
    file.write_text("\n".join([line(), *["{"] * 20]), encoding="utf-8")  # of more than one part
    code, _, err = run(file, "--quiet", *options)
    said = f"cdconv: {there}: was there already; what is rejected now takes its place"
    assert (code, err.count(said)) == (1, 1)
    assert [each["line"] for each in objects(there)] == [*range(2, 22)]


def test_a_file_of_rejected_lines_stays_where_nothing_is_rejected(run, tmp_path):
    file = tmp_path / "chats.jsonl"
    file.write_text(line(), encoding="utf-8")
    there = writers.rejected(file)
    there.write_text("notes\n", encoding="utf-8")
    assert run(file, "--quiet")[::2] == (0, [])
    assert there.read_text(encoding="utf-8") == "notes\n"


# Pipes


def process(model, *arguments, **options):
    command = [sys.executable, "-m", "contradiction", "detect", "--model", str(model), *arguments]
    return subprocess.Popen(command, **options)


def test_a_live_pipe_is_answered_line_by_line_until_interrupted(model):
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with process(model, **pipes) as started:
        for number in (1, 2):
            started.stdin.write(line().encode() + b"\n")
            started.stdin.flush()
            assert json.loads(started.stdout.readline())["line"] == number  # hangs unless it answers before the end
        started.send_signal(signal.SIGINT)
        assert started.stderr.read() == b"cdconv: interrupted\n"
    assert started.returncode == 130


@pytest.mark.parametrize(("stream", "said"), [(0, "<stdin>: is closed"), (1, "standard output is closed")])
def test_a_closed_stream_is_one_line(model, stream, said):
    # As where a service starts it without them.
    command = [sys.executable, "-m", "contradiction", "detect", "--model", str(model)]
    done = subprocess.run(command, stderr=subprocess.PIPE, preexec_fn=lambda: os.close(stream), text=True)
    assert done.returncode == 2
    assert done.stderr.startswith(f"cdconv: {said}")
    assert done.stderr.count("\n") == 1


def test_a_reader_that_goes_away_is_no_error(model, tmp_path):
    file = tmp_path / "chats.jsonl"
    file.write_bytes(b"\n".join([line().encode()] * 3000))  # more than a pipe holds
    with process(model, str(file), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as started:
        json.loads(started.stdout.readline())
        started.stdout.close()
        assert started.stderr.read() == b""


def test_a_named_pipe_is_read_as_it_comes(run, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = Thread(target=lambda: pipe.write_bytes(line().encode() + b"\n{\n"))
    writer.start()
    code, answers, _ = run(pipe)
    writer.join()
    assert (code, [each["line"] for each in answers]) == (1, [1])
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


def test_lines_that_arrive_in_pieces_are_put_together():
    class Slow(BytesIO):
        def read1(self, size=-1):
            return super().read1(3)

    content = b"one\ntwo two\n\nthree"
    assert [each for lines in readers.arrived(Slow(content)) for each in lines] == content.split(b"\n")


def test_a_byte_order_mark_does_not_cost_the_first_line(run, tmp_path):
    file = tmp_path / "chats.jsonl"
    file.write_bytes(b"\xef\xbb\xbf" + line().encode() + b"\r\n")
    code, [answer], _ = run(file)
    assert (code, answer["line"]) == (0, 1)


def test_the_bar_goes_to_a_terminal_and_never_into_the_output(mixed, model, small_parts, monkeypatch, tmp_path):
    ours, theirs = pty.openpty()
    out = tmp_path / "out"
    with os.fdopen(theirs, "w", encoding="utf-8") as terminal, out.open("w", encoding="utf-8") as stdout:
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setattr(sys, "stderr", terminal)
        monkeypatch.setattr(sys, "stdout", stdout)
        monkeypatch.setattr(sys, "argv", ["cdconv", "detect", str(mixed), "--model", str(model)])
        shown = []
        reader = Thread(target=lambda: shown.extend(_until_closed(ours)))
        reader.start()
        with pytest.raises(SystemExit):
            cli.main()
    reader.join()
    os.close(ours)
    text = b"".join(shown).decode("utf-8")
    assert all(each["line"] for each in objects(out))
    assert [word in text for word in ("chats.jsonl", "kB", "not JSON", "rejected")] == [True] * 4


def _until_closed(terminal):
    try:
        while part := os.read(terminal, 1 << 16):
            yield part
    except OSError:  # what Linux gives at the end of a terminal
        return


def test_parts_hang_on_the_input_alone_and_are_bounded(monkeypatch):
    monkeypatch.setattr(streams, "PART", 5)
    entries = [readers.Entry(number, number, CHAT, turns) for number, turns in enumerate((2, 2, 9, 1, 3, 3), 1)]
    chats = readers.Chats("x", "jsonl", [iter(entries)])
    assert [[each.number for each in part] for part in streams.parts(chats)] == [[1, 2, 3], [4, 5, 6]]
    chats = readers.Chats("x", "jsonl", [iter(entries)])
    assert [[each.number for each in part] for part in streams.parts(chats, scan=True)] == [[1, 2, 3], [4, 5, 6]]


def test_what_is_damaged_further_on_is_one_line(tmp_path):
    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table({"messages": [line()] * 50}), path, row_group_size=10, compression="none")
    content = bytearray(path.read_bytes())
    content[4:60] = bytes(56)
    path.write_bytes(content)
    [entries] = readers.open_file(path).arrivals
    with pytest.raises(InputError, match="damaged after row 0"):
        list(entries)
