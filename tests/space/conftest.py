"""A page served once per process, the verdicts of the façade on the same chats, and the modules of the page."""

import sys
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType

import pytest
from helpers import processes
from helpers.chat_server import KEY
from helpers.chats import chat as messages
from helpers.processes import free_port
from serving import chatbot, served

from contradiction.commands import serve

PAGES = ExitStack()  # closed after the last test of this folder, because a page takes time also while nobody is there


@pytest.hookimpl(trylast=True)  # after the tabs, which log an error when their page ends
def pytest_runtest_teardown(item, nextitem):
    if nextitem is None or Path(__file__).parent not in nextitem.path.parents:
        PAGES.close()


@pytest.fixture(scope="session")
def model(random_model):
    return random_model("4-class")


@pytest.fixture(scope="session")
def facade(detector):
    """The verdict of the façade on a chat. Chats are judged one by one, because batching changes the last bits."""
    return lambda chat: detector(messages(*chat))


@pytest.fixture(scope="session")
def log(tmp_path_factory):
    return tmp_path_factory.mktemp("logs") / "space.log"


@pytest.fixture(scope="session")
def url(model, log):
    port = free_port()
    code = processes.CDCONV.format(arguments=["space", "--model", str(model), "--port", str(port)])
    return PAGES.enter_context(served(code, port, log))


@pytest.fixture(scope="session")
def client(url):
    from gradio_client import Client

    return Client(url, verbose=False, httpx_kwargs={"timeout": 120})  # seconds, because the machine may be busy


@pytest.fixture(scope="session")
def app() -> ModuleType:
    return serve.page()


@pytest.fixture(scope="session")
def part(app):
    """Imports a module of the page by name."""
    return lambda name: sys.modules[name]


# A page with two detectors and a chatbot


@pytest.fixture(scope="session")
def bot_server():
    return PAGES.enter_context(chatbot())


@pytest.fixture(scope="session")
def detectors(detector, two_class):
    return [detector, two_class]


@pytest.fixture(scope="session")
def connected(app, part, detectors, bot_server):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CDCONV_BOT_KEY", KEY)
        bot = part("bot").Bot(bot_server.url, "small-bot", seconds=1.0)
        patch.setattr(app, "CHECK_EVERY", 1)  # makes this page delete files soon
        patch.setattr(app, "FILE_AGE", 1)
        demo, url = app.serve(detectors[0], "127.0.0.1", free_port(), detectors[1:], bot, local=True)
    PAGES.callback(demo.close, verbose=False)
    return url
