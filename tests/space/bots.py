"""A chatbot behind a real server on 127.0.0.1. The last user message selects how it answers or fails."""

import json
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

REPLY = "养了一只橘猫"
KEY = "geheim"


def completion(content):
    return json.dumps({"choices": [{"index": 0, "message": {"role": "assistant", "content": content}}]}).encode()


class Handler(BaseHTTPRequestHandler):
    """Implements the OpenAI chat completions API."""

    def log_message(self, *_):
        pass

    def do_GET(self):  # the target of the redirect
        self.server.received.append(self.path)
        self.answer(200, completion("redirected"))

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.received.append({"path": self.path, "key": self.headers["authorization"], **body})
        last_message = body["messages"][-1]["content"]
        if last_message == "status":
            self.answer(500, b"secret of the server")
        elif last_message == "redirect":
            self.send_response(302)
            self.send_header("location", f"http://127.0.0.1:{self.server.server_port}/elsewhere")
            self.end_headers()
        elif last_message == "hang":
            self.server.go.wait(30)
        elif last_message == "drip":  # a byte now and then, so no single part is late
            self.send_response(200)
            self.end_headers()
            for _ in range(100):
                if self.server.go.wait(0.05):
                    return
                try:
                    self.wfile.write(b" ")
                except OSError:
                    return
        else:
            bodies = {
                "broken": b'{"choices": [',
                "other": b'{"choices": []}',
                "deep": b"[" * 100_000,
                "silent": completion(" "),
                "huge": completion("x" * 300_000),
                "half": b'{"choices": [{"message": {"content": "\\ud800"}}]}',
                "markup": completion("<img src=x onerror=\"alert('owned')\">你好"),
            }
            self.answer(200, bodies.get(last_message, completion(REPLY)))

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def chatbot():
    """The server. ``received`` holds its requests, and ``go`` releases the hanging ones."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.received, server.go = [], threading.Event()
    server.url = f"http://127.0.0.1:{server.server_port}/v1"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.go.set()
        server.shutdown()
        server.server_close()
        thread.join(10)


def wait_for(condition, seconds=30):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)
