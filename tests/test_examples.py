"""The examples run unchanged against a real server on loopback."""

import os
import re
import socket

import pytest
from helpers import processes
from helpers.chat_server import ChatServer, answer_with

from contradiction.paths import CHECKOUT

EXAMPLE = CHECKOUT / "examples" / "guard_a_bot.py"
REPLIES = ["养了一只橘猫", "我没养过猫呀", "猫很可爱", "I do not know"]


def test_the_example_chats_are_read_and_judged(run, detect_model):
    code, out, err = run("detect", CHECKOUT / "examples" / "chats.jsonl", "--scan", "--model", detect_model)
    assert (code, len(out.splitlines())) == (0, 6)
    assert "6 chats, 14 verdicts" in err


@pytest.fixture
def endpoint():
    """A server that gives the replies in turn."""
    with ChatServer(lambda body: REPLIES[(len(server.requests) - 1) % len(REPLIES)]) as server:
        yield server


def guard(url, model, said="你养猫吗？\n它叫什么名字？\n"):
    arguments = ["guard_a_bot.py", "--base-url", url, "--bot", "b", "--detector", str(model)]
    code = f"import runpy, sys; sys.argv = {arguments}; runpy.run_path({str(EXAMPLE)!r}, run_name='__main__')"
    env = os.environ | {"OPENAI_API_KEY": "k", "no_proxy": "127.0.0.1"}
    return processes.run(code, stdin=said, env=env)


def test_the_most_consistent_of_several_replies_is_printed(endpoint, quick_model):
    done = guard(endpoint.url, quick_model)
    assert done.returncode == 0, done.stderr
    printed = [line for line in done.stdout.splitlines() if not line.startswith("  not said: ")]
    assert len(printed) == 2
    assert set(printed) <= set(REPLIES[:3]), "unjudged replies are not preferred"
    assert (len(endpoint.requests), {*endpoint.keys}) == (8, {"k"})
    # The second question is sent with the first and with the chosen reply.
    sent = [message["content"] for message in endpoint.requests[-1]["messages"]]
    assert sent == ["你养猫吗？", printed[0], "它叫什么名字？"]


def test_a_failure_of_the_bot_does_not_end_the_chat(endpoint, quick_model):
    endpoint.faults = lambda number, body: "500" if number == 0 else b"[]" if number == 1 else None
    done = guard(endpoint.url, quick_model, "你好\n你是谁？\n你养猫吗？\n")
    assert (done.returncode, done.stderr.count("; say it again")) == (1, 2), done.stderr
    assert [line for line in done.stdout.splitlines() if not line.startswith("  not said: ")]
    assert [message["content"] for message in endpoint.requests[-1]["messages"]] == ["你养猫吗？"]


def test_a_wrong_key_ends_the_chat(endpoint, quick_model):
    endpoint.faults = lambda number, body: "401"
    done = guard(endpoint.url, quick_model, "你好\n你是谁？\n")
    assert (done.returncode, len(endpoint.requests), done.stdout) == (1, 1, ""), done.stderr
    assert re.fullmatch("guard_a_bot: .*401.*\n", done.stderr), "one line"


def test_an_endpoint_that_is_missing_or_gives_no_text_prints_one_line_for_each_message(
    endpoint, random_model, monkeypatch
):
    monkeypatch.setattr(endpoint, "faults", lambda number, body: answer_with({"content": None}))
    with socket.socket() as taken:  # bound but not listening, so nothing else answers there
        taken.bind(("127.0.0.1", 0))
        for url in (f"http://127.0.0.1:{taken.getsockname()[1]}/v1", endpoint.url):
            done = guard(url, random_model("4-class"))
            assert (done.returncode, done.stdout) == (1, "")
            assert all(line.startswith(f"guard_a_bot: {url}: ") for line in done.stderr.splitlines()[-2:])
            assert "Traceback" not in done.stderr


def test_the_example_bots_answer_and_only_one_remembers(monkeypatch):
    monkeypatch.syspath_prepend(str(CHECKOUT))
    from examples.probed_bot import forgetful, mindful

    chat = [{"role": "user", "content": "你家的洗衣机用了多少年？"}]
    chat += [{"role": "assistant", "content": forgetful(chat)}, {"role": "user", "content": "你家的洗衣机用了几年呢？"}]
    assert chat[1]["content"] == "十一年了，脱水时满地跑" == mindful(chat[:1])
    assert mindful(chat) == chat[1]["content"]
    chat[1]["content"] = "三年了"
    assert (forgetful(chat), mindful(chat)) == ("十一年了，脱水时满地跑", "三年了")
