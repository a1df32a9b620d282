"""README and docs: their code runs, their commands, files and links exist, and their figures match the kept results."""

import json
import re
import subprocess
from dataclasses import replace
from unittest.mock import patch

import pytest
import typer
from helpers.chats import chat
from helpers.pages import ROOT, anchors, blocks, by_path, tables, text_of

from contradiction.cli import app
from contradiction.evaluation import figures, results
from contradiction.inference import base
from contradiction.io.tables import percent
from contradiction.methods import loading
from contradiction.paths import RESULTS, SHIPPED
from evaluate_metric import evaluate_metric

MANUAL = [ROOT / "README.md", ROOT / "README.zh.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = [*MANUAL, *(ROOT / name / "README.md" for name in ("models", "experiments", "paper"))]
PAGES += sorted((ROOT / "models" / "results").rglob("*.md"))
COMMANDS = typer.main.get_command(app)
# Names in the tables of README -> names of kept results.
KEPT_NAMES = {
    "hierarchical, our rerun, seed 23": "hierarchical-4-class-e5-small-nli-seed23",
    "hierarchical，本项目的复现，随机种子 23": "hierarchical-4-class-e5-small-nli-seed23",
    "character n-grams, TF-IDF": "TF-IDF, all",
    "字符 n-gram，TF-IDF": "TF-IDF, all",
}


@pytest.fixture(scope="module")
def checkout(sample_repo, tmp_path_factory):
    """A folder as `make demo` leaves it: the data repo, the metric, the shipped detector."""
    return _checkout(tmp_path_factory.mktemp("checkout"), sample_repo)


def _checkout(folder, data):
    for name in ("cdconv.py", "contradiction", "evaluate_metric", "models"):
        (folder / name).symlink_to(ROOT / name)
    (folder / "cdconv").symlink_to(data)
    return folder


@pytest.mark.parametrize("page", **by_path([page for page in MANUAL if blocks(page, "python")]))
def test_the_python_code_of_a_page_runs_and_prints_what_its_comments_say(page, checkout, monkeypatch, capsys):
    monkeypatch.chdir(checkout)
    monkeypatch.setattr(loading, "METHODS", [*loading.METHODS])  # what a page registers is removed after this test
    monkeypatch.setattr(figures, "FIGURES", [*figures.FIGURES])
    monkeypatch.setattr(figures, "RESAMPLES", 50)  # no page prints the bounds of an interval over so many
    monkeypatch.setattr(evaluate_metric, "FIGURES", {**evaluate_metric.FIGURES})
    code = "\n".join(blocks(page, "python"))
    with patch.dict(base.BACKENDS):
        exec(compile(code, str(page), "exec"), {"__name__": "page"})
    assert_printed(code, capsys.readouterr().out)


def assert_printed(code, printed):
    for comment in re.findall(r"^print\(.*\)  # (.+)$", code, flags=re.MULTILINE):
        match = re.search(".*?".join(map(re.escape, comment.split("…"))), printed)
        assert match, f"{comment!r} is not in {printed!r}"
        printed = printed[match.end() :]


def test_own_predictions_are_compared_with_saved_ones_by_id(release_repo, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(_checkout(tmp_path, release_repo))
    page = ROOT / "docs" / "metric.md"
    [code] = blocks(page, "py")
    exec("\n".join([*blocks(page, "python")[0].splitlines()[:3], code]), {"__name__": "page"})
    assert_printed(code, capsys.readouterr().out)


@pytest.mark.parametrize("page", **by_path(PAGES))
def test_every_command_and_option_that_a_page_names_exists(page):
    for line in command_lines(text_of(page)):
        command, words = COMMANDS, line.split()[1:]
        while words and hasattr(command, "commands") and re.fullmatch(r"[a-z][a-z0-9-]*", words[0]):
            assert words[0] in command.commands, line
            command = command.commands[words.pop(0)]
        options = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
        used = {word.partition("=")[0] for word in words if re.match(r"--[a-z]", word)}
        assert used <= {*options, "--help"}, f"{line}: {command.name} has no {used - options}"


def command_lines(text):
    """Every command line on a page, in backticks and in blocks of shell commands, with continued lines joined."""
    text = text.replace("\\\n", " ")
    inline = re.findall(r"`(cdconv [^`]+)`", text)
    shell = "".join(re.findall(r"```(?:bash|console)?\n(.*?)```", text, flags=re.DOTALL))
    lines = re.findall(r"^(?:\$ )?(cdconv .+?)(?: *#.*)?$", shell, flags=re.MULTILINE)
    return [line.replace(r"\|", "|").split(" | ")[0] for line in (*inline, *lines)]


@pytest.mark.parametrize("page", **by_path(PAGES))
def test_every_link_file_and_make_target_of_a_page_exists(page):
    text = text_of(page)
    for link in re.findall(r"\]\(([^)]+)\)", text):
        if "://" not in link:
            path, _, place = link.partition("#")
            target = page.parent / path if path else page
            assert target.exists() and (not place or place in anchors(target)), link
    if page in MANUAL:
        folders = "contradiction|evaluate_metric|space|models|bench|experiments|docs|examples|tests"
        for path in re.findall(rf"`((?:{folders})/[\w./-]*)`", text):
            assert (ROOT / path).exists(), path
        for target in re.findall(r"(?:`|^)make ([a-z-]+)", text, flags=re.MULTILINE):
            assert re.search(rf"^{target}:", text_of(ROOT / "Makefile"), flags=re.MULTILINE), target


@pytest.mark.parametrize(
    ("options", "trained", "model"),
    [
        (["OPEN=1"], [], f"models/{SHIPPED.name}"),
        (["TRAIN=1", "OPEN=0"], ["train tiny"], "runs/demo-tiny-$data"),
        (["BACKBONE=a/b"], ["train flatten-4-class --backbone a/b"], "runs/demo-a-b-$data"),
    ],
)
def test_make_demo_trains_evaluates_and_opens_the_same_model(options, trained, model):
    printed = subprocess.run(["make", "-n", "demo", *options], cwd=ROOT, capture_output=True, text=True, check=True)
    commands = re.findall(r"/cdconv ((?:train|evaluate|space) [^&\n]*[^&\s])", printed.stdout.replace("\\\n", ""))
    opened = [] if "OPEN=0" in options else [f"space --model {model}"]
    trained = [f"{command} --data $data --out {model} --resume" for command in trained]
    assert commands == [*trained, f"evaluate {model} --data $data --split test", *opened]
    assert ("7860" in printed.stdout) == bool(opened)


def toml(value):
    return str(value).lower() if isinstance(value, bool) else str(value)


def test_the_training_page_names_every_recipe_key_with_its_default():
    from contradiction.training.recipe import TABLES, Recipe

    fields = {("", key): field for key, field in Recipe.model_fields.items() if key not in ("name", *TABLES)}
    fields |= {(f"[{table}]", key): field for table in TABLES for key, field in TABLES[table].model_fields.items()}
    defaults = {
        place: "" if field.is_required() or field.default is None else toml(field.default)
        for place, field in fields.items()
    }
    [rows] = [rows for header, rows in tables(text_of(ROOT / "docs" / "training.md")) if header[0] == "group"]
    named, group = {}, ""
    for title, key, default, _ in rows:
        group = title or group
        named[group, key] = default
    assert named == defaults


@pytest.fixture(scope="module")
def kept_results():
    """Name and config -> the kept evaluation on the test split."""
    return {(result["name"], result["config"]): result for result in results.load() if result["split"] == "test"}


@pytest.mark.parametrize("page", **by_path([ROOT / "README.md", ROOT / "README.zh.md", ROOT / "docs" / "findings.md"]))
def test_the_headline_tables_match_the_kept_results(page, kept_results):
    checked = 0
    for header, rows in tables(text_of(page)):
        suffix = "-grouped" if "grouped" in header[0] else ""
        for name, *cells in rows:
            name = KEPT_NAMES.get(name, re.split(r",(?! e5| all| n-)|，", name)[0])
            for column, cell in zip(header[1:], cells, strict=True):
                if column in ("2-class", "4-class") and cell and (name, f"4-class{suffix}") in kept_results:
                    figure = kept_figure(kept_results, name, column, suffix)
                    assert cell in (figure, figure.partition(" ")[0]), f"{name}, {column}"
                    checked += 1
    assert checked >= 8


def kept_figure(kept_results, name, task, suffix):
    """Macro-F1 with its interval. For two labels, the n-grams are those fitted to two labels."""
    result = kept_results[name, f"{task if name.startswith('TF-IDF') and not suffix else '4-class'}{suffix}"]
    metrics = result["metrics"]
    metrics = metrics["two_class"] if task == "2-class" and "two_class" in metrics else metrics
    return f"{percent(metrics['macro_f1'])} ({'–'.join(map(percent, metrics['interval']['macro_f1']))})"


@pytest.mark.parametrize("page", **by_path([ROOT / "docs" / "data.md", ROOT / "evaluate_metric" / "README.md"]))
def test_the_n_gram_figures_match_the_kept_results(page, kept_results):
    figures = re.findall(r"^\| .+ \| (\d\d\.\d) \| (\d\d\.\d) \|$", text_of(page), flags=re.MULTILINE)
    for view in ("all", "context only", "reply only"):
        expected = [kept_results[f"TF-IDF, {view}", config]["metrics"]["macro_f1"] for config in ("2-class", "4-class")]
        assert tuple(map(percent, expected)) in figures, view


def test_the_sizes_of_the_crossed_corpora_match_their_files(crossed_once):
    from contradiction.data.build import crossed_table
    from contradiction.data.corpora.crossed import FOLDERS, read_all

    [rows] = [rows for header, rows in tables(text_of(ROOT / "docs" / "data.md")) if header[:2] == ["config", "split"]]
    shown, name = {}, ""
    for title, *row in rows:
        name = title or name
        shown.setdefault(name, []).append(row)
    assert shown == {
        name: [list(row) for row in crossed_table(read_all(folder), name).rows] for name, folder in FOLDERS.items()
    }
    counts = [[int(cell.replace(",", "")) for cell in row[2:5]] for rows in shown.values() for row in rows]
    quadruples, pairs, replies = map(sum, zip(*counts, strict=True))
    english = sum(int(row[2]) for row in shown["crossed-en"])
    chinese, in_english, in_pairs = (f"{count:,}" for count in (4 * (quadruples - english), 4 * english, 2 * pairs))
    parts = f"{chinese} in Chinese quadruples, {in_english} in English ones, and {in_pairs} in pairs."
    assert f"{replies:,} judged replies: {parts}" in text_of(ROOT / "docs" / "data.md")
    for page in (ROOT / "README.md", ROOT / "README.zh.md"):
        assert f"{replies:,}" in text_of(page) and in_pairs in text_of(page)


def test_detect_prints_the_line_shown_in_the_readme(run, tmp_path):
    block = next(block for block in blocks(ROOT / "docs" / "operators.md", "console") if "cdconv detect" in block)
    expected = json.loads(block.splitlines()[1])
    file = tmp_path / "chats.jsonl"
    messages = chat("你喜欢吃辣吗？", "我不吃辣", "火锅要什么锅底？", "要最辣的，我最爱吃辣")
    file.write_text(json.dumps(messages), encoding="utf-8")
    code, out, _ = run("detect", file)
    printed = json.loads(out)
    assert code == 0
    assert printed["scores"] == pytest.approx(expected["scores"], abs=1e-4)
    assert printed["probability"] == pytest.approx(expected["probability"], abs=1e-4)
    numbers = {"score", "scores", "probability"}
    assert {key: printed[key] for key in printed if key not in numbers} == {
        key: expected[key] for key in expected if key not in numbers
    }


def test_the_contradictions_in_the_quickstart_are_those_of_the_example_chats(run):
    code, out, _ = run("detect", ROOT / "examples" / "chats.jsonl", "--scan", "--precision", "fp32")
    chats = (ROOT / "examples" / "chats.jsonl").read_text(encoding="utf-8").splitlines()
    found = [
        [chat["id"], said[verdict["reply"][0]], verdict["label"], "".join(said[index] for index in verdict["evidence"])]
        for chat, record in zip(map(json.loads, chats), map(json.loads, out.splitlines()), strict=True)
        for said in [[message["content"] for message in chat["messages"]]]
        for verdict in record["verdicts"]
        if verdict["contradiction"]
    ]
    assert code == 0
    for page in ("quickstart.md", "zh/quickstart.md"):
        assert found in [rows for _, rows in tables(text_of(ROOT / "docs" / page))]


def test_the_thresholds_offered_to_operators_match_the_saved_results():
    from contradiction.methods.loading import load_rule
    from contradiction.settings import Settings

    rule = load_rule(SHIPPED)
    [saved] = results.load(RESULTS, config="4-class", split="test", names={SHIPPED.name})
    page = tables(text_of(ROOT / "docs" / "operators.md"))
    header, rows = next(table for table in page if table[0][0] == "base rate")
    assert header[1] == f"default threshold, {rule.threshold}"
    wanted = [f"precision>={re.search('0[.][0-9]', title)[0]}" for title in header[2:]]
    for base_rate, at_default, *cells in rows:
        prior = None if "validation" in base_rate else float(re.match(r"[\d.]+", base_rate)[0]) / 100
        # The probabilities of a reply and the default threshold move together with the base rate.
        default = figures.outcome(saved, rule, Settings(threshold=rule.threshold))
        shown = [replace(default, fraction=prior or rule.prior)]
        shown += [figures.outcome(saved, rule, Settings(threshold=setting, prior=prior)) for setting in wanted]
        for outcome, cell in zip(shown, [at_default, *cells], strict=True):
            if outcome.threshold is None:
                assert cell == "–"
                continue
            precision, low, high = (f"{100 * part:.0f}" for part in (outcome.precision, *outcome.precision_interval))
            assert cell == f"{precision} ({low}–{high}); {percent(outcome.recall)}", (base_rate, outcome.setting)


def test_the_errors_at_the_default_threshold_match_the_saved_results():
    from pyarrow import compute, parquet

    from contradiction.labels import CATEGORIES, NON_CONTRADICTION

    saved = parquet.read_table(ROOT / "models" / "results" / "predictions" / "4-class.test.parquet")
    rows = saved.filter(compute.equal(saved["run"], SHIPPED.name)).to_pylist()
    others = [row for row in rows if row["reference"] == NON_CONTRADICTION]
    alarms = [row for row in others if row["prediction"] != NON_CONTRADICTION]
    page = " ".join(text_of(ROOT / "docs" / "operators.md").split())
    assert f"raises a false alarm on {percent(len(alarms) / len(others))} % of the consistent replies." in page
    assert len(rows) == 2332

    _, kinds = next(table for table in tables(text_of(ROOT / "docs" / "operators.md")) if table[0][0] == "kind")
    assert [kind for kind, *_ in kinds] == list(CATEGORIES)
    for kind, *cells in kinds:
        verdicts, real = ([row[name] == kind for row in rows] for name in ("prediction", "reference"))
        right = sum(both == (True, True) for both in zip(verdicts, real, strict=True))
        assert cells == [f"{sum(verdicts)}", percent(right / sum(verdicts)), percent(right / sum(real))]
