"""The README: its code runs as printed, its commands exist, its links lead somewhere, its figures are the kept ones."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from contradiction import results
from contradiction.cli import app
from contradiction.tables import percent

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CHINESE = (ROOT / "README.zh.md").read_text(encoding="utf-8")


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


@pytest.mark.parametrize("text", [README, CHINESE], ids=["README.md", "README.zh.md"])
def test_every_command_named_exists(text):
    import typer

    known = typer.main.get_command(app)
    for words in re.findall(r"`cdconv ([a-z]+(?: [a-z]+)?)", text):
        command = known
        for word in words.split():
            if not hasattr(command, "commands"):
                break
            assert word in command.commands, f"cdconv {words}"
            command = command.commands[word]


@pytest.mark.parametrize("text", [README, CHINESE], ids=["README.md", "README.zh.md"])
def test_every_link_into_the_repository_leads_somewhere(text):
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in link]
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


@pytest.mark.parametrize("text", [README, CHINESE], ids=["README.md", "README.zh.md"])
def test_the_figures_are_those_of_the_kept_results(text):
    kept = {(each["name"], each["config"], each["split"]): each["metrics"] for each in results.kept()}
    rows = re.findall(r"^\| ([^|]+?) \| (\d\d\.\d) \| (\d\d\.\d) \|$", text, flags=re.MULTILINE)
    named = [row for row in rows if not row[0].startswith(("paper", "论文"))]
    assert len(named) >= 3
    for name, two, four in named:
        fine = kept[name, "4-class", "test"]
        coarse = kept.get((name, "2-class", "test"), fine.get("two_class"))
        assert (percent(coarse["macro_f1"]), percent(fine["macro_f1"])) == (two, four), name


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


def test_the_links_of_the_page_for_operators_lead_somewhere():
    page = ROOT / "docs" / "operators.md"
    links = re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8"))
    assert links
    assert [link for link in links if not (page.parent / link).exists()] == []
