"""The command ``cdconv serve``, up to the point where it listens."""

import socket

import pytest
from helpers.chats import CHAT, line
from starlette.testclient import TestClient

from contradiction.paths import CHECKOUT, SHIPPED


@pytest.fixture
def apps(monkeypatch):
    """The applications that a command would serve."""
    apps = []
    monkeypatch.setattr("uvicorn.run", lambda app, **options: apps.append(app))
    monkeypatch.setattr("contradiction.commands.serve._check_address", lambda *args: None)
    return apps


def test_the_image_contains_the_shipped_detector():
    assert f"ARG MODEL=models/{SHIPPED.name}\n" in (CHECKOUT / "Dockerfile").read_text(encoding="utf-8")


def test_an_empty_token_in_the_environment_is_refused(run, monkeypatch):
    monkeypatch.setenv("CDCONV_TOKEN", "")
    code, _, error = run("serve")
    assert (code, "the token is empty" in error) == (2, True)


def test_the_options_of_the_command_are_the_defaults_of_requests(run, random_model, apps):
    options = ("--category", "history", "--max-turns", "1", "--device", "cpu")
    code, _, error = run("serve", "--model", random_model("4-class"), "--threshold", "0", *options)
    assert code == 0, error
    with TestClient(apps[0]) as client:
        verdict = client.post("/v1/judge", json={"messages": [*CHAT, *CHAT, *CHAT]}).json()
        assert client.get("/healthz", headers={"origin": "http://evil.example"}).status_code == 403
    assert (verdict["kind"], verdict["evidence"], verdict["checked"]) == ("history", [9], False)


@pytest.mark.parametrize("host", ["\udcff", "a b", "a" * 70], ids=["no UTF-8", "a space", "too long"])
def test_a_host_that_is_no_name_is_an_error_of_one_line(run, tmp_path, host):
    (tmp_path / "chats.jsonl").write_text(line(), encoding="utf-8")
    for command in (["serve", "--token", "geheim"], ["space"], ["review", tmp_path / "chats.jsonl"]):
        code, out, error = run(*command, "--host", host)
        assert (code, out, error.count("\n")) == (2, "", 1) and "--host and --port choose another address" in error


@pytest.mark.parametrize(
    ("host", "options", "warned"),
    [("0.0.0.0", [], True), ("0.0.0.0", ["--token", "geheim"], False), ("127.0.0.1", [], False)],
)
def test_a_service_open_to_other_machines_prints_a_warning(run, random_model, host, options, warned):
    with socket.create_server((host, 0)) as taken:  # so that the command fails and ends
        options = ["--host", host, "--port", taken.getsockname()[1], *options]
        code, _, error = run("serve", "--model", random_model("4-class"), *options)
    assert (code, "no token is set" in error) == (2, warned)


@pytest.mark.parametrize(
    ("host", "shown"),
    [("127.0.0.1", "127.0.0.1"), ("127.0.0.2", "127.0.0.2"), ("localhost", "localhost"), ("::1", "[::1]")],
)
def test_the_page_answers_at_the_address_that_is_printed_and_at_no_other(run, apps, tmp_path, host, shown):
    file = tmp_path / "chats.jsonl"
    file.write_text(line(), encoding="utf-8")
    code, out, _ = run("review", file, "--host", host, "--port", 7861)
    address = f"http://{shown}:7861/"
    assert code == 0 and f"{address} " in out
    client = TestClient(apps[0])
    assert [client.get(url).status_code for url in (address, "http://elsewhere.example:7861/")] == [200, 400]
