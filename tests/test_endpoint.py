"""The client of OpenAI-compatible endpoints, against a server with faults."""

import time
from contextlib import closing

import pytest
from helpers.chat_server import KEY, ChatServer, answer_with

from contradiction.errors import InputError
from contradiction.io.endpoint import Endpoint, NoAnswerError, RefusedError, in_threads, repeated

ASKED = [{"role": "user", "content": "你好吗？"}]


def endpoint(server, **options):
    return closing(Endpoint("tiny", url=server.url, key=KEY, **options))


def ask(model, attempts=3):
    return repeated(lambda: model.ask(ASKED), attempts, pause=0.01)


def test_an_answer_has_text_token_counts_and_a_duration():
    with ChatServer(lambda body: "很好") as server, endpoint(server) as model:
        answer = model.ask(ASKED, temperature=0)
    assert (answer.text, answer.prompt_tokens, answer.completion_tokens) == ("很好", 4, 2)
    assert 0 < answer.seconds < 30
    assert server.requests == [{"model": "tiny", "messages": ASKED, "temperature": 0}]
    assert server.keys == [KEY]


@pytest.mark.parametrize("fault", ["429", "nan", "500", "drop", "half", "broken"])
def test_temporary_failures_are_retried(fault):
    with (
        ChatServer(lambda body: "好", lambda number, body: fault if number < 2 else None) as server,
        endpoint(server) as model,
    ):
        assert ask(model).text == "好"
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("500", "HTTP 500 a fault of the tests: 500"),
        ("broken", "not a chat completion: '{"),
        ("half", "closed connection"),
        ("hang", "no answer within 0.3 seconds"),
    ],
)
def test_repeated_failures_raise_one_clear_line(fault, message):
    with ChatServer(lambda body: "好", lambda number, body: fault) as server:
        with endpoint(server, timeout=0.3) as model, pytest.raises(NoAnswerError) as raised:
            ask(model, attempts=2)
    assert message in str(raised.value) and str(raised.value).endswith("(asked 2 times)")
    assert "\n" not in str(raised.value) and KEY not in str(raised.value)


def test_a_refused_request_is_not_retried():
    with ChatServer(lambda body: "好", lambda number, body: "401") as server, endpoint(server) as model:
        with pytest.raises(RefusedError, match=r"401 a fault of the tests: 401$"):
            ask(model)
    assert len(server.requests) == 1


def test_a_closed_port_and_an_invalid_address_raise_one_line(monkeypatch):
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(InputError, match=r"\$OPENAI_BASE_URL must hold its address"):
        Endpoint("tiny")
    with pytest.raises(InputError, match="begins with http"):
        Endpoint("tiny", url="ftp://127.0.0.1/v1")
    with pytest.raises(InputError, match="port"):
        Endpoint("tiny", url="http://127.0.0.1:port/v1")
    with ChatServer(lambda body: "好") as server:
        pass
    with endpoint(server) as model, pytest.raises(NoAnswerError, match="refused.*asked 2 times"):
        ask(model, attempts=2)


@pytest.mark.parametrize("secret", ["sk-123\nsk-456", "sk-密钥"])
def test_a_key_that_no_header_can_hold_is_rejected_and_not_shown(secret):
    with pytest.raises(InputError, match="no HTTP header can hold") as raised:
        Endpoint("tiny", url="http://127.0.0.1:9/v1", key=secret)
    assert "sk-" not in str(raised.value)


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"content": "好"}, "好"),
        ({"content": [{"type": "output_text", "text": "你"}, {"type": "output_text", "text": "好"}]}, "你\n好"),
        ({"content": "<think>怎么答？</think>\n\n好"}, "好"),
        ({"content": "好\ud83d"}, "好?"),
        ({"content": "好", "refusal": None, "tool_calls": None, "annotations": []}, "好"),
    ],
)
def test_an_answer_is_what_the_model_says_to_the_user(message, text):
    with ChatServer(lambda body: "", lambda number, body: answer_with(message)) as server, endpoint(server) as model:
        assert (model.ask(ASKED).text, model.ask(ASKED).instead) == (text, None)


@pytest.mark.parametrize(
    "message",
    [{"content": None, "refusal": "我不能说"}, {"content": [{"type": "refusal", "refusal": "我不能说"}]}],
)
def test_a_refusal_is_an_answer_that_is_marked(message):
    with ChatServer(lambda body: "", lambda number, body: answer_with(message)) as server, endpoint(server) as model:
        answer = model.ask(ASKED)
    assert (answer.text, answer.instead) == ("我不能说", "a refusal")


@pytest.mark.parametrize(
    ("message", "finish", "found"),
    [
        ({"content": None, "reasoning_content": "怎么答？"}, "length", ("reasoning_content", "'length'")),
        ({"content": "<think>怎么答？"}, "length", ("content", "'length'")),
        ({"content": None, "tool_calls": [{"id": "1"}]}, "tool_calls", ("tool_calls",)),
        ({"content": ""}, "content_filter", ("nothing", "'content_filter'")),
    ],
)
def test_an_answer_without_text_says_what_it_holds(message, finish, found):
    with ChatServer(lambda body: "", lambda number, body: answer_with(message, finish)) as server:
        with endpoint(server) as model:
            answer = ask(model)
    assert answer.text == "" and all(part in answer.instead for part in found)
    assert len(server.requests) == 1, "another attempt would cost as much and find the same"


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"[" * 100_000, "not a chat completion"),
        (b'{"choices": [{"message": {"content": "a"}}], "usage": {"prompt_tokens": 1e999}}', "not a chat completion"),
        (b'{"error": {"message": "no such model"}}', "no such model"),
        (answer_with({"content": 3}), "content is a number"),
    ],
)
def test_an_unreadable_answer_is_an_error_that_shows_it(content, named):
    with ChatServer(lambda body: "好", lambda number, body: content) as server, endpoint(server) as model:
        with pytest.raises(NoAnswerError, match=named):
            model.ask(ASKED)


def test_no_call_runs_far_ahead_of_the_results_that_are_taken():
    called = []
    results = in_threads(called.append, range(100), 3)
    for taken in range(1, 21):
        next(results)
        time.sleep(0.005)
        assert len(called) <= taken + 6
    assert len(list(results)) == 80


def test_the_first_error_ends_the_calls():
    called = []

    def call(number):
        called.append(number)
        if number == 3:
            raise InputError("three")
        time.sleep(0.01)

    with pytest.raises(InputError, match="three"):
        list(in_threads(call, range(1000), 2))
    assert len(called) < 50
