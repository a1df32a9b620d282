"""Chats for tests, and files of chats in several formats."""

import csv
import json

from contradiction.inputs.views import CONVERSATION


def chat(*texts: str) -> list[dict[str, str]]:
    """The messages of a chat in which the user speaks first and the sides alternate."""
    return [{"role": ("user", "assistant")[index % 2], "content": text} for index, text in enumerate(texts)]


TEXTS = ("你养猫吗？", "养了一只橘猫", "它叫什么名字？", "我没养过猫呀")


CHAT = chat(*TEXTS)


def texts_of(row):
    """The utterances of a row of the data set."""
    return tuple(row[name] for name in CONVERSATION)


def line(messages=CHAT, **more):
    return json.dumps({**more, "messages": messages}, ensure_ascii=False)


def objects(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def write_jsonl(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def write_csv(path, header, rows, encoding="utf-8", **dialect):
    with path.open("w", encoding=encoding, newline="") as file:
        csv.writer(file, **dialect).writerows([header, *rows])


def sharegpt(messages):
    names = {"user": "human", "assistant": "gpt"}
    return [{"from": names[message["role"]], "value": message["content"]} for message in messages]
