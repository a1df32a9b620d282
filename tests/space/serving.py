"""Pages and a chatbot as real servers on 127.0.0.1, and the chats of the sample that tests send to them."""

import asyncio
import os
import signal
from contextlib import contextmanager
from pathlib import Path

from helpers import processes
from helpers.chat_server import ChatServer, answer_with
from helpers.chats import objects, texts_of

from contradiction.paths import CHECKOUT, SAMPLE

CHATS = [texts_of(row) for row in objects(SAMPLE)]
ENVIRONMENT = os.environ | {"GRADIO_ANALYTICS_ENABLED": "False", "HF_HUB_OFFLINE": "1"}

REPLY = "养了一只橘猫"
HUGE, MARKUP = "x" * 300_000, "<img src=x onerror=\"alert('owned')\">你好"
FAULTS = {
    "status": "500", "redirect": "302", "hang": "hang", "drip": "drip", "broken": "broken",
    "half": b'{"choices": [{"message": {"content": "\\ud800"}}]}',
    **{name: answer_with({"content": text}) for name, text in (("silent", " "), ("huge", HUGE), ("markup", MARKUP))},
}  # fmt: skip


def chatbot():
    """The last user message selects how it answers or fails."""
    return ChatServer(lambda body: REPLY, lambda number, body: FAULTS.get(body["messages"][-1]["content"]))


@contextmanager
def served(code, port, log: Path, **environment):
    """Runs the code of a page in a separate process inside the block. It starts when the page first responds."""
    url = f"http://127.0.0.1:{port}/"
    process = processes.start(code, cwd=CHECKOUT, env=ENVIRONMENT | environment, output=log)
    try:
        assert processes.wait_for(lambda: processes.is_answered(url), process), log.read_text(encoding="utf-8")
        yield url
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=10)


def with_tools(url, ask):
    """Calls ``ask`` with the session of an MCP client connected to a page."""
    from mcp import ClientSession
    from mcp.client.streamable_http import streamable_http_client

    async def connected():
        async with (
            streamable_http_client(f"{url}mcp") as (read, write, _),
            ClientSession(read, write) as session,
        ):
            await session.initialize()
            return await ask(session)

    return asyncio.run(connected())


def call_tool(url, name, **arguments):
    """Calls a tool of a page and returns its answer."""
    return with_tools(url, lambda session: session.call_tool(name, arguments))
