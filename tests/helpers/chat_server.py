"""An OpenAI-compatible chat endpoint on 127.0.0.1. A function writes its answers, and it can fail on purpose.

with ChatServer(lambda body: "你好") as server:
    ...  # clients, with the environment variables of server.environment
    server.requests  # the bodies of the requests that were answered or failed, in order
"""

import json
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KEY = "sk-of-the-tests"
# What a request can meet, beside the status of an error such as "500".
FAULTS = ("429", "nan", "hang", "drip", "drop", "half", "broken")
BODIES = {"broken": b'{"choices": [{"message": {"content": "...'}


class ChatServer:
    """The server.

    Args:
        answer: maps the body of a request to the text of the answer.
        faults: maps the number of a request (from 0) and its body to one of `FAULTS`, the status of an error
            and perhaps a message, the bytes of an answer, or None for a good answer.
        seconds: the delay before each answer.
        finish: maps the body of a request to the reason why the answer ends, as in `finish_reason`.

    Attributes:
        requests: the bodies of all requests, in order of arrival.
        keys: the keys sent with them.
        most_at_once: the largest number of requests in progress at the same time.
    """

    def __init__(self, answer, faults=lambda number, body: None, seconds=0.0, finish=lambda body: "stop"):
        self.answer, self.faults, self.seconds, self.finish = answer, faults, seconds, finish
        self.requests, self.keys = [], []
        self.at_work = self.most_at_once = 0
        self.lock = threading.Lock()
        self.ended = threading.Event()
        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.chat = self
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"
        self.environment = {"OPENAI_BASE_URL": self.url, "OPENAI_API_KEY": KEY}

    def __enter__(self):
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *arguments):
        if not isinstance(sys.exc_info()[1], OSError):  # the client has disconnected
            super().handle_error(*arguments)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        chat = self.server.chat
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with chat.lock:
            number = len(chat.requests)
            chat.requests.append(body)
            chat.keys.append((self.headers.get("authorization") or "").removeprefix("Bearer "))
            chat.at_work += 1
            chat.most_at_once = max(chat.most_at_once, chat.at_work)
        try:
            if chat.seconds:
                time.sleep(chat.seconds)
            self.respond(chat, chat.faults(number, body), body)
        finally:
            with chat.lock:
                chat.at_work -= 1

    def respond(self, chat, fault, body):
        if self.path != "/v1/chat/completions":
            self.send(404, {"error": {"message": f"no route {self.path}"}})
        elif fault in ("hang", "drop"):
            self.close_connection = True
            if fault == "hang":
                chat.ended.wait(60)
            else:
                self.connection.shutdown(socket.SHUT_RDWR)
        elif fault == "drip":  # a byte now and then, so no single part is late
            self.send_response(200)
            self.end_headers()
            self.close_connection = True
            while not chat.ended.wait(0.05):
                try:
                    self.wfile.write(b" ")
                except OSError:  # the client has disconnected
                    return
        elif fault in ("429", "nan"):
            wait = "0" if fault == "429" else fault
            self.send(429, {"error": {"message": "too many requests"}}, {"retry-after": wait})
        elif isinstance(fault, bytes) or fault in BODIES:
            self.send(200, BODIES.get(fault, fault))
        elif fault and fault[:3].isdecimal():
            error = {"error": {"message": f"a fault of the tests: {fault}"}}
            self.send(int(fault[:3]), error, {"location": "/elsewhere"})  # the last of a redirect
        else:
            self.send(200, completion(body, chat.answer(body), chat.finish(body)), half=fault == "half")

    def send(self, status, value, headers=None, half=False):
        content = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        for name, text in {"content-type": "application/json", **(headers or {})}.items():
            self.send_header(name, text)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if half else content)
        if half:
            self.close_connection = True


def answer_with(message, finish="stop"):
    """The bytes of an answer that holds nothing but a message."""
    return json.dumps({"choices": [{"message": message, "finish_reason": finish}]}).encode()


def completion(body, text, finish):
    """An answer in the format of OpenAI to the body of a request."""
    return {
        "object": "chat.completion",
        "model": body["model"],
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}],
        "usage": {
            "prompt_tokens": sum(len(message["content"]) for message in body["messages"]),
            "completion_tokens": len(text),
        },
    }
