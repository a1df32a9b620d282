"""Paired tests of methods: which runs are compared, and how p-values are combined and corrected."""

import pytest

from contradiction.evaluation import figures, results
from contradiction.labels import merge_id
from paper import paired_tests


def test_a_rule_fitted_afterwards_is_used_only_on_request():
    truth, plain, ruled = [0, 1, 2, 3] * 5, [0, 1, 2, 0] * 5, [1] * 20
    kept = results.evaluation(
        name="any", config="4-class", split="test", data="these", ids=list(range(20)), references=truth,
        predictions=ruled, argmax=plain, run={},
    )  # fmt: skip
    for rule, labels in ((False, plain), (True, ruled)):
        one, two = paired_tests.run_of(kept, rule=rule), paired_tests.merged_run_of(kept, rule=rule)
        assert one.predictions == labels
        assert two.predictions == [merge_id("4-class", label) for label in labels]
        assert one.metrics["accuracy"] == pytest.approx(0.75 if labels is plain else 0.25)
        assert two.metrics["accuracy"] == pytest.approx(0.75)


def test_holm_by_hand():
    assert figures.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert figures.holm([0.5, 0.9]) == [1.0, 1.0]
    assert figures.holm([]) == []


@pytest.mark.parametrize(
    ("tests", "p"),
    [
        ([(0.02, 0.04)], 0.04),
        ([(-0.02, 0.04)], 0.04),
        ([(0.0, 1.0)], 1.0),
        # One-sided 0.005, 0.01, 0.02, 0.4: the third times K / k = 4 / 3, doubled.
        ([(0.1, 0.01), (0.1, 0.02), (0.1, 0.04), (0.1, 0.8)], 2 * 4 / 3 * 0.02),
        # Significance in both directions cancels out.
        ([(0.1, 0.001), (-0.1, 0.001)], 1.0),
        ([(0.1, 0.001), (0.1, 0.003)], 0.003),
    ],
)
def test_the_p_values_of_seeds_are_combined_by_direction(tests, p):
    assert paired_tests.combined_p_value(tests) == pytest.approx(p)


def test_only_runs_with_the_same_seed_and_rows_are_compared():
    def line(name, *runs):
        return paired_tests.MethodRuns(name, name, "x", "trained", tuple(paired_tests.Run(*run, {}) for run in runs), 2)

    rows, references = list(range(40)), [0, 1] * 20
    first = line("ours", (1, rows, references, references), (2, rows, references, references))
    second = line("theirs", (2, rows, references, [0] * 40), (3, rows, references, references))
    others = line("others", (1, rows[::-1], references, references))
    tests = paired_tests.paired_tests([(first, second), (first, others)], "2-class", 200)
    assert [(test.name, test.against, test.seeds) for test in tests] == [("ours", "theirs", 1)]
    assert tests[0].difference == pytest.approx(1 - 1 / 3)
    assert tests[0].p_value == pytest.approx(2 / (paired_tests.FINE + 1)), "a low p-value is measured again"
