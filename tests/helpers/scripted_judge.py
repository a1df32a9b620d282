"""A judge of known quality for `chat_server`: it knows the labels of some rows and errs at a given rate."""

import json
from hashlib import sha256

import pytest
from helpers.chats import texts_of

from contradiction.io.files import write_json
from contradiction.labels import LABELS

NAMES = LABELS["4-class"]


@pytest.fixture
def judge(tmp_path, monkeypatch):
    """Writes a judge that calls a server, and returns its folder."""

    def written(server, name="judge", **options):
        for variable, value in server.environment.items():
            monkeypatch.setenv(variable, value)
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        write_json(folder / "judge.json", {"model": "tiny", **options})
        return folder

    return written


def question_of(body):
    """The question in a request: the texts of the messages and the reply."""
    question = json.loads(body["messages"][-1]["content"])
    return (*(message["content"] for message in question["messages"]), question["reply"])


def scripted(rows, right=1.0):
    """A function that answers requests.

    Args:
        rows: dicts with u1, b1, u2, b2 and the class id `label`.
        right: the share of rows on which it is right. On the others it gives another label. Which rows
            these are depends on their texts, so a row always has the same answer.
    """
    truth = {texts_of(row): row["label"] for row in rows}

    def answer(body):
        texts = question_of(body)
        label = truth[texts]
        digest = int.from_bytes(sha256("\n".join(texts).encode()).digest()[:8], "big")
        if digest / 2**64 >= right:
            label = [other for other in range(len(NAMES)) if other != label][digest % (len(NAMES) - 1)]
        return json.dumps({"label": NAMES[label]})

    return answer
