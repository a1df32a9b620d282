"""Every interface gives the same verdict on the same chats."""

import json

import httpx
import pytest
from helpers.chats import chat as messages
from serving import CHATS, call_tool

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:gradio")
SHORT = [messages(*chat) for chat in CHATS[::9][:8]]
LONG = messages(*(text for chat in CHATS[:4] for text in chat))
NOT_JUDGED = messages("你好", "你好", "再见", "？！")
ASKED = [*SHORT, LONG, NOT_JUDGED]


def rounded(record):
    """A record in a common form: lists instead of tuples, and only digits that do not depend on the batch."""
    return json.loads(json.dumps(record), parse_float=lambda text: round(float(text), 4))


@pytest.fixture(scope="module")
def expected(detector):
    """The verdicts of the façade on the last reply of each chat, and on all its replies."""
    return [
        (rounded(detector(chat).to_record()), [rounded(verdict.to_record()) for verdict in detector.scan(chat)])
        for chat in ASKED
    ]


def test_the_chats_get_verdicts_of_all_kinds(expected):
    all_verdicts = [verdict for _, verdicts in expected for verdict in verdicts]
    assert {line["contradiction"] for line in all_verdicts} == {True, False, None}
    assert len({line["kind"] for line in all_verdicts}) > 2
    assert len({line["certainty"] for line in all_verdicts}) > 2


def by_monitor(detector, url, client, detect, chat):
    monitor = detector.monitor()
    verdicts = [rounded(verdict.to_record()) for message in chat if (verdict := monitor.add(message)) is not None]
    return verdicts[-1], verdicts


def by_command_line(detector, url, client, detect, chat):
    line = json.dumps(chat, ensure_ascii=False)
    _, [last], _ = detect("--text", line)
    _, [every], _ = detect("--text", line, "--scan")
    return rounded({name: last[name] for name in last if name != "line"}), rounded(every["verdicts"])


def by_rest(detector, url, client, detect, chat):
    with httpx.Client(base_url=url, timeout=60) as web:
        last, every = (web.post(f"v1/{name}", json={"messages": chat}).json() for name in ("judge", "scan"))
    return rounded(last), rounded(every["verdicts"])


def by_functions_of_the_page(detector, url, client, detect, chat):
    scanned = client.predict(messages=chat, api_name="/scan")["verdicts"]
    return rounded(client.predict(messages=chat, api_name="/judge")), rounded(scanned)


def by_mcp(detector, url, client, detect, chat):
    last, every = (call_tool(url, name, messages=chat).structuredContent for name in ("judge", "scan"))
    return rounded(last), rounded(every["verdicts"])


@pytest.mark.parametrize("way", [by_monitor, by_command_line, by_rest, by_functions_of_the_page, by_mcp])
def test_every_interface_gives_the_verdict_of_the_facade(way, detector, url, client, detect, expected):
    for chat, (last, every) in zip(ASKED, expected, strict=True):
        said_last, said_every = way(detector, url, client, detect, chat)
        assert said_last == last
        assert said_every == every
