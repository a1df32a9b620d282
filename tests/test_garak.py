"""Reports of garak are read as chats."""

import json

import pytest

from contradiction.chats.readers import open_file, open_stream
from contradiction.errors import InputError

TEXTS = ("你养猫吗？", "养了一只橘猫", "它叫什么？", "我没养过猫")


def entries(path, format):
    return [*open_file(path, format)]


def turn(role, text):
    return {"role": role, "content": {"text": text, "lang": "zh", "data_path": None, "notes": {}}}


def test_a_garak_report_yields_a_chat_per_output(tmp_path):
    prompt = {"turns": [turn("system", "你是小猫"), turn("user", TEXTS[0])], "notes": {}}
    outputs = ["养了", "没养"]
    attempt = {
        "entry_type": "attempt", "uuid": "u-1", "status": 1, "prompt": prompt, "outputs": [], "conversations": [prompt],
    }  # fmt: skip
    answered = {
        **attempt, "status": 2,
        "conversations": [{"turns": [*prompt["turns"], turn("assistant", text)]} for text in outputs],
    }  # fmt: skip
    older = {"entry_type": "attempt", "uuid": "u-2", "status": 2, "prompt": TEXTS[0], "outputs": ["养了", None]}
    lines = [{"entry_type": "start_run setup"}, attempt, answered, older, {"entry_type": "eval", "passed": 1}]
    file = tmp_path / "garak.report.jsonl"
    file.write_text("\n".join(json.dumps(line, ensure_ascii=False) for line in lines), encoding="utf-8")
    chats = entries(file, "garak")
    assert [entry.id for entry in chats] == ["u-1/0", "u-1/1", "u-2/0"]
    assert [entry.messages[-1]["content"] for entry in chats] == ["养了", "没养", "养了"]
    assert [entry.turns for entry in chats] == [1, 1, 1] and chats[0].messages[0]["role"] == "system"


def test_attempts_without_a_uuid_stay_separate(tmp_path):
    file = tmp_path / "garak.report.jsonl"
    attempts = [{"entry_type": "attempt", "prompt": TEXTS[0], "outputs": [text]} for text in ("养了", "没养")]
    file.write_text("\n\n".join(map(json.dumps, attempts)), encoding="utf-8")
    chats = entries(file, "garak")
    assert [(entry.id, entry.messages[-1]["content"]) for entry in chats] == [("1/0", "养了"), ("3/0", "没养")]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ({"entry_type": "attempt", "prompt": TEXTS[0], "outputs": "养了"}, "holds no attempt with an output"),
        ({"entry_type": "eval"}, "holds no attempt with an output"),
    ],
)
def test_a_file_that_is_no_report_raises_one_line(lines, message, tmp_path):
    file = tmp_path / "garak.report.jsonl"
    file.write_text(f'{{"entry_type": "init"}}\n{json.dumps(lines)}', encoding="utf-8")
    with pytest.raises(InputError, match=message):
        open_file(file, "garak")
    with pytest.raises(InputError, match="is read from a file"):
        open_stream(file.open("rb"), "<stdin>", "garak")
