"""Conversations with bots: faulty endpoints, keys, limits, a killed run, and what is checked before any call."""

import json
import time
from collections import Counter

import pytest
from helpers import processes
from helpers.bot_server import FAULTS, BotServer, scripted
from helpers.chat_server import answer_with
from helpers.pages import ROOT, text_of

from contradiction.commands import probe
from contradiction.errors import InputError
from contradiction.io.endpoint import Answer, Endpoint
from contradiction.io.files import write_json
from contradiction.probing import pages, report
from contradiction.probing import run as run_module
from contradiction.probing.bots import Bot
from contradiction.probing.plan import ALL_TRIGGERS, plan, read_openings
from contradiction.probing.run import Caller, read_transcript

REQUEST = {"seed": 0}


def probes(count, *names):
    return plan(read_openings(), names or ("short", "inquiring-bot", "repeat-2"), count)


@pytest.fixture(autouse=True)
def short_waits(monkeypatch):
    monkeypatch.setattr("contradiction.io.endpoint.FIRST_WAIT", 0.001)


def run_probes(endpoint, folder, planned, *, timeout=20.0, per_minute=None, request=REQUEST, **options):
    """Runs probes with an endpoint and returns the transcript, and why conversations failed."""
    bot = Endpoint("bot", url=endpoint.url, timeout=timeout)
    caller = Caller(bot, per_minute)
    try:
        failed = run_module.run(planned, caller, folder, request=request, name="bot", **options)
    finally:
        bot.close()
    return read_transcript(folder / "transcript.jsonl"), failed


def test_every_conversation_starts_from_a_clean_context(tmp_path):
    planned = probes(9)
    with BotServer() as endpoint:
        rows, _ = run_probes(endpoint, tmp_path, planned)
    assert len(rows) == 9 and {row["id"] for row in rows} == {probe.id for probe in planned}
    first = Counter(row["messages"][0]["content"] for row in rows)
    assert Counter(json.loads(chat)[0]["content"] for chat in endpoint.seen if len(json.loads(chat)) == 1) == first
    for row in rows:
        texts = [message["content"] for message in row["messages"]]
        assert (texts[0], texts[1], texts[-2], texts[-1]) == (row["u1"], row["b1"], row["u2"], row["b2"])
        assert row["b2"] == scripted(row["messages"][:-1])


def test_a_faulty_endpoint_loses_and_duplicates_nothing(tmp_path):
    """Each chat fails when it is first sent: with 429, 500, a hang, or a broken or partial answer."""
    met = Counter()

    def fault(messages, before):
        if before:
            return None
        kind = FAULTS[sum(met.values()) % len(FAULTS)]
        met[kind] += 1
        return kind

    planned = probes(12)
    with BotServer(fault=fault) as endpoint:
        rows, failed = run_probes(endpoint, tmp_path, planned, timeout=1.5)
    assert set(met) == set(FAULTS) and not failed
    assert sorted(row["id"] for row in rows) == sorted(probe.id for probe in planned)
    assert all(row["b2"] == scripted(row["messages"][:-1]) for row in rows)


def test_a_failed_conversation_is_reported_and_retried_by_the_next_run(tmp_path):
    planned, seen = probes(6), []
    lost = {probe.u1 for probe in planned[:2]}
    broken = BotServer(fault=lambda messages, before: "500" if messages[0]["content"] in lost else None)
    with broken as endpoint:
        rows, failed = run_probes(endpoint, tmp_path, planned, on_done=lambda *done: seen.append(done))
    assert set(failed) == {probe.id for probe in planned if probe.u1 in lost} and len(rows) == 6 - len(failed)
    assert all("HTTP 500" in why and "asked 6 times" in why for why in failed.values())
    assert [done for done, _ in seen] == [*range(1, 7)] and sum(why is not None for _, why in seen) == len(failed)
    with BotServer() as endpoint:
        rows, failed = run_probes(endpoint, tmp_path, planned)
    assert {json.loads(chat)[0]["content"] for chat in endpoint.seen} == lost
    assert not failed and len({row["id"] for row in rows}) == len(rows) == 6


@pytest.mark.parametrize("refused", [slice(10), slice(1, 11), slice(6, None)])
def test_conversations_that_the_bot_always_refuses_do_not_keep_a_run_from_going_on(refused, tmp_path):
    planned = probes(18, "short")
    lost = {probe.u1 for probe in planned[refused]}
    with BotServer(fault=lambda messages, before: "400" if messages[0]["content"] in lost else None) as endpoint:
        if planned[0].u1 in lost:
            with pytest.raises(InputError, match="first 10 conversations failed"):
                run_probes(endpoint, tmp_path, planned)
        for _ in range(2):
            rows, failed = run_probes(endpoint, tmp_path, planned)
            assert len(rows) == len(planned) - len(lost) and len(failed) == len(lost)
    with BotServer() as repaired:
        rows, failed = run_probes(repaired, tmp_path, planned)
    assert len(rows) == len(planned) and not failed


@pytest.mark.parametrize(
    ("status", "count", "message", "calls"),
    [
        ("401", 50, "HTTP 401", 8),
        ("404", 50, "HTTP 404.*must have the model", 8),
        ("500", 3, "first 3 conversations failed.*HTTP 500", 18),
        ("500", 50, "first 10 conversations failed.*HTTP 500", 108),
    ],
)
def test_a_wrong_key_or_address_and_a_bot_that_never_answers_end_the_run(status, count, message, calls, tmp_path):
    with BotServer(fault=lambda messages, before: status) as endpoint:
        with pytest.raises(InputError, match=message):
            run_probes(endpoint, tmp_path, probes(count))
        assert sum(endpoint.seen.values()) <= calls
    with BotServer(fault=lambda messages, before: status) as endpoint, pytest.raises(InputError, match=message):
        run_probes(endpoint, tmp_path, probes(count))


def test_a_refusal_is_a_reply_and_an_answer_without_text_is_an_error(tmp_path):
    def answer(messages, before):
        return answer_with({"content": None, "refusal": "我不能说"} if len(messages) > 1 else {"content": None})

    with BotServer(fault=lambda messages, before: answer(messages, before) if len(messages) > 1 else None) as endpoint:
        rows, _ = run_probes(endpoint, tmp_path / "refuses", probes(2, "short"))
    assert {row["b2"] for row in rows} == {"我不能说"}
    with BotServer(fault=answer) as endpoint, pytest.raises(InputError, match="first 2 conversations failed"):
        run_probes(endpoint, tmp_path / "empty", probes(2, "short"))


def test_replies_that_reach_the_limit_of_tokens_are_counted(tmp_path):
    planned = probes(4, "short", "repeat-2")
    with BotServer(finish=lambda messages: "length" if len(messages) == 1 else "stop") as endpoint:
        rows, _ = run_probes(endpoint, tmp_path, planned)
    assert [row["cut"] for row in rows] == [1] * 4
    judged = [row | {"label": "non-contradiction", "checked": True} for row in rows]
    built = report.build([report.Source("mine", judged, "judge")])
    assert built["bots"][0]["cut"] == 4
    assert "4 replies were cut at --max-tokens" in pages.markdown(built) and "4 replies were cut" in pages.html(built)


def test_thoughts_are_neither_kept_nor_sent_back(tmp_path):
    read = []

    class TextBot(Bot):
        def ask(self, messages):
            read.extend(message["content"] for message in messages)
            return Answer("<think>问我几只</think>\n\n我养了3只猫")

    run_module.run(probes(3), Caller(TextBot()), tmp_path, request=REQUEST, name="bot")
    rows = read_transcript(tmp_path / "transcript.jsonl")
    assert len(rows) == 3 and {row["b2"] for row in rows} == {"我养了3只猫"}
    assert "我养了3只猫" in read and not any("问我几只" in text for text in read)


def test_the_rate_limit_holds_across_all_conversations(tmp_path):
    begun = time.monotonic()
    with BotServer() as endpoint:
        run_probes(endpoint, tmp_path, probes(5, "short"), at_once=5, per_minute=600)
    assert sum(endpoint.seen.values()) == 10 and time.monotonic() - begun >= 0.9


def test_a_stopped_run_calls_the_bot_no_more_and_does_not_wait_for_the_next_turn(tmp_path):
    def stop(*_):
        raise KeyboardInterrupt

    begun = time.monotonic()
    with BotServer() as endpoint:
        with pytest.raises(KeyboardInterrupt):
            run_probes(endpoint, tmp_path, probes(8, "short"), per_minute=300, on_done=stop)
        calls = sum(endpoint.seen.values())
        time.sleep(0.5)
        assert sum(endpoint.seen.values()) == calls  # at five calls a second, a run that goes on would call again
    assert _lines(tmp_path / "transcript.jsonl") >= 1 and time.monotonic() - begun < 30


def test_a_folder_resumes_only_its_own_run_unless_that_has_no_conversation(tmp_path):
    with BotServer(fault=lambda messages, before: "404") as endpoint, pytest.raises(InputError):
        run_probes(endpoint, tmp_path, probes(3))
    with BotServer() as endpoint:
        assert len(run_probes(endpoint, tmp_path, probes(3), request={"seed": 1})[0]) == 3
        with pytest.raises(InputError, match=r"made with seed 1, not 2"):
            run_probes(endpoint, tmp_path, probes(3), request={"seed": 2})
        damaged = {"kind": "probe", "request": {"seed": 1}}
        for key, value in {"request": 3, "failed": 3, "accuracy": {"counts": {"hits": "x"}, "source": ""}}.items():
            write_json(tmp_path / "run.json", damaged | {key: value})
            with pytest.raises(InputError, match=rf"run.json: {key}[.a-z]*: hits is|run.json: {key} is 3"):
                run_probes(endpoint, tmp_path, probes(3), request={"seed": 1})
        (tmp_path / "run.json").write_text('{"recipe": {}}', encoding="utf-8")
        with pytest.raises(InputError, match=r"run.json: is not from .*name another folder"):
            run_probes(endpoint, tmp_path, probes(3))


def test_a_killed_run_resumes_and_no_conversation_is_lost_or_repeated(tmp_path, detect_model, run):
    """The run gets kill -9 twice, and half a line is left behind each time."""
    with BotServer(delay=0.02) as endpoint:
        command = [
            "probe", "run", "--endpoint", endpoint.url, "--out", tmp_path / "run", "--conversations", "60",
            "--triggers", ",".join(ALL_TRIGGERS[:9]), "--model", detect_model, "--at-once", "4", "--name", "scripted",
        ]  # fmt: skip
        transcript, kept = tmp_path / "run" / "transcript.jsonl", {}
        for enough in (10, 30):
            process = processes.start_cdconv(*command)
            processes.wait_for(lambda enough=enough: _lines(transcript) >= enough, process)
            process.kill()
            process.wait()
            assert enough <= _lines(transcript) < 60
            with transcript.open("ab") as file:
                file.write(b'{"id": "short/ha')
            rows = [json.loads(line) for line in transcript.read_bytes().splitlines()[:-1]]
            assert all(row in rows for row in kept.values())
            kept = {row["id"]: row for row in rows}
        code, _, err = run(*command)
        asked = endpoint.seen.total()
        again = run(*command)[2]
    assert code == 0 and f"60 conversations in the transcript, {len(kept)} of them from an earlier run" in err
    assert "the bot was not asked" in again and endpoint.seen.total() == asked
    rows = read_transcript(transcript)
    assert len(rows) == len({row["id"] for row in rows}) == 60
    assert all(row["b2"] == scripted(row["messages"][:-1]) for row in rows)
    mine = {row["id"]: row for row in rows}
    assert all(mine[key]["messages"] == row["messages"] for key, row in kept.items())


def command(endpoint, tmp_path, model, *options):
    """The arguments of `cdconv probe run` with a few short conversations."""
    return (
        "probe", "run", "--endpoint", endpoint.url, "--out", tmp_path / "run", "--conversations", "4", "--triggers",
        "short", "--model", model, *options,
    )  # fmt: skip


@pytest.mark.parametrize(("option", "missing"), [("--evaluation", "missing.json"), ("--model", "missing-model")])
def test_detector_errors_are_reported_before_the_bot_is_called(option, missing, tmp_path, detect_model, run):
    with BotServer() as endpoint:
        code, _, err = run(*command(endpoint, tmp_path, detect_model, option, missing))
    assert code == 2 and missing in err and not endpoint.seen


def test_a_run_that_ends_between_verdicts_and_record_counts_as_not_judged(tmp_path, detect_model, run, monkeypatch):
    real = run_module.write_json

    def fail(path, value):
        if "detector" in value:
            raise OSError(28, "No space left on device", str(path))
        real(path, value)

    with BotServer() as endpoint:
        arguments = command(endpoint, tmp_path, detect_model)
        assert run(*arguments)[0] == 0
        with monkeypatch.context() as patched:
            patched.setattr(run_module, "write_json", fail)
            assert run(*arguments, "--threshold", "0.9")[0] == 2
        with pytest.raises(InputError, match="have not been judged"):
            report.read(tmp_path / "run")
        assert run(*arguments)[0] == 0
    assert len(report.read(tmp_path / "run")[0].rows) == 4


def _lines(path):
    return path.read_bytes().count(b"\n") if path.exists() else 0


def test_keys_of_the_environment_reach_one_address_and_are_never_written(run, detect_model, tmp_path, monkeypatch):
    monkeypatch.setattr(run_module, "judge", lambda *_, **__: None)
    monkeypatch.setattr(probe, "_write_report", lambda *_: False)
    for name in ("OPENAI_API_KEY", "BOT_KEY"):
        monkeypatch.setenv(name, f"the {name}")

    def keys(folder, *options):
        with BotServer() as bot, BotServer(reply=lambda _: "换个说法的问题？") as writer:
            monkeypatch.setenv("OPENAI_BASE_URL", writer.url)
            command = ["--endpoint", bot.url, "--out", tmp_path / folder, "--conversations", 2, *options]
            code, _, err = run("probe", "run", *command, "--triggers", "paraphrasing", "--model", detect_model)
            assert code == 0, err
        assert not any("_KEY" in file.read_text(encoding="utf-8") for file in (tmp_path / folder).iterdir())
        return set(bot.keys), set(writer.keys)

    assert keys("a") == ({"the OPENAI_API_KEY"}, set())
    assert keys("b", "--writer", "a-model") == ({""}, {"the OPENAI_API_KEY"})
    wanted = ({"the BOT_KEY"}, {"the OPENAI_API_KEY"})
    assert keys("c", "--writer", "a-model", "--key-variable", "BOT_KEY") == wanted


def test_a_model_writes_user_turns_and_rules_are_the_fallback(tmp_path):
    planned = probes(8, "paraphrasing", "perturb-antonym")
    model = BotServer(
        reply=lambda messages: "“换个说法的问题？”\n说明：……",
        fault=lambda messages, before: "500" if "反义词" in messages[0]["content"] else None,
    )
    with model as server, BotServer() as endpoint:
        writer = Caller(Endpoint("writer", url=server.url))
        rows, _ = run_probes(endpoint, tmp_path, planned, writer=writer)
    by_trigger = {row["trigger"]: row for row in rows}
    assert by_trigger["paraphrasing"]["u2"] == "换个说法的问题？"
    assert {row["written_by"] for row in rows if row["trigger"] == "paraphrasing"} == {"writer"}
    rules = {probe.id: probe.u2 for probe in planned}
    assert all(row["u2"] == rules[row["id"]] for row in rows if row["written_by"] == "rules")
    assert {row["written_by"] for row in rows if row["trigger"] == "perturb-antonym"} == {"rules"}


def test_a_dry_run_prints_the_cost_and_calls_nothing(tmp_path, run):
    with BotServer() as endpoint:
        code, out, err = run("probe", "run", "--endpoint", endpoint.url, "--out", tmp_path / "run", "--dry-run")
    assert code == 0 and not endpoint.seen and not (tmp_path / "run").exists()
    assert "1,000 conversations, 3,200 calls" in err and len(out.splitlines()) == 10
    assert err.strip() in text_of(ROOT / "docs" / "probing.md")
    (tmp_path / "questions.txt").write_text("你喜欢看电影吗？\n", encoding="utf-8")
    code, out, err = run("probe", "run", "--out", tmp_path, "--openings", tmp_path / "questions.txt", "--dry-run")
    assert (code, len(out.splitlines())) == (0, 8) and "no opening fits inquiring-user, inquiring-user-m;" in err


@pytest.mark.parametrize(("fact", "count"), [("我没有养宠物", 10), ("我养了两只猫", 11)])
def test_persona_probes_are_left_out_if_no_fact_can_be_asked_about(fact, count, tmp_path, run):
    (tmp_path / "persona.json").write_text(json.dumps([fact]), encoding="utf-8")
    code, out, err = run("probe", "run", "--out", tmp_path, "--persona", tmp_path / "persona.json", "--dry-run")
    assert (code, len(out.splitlines())) == (0, count)
    assert ("no fact can be asked about, so persona is left out" in err) == (count == 10)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ((), "name one bot"),
        (("--endpoint", "http://me:s3cret@127.0.0.1/v1"), "holds a password"),
        (("--endpoint", "http://127.0.0.1:9/v1", "--key-variable", "NO_KEY"), ":9/v1: the variable 'NO_KEY'"),
        (("--function", "no_such_module:f", "--model", "nowhere"), "it must be module:function"),
        (("--chat-model", "no-chat-model", "--model", "nowhere"), "cdconv: nowhere: "),
        (("--function", "os:getcwd", "--writer", "some-model"), "OPENAI_BASE_URL"),
        (("--command", "python 'bot.py"), "No closing quotation"),
        (
            ("--endpoint", "http://127.0.0.1:9/\udcff"),
            "9/\\udcff: this argument holds bytes that are not UTF-8",
        ),
        (("--openings", "a/typo.txt"), "a/typo.txt: no such file"),
        (("--triggers", "louder"), "trigger 'louder'"),
        (("--triggers", "persona"), "none is given"),
        (("--triggers", "short,short"), "none twice"),
        (("--threshold", "7"), "threshold '7'"),
        (("--command", "cat", "--timeout", "inf"), "'--timeout'"),
    ],
)
def test_wrong_options_print_one_line(options, why, tmp_path, run, detect_model, monkeypatch):
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    code, _, err = run("probe", "run", "--out", tmp_path / "run", "--model", detect_model, *options)
    assert code == 2 and why in err and err.count("\n") <= 1 + bool(options) and "s3cret" not in err


def test_an_endpoint_that_nobody_serves_ends_the_run_at_once_and_nothing_is_written(tmp_path, run, detect_model):
    with BotServer() as endpoint:
        pass
    begun = time.monotonic()
    options = ("--endpoint", endpoint.url, "--conversations", "10", "--model", detect_model)
    code, _, err = run("probe", "run", "--out", tmp_path / "run", *options)
    assert (code, err.count("\n"), list(tmp_path.iterdir())) == (2, 2, [])
    assert f"cdconv: {endpoint.url}/chat/completions: cannot be reached: " in err and "refused" in err
    assert time.monotonic() - begun < 10  # its ten conversations would repeat their first call for more than a minute
