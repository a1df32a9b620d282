"""The client of OpenAI-compatible endpoints, against a server with faults."""

import time
from contextlib import closing

import pytest
from helpers.chat_server import KEY, ChatServer, answer_with
from helpers.chats import chat

from contradiction.errors import InputError
from contradiction.io.endpoint import Endpoint, NoAnswerError, RefusedError, in_threads, repeated

ASKED = chat("你好吗？")


def endpoint(server, **options):
    return closing(Endpoint("tiny", url=server.url, key=KEY, **options))


def ask(model, attempts=3):
    return repeated(lambda: model.ask(ASKED), attempts, sleep=lambda seconds: None)


def test_an_answer_has_text_token_counts_and_a_duration():
    with ChatServer(lambda body: "很好") as server, endpoint(server) as model:
        answer = model.ask(ASKED, temperature=0)
    assert (answer.text, answer.prompt_tokens, answer.completion_tokens) == ("很好", 4, 2)
    assert 0 < answer.seconds < 30
    assert server.requests == [{"model": "tiny", "messages": ASKED, "temperature": 0}]
    assert server.keys == [KEY]


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("429", "HTTP 429"),
        ("nan", "HTTP "),
        ("500", "HTTP 500 a fault of the tests: 500"),
        ("drop", ""),
        ("half", "closed connection"),
        ("broken", "not a chat completion: '{"),
        ("hang", "no answer within 0.3 seconds"),
    ],
)
def test_temporary_failures_are_retried_and_repeated_ones_are_one_clear_line(fault, message):
    with ChatServer(lambda body: "好", lambda number, body: fault if number < 2 else None) as server:
        with endpoint(server, timeout=0.3 if fault == "hang" else 30) as model:
            with pytest.raises(NoAnswerError) as raised:
                ask(model, attempts=2)
            assert message in str(raised.value) and str(raised.value).endswith("(asked 2 times)")
            assert "\n" not in str(raised.value) and KEY not in str(raised.value)
            assert ask(model).text == "好"
    assert len(server.requests) == 3


def test_a_refused_request_is_not_retried():
    with ChatServer(lambda body: "好", lambda number, body: "401") as server, endpoint(server) as model:
        with pytest.raises(RefusedError, match=r"401 a fault of the tests: 401$"):
            ask(model)
    assert len(server.requests) == 1


def test_a_model_that_names_another_key_for_the_limit_of_tokens_is_sent_that_key_from_then_on():
    with ChatServer(lambda body: "好", lambda _, body: "max_tokens" in body and "400 max_completion_tokens") as server:
        with endpoint(server, options={"max_tokens": 9}) as model:
            assert ask(model).text == ask(model).text == "好"
    assert [body.get("max_completion_tokens") for body in server.requests] == [None, 9, 9]


def test_a_closed_port_an_invalid_address_and_an_invalid_key_raise_one_line(monkeypatch):
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(InputError, match=r"\$OPENAI_BASE_URL must hold its address"):
        Endpoint("tiny")
    for url, why in (("ftp://127.0.0.1/v1", "begins with http"), ("http://127.0.0.1:port/v1", "port")):
        with pytest.raises(InputError, match=why):
            Endpoint("tiny", url=url)
    for secret in ("sk-123\nsk-456", "sk-密钥"):
        with pytest.raises(InputError, match="no HTTP header can hold") as raised:
            Endpoint("tiny", url="http://127.0.0.1:9/v1", key=secret)
        assert "sk-" not in str(raised.value)
    with ChatServer(lambda body: "好") as server:
        pass
    with endpoint(server) as model, pytest.raises(NoAnswerError, match="refused.*asked 2 times"):
        ask(model, attempts=2)


@pytest.mark.parametrize(
    ("message", "finish", "text", "instead"),
    [
        ({"content": [{"type": "output_text", "text": text} for text in "你好"]}, "stop", "你\n好", None),
        ({"content": "<think>怎么答？</think>\n\n好"}, "stop", "好", None),
        ({"content": "好\ud83d", "refusal": None, "tool_calls": None, "annotations": []}, "stop", "好?", None),
        ({"content": None, "refusal": "我不能说"}, "stop", "我不能说", "a refusal"),
        ({"content": [{"type": "refusal", "refusal": "我不能说"}]}, "stop", "我不能说", "a refusal"),
        ({"content": None, "reasoning_content": "怎么答？"}, "length", "", "reasoning_content, and ends with 'length'"),
        ({"content": "<think>怎么答？"}, "length", "", "holds content, and ends with 'length'"),
        ({"content": None, "tool_calls": [{"id": "1"}]}, "tool_calls", "", "holds tool_calls, and"),
        ({"content": ""}, "content_filter", "", "holds nothing, and ends with 'content_filter'"),
    ],
)
def test_an_answer_is_what_the_model_says_to_the_user_or_what_it_holds_instead(message, finish, text, instead):
    with ChatServer(lambda body: "", lambda number, body: answer_with(message, finish)) as server:
        with endpoint(server) as model:
            answer = ask(model)
    assert answer.text == text and (instead in answer.instead if instead else answer.instead is None)
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
