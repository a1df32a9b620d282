"""The command ``cdconv serve``, up to the point where it listens."""

import socket

import pytest
from helpers.chats import line

from contradiction.paths import CHECKOUT, SHIPPED


def test_the_image_contains_the_shipped_detector():
    assert f"ARG MODEL=models/{SHIPPED.name}\n" in (CHECKOUT / "Dockerfile").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "environment", "message"),
    [
        (["--token", ""], {}, "the token is empty"),
        (["--token", "geheim "], {}, "the token begins or ends with a space"),
        ([], {"CDCONV_TOKEN": ""}, "CDCONV_TOKEN is empty"),
        (["--threshold", "precision>=2"], {}, "a precision is above 0 and at most 1"),
        (["--revision", "v1"], {}, "a folder, which has no revision 'v1'"),
    ],
)
def test_the_command_rejects_unusable_options_before_it_starts(
    run, monkeypatch, random_model, arguments, environment, message
):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    code, _, error = run("serve", "--model", random_model("4-class"), *arguments)
    assert code == 2
    assert message in error


@pytest.mark.parametrize(
    ("host", "options", "warned"),
    [("0.0.0.0", [], True), ("0.0.0.0", ["--token", "geheim"], False), ("127.0.0.1", [], False)],
)
def test_a_service_open_to_other_machines_prints_a_warning(run, random_model, host, options, warned):
    with socket.create_server((host, 0)) as taken:  # so that the command fails and ends
        port = taken.getsockname()[1]
        code, _, error = run("serve", "--model", random_model("4-class"), "--host", host, "--port", port, *options)
    assert code == 2
    assert ("no token is set" in error) == warned


@pytest.mark.parametrize(("host", "shown"), [("127.0.0.1", "127.0.0.1"), ("::1", "[::1]")])
def test_the_address_of_a_page_is_a_valid_url(run, monkeypatch, tmp_path, host, shown):
    file = tmp_path / "chats.jsonl"
    file.write_text(line(), encoding="utf-8")
    monkeypatch.setattr("uvicorn.run", lambda *args, **options: None)
    monkeypatch.setattr("contradiction.page.check_address", lambda *args: None)
    code, out, _ = run("review", file, "--host", host, "--port", 7861)
    assert code == 0 and f"http://{shown}:7861/ " in out
