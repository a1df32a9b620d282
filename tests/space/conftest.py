"""A page that is served once a process, what the façade says of the same chats, and the modules of the page."""

import sys
from types import ModuleType

import pytest
from helpers.chats import chat as messages
from serving import CDCONV, free_port, served

from contradiction import ContradictionDetector, page


@pytest.fixture(scope="session")
def model(random_model):
    return random_model("4-class")


@pytest.fixture(scope="session")
def facade(model):
    """What the façade says of a chat; one by one, because batching moves the last bits."""
    detector = ContradictionDetector.from_pretrained(model)
    return lambda chat: detector(messages(*chat))


@pytest.fixture(scope="session")
def log(tmp_path_factory):
    return tmp_path_factory.mktemp("logs") / "space.log"


@pytest.fixture(scope="session")
def url(model, log):
    port = free_port()
    with served([CDCONV, "space", "--model", model, "--port", str(port)], port, log) as address:
        yield address


@pytest.fixture(scope="session")
def client(url):
    from gradio_client import Client

    return Client(url, verbose=False, httpx_kwargs={"timeout": 120})  # of a busy machine


@pytest.fixture(scope="session")
def app() -> ModuleType:
    return page.app()


@pytest.fixture(scope="session")
def part(app):
    """A module of the page by its name."""
    return lambda name: sys.modules[name]
