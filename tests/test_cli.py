"""The command line starts quickly, and reports a user error in one line with exit code 2."""

import json
import re
import shutil
import subprocess
import sys
import time
from importlib.metadata import version
from itertools import product

import pytest
import typer
from helpers import processes
from helpers.chats import line
from helpers.hub_client import environment
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from contradiction.cli import app
from contradiction.commands.common import show
from contradiction.io.hub import model_name
from contradiction.io.tables import Table


@pytest.fixture(scope="module")
def model(quick_model, tmp_path_factory):
    return shutil.copytree(quick_model, tmp_path_factory.mktemp("models") / "quick")


def test_a_table_prints_names_that_look_like_markup_unchanged(capsys):
    show(Table("results/[/x]:cat:.json", ("bot[v2]", "bot[/v2]"), [("[red]", "[/]"), (":cat:", "1")]))
    out = capsys.readouterr().out
    assert all(name in out for name in ("results/[/x]:cat:.json", "bot[v2]", "bot[/v2]", "[red]", "[/]", " :cat:"))


def test_help_and_version_import_nothing_heavy():
    heavy = "torch transformers datasets evaluate gradio sklearn pyarrow pydantic".split()
    code = (
        "import sys; from contradiction.cli import app\n"
        "try: app(['--help'])\nexcept SystemExit: pass\n"
        "try: app(['--version'])\nexcept SystemExit: pass\n"
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    names = ", ".join(f"{name} {version(name)}" for name in ("torch", "transformers", "datasets"))
    assert out.splitlines()[-2:] == [f"cdconv {version('cdconv')} ({names})", "[]"]


def helps(command):
    """The help texts of a command, its subcommands, and their parameters."""
    return [command.help or "", *(getattr(each, "help", None) or "" for each in command.params)] + [
        text for inner in getattr(command, "commands", {}).values() for text in helps(inner)
    ]


def test_help_texts_wrap_at_any_width_and_lose_no_letter(run):
    assert run("--version")[0] == 0  # which joins the lines of the help
    texts = helps(typer.main.get_command(app))
    assert not [text for text in texts if re.search(r"[^\n]\n[^\n]", text)]
    wide = [text for text in texts if cell_len(text) > len(text)]
    assert len(wide) > 3
    for width, text in product(range(20, 120), wide):
        lines = Text(text).wrap(Console(width=width), width, overflow="ellipsis")  # as in a table
        assert "".join("".join(line.plain for line in lines).split()) == "".join(text.split()), width


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "no-such-recipe"], "no-such-recipe: no such recipe"),
        (["train", "flaten-4-class"], "; did you mean flatten-4-class?\n"),
        (["corpora", "dialfact"], "No such command 'dialfact'"),
        (["corpora", "show", "dialfct"], "; did you mean dialfact?\n"),
        (["train", "tiny", "--precision", "int8"], "precision is 'int8'"),
        (["evaluate", "no/model"], "no/model: neither a model folder nor a model on the Hub"),
        (["evaluate", "no/such/model", "--json", "."], ".: is a folder; name a file in it"),
        (["calibrate", "user/model"], "user/model: no such folder; `hf download"),
        (["detect", "--scaan"], "No such option: --scaan (Possible options: --scan)"),
        (["detct"], "No such command 'detct'. Did you mean 'detect'?"),
        (["detect", "--batch-size", "0"], "'--batch-size': Input should be greater than or equal to 1"),
        (["detect", "--fail-on", "lies"], "'--fail-on': 'lies' is not one of 'contradiction', 'unchecked'\n"),
        (["train"], "Missing argument 'recipe'"),
        (["detect", "no.jsonl"], "no.jsonl: no such file"),
        (["detect", "."], ".: is a folder; name a file of chats"),
        (["detect", "--format", "parquet"], "cannot come through a pipe"),
        (["detect", "--device", "nowhere"], "device 'nowhere'"),
        (["detect", "--resume", "--out", "v.jsonl"], "<stdin>: --resume needs a file"),
        (["detect", "--only", "unchecked", "--out", "v.jsonl"], "--only filters"),
        (["detect", "--out", "/dev/null"], "--out /dev/null: is not a regular file"),
        (["detect", "--out", "v.csv"], "the verdicts are JSON lines; give it a name that ends in .jsonl"),
        (["detect", "logs", "--engine", "ray"], "--engine ray writes a folder of Parquet files; name it with --out"),
        (
            ["detect", "logs", "--engine", "ray", "--out", "o", "--device", "cuda:1"],
            "--device cuda:1: with --engine ray",
        ),
        (["serve", "--token", ""], "the token is empty"),
        (["serve", "--token", "geheim "], "begins or ends with a space"),
        (["serve", "--threshold", "precision>=2"], "a precision is above 0 and at most 1"),
        (["serve", "--revision", "v1"], "a folder, which has no revision 'v1'"),
    ],
)
def test_a_user_error_prints_one_line_on_stderr_and_exits_with_2(run, arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert err.startswith("cdconv: ")
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_model_is_named_after_the_current_folder(run, model, tmp_path, monkeypatch):
    monkeypatch.chdir(shutil.copytree(model, tmp_path / "mine"))
    assert run("card", ".")[0] == 0
    assert "\n# mine\n" in (tmp_path / "mine" / "README.md").read_text(encoding="utf-8")
    assert model_name(".") == "mine"
    assert model_name("hub/models--user--stages/snapshots/0123") == "user/stages"
    assert model_name("snapshots/mine") == "snapshots/mine"


def test_the_progress_bar_with_any_file_name_is_on_stderr_and_not_in_the_output(run, model, tmp_path, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    file = tmp_path / "a{b}.jsonl"
    file.write_text(line() + "\n", encoding="utf-8")
    code, out, err = run("detect", file, "--model", model)
    assert (code, json.loads(out)["label"] is not None) == (0, True)
    assert "a{b}.jsonl" in err and "━" in err


def test_an_nli_model_needs_a_view_to_judge_conversations(run, random_model, sample_repo):
    stage = random_model("nli")
    arguments = ("evaluate", stage, "--data", sample_repo, "--config", "2-class")
    code, _, err = run(*arguments)
    assert (code, "needs the column 'premise'" in err) == (2, True)
    code, out, _ = run(*arguments, "--view", "sentence-pair")
    assert (code, "non-contradiction" in out) == (0, True)
    code, out, err = run("detect", "--model", stage, stdin=line().encode())
    assert (code, out) == (2, "")
    assert f"`cdconv train RECIPE --backbone {stage}` trains a detector from it" in err


INTERRUPTED = """
import os, signal, sys
class Finder:
    def find_spec(self, name, *_):
        if name == {name!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
"""


@pytest.mark.parametrize("name", ["contradiction.cli", "contradiction.commands.train", "contradiction.detector"])
def test_ctrl_c_while_something_is_imported_prints_one_line(name, model):
    code = INTERRUPTED.format(name=name) + processes.CDCONV.format(arguments=["detect", "--model", str(model)])
    done = subprocess.run([sys.executable, "-c", code], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "cdconv: interrupted\n")


def test_an_unresponsive_hub_delays_the_command_by_seconds_only(hub, tmp_path):
    hub.silent = True
    timed = "import contradiction.io.hub, time, pathlib\n"
    timed += "contradiction.io.hub.TIMEOUT = 0.5\n"
    timed += "pathlib.Path('began').write_text(str(time.monotonic()), encoding='utf-8')\n"
    pairs = ["data", "nli", "--train", "some/data", "--validation", "some/data", "--out", "nli"]
    commands = (["evaluate", "nope"], ["evaluate", "some/model"], ["evaluate", "baselines", "some/data"], pairs)
    places = [tmp_path / str(number) for number in range(len(commands))]
    running = []
    for arguments, place in zip(commands, places, strict=True):  # at the same time, because each of them waits
        place.mkdir()
        running.append(processes.start_cdconv(*arguments, before=timed, env=environment(hub), cwd=place))
    for process, place in zip(running, places, strict=True):
        _, stderr = process.communicate()
        assert (process.returncode, stderr.count("\n")) == (2, 1), stderr
        began = float((place / "began").read_text(encoding="utf-8"))
        assert time.monotonic() - began < 30  # the machine may be busy; without a limit it takes minutes
