"""A chat endpoint on loopback with a scripted bot that contradicts itself at known rates and can fail on purpose."""

import hashlib
import json
import re
import threading
from collections import Counter
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# The true share of conversations whose last reply is a contradiction, by kind.
RATES = {"history": 0.15, "intra-sentence": 0.08, "role-confusion": 0.05}
FAULTS = ("429", "500", "hang", "broken JSON", "half an answer", "no completion")


def chance(*parts) -> float:
    """A number from 0 to 1 that depends on the texts alone."""
    return int.from_bytes(hashlib.sha256("|".join(map(str, parts)).encode()).digest()[:7]) / 256**7


def scripted(messages) -> str:
    """The reply of the scripted bot: it repeats the number of cats in its first answer, or contradicts it."""
    user_texts = [message["content"] for message in messages if message["role"] == "user"]
    cats = 2 + int(6 * chance(user_texts[0]))
    if len(user_texts) == 1:
        return f"“{user_texts[0]}”？我养了{cats}只猫"
    draw = chance("kind", *user_texts)
    for kind, rate in RATES.items():
        if draw < rate:
            return {
                "history": f"“{user_texts[-1]}”？我养了{cats + 1}只猫",
                "intra-sentence": f"“{user_texts[-1]}”？我养了{cats}只猫，我没养猫",
                "role-confusion": f"“{user_texts[-1]}”？你养了{cats}只猫",
            }[kind]
        draw -= rate
    return f"“{user_texts[-1]}”？我养了{cats}只猫"


def true_label(b1: str, b2: str) -> str:
    """The true label of a reply of the scripted bot, which ignores what the reply quotes."""
    b1, b2 = (text.rpartition("”")[2] for text in (b1, b2))
    if "没养猫" in b2:
        return "intra-sentence"
    if "你养了" in b2:
        return "role-confusion"
    cats = [re.findall(r"养了(\d)只猫", text)[-1] for text in (b1, b2)]
    return "history" if cats[0] != cats[1] else "non-contradiction"


class Endpoint:
    """What the server does, and what it has received.

    Attributes:
        reply: messages -> the text of the reply.
        fault: (messages, how often they were sent before) -> one of ``FAULTS``, a status, or None for a good answer.
        seen: chat -> how often it was sent.
        keys: the authorization headers received.
    """

    def __init__(self, reply=scripted, fault=lambda messages, before: None, delay=0.0, finish=lambda messages: "stop"):
        self.reply, self.fault, self.delay, self.finish = reply, fault, delay, finish
        self.seen, self.keys, self.url = Counter(), set(), ""
        self.ended, self.lock = threading.Event(), threading.Lock()


@contextmanager
def serving(endpoint):
    """Serves an endpoint on a free loopback port inside the block."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            chat = json.dumps(body["messages"], ensure_ascii=False)
            with endpoint.lock:
                before = endpoint.seen[chat]
                endpoint.seen[chat] += 1
                endpoint.keys.add(self.headers["Authorization"])
            endpoint.ended.wait(endpoint.delay)
            message = {"content": endpoint.reply(body["messages"])}
            choice = {"message": message, "finish_reason": endpoint.finish(body["messages"])}
            answer = json.dumps({"choices": [choice]}).encode()
            fault = endpoint.fault(body["messages"], before)
            if fault == "hang":
                endpoint.ended.wait(20)
            elif fault == "429":
                self.send(429, b'{"error": "slow down"}', {"Retry-After": "0.05"})
            elif fault == "broken JSON":
                self.send(200, answer[:-9])
            elif fault == "half an answer":
                self.send(200, answer[:-9], {"Content-Length": str(len(answer))})
            elif fault == "no completion":
                self.send(200, b'{"choices": []}')
            elif fault:
                self.send(int(fault), b"out of order")
            else:
                self.send(200, answer)

        def send(self, status, content, headers=()):
            self.send_response(status)
            # Otherwise a client may send its next request on a connection that is being closed.
            self.send_header("Connection", "close")
            for name, value in {"Content-Length": str(len(content)), **dict(headers)}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *arguments):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    endpoint.url = f"http://127.0.0.1:{server.server_port}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield endpoint
    finally:
        endpoint.ended.set()
        server.shutdown()
        thread.join()
        server.server_close()
