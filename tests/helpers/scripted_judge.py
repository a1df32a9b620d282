"""A judge of known quality for `chat_server`: it knows the labels of some rows and errs at a given rate."""

import json
from hashlib import sha256

from helpers.chats import texts_of

from contradiction.labels import LABELS

NAMES = LABELS["4-class"]


def question_of(body):
    """The question in a request: the texts of the messages and the reply."""
    question = json.loads(body["messages"][-1]["content"])
    return (*(message["content"] for message in question["messages"]), question["reply"])


def scripted(rows, right=1.0, names=NAMES):
    """A function that answers requests.

    Args:
        rows: dicts with u1, b1, u2, b2 and the class id `label`.
        right: the share of rows on which it is right. On the others it gives another label. Which rows
            these are depends on their texts, so a row always has the same answer.
        names: the label names.
    """
    truth = {texts_of(row): row["label"] for row in rows}

    def answer(body):
        texts = question_of(body)
        label = truth[texts]
        digest = int.from_bytes(sha256("\n".join(texts).encode()).digest()[:8], "big")
        if digest / 2**64 >= right:
            label = [other for other in range(len(names)) if other != label][digest % (len(names) - 1)]
        return json.dumps({"label": names[label]})

    return answer
