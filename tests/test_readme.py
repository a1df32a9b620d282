"""README and docs: their code runs as printed, commands exist, links lead somewhere, figures are the kept ones."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from chats import chat

from contradiction.cli import app
from contradiction.evaluation import results
from contradiction.io.tables import percent

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CHINESE = (ROOT / "README.zh.md").read_text(encoding="utf-8")
PAGES = [
    ROOT / "README.md",
    ROOT / "README.zh.md",
    *sorted((ROOT / "docs").glob("*.md")),
    ROOT / "models" / "README.md",
    *sorted((ROOT / "models" / "results").rglob("*.md")),
]


@pytest.fixture(params=PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def page(request):
    return request.param


@pytest.fixture(scope="module")
def checkout(sample_repo, tmp_path_factory):
    """A folder as `make demo` leaves it: the data repo, the metric, the shipped detector."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("cdconv.py", "contradiction", "evaluate_metric"):
        (folder / name).symlink_to(ROOT / name)
    (folder / "cdconv").symlink_to(sample_repo)
    (folder / "models").symlink_to(ROOT / "models")
    return folder


def test_every_block_of_python_runs_as_printed(checkout):
    blocks = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert len(blocks) == 4
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(blocks)], cwd=checkout, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    reply, scores, verdict, labels = [line for line in done.stdout.splitlines() if line][-4:]
    assert reply.endswith("['non-contradiction', 'intra-sentence', 'role-confusion', 'history']")
    assert scores.startswith("0.25 [")  # one of four classes right; the merged accuracy is the other way round
    assert verdict.startswith("Verdict(label='history'")
    assert "evidence=(1,), checked=True" in verdict
    assert labels.count("'score'") == 4
    # The façade and the pipeline say the same of the same chat.
    assert re.search(r"label='([^']+)'", verdict).group(1) == re.search(r"'label': '([^']+)'", labels).group(1)


def test_every_command_named_exists(page):
    import typer

    known = typer.main.get_command(app)
    text = page.read_text(encoding="utf-8")
    for words in re.findall(r"(?:`|^)cdconv ([a-z]+(?: [a-z]+)?)", text, flags=re.MULTILINE):
        command = known
        for word in words.split():
            if not hasattr(command, "commands"):
                break
            assert word in command.commands, f"cdconv {words}"
            command = command.commands[word]


def test_every_link_into_the_repository_leads_somewhere(page):
    links = [link for link in re.findall(r"\]\(([^)]+)\)", page.read_text(encoding="utf-8")) if "://" not in link]
    assert links
    for link in links:
        path, _, place = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), link
        if place:
            assert place in anchors(target), link


def anchors(page):
    """The anchors that GitHub gives the headings of a page."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_the_page_on_training_names_every_key_of_a_recipe():
    from contradiction.training.recipe import Recipe

    text = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")
    keys = [re.findall(r"`([a-z_]+)`", row) for row in re.findall(r"^\| (`[^|]+) \|", text, flags=re.MULTILINE)]
    assert sorted(key for row in keys for key in row) == sorted({*Recipe.model_fields} - {"name"})  # it is the file's


@pytest.mark.parametrize("text", [README, CHINESE], ids=["README.md", "README.zh.md"])
def test_the_figures_are_those_of_the_kept_results(text):
    kept = {(each["name"], each["config"], each["split"]): each["metrics"] for each in results.kept()}
    rows = re.findall(r"^\| ([^|]+?) \| (\d\d\.\d) \| (\d\d\.\d) \|$", text, flags=re.MULTILINE)
    named = [row for row in rows if not row[0].startswith(("paper", "论文"))]
    assert len(named) >= 3
    for name, two, four in named:
        fine = kept[name, "4-class", "test"]
        coarse = kept[name, "2-class", "test"] if name.startswith(("TF-IDF", "kernel ridge")) else fine["two_class"]
        assert (percent(coarse["macro_f1"]), percent(fine["macro_f1"])) == (two, four), name


def test_the_values_to_hold_against_of_the_metric_are_those_of_the_kept_results():
    text = (ROOT / "evaluate_metric" / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| .*(?:utterances|reply|alone) \| (\d\d\.\d) \| (\d\d\.\d) \|$", text, flags=re.MULTILINE)
    kept = {(each["name"], each["config"]): each for each in results.kept() if each["split"] == "test"}
    names = ("TF-IDF, all", "TF-IDF, context only", "TF-IDF, reply only")
    assert rows == [
        tuple(percent(kept[name, config]["metrics"]["macro_f1"]) for config in ("2-class", "4-class")) for name in names
    ]


def test_the_page_of_results_is_the_one_the_kept_results_give():
    from contradiction.reports.results_page import results_page

    assert (ROOT / "models" / "README.md").read_text(encoding="utf-8") == results_page()


def test_what_the_page_for_operators_prints_runs(checkout):
    text = (ROOT / "docs" / "operators.md").read_text(encoding="utf-8")
    guard, monitor, settings, _ = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    judge = "print(detector([*chat, dict(role='assistant', content='我没养过猫呀')]))"
    done = subprocess.run(
        [sys.executable, "-c", f"{guard}\n{monitor}\n{settings}\n{judge}"],
        cwd=checkout, capture_output=True, text=True, encoding="utf-8", timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    first, *_, held, last = done.stdout.splitlines()
    assert first == "它叫橘子"  # the consistent one of the two
    assert held.startswith("Monitor(model='models/e5-small-cdconv-soup', messages=5, turns=3, ")
    assert last.startswith("Verdict(label=")


def test_the_line_that_detect_is_said_to_print_is_printed(run, tmp_path):
    text = (ROOT / "docs" / "operators.md").read_text(encoding="utf-8")
    said = json.loads(re.search(r"```console\n\$ cdconv detect chats.jsonl\n(.*?)\n```", text)[1])
    file = tmp_path / "chats.jsonl"
    file.write_text(json.dumps(chat("你养猫吗？", "养了一只橘猫", "它叫什么名字？", "我没养过猫呀")), encoding="utf-8")
    code, out, _ = run("detect", file)
    found = json.loads(out)
    assert code == 0
    assert found["scores"] == pytest.approx(said["scores"], abs=1e-4)
    assert found["probability"] == pytest.approx(said["probability"], abs=1e-4)
    numbers = ("score", "scores", "probability")
    assert [each for each in found.items() if each[0] not in numbers] == [
        each for each in said.items() if each[0] not in numbers
    ]
