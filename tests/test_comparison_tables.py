"""The comparison tables: the opponents, the labels, and the test."""

import random

import pytest

from contradiction.evaluation import results
from contradiction.evaluation.figures import holm
from contradiction.training.recipe import Recipe
from evaluate_metric.evaluate_metric import compare
from paper import paired_tests
from paper.results_page import NGRAMS, comparison_tables

REFERENCES = [0, 1, 2, 3] * 60
BOOTSTRAP = 200


def merged(labels):
    return [min(label, 1) for label in labels]


def noisy(share, seed, labels=4):
    draw = random.Random(seed)
    truth = REFERENCES if labels == 4 else merged(REFERENCES)
    return [draw.randrange(labels) if draw.random() < share else label for label in truth]


def make_evaluation(
    name, noise, plain=None, kind="detector", config="4-class", split="test", view="flatten", first=0, bot=None
):
    """An evaluation with this share of wrong labels with its decision rule, and another share without it."""
    four = config.startswith("4")
    recipe = Recipe.of(
        name="any", view=view, method="hierarchical" if view == "hierarchical" else "checkpoint", config="4-class",
        backbone="any", bot=bot,
    ).recorded()  # fmt: skip
    return results.evaluation(
        name=name, config=config, split=split, data="these", ids=list(range(first, first + len(REFERENCES))),
        references=REFERENCES if four else merged(REFERENCES), predictions=noisy(noise, name, 4 if four else 2),
        argmax=noisy(plain, f"{name} plain", 4) if plain else None, kind=kind,
        run={"request": {"recipe": recipe}}, view=view,
    )  # fmt: skip


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch):
    monkeypatch.setattr(paired_tests, "LOW", -1)


@pytest.fixture(scope="module")
def evaluations():
    return [
        make_evaluation("worse", 0.6),
        make_evaluation("better", 0.1, plain=0.9),
        make_evaluation("stages-lucky-on-test", 0.1, view="hierarchical"),
        make_evaluation("stages-lucky-on-test", 0.5, view="hierarchical", split="validation"),
        make_evaluation("stages", 0.3, view="hierarchical"),
        make_evaluation("stages", 0.4, view="hierarchical", split="validation"),
        make_evaluation("stages-without-validation", 0.05, view="hierarchical"),
        make_evaluation("on-other-rows", 0.1, first=1000),
        make_evaluation("two-labels", 0.1, config="2-class"),
        make_evaluation(NGRAMS, 0.4, kind="baseline"),
        make_evaluation(NGRAMS, 0.2, kind="baseline", config="2-class"),
        make_evaluation("TF-IDF, reply only", 0.5, kind="baseline", view="reply-only"),
        make_evaluation("kernel ridge", 0.5, kind="baseline"),
        make_evaluation("of-one-bot", 0.5, bot="eva"),
    ]


def expected(detector, opponent, task):
    test = compare(
        REFERENCES if task == "4-class" else merged(REFERENCES), detector, opponent, task, bootstrap=BOOTSTRAP
    )
    low, high = test["interval"]["macro_f1_difference"]
    cells = f"{100 * test['macro_f1_difference']:+.1f}", f"{100 * low:+.1f} to {100 * high:+.1f}"
    return [*cells, f"{test['p_value']:.3f}"], test["p_value"]


def test_the_opponents_are_n_grams_and_the_best_hierarchical_on_validation(evaluations):
    assert [table.title for table in comparison_tables(evaluations, "4-class", BOOTSTRAP)] == [NGRAMS, "stages"]


def test_detectors_on_these_rows_are_listed_best_first_below_the_opponent(evaluations):
    ngrams, stages = comparison_tables(evaluations, "4-class", BOOTSTRAP)
    others = ["stages-without-validation", "better", "stages-lucky-on-test", "stages", "kernel ridge", "worse"]
    by_macro_f1 = sorted(
        others,
        key=lambda name: -next(result for result in evaluations if result["name"] == name)["metrics"]["macro_f1"],
    )
    assert [row[0] for row in ngrams.rows] == [NGRAMS, *by_macro_f1]
    assert stages.rows[0][0] == "stages"
    assert {row[0] for row in stages.rows} == {NGRAMS, *others}


def test_differences_use_the_labels_that_detectors_give(evaluations):
    labels = {
        result["name"]: result["predictions"]
        for result in evaluations
        if result["split"] == "test" and result["config"] == "4-class"
    }
    _, table = comparison_tables(evaluations, "4-class", BOOTSTRAP)
    for task, first, ids in (("4-class", 2, list), ("2-class", 7, merged)):
        tests = [expected(ids(labels[row[0]]), ids(labels["stages"]), task) for row in table.rows[1:]]
        corrected = holm([p for _, p in tests])
        for row, (cells, _), p in zip(table.rows[1:], tests, corrected, strict=True):
            assert row[first : first + 4] == [*cells, f"{p:.3f}"]


def test_merged_labels_are_compared_with_the_stronger_n_grams(evaluations):
    two = next(result for result in evaluations if result["name"] == NGRAMS and result["config"] == "2-class")
    better = next(result for result in evaluations if result["name"] == "better")
    table, _ = comparison_tables(evaluations, "4-class", BOOTSTRAP)
    assert table.rows[0][6] == f"{100 * two['metrics']['macro_f1']:.1f}"
    row = next(row for row in table.rows if row[0] == "better")
    assert row[7:10] == expected(merged(better["predictions"]), two["predictions"], "2-class")[0]


def test_four_label_n_grams_are_merged_if_two_label_ones_are_weaker_or_missing(evaluations):
    others = [result for result in evaluations if result["config"] != "2-class"]
    weak = make_evaluation(NGRAMS, 0.9, kind="baseline", config="2-class")
    four = next(result for result in evaluations if result["name"] == NGRAMS and result["config"] == "4-class")
    for given in (others, [*others, weak]):
        table, _ = comparison_tables(given, "4-class", BOOTSTRAP)
        assert table.rows[0][6] == f"{100 * four['metrics']['two_class']['macro_f1']:.1f}"


def test_without_an_opponent_there_is_no_table(evaluations):
    assert comparison_tables([], "4-class") == []
    assert comparison_tables(evaluations, "4-class-grouped") == []
    assert (
        comparison_tables(
            [result for result in evaluations if "stages" not in result["name"] and result["kind"] == "detector"],
            "4-class",
        )
        == []
    )
