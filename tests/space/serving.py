"""Pages as real processes on 127.0.0.1, and the chats of the sample that tests send to them."""

import asyncio
import json
import os
import signal
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest
from helpers import processes

from contradiction.paths import CHECKOUT, SAMPLE

ROOT = CHECKOUT
COLUMNS = ("u1", "b1", "u2", "b2")
ROWS = [json.loads(line) for line in SAMPLE.read_text(encoding="utf-8").splitlines()]
CHATS = [tuple(row[column] for column in COLUMNS) for row in ROWS]
ENVIRONMENT = os.environ | {"GRADIO_ANALYTICS_ENABLED": "False", "HF_HUB_OFFLINE": "1"}


@contextmanager
def served(code, port, log: Path, **environment):
    """Runs the code of a page in a separate process inside the block. It starts when the page first responds."""
    url = f"http://127.0.0.1:{port}/"
    process = processes.start(code, cwd=ROOT, env=ENVIRONMENT | environment, output=log)
    try:
        until = time.monotonic() + 300  # the machine may be busy
        while time.monotonic() < until:
            assert process.poll() is None, log.read_text(encoding="utf-8")
            try:
                urllib.request.urlopen(url, timeout=5).close()
                break
            except OSError:
                time.sleep(0.1)
        else:
            pytest.fail(f"no answer from {url}:\n{log.read_text(encoding='utf-8')}")
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
