"""The demo page as a real process with an API client, and the requirements of its start."""

import socket
import sys
from pathlib import Path

import httpx
import pytest
from helpers.chats import chat as messages
from helpers.processes import free_port, wait_for
from serving import with_tools

from contradiction.paths import CHECKOUT, SPACE
from contradiction.serving.service import ENDPOINTS

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:gradio")


def test_the_public_functions_are_named_typed_and_described(client):
    endpoints = client.view_api(return_format="dict", print_info=False)["named_endpoints"]
    names = {
        path: [parameter["parameter_name"] for parameter in endpoint["parameters"]]
        for path, endpoint in endpoints.items()
    }
    assert names.keys() == {f"/{name}" for name in ENDPOINTS}
    for name, endpoint in ENDPOINTS.items():
        required = [field for field, info in endpoint.body.model_fields.items() if info.is_required()]
        assert names[f"/{name}"][: len(required)] == required
        assert {*names[f"/{name}"]} == {*endpoint.body.model_fields}
    assert all(endpoint["description"] for endpoint in endpoints.values())


def test_the_public_functions_are_mcp_tools(url):
    tools = {tool.name: tool for tool in with_tools(url, lambda session: session.list_tools()).tools}
    assert set(tools) == set(ENDPOINTS)
    assert all(tool.description and tool.outputSchema for tool in tools.values())
    assert tools["scan"].inputSchema["required"] == ["messages"]


@pytest.mark.parametrize(
    ("chat", "message"),
    [
        ([{"role": "<b>", "content": "你好"}], "messages[0]: role '<b>'"),
        (messages(*[f"{n}" + "好" * 99 for n in range(100)]), "the chat is too long to be judged at once"),
    ],
)
def test_a_malformed_chat_raises_one_clear_error(client, log, chat, message):
    from gradio_client.exceptions import AppError

    with pytest.raises(AppError) as error:
        client.predict(messages=chat, api_name="/scan")
    assert str(error.value).startswith(message)
    assert "Traceback" not in log.read_text(encoding="utf-8")


def upload(url, name, content):
    return httpx.post(f"{url}gradio_api/upload", files={"files": (name, content)}, timeout=60)


def test_a_large_upload_is_rejected_and_the_page_patches_the_navigator(url):
    assert "defineProperty(navigator" in httpx.get(url, timeout=60).text
    try:
        answer = upload(url, "a.jsonl", b"x" * 7_000_000)
    except httpx.TransportError:  # the server may close the connection before it has read all
        return
    assert (answer.status_code, "at most 6,000,000 bytes" in answer.json()["error"]) == (413, True)


def test_an_uploaded_file_is_deleted_whatever_its_name(connected):
    from gradio.utils import get_upload_folder

    names = ("chats.jsonl", "../../up.jsonl", "<img src=x>.jsonl", "x" * 300 + ".jsonl")
    paths = [Path(upload(connected, name, b"{}").json()[0]) for name in names]
    assert all(path.is_relative_to(get_upload_folder()) for path in paths)
    assert wait_for(lambda: not any(path.exists() for path in paths), seconds=120)


def test_no_server_file_can_be_read(connected):
    with httpx.Client(base_url=connected, timeout=60) as web:
        runs = [
            dependency
            for dependency in web.get("config").json()["dependencies"]
            if len(dependency["inputs"]) == 4 == len(dependency["outputs"])
        ]
        assert len(runs) == 1
        for path in ("/etc/passwd", "../../etc/passwd", f"{CHECKOUT}/pyproject.toml", "http://127.0.0.1:1/chats.jsonl"):
            file = {"path": path, "meta": {"_type": "gradio.FileData"}}
            request = {"fn_index": runs[0]["id"], "data": [file, None, None, None], "session_hash": "hostile"}
            answer = web.post("gradio_api/queue/join", json=request)
            text = answer.text
            if answer.status_code == 200:
                text = web.get("gradio_api/queue/data", params={"session_hash": "hostile"}).text
                assert '"success":true' not in text
            assert "root:" not in text and "[project]" not in text
            assert web.get(f"gradio_api/file={path}").status_code in (400, 403, 404)


def test_uploads_are_rejected_with_a_reason_while_other_files_fill_the_space(app, tmp_path, monkeypatch):
    from starlette.responses import PlainTextResponse
    from starlette.testclient import TestClient

    monkeypatch.setattr(app, "ROOM", 1)
    web = TestClient(app.Uploads(PlainTextResponse("taken"), tmp_path))
    assert web.post(app.UPLOAD).text == "taken"
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "large.csv").write_bytes(b"x" * 1_000_000)
    refused = web.post(app.UPLOAD)
    assert (refused.status_code, refused.json()["error"]) == (503, app.FULL["error"])
    assert web.get("/other").text == "taken"


@pytest.mark.parametrize(
    "path", ["", "config", "docs", "v1/nowhere", "gradio_api/info", "analysis/plots/confusion.png"]
)
def test_every_response_of_the_page_carries_the_policy(connected, path):
    headers = httpx.get(f"{connected}{path}", timeout=60).headers
    assert "default-src 'self'" in headers["content-security-policy"]
    assert (headers["x-content-type-options"], headers["referrer-policy"]) == ("nosniff", "no-referrer")


def test_the_terminal_shows_the_address_and_no_gradio_advice(client, url, log):
    output = log.read_text(encoding="utf-8")
    assert f"The page is at {url} (Ctrl+C ends it)" in output
    assert "share" not in output


# The Space as a folder


def test_the_space_card_names_the_installed_versions():
    import gradio
    from huggingface_hub import SpaceCard

    card = SpaceCard.load(SPACE / "README.md").data
    assert (card.sdk, card.sdk_version, card.license) == ("gradio", gradio.__version__, "apache-2.0")
    assert (SPACE / card.app_file).is_file()
    assert len(card.short_description) <= 60  # the Hub rejects more
    pinned = (CHECKOUT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    assert set((SPACE / "requirements.txt").read_text(encoding="utf-8").split()) <= set(pinned)


# A user error is one line on stderr, and exit code 2


def test_a_command_that_cannot_start_the_page_prints_one_line(run, model, monkeypatch, tmp_path):
    def refused(*arguments):
        code, out, err = run("space", *arguments)
        assert (code, out, err.count("\n"), err.startswith("cdconv: ")) == (2, "", 1, True)
        return err

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"127.0.0.1:{port}: address already in use" in refused("--model", model, "--port", port)
    assert "cannot assign requested" in refused("--model", model, "--host", "192.0.2.1", "--port", free_port())
    assert f"{tmp_path}: " in refused("--model", tmp_path, "--port", free_port())
    monkeypatch.setitem(sys.modules, "gradio", None)
    assert 'pip install -e ".[space]"' in refused("--model", model, "--port", free_port())
