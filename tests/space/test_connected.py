"""A page with several detectors and a connected chatbot serves what the owner named at the start and nothing else."""

import httpx
import pytest
from helpers.chat_server import KEY
from helpers.chats import chat as messages
from helpers.processes import free_port, wait_for
from serving import CHATS, REPLY

from contradiction.errors import InputError

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:gradio")
ASKED = messages("你养宠物吗？")


@pytest.fixture
def web(connected):
    with httpx.Client(base_url=connected, timeout=60) as client:
        yield client


def names(detectors):
    return [detector.name.rpartition("/")[2] for detector in detectors]


# Detectors


@pytest.mark.parametrize("path", ["/", "/v1/judge", "/gradio_api/upload", "/mcp"])
def test_a_web_page_from_elsewhere_is_refused(path, web):
    refused = web.post(path, headers={"origin": "http://evil.example"})
    assert refused.status_code == 403 and "evil.example" in refused.text


def test_a_request_can_choose_among_the_detectors_that_the_owner_named(web, detectors, connected):
    from gradio_client import Client

    assert web.get("healthz").json()["detectors"] == names(detectors)
    chat = messages(*CHATS[0])
    page = Client(connected, verbose=False, httpx_kwargs={"timeout": 60})
    for detector, name in zip(detectors, names(detectors), strict=True):
        answer = web.post("v1/judge", json={"messages": chat, "detector": name}).json()
        assert answer["scores"] == pytest.approx(detector(chat).scores, abs=1e-5)
        assert page.predict(messages=chat, detector=name, api_name="/judge") == answer
    assert web.post("v1/judge", json={"messages": chat}).json()["label"] in detectors[0].labels


@pytest.mark.parametrize("name", ["/etc/passwd", "bert-base-chinese", "http://127.0.0.1:1/model", "../4-class", ""])
def test_no_request_makes_the_page_load_anything(web, name, detectors):
    for path, body in {"judge": {"messages": ASKED}, "check": {"facts": ["我没有猫"], "reply": "我有猫"}}.items():
        answer = web.post(f"v1/{path}", json={**body, "detector": name})
        assert answer.status_code == 422
        assert answer.json()["error"].endswith(", ".join(names(detectors)))


def test_two_detectors_with_the_same_name_are_rejected(app, detectors):
    with pytest.raises(InputError, match=f"{names(detectors)[0]}, .*by its name"):
        app.serve(detectors[0], "127.0.0.1", free_port(), [detectors[0]])


# The chatbot


def reply(web, text, **body):
    answer = web.post("v1/reply", json={"messages": messages(text), **body})
    return answer.status_code, answer.json()


def test_the_bot_answers_the_chat_and_receives_nothing_else(web, bot_server):
    chat = [*messages("你好", "你好呀"), *ASKED]
    answer = web.post("v1/reply", json={"messages": chat})
    assert (answer.status_code, answer.json()) == (200, {"reply": REPLY})
    request = bot_server.requests[-1]
    assert (bot_server.keys[-1], request["model"], request["messages"]) == (KEY, "small-bot", chat)


@pytest.mark.parametrize(
    ("fault", "logged"),
    [
        ("status", "HTTP 500"),
        ("redirect", "HTTP 302"),
        ("hang", "within 1 seconds"),
        ("drip", "within 1 seconds"),
        ("broken", "not a chat completion"),
        ("silent", "without text"),
    ],
)
def test_a_visitor_reads_only_that_there_is_no_reply_and_the_owner_reads_why(web, bot_server, caplog, fault, logged):
    assert reply(web, fault) == (502, {"error": "the bot gave no reply; try again later"})
    assert f"{bot_server.url}/chat/completions: no reply: " in caplog.text and logged in caplog.text
    assert reply(web, "你好") == (200, {"reply": REPLY})  # and the next request is answered


def test_a_long_reply_is_cut_and_half_a_character_is_not_a_failure(web):
    assert reply(web, "huge") == (200, {"reply": "x" * 2000})
    assert reply(web, "half") == (200, {"reply": "?"})
    body = b'{"messages": [{"role": "user", "content": "\\ud800"}]}'
    answer = web.post("v1/reply", content=body, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()) == (200, {"reply": REPLY})


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"messages": []}, "the last message before a reply must be the user's"),
        ({"messages": [{"role": "system", "content": "x"}]}, "String should match"),
        (
            {"messages": ASKED, "url": "http://127.0.0.1:1"},
            "url: Extra inputs are not permitted",
        ),
        ({"messages": ASKED * 61}, "at most 60 messages"),
        ({"messages": messages("好" * 8001)}, "at most 60 messages and 8,000 characters"),
    ],
)
def test_a_visitor_can_send_only_messages(web, bot_server, body, message):
    before = len(bot_server.requests)
    answer = web.post("v1/reply", json=body)
    assert answer.status_code == 422
    assert message in answer.json()["error"]
    assert len(bot_server.requests) == before


def test_each_visitor_waits_for_one_reply_at_a_time(web, bot_server):
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(2) as pool:
        before = len(bot_server.requests)
        first = pool.submit(reply, web, "hang")
        assert wait_for(lambda: len(bot_server.requests) > before)
        assert reply(web, "你好") == (503, {"error": "the service is busy; try again soon"})
        assert first.result()[0] == 502
    assert reply(web, "你好")[0] == 200


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--bot-url", "http://127.0.0.1:1/v1"], "a bot needs both"),
        (["--bot-url", "file:///etc/passwd", "--bot-model", "x"], "begins with http"),
        (["--bot-url", "http://[::1/v1", "--bot-model", "x"], "http://[::1/v1"),
    ],
)
def test_an_invalid_bot_address_is_rejected_before_anything_is_loaded(run, model, arguments, message):
    code, out, error = run("space", "--model", model, "--port", free_port(), *arguments)
    assert (code, out) == (2, "")
    assert message in error
