"""Paired tests by hand and against the metric, the comparisons, and the page of results."""

import csv
import random
import re
import shutil

import pytest

from contradiction import paths
from contradiction.evaluation import results
from contradiction.evaluation.figures import holm
from contradiction.evaluation.sets import load
from contradiction.io.files import write_json
from contradiction.training.recipe import Recipe
from evaluate_metric.evaluate_metric import compare
from paper import paired_tests
from paper import results as script
from paper.comparisons import NGRAMS, comparisons
from paper.results import results_page

REFERENCES = [0, 1, 2, 3] * 60
BOOTSTRAP = 200


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch):
    monkeypatch.setattr(paired_tests, "LOW", -1)  # no p-value is measured again with more resamples


def merged(labels):
    return [min(label, 1) for label in labels]


def noisy(share, seed, labels=4):
    draw = random.Random(seed)
    truth = REFERENCES if labels == 4 else merged(REFERENCES)
    return [draw.randrange(labels) if draw.random() < share else label for label in truth]


def make(
    name, noise, plain=None, kind="detector", config="4-class", split="test", view="flatten", data="these", bot=None
):
    """An evaluation with this share of wrong labels with its decision rule, and another share without it."""
    four = config.startswith("4")
    recipe = Recipe.of(
        name="any", view=view, method="hierarchical" if view == "hierarchical" else "checkpoint", config="4-class",
        backbone="any", bot=bot,
    ).recorded()  # fmt: skip
    first = 0 if data == "these" else 1000
    return results.evaluation(
        name=name, config=config, split=split, data=data, ids=list(range(first, first + len(REFERENCES))),
        references=REFERENCES if four else merged(REFERENCES), predictions=noisy(noise, name, 4 if four else 2),
        argmax=noisy(plain, f"{name} plain", 4) if plain else None, kind=kind,
        run={"request": {"recipe": recipe}, "parameters": 29e6} if kind == "detector" else None, view=view,
    )  # fmt: skip


@pytest.fixture(scope="module")
def evaluations():
    return [
        make("worse", 0.6),
        make("better", 0.1, plain=0.9),
        make("stages-lucky-on-test", 0.1, view="hierarchical"),
        make("stages-lucky-on-test", 0.5, view="hierarchical", split="validation"),
        make("stages", 0.3, view="hierarchical"),
        make("stages", 0.4, view="hierarchical", split="validation"),
        make("on-other-rows", 0.1, data="others"),
        make("two-labels", 0.1, config="2-class"),
        make(NGRAMS, 0.4, kind="baseline"),
        make(NGRAMS, 0.9, kind="baseline", config="2-class"),
        make("TF-IDF, reply only", 0.5, kind="baseline", view="reply-only"),
        make("of-one-bot", 0.5, bot="eva"),
    ]


@pytest.mark.parametrize(
    ("tests", "p"),
    [
        ([(0.02, 0.04)], 0.04),
        # One-sided 0.005, 0.01, 0.02, 0.4: the third times K / k = 4 / 3, doubled.
        ([(0.1, 0.01), (0.1, 0.02), (0.1, 0.04), (0.1, 0.8)], 2 * 4 / 3 * 0.02),
        # Significance in both directions cancels out.
        ([(0.1, 0.001), (-0.1, 0.001)], 1.0),
        ([(0.1, 0.001), (0.1, 0.003)], 0.003),
    ],
)
def test_the_p_values_of_seeds_are_combined_by_direction(tests, p):
    assert paired_tests.combined_p_value(tests) == pytest.approx(p)


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


def test_only_runs_with_the_same_seed_and_rows_are_compared(monkeypatch):
    monkeypatch.undo()

    def line(name, *runs):
        return paired_tests.MethodRuns(name, name, "x", "trained", tuple(paired_tests.Run(*run, {}) for run in runs), 2)

    rows, references = list(range(40)), [0, 1] * 20
    first = line("ours", (1, rows, references, references), (2, rows, references, references))
    second = line("theirs", (2, rows, references, [0] * 40), (3, rows, references, references))
    others = line("others", (1, rows[::-1], references, references))
    [test] = paired_tests.paired_tests([(first, second), (first, others)], "2-class", 200)
    assert (test.name, test.against, test.seeds) == ("ours", "theirs", 1)
    assert test.difference == pytest.approx(1 - 1 / 3)
    assert test.p_value == pytest.approx(2 / (paired_tests.FINE + 1)), "a low p-value is measured again"


def test_comparisons_are_the_paired_bootstrap_of_the_metric_with_a_correction_for_their_number(evaluations):
    rows = list(comparisons(evaluations, "4-class", BOOTSTRAP))
    tests = {
        result["name"]: result for result in evaluations if (result["config"], result["split"]) == ("4-class", "test")
    }
    # The opponents are n-grams, fitted to the labels that are compared, and the hierarchical run best on validation.
    assert {row["against"] for row in rows} == {NGRAMS, "stages"}
    for task, ids in (("4-class", list), ("2-class", merged)):
        found = [row for row in rows if (row["against"], row["task"]) == ("stages", task)]
        assert {row["detector"] for row in found} == {"worse", "better", "stages-lucky-on-test", NGRAMS}
        stages = ids(tests["stages"]["predictions"])
        expected = [
            compare(ids(REFERENCES), ids(tests[row["detector"]]["predictions"]), stages, task, bootstrap=BOOTSTRAP)
            for row in found
        ]
        for row, test, p_holm in zip(found, expected, holm([test["p_value"] for test in expected]), strict=True):
            bounds = test["interval"]["macro_f1_difference"]
            values = (test["macro_f1_difference"], *bounds, test["p_value"], p_holm)
            assert [row[key] for key in ("difference", "low", "high", "p", "p_holm")] == pytest.approx(values, abs=1e-5)
    [fitted] = [result for result in evaluations if (result["name"], result["config"]) == (NGRAMS, "2-class")]
    [row] = [row for row in rows if (row["against"], row["task"], row["detector"]) == (NGRAMS, "2-class", "better")]
    difference = tests["better"]["metrics"]["two_class"]["macro_f1"] - fitted["metrics"]["macro_f1"]
    assert row["difference"] == pytest.approx(difference, abs=1e-5)
    many = list(comparisons(evaluations, "4-class", BOOTSTRAP, removed=46))  # four are shown
    assert min(row["p_holm"] for row in many) == pytest.approx(min(50 * row["p"] for row in rows), abs=1e-3)


def test_no_p_value_falls_because_a_detector_is_added(evaluations):
    added = [*evaluations, make("bad", 0.9)]
    before, after = (
        {(row["against"], row["task"], row["detector"]): row["p_holm"] for row in comparisons(*given, removed=3)}
        for given in ((evaluations, "4-class", BOOTSTRAP), (added, "4-class", BOOTSTRAP))
    )
    assert all(after[test] >= before[test] for test in before) and after != before


@pytest.fixture
def folder(evaluations, tmp_path):
    for number, result in enumerate(evaluations):
        write_json(tmp_path / "saved" / f"{number}.json", result)
    write_json(tmp_path / "saved" / "shipped.json", make(paths.SHIPPED.name, 0.25))
    (tmp_path / "saved" / "crossed.csv").write_text(
        "detector,in_order,low,high\nbetter,0.663,0.635,0.688\n", encoding="utf-8"
    )
    return tmp_path / "saved"


def test_the_script_adds_evaluations_and_writes_the_page_and_the_comparisons(run, folder, tmp_path):
    out = tmp_path / "kept"
    code, _, err = run(folder, "--folder", out, script=script.results)
    assert code == 0, err
    assert run("no.json", "--folder", tmp_path / "none", script=script.results)[0] == 2
    assert "| better |" in (out / "README.md").read_text(encoding="utf-8")
    with (out / "comparisons.csv").open(encoding="utf-8", newline="") as lines:
        assert {row["against"] for row in csv.DictReader(lines)} == {NGRAMS, "stages"}
    write_json(tmp_path / "cell.json", make("cell", 0.2))
    code, _, err = run(tmp_path / "cell.json", "--folder", out, "--page", "files", script=script.results)
    assert code == 0, err
    page = (out / "README.md").read_text(encoding="utf-8")
    assert "| cell |" not in page and "of 1 more runs" in page
    metrics = {"in_order": 0.7, "interval": {"in_order": [0.6, 0.8]}}
    crossed = {"name": "worse", "config": "crossed", "split": "test", "metrics": metrics}
    write_json(tmp_path / "crossed.json", {**crossed, "data": load("crossed", limit=20).data})
    code, _, err = run(tmp_path / "crossed.json", "--folder", out, script=script.results)
    assert code == 2 and "worse: not on all rows" in err
    write_json(tmp_path / "crossed.json", {**crossed, "data": load("crossed").data})
    (tmp_path / "files").mkdir()
    shutil.move(tmp_path / "crossed.json", tmp_path / "files")
    code, _, err = run(tmp_path / "files", "--folder", out, script=script.results)  # a folder of them, as well
    assert code == 0, err
    [line] = [line for line in (out / "README.md").read_text(encoding="utf-8").splitlines() if "| worse |" in line]
    assert line.endswith("| 70.0 (60.0–80.0) |")


def test_the_published_folder_is_known_however_it_is_spelled(run, folder, tmp_path, monkeypatch):
    shutil.copytree(folder, tmp_path / "models" / "results")
    (tmp_path / "link").symlink_to(tmp_path / "models" / "results")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(script, "comparisons", lambda *given, removed: counts.append(removed) or comparisons(*given))
    for spelled in ("models/results", "./models/../models/results/", tmp_path / "models" / "results", "link"):
        counts = []
        code, _, err = run("--folder", spelled, script=script.results)
        assert (code, counts) == (0, [*script.REMOVED.values()]), err
        assert [*tmp_path.rglob("README.md")] == [tmp_path / "models" / "README.md"]


def test_the_page_of_the_project_is_up_to_date():
    saved = (paths.RESULTS.parent / "README.md").read_text(encoding="utf-8")
    assert saved == results_page()
    assert len(saved.split()) <= 600
    assert re.search(r"^\| e5-small-long-replies, shipped \| 29 M \|", saved, flags=re.MULTILINE)
