"""The examples run unchanged against a real server on loopback."""

import json
import os
import socket
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from helpers import processes

from contradiction.paths import CHECKOUT

EXAMPLE = CHECKOUT / "examples" / "guard_a_bot.py"
REPLIES = ["养了一只橘猫", "我没养过猫呀", "猫很可爱", "I do not know"]


def test_the_example_chats_are_read_and_judged(run, detect_model):
    code, out, err = run("detect", CHECKOUT / "examples" / "chats.jsonl", "--scan", "--model", detect_model)
    assert (code, len(out.splitlines())) == (0, 6)
    assert "6 chats, 12 verdicts" in err


@pytest.fixture
def endpoint():
    """An endpoint in the OpenAI chat format that gives one reply per call and keeps the requests."""
    requests = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            text = REPLIES[len(requests) % len(REPLIES)]
            requests.append((self.path, body, self.headers.get("Authorization")))
            answer = json.dumps({"choices": [{"message": {"role": "assistant", "content": text}}]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1", requests
    server.shutdown()
    server.server_close()


def guard(url, model):
    arguments = ["guard_a_bot.py", "--base-url", url, "--bot", "b", "--detector", str(model)]
    code = f"import runpy, sys; sys.argv = {arguments}; runpy.run_path({str(EXAMPLE)!r}, run_name='__main__')"
    env = os.environ | {"OPENAI_API_KEY": "k", "no_proxy": "127.0.0.1"}
    return processes.run(code, stdin="你养猫吗？\n它叫什么名字？\n", env=env)


def test_the_most_consistent_of_several_replies_is_printed(endpoint, quick_model):
    url, requests = endpoint
    done = guard(url, quick_model)
    assert done.returncode == 0, done.stderr
    printed = [line for line in done.stdout.splitlines() if not line.startswith("  not said: ")]
    assert len(printed) == 2
    assert set(printed) <= set(REPLIES[:3]), "unjudged replies are not preferred"
    assert len(requests) == 8
    assert {(path, key) for path, _, key in requests} == {("/v1/chat/completions", "Bearer k")}
    # The second question is sent with the first and with the chosen reply.
    assert [message["content"] for message in requests[-1][1]["messages"]] == [
        "你养猫吗？",
        printed[0],
        "它叫什么名字？",
    ]


def test_a_missing_endpoint_prints_one_line(random_model):
    with socket.socket() as taken:  # bound but not listening, so nothing else answers there
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        done = guard(url, random_model("4-class"))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[-1].startswith(f"guard_a_bot: {url}: ")
    assert "Traceback" not in done.stderr


def test_a_reply_without_text_prints_one_line(endpoint, random_model, monkeypatch):
    monkeypatch.setitem(globals(), "REPLIES", [None])
    done = guard(endpoint[0], random_model("4-class"))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[-1].startswith(f"guard_a_bot: {endpoint[0]}: ")
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
