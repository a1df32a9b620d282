"""The results page: the effect of each choice, and the course of training, from the records of the runs."""

import random

import pytest

from contradiction.evaluation import results
from contradiction.evaluation.figures import holm
from contradiction.io.files import write_json
from contradiction.reports.tables import run_table, training_log
from contradiction.training import record
from contradiction.training.recipe import Recipe
from evaluate_metric.evaluate_metric import compare
from paper import paired_tests
from paper.results_page import REFERENCE, ablation, changes, results_page

REFERENCES = [0, 1, 2, 3] * 50


def epoch(macro_f1, collapsed=False):
    return {"seconds": 1.0, "validation": {"macro_f1": macro_f1, "collapsed": collapsed}}


def run(data="rows", epochs=(0.3, 0.4), **values):
    """The record of a run."""
    method = values.pop("method", None)
    values = {"view": "flatten", "config": "4-class", "backbone": "nli@aaa", **values}
    recipe = Recipe.of(name="any", **values).with_changes(method=method)
    return {
        "request": {"recipe": recipe.recorded(), "data": data},
        "epochs": [epoch(number) for number in epochs],
        "best_epoch": 2,
        "minutes": 12.3,
        "parameters": 1_000_000,
        "hardware": "CPU",
    }


# The same recipe as it was recorded before recipes had tables and some of the options.
FLAT = run() | {
    "request": {
        "recipe": {"name": "any", "view": "flatten", "config": "4-class", "backbone": "nli@aaa", "patience": None},
        "data": "rows",
    }
}


def soup(*runs):
    """The record of a soup of runs."""
    request = {**runs[0]["request"], "soup": [run["request"]["recipe"] for run in runs]}
    return {"request": request, "soup": list(runs), "minutes": 24.6, "parameters": 1_000_000, "hardware": "CPU"}


def make_evaluation(name, noise, rule=None, data="these", split="validation", **values):
    """An evaluation with this share of wrong labels without a decision rule, and another share with one."""
    one, other = (_noisy(share, name) for share in (noise, rule or noise))
    return results.evaluation(
        name=name, config="4-class", split=split, data=data, ids=list(range(len(REFERENCES))), references=REFERENCES,
        predictions=other, argmax=one, kind="detector", run=run(**values),
    )  # fmt: skip


def _noisy(share, seed):
    draw = random.Random(seed)
    return [draw.randrange(4) if draw.random() < share else label for label in REFERENCES]


@pytest.fixture(scope="module")
def evaluations():
    return [
        make_evaluation(
            "many", 0.6, epochs=(0.2, 0.3), learning_rate=1e-4, class_weights="balanced", backbone="other@bbb"
        ),
        make_evaluation(REFERENCE, 0.2, rule=0.1) | {"run": FLAT},
        make_evaluation("twin", 0.2),
        make_evaluation("one", 0.5, rule=0.3, seed=42),
        make_evaluation("elsewhere", 0.2, data="others"),
        make_evaluation("trained-elsewhere", 0.2) | {"run": run(data="other rows")},
        make_evaluation("on-test", 0.2, split="test"),
    ]


def cells(table, name):
    return dict(zip(table.header, next(row for row in table.rows if row[0] == name), strict=False))


def test_differences_are_read_from_the_records(evaluations):
    reference = evaluations[1]
    assert changes(evaluations[0], reference) == ["backbone other", "learning_rate 0.0001", "class_weights balanced"]
    assert changes(evaluations[3], reference) == ["seed 42"]
    # An option newer than the reference had its default value.
    assert changes(evaluations[2], reference) == []
    assert changes(reference, evaluations[2]) == []


@pytest.mark.parametrize(
    ("values", "change"),
    [
        ({"backbone": "nli@bbb"}, "backbone nli (weights bbb)"),
        ({"backbone": "runs/nli"}, "backbone nli (which weights is not recorded)"),
        ({"backbone": None, "scratch": {"layers": 3}}, "from scratch (hidden_size 128, layers 3, heads 4, vocabulary"),
        ({"method": "hierarchical"}, "view hierarchical"),
        ({"logit_adjustment": 0.5}, "logit_adjustment 0.5"),
        ({"head_learning_rate": 0.9}, "head_learning_rate 0.9"),
        ({"train_fraction": 0.1}, "train_fraction 0.1"),
    ],
)
def test_a_change_is_a_key_and_its_value(values, change):
    (only,) = changes({"run": run(**values)}, {"run": run()})
    assert only.startswith(change)


def test_an_option_whose_bare_name_says_little_is_shown_with_its_table():
    teachers = ["teacher@aaaaaaaaaaaa"]
    changed = changes({"run": run(teachers=teachers, weight=0.7)}, {"run": run(teachers=teachers)})
    assert changed == ["distillation.weight 0.7"]


def test_a_value_reset_to_the_default_is_shown_too():
    reference = {"run": run(backbone="nli@aaa", dropout=0.1, epochs=(0.1,))}
    assert changes({"run": run()}, reference) == ["dropout none"]


def test_a_soup_counts_as_a_change_and_so_does_what_its_runs_vary():
    mean = soup(run(seed=23), run(seed=42, ranking=0.5))
    assert changes({"run": mean}, {"run": run(seed=23)}) == ["mean of 2 runs", "ranking 0 / 0.5", "seed 23 / 42"]
    assert changes({"run": run(seed=23)}, {"run": mean}) == ["a single run", "ranking 0", "seed 23"]
    assert changes({"run": mean}, {"run": mean}) == []
    table = run_table([{"name": "mean", "run": mean}, {"name": "two", "run": {**run(), "ensemble": [run()] * 2}}])
    assert cells(table, "mean")["best epoch"] == "see the log"
    assert [cells(table, name)["passes"] for name in ("mean", "two")] == ["1", "2"]


def test_runs_with_fewest_changes_come_first_and_runs_on_other_rows_are_omitted(evaluations):
    result = ablation(evaluations, bootstrap=50)
    assert [row[0] for row in result.table.rows] == [REFERENCE, "twin", "one", "many"]
    assert [row[1] for row in result.table.rows[:3]] == ["the reference", "nothing", "seed 42"]
    assert result.left_out == ("elsewhere", "trained-elsewhere")


def test_differences_are_the_paired_bootstrap_of_the_most_probable_labels(evaluations, monkeypatch):
    monkeypatch.setattr(paired_tests, "LOW", -1)
    result = ablation(evaluations, bootstrap=500)
    names = ("twin", "one", "many")
    predictions = {result["name"]: result.get("argmax", result)["predictions"] for result in evaluations}
    for task, first, ids in (
        ("4-class", 3, lambda labels: labels),
        ("2-class", 8, lambda labels: [int(label > 0) for label in labels]),
    ):
        tests = [
            compare(ids(REFERENCES), ids(predictions[name]), ids(predictions[REFERENCE]), task, bootstrap=500)
            for name in names
        ]
        corrected = holm([test["p_value"] for test in tests])
        for name, test, p in zip(names, tests, corrected, strict=True):
            low, high = test["interval"]["macro_f1_difference"]
            row = next(row for row in result.table.rows if row[0] == name)
            assert row[first : first + 3] == [
                f"{100 * test['macro_f1_difference']:+.1f}",
                f"{100 * low:+.1f} to {100 * high:+.1f}",
                f"{p:.3f}",
            ]
    assert float(cells(result.table, "many")["macro-F1"]) == round(100 * evaluations[0]["metrics"]["macro_f1"], 1)


def test_macro_f1_is_shown_without_and_with_the_rule(evaluations):
    row = cells(ablation(evaluations, bootstrap=10).table, "one")
    assert row["macro-F1"] == f"{100 * evaluations[3]['argmax']['metrics']['macro_f1']:.1f}"
    assert row["with its rule"] == f"{100 * evaluations[3]['metrics']['macro_f1']:.1f}"
    assert row["minutes"] == "12"
    assert cells(ablation(evaluations, bootstrap=10).table, "many")["with its rule"] == ""


def test_without_a_reference_or_other_runs_nothing_is_compared(evaluations):
    assert ablation(evaluations[2:]) is None
    assert ablation(evaluations[1:2]) is None
    assert ablation([]) is None


def test_the_log_shows_every_epoch_and_stage_with_the_kept_epoch_in_bold_and_any_collapse():
    plain = {"name": "plain", "run": run(epochs=(0.2, 0.456))}
    plain["run"]["epochs"][0]["validation"]["collapsed"] = True
    staged = {
        "name": "staged",
        "run": {**run(), "stages": {"history": run(), "role-confusion": run(epochs=(0.5, 0.6))}},
    }
    zero_shot = {"name": "zero-shot", "run": run(), "request": {"zero_shot": "flatten"}}
    mean = {"name": "mean", "run": soup(run(), run(epochs=(0.1, 0.2)))}
    table = training_log([plain, staged, mean, plain, zero_shot, {"name": "no record", "run": {}}])
    assert table.rows == [
        ("plain", "4-class", "20.0† · **45.6**"),
        ("staged, history", "history or not", "30.0 · **40.0**"),
        ("staged, role-confusion", "role-confusion or not", "50.0 · **60.0**"),
        ("mean, run 1", "4-class", "30.0 · **40.0**"),
        ("mean, run 2", "4-class", "10.0 · **20.0**"),
    ]


def test_the_page_shows_the_comparison_with_the_reference_and_names_omitted_runs(evaluations, tmp_path):
    for result in evaluations:
        write_json(tmp_path / f"{result['name']}.json", result)
    page = results_page(tmp_path)
    section = page.split("## What each choice brings")[1].split("## Each class")[0]
    assert "\n| one | seed 42 | " in section
    assert "not recorded: elsewhere, trained-elsewhere.\n" in section
    assert "\n| one | 4-class | 30.0 · **40.0** |" not in section
    log = page.split("## Training log")[1]
    assert "| many | 4-class | 20.0 · **30.0** |" in log
    (tmp_path / f"{REFERENCE}.json").unlink()
    assert "## What each choice brings" not in results_page(tmp_path)


def test_a_cascade_without_its_own_training_record_is_on_the_page(evaluations, tmp_path):
    cascade = make_evaluation("cascade", 0.1) | {"run": {"ancestors": [{"config": "4-class", "model": "quick"}]}}
    assert run_table([cascade]).rows == training_log([cascade]).rows == []
    assert ablation([cascade | {"name": REFERENCE}, *evaluations[2:]]) is None
    assert "cascade" in ablation([cascade, *evaluations]).left_out
    for result in (cascade, evaluations[1], evaluations[2]):
        write_json(tmp_path / f"{result['name']}.json", result)
    assert "cascade" in results_page(tmp_path)


def test_a_record_older_than_an_option_is_read_with_its_default():
    assert record.recipe(FLAT["request"]).recorded() == run()["request"]["recipe"]
