"""Bots to probe: functions, programs and chat models, also malicious and damaged ones."""

import shutil
import signal
import subprocess
import sys
import time

import psutil
import pytest
from helpers import processes
from helpers.chats import chat
from helpers.decoders import base_model
from helpers.hostile_models import REFUSED, without

from contradiction.errors import InputError
from contradiction.io.endpoint import NoAnswerError
from contradiction.probing.bots import CommandBot, FunctionBot, TransformersBot
from contradiction.probing.plan import plan, read_openings
from contradiction.probing.run import Caller, read_transcript, run

CHAT = chat("你养猫吗？")


def test_a_function_can_be_a_bot(tmp_path, monkeypatch):
    (tmp_path / "a_bot.py").write_text(
        "def reply(messages):\n    return f'{len(messages)}：我养了3只猫'\n"
        "def wrong(messages):\n    return 3\n"
        "def raises(messages):\n    raise KeyError('cat')\n"
        "def prompts(messages):\n    messages[-1]['content'] += '请用中文回答'\n    return messages[-1]['content']\n"
        "def hangs(messages):\n    import time\n    time.sleep(5)\n",
        encoding="utf-8",
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert FunctionBot("a_bot:reply").ask(CHAT).text == "1：我养了3只猫"
    assert FunctionBot("a_bot:prompts").ask(CHAT).text == CHAT[0]["content"] + "请用中文回答"
    assert CHAT == chat("你养猫吗？"), "the chat is still what was said"
    with pytest.raises(InputError, match="returned a number"):
        FunctionBot("a_bot:wrong").ask(CHAT)
    with pytest.raises(NoAnswerError, match="KeyError: 'cat'"):
        FunctionBot("a_bot:raises").ask(CHAT)
    with pytest.raises(NoAnswerError, match=r"no reply within 0.05 s"):
        FunctionBot("a_bot:hangs", timeout=0.05).ask(CHAT)
    with pytest.raises(InputError, match=r"'a_bot:missing'.*module:function"):
        FunctionBot("a_bot:missing")
    (tmp_path / "half_a_bot.py").write_text("def reply(messages:", encoding="utf-8")
    with pytest.raises(InputError, match=r"'half_a_bot:reply'"):
        FunctionBot("half_a_bot:reply")


PROGRAM = """
import json, sys, time
for line in sys.stdin:
    text = json.loads(line)["messages"][-1]["content"]
    if text == "end":
        sys.exit(3)
    if text == "hang":
        time.sleep(20)
    if text == "gbk":
        sys.stdout.buffer.write("好".encode("gbk"))
    print("not JSON" if text == "break" else json.dumps({"reply": text + "！"}), flush=True)
"""


@pytest.fixture
def program(tmp_path):
    """Makes a bot of a Python program, and closes it at the end."""
    bots = []

    def make(code, **options):
        file = tmp_path / "bot.py"
        file.write_text(code, encoding="utf-8")
        bots.append(CommandBot(f"{sys.executable} {file}", **options))
        return bots[-1]

    yield make
    for bot in bots:
        bot.close()


def test_a_program_can_be_a_bot_and_is_restarted_when_it_fails(program, tmp_path):
    bot, quick = program(PROGRAM), program(PROGRAM, timeout=0.2)
    assert bot.ask(CHAT).text == "你养猫吗？！"
    for text, why in (
        ("end", "ended with code 3"),
        ("break", "answered 'not JSON'"),
        ("gbk", "answered 'bytes that are not UTF-8'"),
    ):
        with pytest.raises(NoAnswerError, match=why):
            bot.ask(chat(text))
        assert bot.ask(CHAT).text == "你养猫吗？！"
    files = psutil.Process().num_fds()
    for _ in range(8):
        with pytest.raises(NoAnswerError, match="ended with code 3"):
            bot.ask(chat("end"))
        bot.ask(CHAT)
    # A thread closes the output of an ended program.
    assert processes.wait_for(lambda: psutil.Process().num_fds() <= files, seconds=20)
    with pytest.raises(NoAnswerError, match=r"no answer within 0.2 s"):
        quick.ask(chat("hang"))
    with pytest.raises(InputError, match="No such file"):
        CommandBot(str(tmp_path / "missing")).ask(CHAT)


def test_a_line_that_nobody_asked_for_is_never_taken_for_an_answer(program):
    bot = program(
        "import json, sys\n"
        "for number, line in enumerate(sys.stdin):\n"
        "    for text in ('first', 'second'):\n"
        "        print(json.dumps({'reply': f'{text} {number}'}), flush=True)\n"
    )
    assert bot.ask(CHAT).text == "first 0"
    _, lines = bot._process()
    assert processes.wait_for(lambda: not lines.empty(), seconds=20)
    with pytest.raises(NoAnswerError, match="wrote a line that nobody asked for, .*second 0"):
        bot.ask(CHAT)
    assert bot.ask(CHAT).text == "first 0", "it was started again"


def test_a_program_that_never_reads_a_long_chat_has_the_usual_time(program):
    with pytest.raises(NoAnswerError, match=r"no answer within 0.5 s"):
        program("import time; time.sleep(60)", timeout=0.5).ask(chat("长" * 300_000))


def test_a_program_ends_together_with_the_processes_that_it_started(program):
    bot = program(
        "import json, subprocess\n"
        "input()\n"
        "print(json.dumps({'reply': str(subprocess.Popen(['sleep', '60']).pid)}), flush=True)\n"
        "input()\n"
    )
    child = int(bot.ask(CHAT).text)
    assert _runs(child)
    bot.close()
    assert processes.wait_for(lambda: not _runs(child), seconds=10)


def _runs(process):
    try:
        return psutil.Process(process).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_ctrl_c_does_not_wait_for_a_program_that_hangs(tmp_path, detect_model):
    """The interrupt goes to a process of its own, where it cannot reach anything but the command."""
    mark = tmp_path / "hangs"
    (tmp_path / "bot.py").write_text(
        f"import pathlib, time\npathlib.Path({str(mark)!r}).touch()\ntime.sleep(60)\n", encoding="utf-8"
    )
    process = processes.start_cdconv(
        "probe", "run", "--command", f"{sys.executable} {tmp_path / 'bot.py'}", "--out", tmp_path / "run",
        "--conversations", "2", "--model", detect_model, "--name", "hangs", "--timeout", "60",
    )  # fmt: skip
    assert processes.wait_for(mark, process)
    begun = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=50)
    assert process.returncode == 130, err
    assert time.monotonic() - begun < 40


def test_a_program_that_starts_while_the_bot_closes_is_ended(program, monkeypatch):
    bot = program("import time; time.sleep(60)")
    start = subprocess.Popen

    def start_late(*arguments, **options):
        process = start(*arguments, **options)
        bot.close()  # as another thread would
        return process

    monkeypatch.setattr(subprocess, "Popen", start_late)
    begun = time.monotonic()
    with pytest.raises(NoAnswerError, match="ended with code -9"):
        bot.ask(CHAT)
    assert time.monotonic() - begun < 40


def test_a_python_program_writes_utf_8_whatever_the_locale(program, monkeypatch):
    for variable, value in {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.delenv("PYTHONIOENCODING", raising=False)
    assert program('input()\nprint(\'{"reply": "好"}\', flush=True)\n').ask(CHAT).text == "好"


@pytest.fixture(scope="module")
def chat_model(tmp_path_factory):
    """A folder with a tiny random causal language model."""
    import torch
    from transformers import Qwen2ForCausalLM

    folder = base_model(tmp_path_factory.mktemp("chat-model"), layers=1)
    torch.manual_seed(0)
    Qwen2ForCausalLM.from_pretrained(folder).save_pretrained(folder)
    template = "{% for m in messages %}{{ m.content }}\n{% endfor %}"
    (folder / "chat_template.jinja").write_text(template, encoding="utf-8")
    return folder


def test_a_transformers_chat_model_can_be_a_bot(chat_model, tmp_path):
    bot = TransformersBot(str(chat_model), max_new_tokens=8)
    planned = plan(read_openings(), ("short", "inquiring-bot", "repeat-2"), 6)
    run(planned, Caller(bot), tmp_path, request={"seed": 0}, name="tiny")
    rows = read_transcript(tmp_path / "transcript.jsonl")
    assert len(rows) == 6 and all(row["b1"] and row["b2"] for row in rows)
    # The reply depends on the context alone.
    assert all(bot.ask(row["messages"][:-1]).text == row["b2"] for row in rows)
    limited = TransformersBot(str(chat_model), max_new_tokens=1).ask(rows[0]["messages"][:-1])
    assert limited.cut and len(limited.text) <= 1
    with pytest.raises(InputError, match="no chat model"):
        TransformersBot(str(tmp_path))


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (REFUSED["config code of its own"], "asks for code of its own"),
        (REFUSED["weights in a pickle that means harm"], "not in safetensors"),
        (without("model.norm"), "its checkpoint lacks"),
    ],
    ids=["code", "pickle", "no norm"],
)
def test_a_malicious_or_damaged_chat_model_is_rejected(chat_model, tmp_path, monkeypatch, harm, message):
    folder = shutil.copytree(chat_model, tmp_path / "model")
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    harm(folder)
    with pytest.raises(InputError, match=message):
        TransformersBot(str(folder))
    assert not (tmp_path / "mark").exists(), "code ran"


def test_a_model_that_knows_no_system_message_gets_its_persona_from_the_user(chat_model, tmp_path):
    folder = shutil.copytree(chat_model, tmp_path / "strict")
    refusal = "{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif %}"
    (folder / "chat_template.jinja").write_text(refusal + "{{ messages[-1].content }}", encoding="utf-8")
    bot = TransformersBot(str(folder), max_new_tokens=8)
    together = chat(f"你养猫\n\n{CHAT[0]['content']}")
    assert bot.ask([{"role": "system", "content": "你养猫"}, *CHAT]) == bot.ask(together)
    (folder / "chat_template.jinja").write_text("{{ messages[-1].content + 1 }}", encoding="utf-8")
    with pytest.raises(InputError, match=r"strict: its chat template"):
        TransformersBot(str(folder), max_new_tokens=8).ask(CHAT)
