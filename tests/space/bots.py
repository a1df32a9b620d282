"""A chatbot behind a real server on 127.0.0.1. The last user message selects how it answers or fails."""

from helpers.chat_server import ChatServer, answer_with

REPLY = "养了一只橘猫"
HUGE, MARKUP = "x" * 300_000, "<img src=x onerror=\"alert('owned')\">你好"


FAULTS = {
    "status": "500", "redirect": "302", "hang": "hang", "drip": "drip", "broken": "broken",
    "half": b'{"choices": [{"message": {"content": "\\ud800"}}]}',
    **{name: answer_with({"content": text}) for name, text in (("silent", " "), ("huge", HUGE), ("markup", MARKUP))},
}  # fmt: skip


def chatbot():
    return ChatServer(lambda body: REPLY, lambda number, body: FAULTS.get(body["messages"][-1]["content"]))
