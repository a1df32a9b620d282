"""`cdconv detect`: its options, exit codes and output."""

import json
import os
import re
import signal
import subprocess
import sys
from threading import Thread

import pytest
from helpers import processes
from helpers.chats import CHAT, TEXTS, chat, line

from contradiction.chats import chunks
from contradiction.detector import ContradictionDetector
from contradiction.labels import LABELS
from contradiction.verdict import NOTHING_BEFORE


def test_one_verdict_per_line_in_order(detect, tmp_path):
    file = tmp_path / "chats.jsonl"
    other = chat(*TEXTS[:3], "。。。")
    file.write_text("\n".join([line(), "", line(other), line(id="c")]) + "\n", encoding="utf-8")
    code, (first, second, third), err = detect(file)
    assert code == 0
    assert [answer["line"] for answer in (first, second, third)] == [1, 3, 4]
    decided = ["label", "contradiction", "kind", "certainty", "score", "scores", "probability"]
    fields = [*decided, "evidence", "checked", "reason", "reply", "further"]
    assert list(first) == ["line", *fields]
    assert list(third) == ["line", "id", *fields]
    assert {**first, "line": 4, "id": "c"} == third
    assert (second["label"], second["checked"]) == (None, False)
    clashes = 2 * (first["label"] != "non-contradiction")
    read = "2 checked, 1 unchecked (1 without a label); 0 inputs rejected"
    assert err == [f"cdconv: 3 chats, 3 verdicts: {clashes} contradictions; {read}"]
    assert [path.name for path in tmp_path.iterdir()] == ["chats.jsonl"]


def test_verdicts_match_the_library(detect, sample_chats, detect_model, tmp_path):
    file = tmp_path / "chats.jsonl"
    file.write_text("\n".join(map(line, sample_chats)), encoding="utf-8")
    settings = {"max_turns": 5, "windowing": "structured", "categories": ("history",)}
    detector = ContradictionDetector.from_pretrained(detect_model, **settings)
    threshold = sorted(verdict.scores["history"] for verdict in detector.batch(sample_chats))[len(sample_chats) // 2]
    expected = detector.with_settings(threshold=threshold).batch(sample_chats)
    options = ["--max-turns", "5", "--windowing", "structured", "--category", "history", "--threshold", str(threshold)]
    _, verdicts, _ = detect(file, *options)
    assert [verdict["label"] for verdict in verdicts] == [answer.label for answer in expected]
    assert [verdict["score"] for verdict in verdicts] == pytest.approx([answer.score for answer in expected], abs=1e-6)
    assert len({verdict["label"] for verdict in verdicts}) == 2


@pytest.mark.parametrize(
    ("name", "content", "noted"),
    [
        ("alone.csv", "question,answer\n你好,你好呀\n你几岁,我八岁\n", True),
        ("alone.jsonl", '{"query": "你好", "response": "你好呀"}\n{"query": "你几岁", "response": "我八岁"}\n', True),
        ("joined.csv", "session_id,question,answer\n1,你好,你好呀\n1,你几岁,我八岁\n", False),
        ("one.csv", "question,answer\n你好,你好呀\n", False),
        ("longer.csv", "u1,b1,u2,b2\n你好,你好呀,你几岁,我八岁\n再见,再见,,\n", False),
        ("separated.txt", "用户：你好\n机器人：你好呀\n\n用户：你几岁\n机器人：我八岁\n", False),
    ],
)
def test_rows_of_one_reply_each_are_noted(detect, tmp_path, name, content, noted):
    """Without an earlier reply there is nothing to contradict, so a table that was meant to be chats seems fine."""
    file = tmp_path / name
    file.write_text(content, encoding="utf-8")
    code, _, err = detect(file)
    found = [line for line in err if "no chat has more than one reply" in line]
    assert (code, len(found)) == (0, noted), err
    assert not noted or found[0].startswith(f"cdconv: {file}: ") and found[0].endswith("the same session_id")
    assert not [line for line in detect(file, "--quiet")[2] if "one reply" in line]


def test_a_pasted_chat_can_be_an_argument(detect):
    code, [expected], _ = detect("--text", json.dumps(CHAT))
    assert (code, expected["line"]) == (0, 1)
    texts = [message["content"] for message in CHAT]
    marked = [f"{name}：{text}" for name, text in zip(("用户", "机器人") * 2, texts, strict=True)]
    for lines in (texts, marked):
        assert detect("--text", "\n".join(lines))[:2] == (0, [expected])
    for option in (("--format", "csv"), ("--format", "parquet"), ("--encoding", "gb18030")):
        assert "those of a file; leave them out with --text" in detect("--text", "你好", *option)[2][0]


def test_a_scanned_chat_without_a_reply_is_counted_and_fails_on_unchecked(detect):
    silent = line(chat("你好")).encode()
    code, [record], [summary] = detect("--scan", stdin=silent)
    assert (code, record["verdicts"]) == (0, [])
    assert "1 chat, 0 verdicts" in summary and "1 chat without a reply" in summary
    code, _, err = detect("--scan", "--fail-on", "unchecked", "--quiet", stdin=silent)
    assert (code, err) == (1, ["cdconv: 1 × unchecked; --fail-on allows none"])


def test_fail_on_exits_with_1_and_prints_the_count(detect):
    both = "\n".join([line(), line(chat(*TEXTS[:3], "。")), line()]).encode()
    every = ("--threshold", "0")
    assert detect(*every, stdin=both)[0] == 0
    code, _, err = detect(*every, "--fail-on", "contradiction", "--fail-on", "unchecked", "--quiet", stdin=both)
    said = [f"cdconv: {what}; --fail-on allows none" for what in ("2 × contradiction", "1 × unchecked")]
    assert (code, err) == (1, said)
    assert detect("--threshold", "1", "--fail-on", "contradiction", stdin=both)[0] == 0


def test_only_shows_the_requested_verdicts(detect):
    none = chat(*TEXTS[:3], "。")
    both = "\n".join([line(id="a"), line([*none, *chat("狗呢？", "养了两条")], id="b"), line(none, id="c")]).encode()
    every = ("--threshold", "0.000001", "--category", "history")
    _, scanned, summary = detect(*every, "--scan", stdin=both)
    for names, wanted in (
        (["contradiction"], lambda verdict: verdict["label"] == "history"),
        (["unchecked"], lambda verdict: not verdict["checked"]),
        (["contradiction", "unchecked"], lambda verdict: verdict["label"] == "history" or not verdict["checked"]),
    ):
        options = [part for name in names for part in ("--only", name)]
        code, answers, err = detect(*every, "--scan", *options, stdin=both)
        expected = [answer | {"verdicts": [*filter(wanted, answer["verdicts"])]} for answer in scanned]
        assert answers == [answer for answer in expected if answer["verdicts"]] != scanned
        assert (code, err) == (0, summary), "what is not shown is counted"
    assert [answer["id"] for answer in detect(*every, "--only", "contradiction", stdin=both)[1]] == ["a", "b"]
    assert "狗" not in detect(*every, "--table", "--only", "unchecked", stdin=both)[1]


def test_the_table_shows_replies_and_what_they_contradict(detect, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    odd = [{**CHAT[0], "content": "[bold]猫[/bold]？"}, {**CHAT[1], "content": "[/red]有猫"}, *CHAT[2:]]
    code, out, _ = detect("--table", "--threshold", "0", "--category", "history", stdin=line(odd, id="c7").encode())
    [row] = [line for line in out.splitlines() if "c7" in line]
    assert code == 0 and row.index("[3] 我没养过猫呀") < row.index("history") < row.index("[1] [/red]有猫")


def test_a_chat_cannot_control_the_terminal(detect, monkeypatch):
    """It could hide a row, or write to the clipboard."""
    monkeypatch.setenv("COLUMNS", "160")
    odd = [*CHAT[:3], {**CHAT[3], "content": "\x1b[2J没有\x9b2J\u202e猫"}]
    rejected = json.dumps({"\x1b]0;title\x07": 1})
    code, out, err = detect("--table", stdin="\n".join([line(odd, id="\x1b[8m"), rejected]).encode())
    shown = out + "\n".join(err)
    assert code == 1 and not re.search("[\x00-\x08\x0e-\x1f\x7f-\x9f\u202e]", shown)
    assert r"\x1b[2J没有\x9b2J\u202e猫" in out and r"\x1b]0;title\x07" in err[0]


def start(detect_model, *arguments, **options):
    return processes.start_cdconv("detect", "--model", detect_model, *arguments, **options)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_live_pipe_is_answered_line_by_line_until_interrupted(detect_model, workers):
    pipes, before = ["stdin", "stdout", "stderr"], processes.QUICK_WORKERS
    with start(detect_model, "--workers", workers, pipes=pipes, before=before) as started:
        for number in (1, 2):
            started.stdin.write(line().encode() + b"\n")
            started.stdin.flush()
            answer = json.loads(started.stdout.readline())  # hangs unless it answers before the input ends
            assert answer["line"] == number
        started.send_signal(signal.SIGINT)
        assert started.stderr.read() == b"cdconv: interrupted\n"
    assert started.returncode == 130


@pytest.mark.parametrize(("stream", "message"), [(0, "<stdin>: is closed"), (1, "standard output is closed")])
def test_a_closed_stream_prints_one_line(detect_model, stream, message):
    # As when a service starts it without these streams.
    command = [sys.executable, "-m", "contradiction", "detect", "--model", str(detect_model)]
    done = subprocess.run(command, stderr=subprocess.PIPE, preexec_fn=lambda: os.close(stream), text=True)
    assert done.returncode == 2
    assert done.stderr.startswith(f"cdconv: {message}")
    assert done.stderr.count("\n") == 1


def test_a_named_pipe_is_read_incrementally(detect, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = Thread(target=lambda: pipe.write_bytes(line().encode() + b"\n{\n"))
    writer.start()
    code, answers, _ = detect(pipe)
    writer.join()
    assert (code, [answer["line"] for answer in answers]) == (1, [1])
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


def test_the_file_behind_standard_input_is_not_overwritten(detect_model, tmp_path):
    file = tmp_path / "a.jsonl.rejected.jsonl"
    file.write_text(line(), encoding="utf-8")
    with (
        file.open("rb") as stdin,
        start(detect_model, "--out", tmp_path / "a.jsonl", stdin=stdin.fileno(), pipes=["stderr"]) as started,
    ):
        assert f"{file}: is the input".encode() in started.stderr.read()
    assert (started.returncode, list(tmp_path.iterdir())) == (2, [file])


def test_a_closed_output_pipe_exits_with_141_and_no_error(detect_model, tmp_path):
    file = tmp_path / "chats.jsonl"
    file.write_bytes(b"\n".join([line().encode()] * 3000))  # more than the buffer of a pipe
    with start(detect_model, file, pipes=["stdout", "stderr"]) as started:
        json.loads(started.stdout.readline())
        started.stdout.close()
        assert started.stderr.read() == b""
    assert started.returncode == 141


@pytest.mark.parametrize("stdin", [b"", b"\n \n"])
def test_empty_input_does_not_count_as_free_of_contradictions(detect, stdin):
    code, _, err = detect(stdin=stdin)
    assert (code, err[0]) == (0, "cdconv: <stdin>: held no chat"), "a filter before the pipe may leave nothing"
    code, answers, err = detect("--fail-on", "contradiction", "--quiet", stdin=stdin)
    assert (code, answers) == (1, [])
    assert "no chat to judge" in err[0]


def test_a_chat_of_ten_thousand_turns_is_judged_quickly_and_reports_unread_turns(detect):
    long = [message for _ in range(10_000) for message in CHAT[2:]]
    _, [verdict], _ = detect(stdin=line(long).encode())
    assert (verdict["label"] is not None, verdict["checked"]) == (True, False)
    assert "the first 9949 of 9999 earlier turns were not read" in verdict["reason"]
    short = line(long[:240]).encode()
    assert "the first 116 of" in detect("--max-turns", "3", stdin=short)[1][0]["reason"]
    assert detect("--max-turns", "0", stdin=short)[1][0]["checked"]


def test_a_terminal_without_chinese_still_shows_the_table(detect_model):
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = processes.cdconv("detect", "--model", detect_model, "--table", env=environment, stdin=line())
    assert (done.returncode, "Traceback" in done.stderr) == (0, False)
    assert r"\u6211" in done.stdout


def test_progress_is_shown_within_one_long_chat(detect, long_chat, tmp_path, monkeypatch):
    from contradiction.commands import common

    monkeypatch.setattr(common, "SECONDS_BETWEEN_LINES", 0)
    (tmp_path / "a.jsonl").write_text(line(long_chat), encoding="utf-8")
    err = detect(tmp_path / "a.jsonl", "--scan", "--batch-size", "8", "--out", tmp_path / "out.jsonl")[2]
    shares = [int(message.split()[-2].rstrip("%")) for message in err if message.endswith("% done")]
    assert shares == sorted(shares) and len(set(shares)) > 2
    assert shares[0] < 50


def test_the_summary_counts_chats_verdicts_and_what_was_not_read():
    tally = chunks.Tally()
    read = {"label": "history", "checked": True, "reason": None}
    guess, none = ({"label": label, "checked": False, "reason": "cut"} for label in ("history", None))
    opening = {"label": None, "checked": False, "reason": NOTHING_BEFORE}
    tally.add([read, {"verdicts": [read, guess, none]}])
    tally.add([{"verdicts": [opening, read]}, {"verdicts": [opening]}], rejected=1200)  # of the last, nothing is known
    assert str(tally) == (
        "4 chats, 7 verdicts: 4 contradictions (1 of them read in part); 3 checked, 1 on opening replies, 3 unchecked "
        "(2 without a label); 1,200 inputs rejected"
    )


def test_decisions_use_exact_probabilities_and_output_is_rounded(detect, detect_model, sample_chats, tmp_path):
    file = tmp_path / "chats.jsonl"
    file.write_text("\n".join(map(line, sample_chats[:8])), encoding="utf-8")
    exact = ContradictionDetector.from_pretrained(detect_model, threshold=0.5).batch(sample_chats[:8])
    sure = sum(exact[0].scores[name] for name in LABELS["4-class"][1:])
    _, verdicts, _ = detect(file, "--threshold", "0.5")
    for row, verdict in zip(verdicts, exact, strict=True):
        assert row["scores"] == {name: round(score, 6) for name, score in verdict.scores.items()}
        assert row["score"] == round(verdict.score, 6) == row["scores"][row["label"]]
    # A threshold above the exact probability but not above the rounded one, or vice versa.
    for threshold in (sure - 1e-9, sure + 1e-9):
        [first, *_] = detect(file, "--threshold", repr(threshold))[1]
        assert (first["label"] != "non-contradiction") == (sure >= threshold)
