"""The REST service: verdicts of the façade for many concurrent clients, and rejections with a reason."""

import asyncio
import json
import os
import re
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from unittest.mock import Mock

import pytest
from fastapi import FastAPI
from helpers.chats import CHAT, chat
from starlette.testclient import TestClient

from contradiction import conversation
from contradiction.errors import InputError
from contradiction.inputs.views import MAX_TURNS
from contradiction.labels import HISTORY
from contradiction.paths import CHECKOUT
from contradiction.serving.api import PATHS, POSTS, application, handlers, router
from contradiction.serving.middleware import SERVICE_PATHS, Metrics
from contradiction.serving.predictions import BusyError, TooLongError
from contradiction.serving.service import ENDPOINTS, VERDICT, Service
from contradiction.settings import Limits
from contradiction.verdict import Verdict


@pytest.fixture(scope="module")
def client(detector):
    with TestClient(application(Service(detector))) as client:
        yield client


def bounded(detector, token=None, **limits):
    return TestClient(application(Service(detector, Limits(**limits)), token))


def post(client, path, **body):
    answer = client.post(f"/v1/{path}", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def refusal(answer):
    assert [*answer.json()] == ["error"]
    return answer.status_code, answer.json()["error"]


def same(record, verdict):
    expected = verdict.to_record()
    assert record["label"] == expected["label"]
    assert record["scores"] == pytest.approx(expected["scores"], abs=2e-6)
    assert [*record] == [*expected]


def test_the_service_returns_the_verdicts_of_the_facade(client, detector):
    same(post(client, "judge", messages=CHAT), detector(CHAT))
    for record, verdict in zip(post(client, "scan", messages=CHAT)["verdicts"], detector.scan(CHAT), strict=True):
        same(record, verdict)
    ranked = detector.rerank(CHAT[:3], ["我没养过猫呀", "它叫橘子"])
    answer = post(client, "rerank", messages=CHAT[:3], candidates=["我没养过猫呀", "它叫橘子"])["ranked"]
    assert [(candidate["index"], candidate["reply"]) for candidate in answer] == [
        (candidate.index, candidate.reply) for candidate in ranked
    ]
    same(answer[0]["verdict"], ranked[0].verdict)
    same(
        post(client, "check", facts=["我没有养宠物"], reply="我家的猫叫橘子"),
        detector.check(["我没有养宠物"], "我家的猫叫橘子"),
    )


def test_the_service_accepts_the_settings_of_the_library(client, detector):
    settings = {"threshold": 0, "categories": ["history"], "max_turns": 1}
    same(post(client, "judge", messages=CHAT, **settings), detector.with_settings(**settings)(CHAT))
    long = chat(*["你好"] * 2 * (MAX_TURNS + 2))
    assert not post(client, "judge", messages=long)["checked"]
    settings = {"windowing": "unstructured", "max_turns": 0}
    same(post(client, "judge", messages=CHAT, **settings), detector.with_settings(windowing="unstructured")(CHAT))
    assert post(client, "judge", messages=long, max_turns=0)["checked"]


def test_a_record_of_a_file_of_chats_can_be_sent_as_it_is(client, detector):
    verdict = post(client, "judge", messages=CHAT)
    record = {"id": "a", "messages": CHAT[:3], "reply": CHAT[3]["content"], "label": "history"}
    assert post(client, "judge", **record) == verdict
    assert post(client, "judge", messages=[{"from": "human", "value": CHAT[0]["content"]}, *CHAT[1:]]) == verdict


def test_contradictory_clauses_are_given_as_spans_in_messages(client):
    clauses = post(client, "clauses", messages=CHAT, threshold=0.0, categories=["history"])["clauses"]
    assert [verdict["message"] for verdict in clauses] == [1, 3]
    assert post(client, "clauses", messages=CHAT, threshold=1.0)["clauses"] == []


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("judge", {}, "messages: Field required"),
        ("judge", {"chat": CHAT}, "chat: Extra inputs are not permitted"),
        ("rerank", {"messages": CHAT[:3], "replies": ["好"]}, "candidates: Field required; replies: Extra inputs"),
        ("judge", {"messages": CHAT[:3], "model_answer": "没养过"}, "'model_answer' may hold the reply"),
        ("judge", {"messages": CHAT[:3], "chosen": "它叫橘子", "rejected": "没养过"}, "2 answers (chosen, rejected)"),
        ("judge", {"messages": reduce(lambda inner, _: {"messages": inner}, range(400), CHAT)}, "nested too deeply"),
        ("judge", {"messages": CHAT, "max_turns": "3"}, "max_turns"),
        ("judge", {"messages": CHAT, "max_turns": -1}, "1 or more (all: None, in requests 0)"),
        ("judge", {"messages": CHAT, "threshold": True}, "threshold True; it must be a probability"),
        ("judge", {"messages": [{**CHAT[0], "role": "robot"}]}, "role 'robot' is no known speaker (user or 用户, "),
        ("scan", {"messages": CHAT * 200}, "the chat has 800 messages; at most 400 are allowed"),
        ("scan", {"messages": chat(*[f"{n}" + "好" * 99 for n in range(100)])}, "the chat is too long to be judged"),
        ("rerank", {"messages": CHAT, "candidates": ["好"]}, "the last message before a reply must be the user's"),
        ("rerank", {"messages": CHAT[:3], "candidates": ["好"] * 65}, "65 candidates; at most 64 are allowed"),
    ],
)
def test_unusable_requests_are_rejected_with_a_reason(client, path, body, message):
    status, error = refusal(client.post(f"/v1/{path}", json=body))
    assert status == 422
    assert message in error and "--" not in error


@pytest.mark.parametrize(
    ("call", "messages", "options"),
    [
        # 12,800 windows that hold the same long question
        ("rerank", [*map(str, range(398)), "你养猫吗？" * 30_000], {"candidates": [f"我{n}" for n in range(64)]}),
        # 199 windows that hold the same long reply
        ("scan", ["你好", "，" * 400_000 + "好", *(f"好{n}" for n in range(398))], {}),
    ],
    ids=["rerank", "scan"],
)
def test_a_request_over_the_cost_is_refused_before_its_texts_are_read_often(
    detector, monkeypatch, call, messages, options
):
    read, is_blank = [], conversation.is_blank
    monkeypatch.setattr(conversation, "is_blank", lambda text: read.append(len(text)) or is_blank(text))
    service = Service(detector)
    with pytest.raises(TooLongError):
        service.answer(lambda: getattr(service, call)(chat(*messages), max_turns=0, **options), service.ticket())
    assert 0 < sum(read) < 20 * sum(map(len, messages))


def test_the_cost_of_a_request_counts_pairs_of_clauses(detector):
    judge = detector.with_settings(threshold=0.0, categories=[HISTORY])
    service = Service(judge, Limits(cost=500))
    messages = chat("你养猫吗？", "橘，猫，很，乖，养", "它叫什么？", "没，我，茶，喝，天")
    assert service.answer(lambda: service.judge(messages), service.ticket())["evidence"] == (1,)
    with pytest.raises(TooLongError, match="too long to be judged"):
        service.answer(lambda: service.clauses(messages), service.ticket())


def test_a_body_in_another_encoding_and_a_wrong_path_or_method_are_rejected(client):
    body = '{"messages": "你好"}'.encode("gb18030")  # what curl sends in a Chinese terminal of Windows
    answer = client.post("/v1/judge", content=body, headers={"content-type": "application/json"})
    assert refusal(answer) == (400, "the body is not in UTF-8 (from byte 14 on)")
    assert refusal(client.post("/v1/judges", json={"messages": CHAT})) == (404, "Not Found")
    answer = client.get("/v1/judge")
    assert (refusal(answer)[0], answer.headers["allow"]) == (405, "POST")


def test_invalid_json_and_large_bodies_are_rejected_with_a_reason(client):
    status, error = refusal(client.post("/v1/judge", content=b"{bad", headers={"content-type": "application/json"}))
    assert (status, "JSON" in error, error[0].isdigit()) == (422, True, False)
    for body in (b"x" * 600_000, iter([b"x" * 300_000] * 2)):  # with and without a content length
        status, error = refusal(client.post("/v1/judge", content=body, headers={"content-type": "application/json"}))
        assert (status, error) == (413, "the request is too large; at most 524,288 bytes are read")


def test_a_request_that_does_not_arrive_in_time_is_refused(detector):
    sent, parts = [], [{"type": "http.request", "body": b"{", "more_body": True}]

    async def receive():
        return parts.pop() if parts else await asyncio.sleep(60)

    async def send(message):
        sent.append(message)

    headers = [(b"content-type", b"application/json"), (b"content-length", b"100")]
    scope = {"type": "http", "method": "POST", "path": "/v1/judge", "query_string": b"", "headers": headers}
    app = application(Service(detector, Limits(seconds=0.1)))
    asyncio.run(asyncio.wait_for(app(scope, receive, send), 30))
    assert (sent[0]["status"], json.loads(sent[1]["body"])) == (408, {"error": "the request took too long to arrive"})


def test_a_token_is_required_in_a_scheme_of_any_case_but_not_for_the_description(detector):
    with bounded(detector, token="geheim") as client:
        for headers in ({}, {"authorization": "Bearer other"}):
            status, error = refusal(client.post("/v1/judge", json={"messages": CHAT}, headers=headers))
            assert (status, "missing or wrong" in error) == (401, True)
        right = {"authorization": "bearer geheim"}
        assert client.post("/v1/judge", json={"messages": CHAT}, headers=right).status_code == 200
        assert client.post("/mcp", json={}).status_code == 401
        assert client.get("/docs").status_code == client.get("/").status_code == 200
        paths = client.get("/openapi.json").json()["paths"]
    needing = {path for path, methods in paths.items() if all("security" in method for method in methods.values())}
    assert needing == set(PATHS) - {"/healthz", "/mcp"}


@pytest.mark.parametrize("path", ["/v1/check", "/mcp"])
def test_a_page_from_elsewhere_cannot_use_a_service_of_this_machine(detector, path):
    def status(origin, token=None, local=True):
        service = application(Service(detector), token, local=local)
        headers = {"host": "evil.example", "authorization": "Bearer s"} | ({"origin": origin} if origin else {})
        with TestClient(service) as client:
            return client.post(path, json={}, headers=headers).status_code

    for origin in ("http://evil.example", "http://evil.example:8000", "null", "http://127.0.0.1.evil.example", ""):
        assert (status(origin) == 403) == bool(origin)
    for origin in ("http://localhost:3000", "http://127.0.0.1:8000", "https://[::1]"):
        assert status(origin) != 403
    assert status("http://evil.example", token="s") != 403 != status("http://evil.example", local=False)


def test_a_token_may_contain_any_characters_and_an_empty_one_lets_nobody_in(detector):
    with bounded(detector, token="") as client:
        for headers in ({}, {"authorization": "Bearer"}, {"authorization": "Bearer "}):
            assert client.get("/metrics", headers=headers).status_code == 401
    with bounded(detector, token="秘密é") as client:
        for token, status in (("秘密é", 200), ("秘密e", 401)):
            assert client.get("/metrics", headers={"authorization": f"Bearer {token}".encode()}).status_code == status
    with bounded(detector, token=os.fsdecode(b"\xff")) as client:  # as a variable with bytes of another encoding
        assert client.get("/metrics", headers={"authorization": "Bearer other"}).status_code == 401


def test_the_api_description_covers_every_path_and_field_and_loads_nothing_external(client):
    answer = client.get("/docs")
    document = client.get("/openapi.json").json()
    assert not re.search(r"https?:|//|<script|<link|@import|url\(", answer.text)
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    statuses = {status for path in POSTS for status in document["paths"][path]["post"]["responses"]}
    assert statuses == {"200", "400", "401", "403", "408", "413", "422", "500", "503", "504"}
    shown = set(re.findall("<code>(?:[A-Z]+ )?(.+?)</code>", answer.text))
    fields = {field for each in ENDPOINTS.values() for kind in (each.body, each.answer) for field in kind.model_fields}
    assert set(document["paths"]) == set(PATHS) - {"/mcp"}
    assert fields | set(document["paths"]) < shown
    assert [*VERDICT.model_fields] == [*Verdict.__dataclass_fields__]
    assert all(field.description for field in VERDICT.model_fields.values())
    assert "要最辣的，我最爱吃辣" in answer.text  # from the example
    assert client.get("/redoc").status_code == 404  # it would load scripts from another host


@pytest.mark.parametrize("error", [OSError("no memory"), InputError("/srv/judge/answers.jsonl: is read-only")])
def test_a_model_failure_is_the_fault_of_the_service_and_its_cause_is_only_in_the_log(
    detector, error, caplog, monkeypatch
):
    monkeypatch.setattr(detector.classifier, "predict", Mock(side_effect=error))
    with TestClient(application(Service(detector))) as client:
        status, said = refusal(client.post("/v1/judge", json={"messages": CHAT}))
    assert status == 500 and "log" in said and str(error) not in said
    assert str(error) in caplog.text


def test_the_service_leaves_errors_of_other_paths_to_the_surrounding_app(detector):
    page = FastAPI(exception_handlers=handlers(SERVICE_PATHS))
    page.include_router(router({"quick": Service(detector)}, Metrics(PATHS)))
    client = TestClient(page)
    assert list(client.get("/v1/judge").json()) == ["error"]
    assert list(client.get("/nowhere").json()) == ["detail"]


def test_the_metrics_count_answers_rows_and_verdicts_by_whether_all_text_was_read(detector):
    with bounded(detector, messages=2000) as client:
        post(client, "judge", messages=CHAT, threshold=0)
        post(client, "judge", messages=CHAT, threshold=1)
        post(client, "judge", messages=chat("你好", "你好", "你好", "？！"))
        post(client, "scan", messages=chat("你好", "你好", "你好", "好" * 2000), threshold=0)
        post(client, "rerank", messages=CHAT[:3], candidates=["我没养过猫呀", "它叫橘子"], threshold=0)
        client.post("/v1/judge", json={})
        client.get("/nowhere")
        counts = dict(line.rsplit(" ", 1) for line in client.get("/metrics").text.splitlines() if line[0] != "#")
    assert {name: count for name, count in counts.items() if name.startswith("cdconv_verdicts_total")} == {
        'cdconv_verdicts_total{endpoint="judge",contradiction="false",checked="true"}': "1",
        'cdconv_verdicts_total{endpoint="judge",contradiction="none",checked="false"}': "1",
        'cdconv_verdicts_total{endpoint="judge",contradiction="true",checked="true"}': "1",
        'cdconv_verdicts_total{endpoint="rerank",contradiction="true",checked="true"}': "2",
        'cdconv_verdicts_total{endpoint="scan",contradiction="true",checked="false"}': "1",
        'cdconv_verdicts_total{endpoint="scan",contradiction="true",checked="true"}': "1",
    }
    assert counts['cdconv_requests_total{path="/v1/judge",status="200"}'] == "3"
    assert counts['cdconv_requests_total{path="/v1/judge",status="422"}'] == "1"
    assert counts['cdconv_requests_total{path="other",status="404"}'] == "1"
    assert counts["cdconv_rows_repeated_total"] == "2"


def test_an_error_names_the_model_but_not_where_it_is(client, random_model):
    status, error = refusal(client.post("/v1/judge", json={"messages": CHAT, "threshold": "precision>=0.8"}))
    folder, health = random_model("4-class"), client.get("/healthz")
    assert status == 422 and error.startswith(f"{folder.name}: ")
    assert str(folder.parent) not in error + health.text
    assert (health.headers["x-content-type-options"], health.headers["cache-control"]) == ("nosniff", "no-store")


def test_the_health_check_also_answers_head_as_load_balancers_ask(detector):
    with bounded(detector, token="geheim") as client:
        assert client.head("/healthz").status_code == 200


def call_tool(client, name, **arguments):
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
    headers = {"accept": "application/json, text/event-stream"}
    return client.post("/mcp", json=call, headers=headers).json()["result"]


def test_a_tool_answers_like_rest_as_json_text_and_as_structured_content(client):
    call = {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}
    messages = [*CHAT[:3], call, {"role": "assistant", "content": [{"type": "text", "text": "我没养过猫呀"}]}]
    answer = call_tool(client, "scan", messages=messages)
    assert not answer["isError"]
    assert answer["structuredContent"] == json.loads(answer["content"][0]["text"])
    assert answer["structuredContent"] == post(client, "scan", messages=messages)


def test_no_stream_is_opened_for_messages_that_the_server_never_sends(client):
    refused = client.get("/mcp", headers={"accept": "application/json"})  # of a stream, the client would read for ever
    assert (refused.status_code, refused.headers["allow"]) == (405, "POST")


def test_a_tool_refuses_what_rest_refuses_in_the_same_words(client):
    for name, arguments in (("judge", {"messages": []}), ("judge", {"chat": CHAT}), ("scan", {"messages": ["x"]})):
        answer = call_tool(client, name, **arguments)
        assert answer["isError"]
        assert answer["content"][0]["text"] == refusal(client.post(f"/v1/{name}", json=arguments))[1]
    assert "'sing'" in call_tool(client, "sing")["content"][0]["text"]


def test_concurrent_requests_share_forward_passes_and_get_their_own_verdicts(detector, sample_chats):
    service = Service(detector)
    chats = sample_chats[:60]
    with TestClient(application(service)) as client, ThreadPoolExecutor(30) as pool:
        answers = list(pool.map(lambda messages: post(client, "judge", messages=messages), chats))
    for answer, messages in zip(answers, chats, strict=True):
        same(answer, detector(messages))
    assert service.predictions.passes < service.predictions.rows


def test_one_caller_cannot_take_the_places_and_threads_of_others(detector):
    service, running, go = Service(detector, Limits(requests=8, per_caller=4)), [], threading.Event()

    def work(caller):
        running.append(caller)
        return go.wait(60)

    async def ask_all():
        requests = [service.answer_for(lambda: work("one"), "one") for _ in range(6)]
        one = asyncio.gather(*requests, return_exceptions=True)
        async with asyncio.timeout(60):
            while len(running) < 4:
                await asyncio.sleep(0.01)
            other = await service.answer_for(lambda: "answer", "other")
        go.set()
        return await one, other

    answers, other = asyncio.run(ask_all())
    assert other == "answer"
    assert [type(answer) for answer in answers] == [bool] * 4 + [BusyError] * 2
    assert len(service.places) == 0


def test_the_service_needs_only_its_requirements(random_model):
    names = (CHECKOUT / "requirements-serve.txt").read_text(encoding="utf-8").splitlines()[1:]
    pinned = set((CHECKOUT / "requirements.txt").read_text(encoding="utf-8").splitlines())
    runtimes = re.findall(r"RUNTIME=(\S+)", (CHECKOUT / "Dockerfile").read_text(encoding="utf-8"))
    assert {*names, *runtimes} <= pinned and len(runtimes) == 2
    others = dict.fromkeys(
        "accelerate aiohttp bm25s cdconv datasets evaluate gradio matplotlib mcp onnxruntime openvino pyarrow "
        "ray rjieba scipy sklearn".split()
    )
    code = (
        f"import sys; sys.modules.update({others}); import contradiction.cli; "
        "from contradiction import ContradictionDetector; from contradiction.serving import api; "
        "from contradiction.serving.service import Service; api.docs_page(); "
        f"api.application(Service(ContradictionDetector.from_pretrained({str(random_model('4-class'))!r})))"
    )
    environment = os.environ | {"HF_HUB_OFFLINE": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
