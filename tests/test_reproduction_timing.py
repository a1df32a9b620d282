"""The time estimate of a dry run of a grid."""

import pytest
from helpers.grids import SIZE

from contradiction.training.recipe import Recipe
from paper import grid
from paper.cells import cells_of


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"teachers": ["user/teacher"], "transfer_per_row": 1},
    ],
)
def test_the_timed_steps_read_each_row_once_as_training_does(options, sample_repo):
    from torch.nn import Linear
    from torch.nn.modules.module import register_module_forward_pre_hook

    recipe = Recipe.of(name="tiny", view="flatten", config="4-class", scratch=SIZE, batch_size=8, **options)
    rows = []

    def count(module, inputs):
        if isinstance(module, Linear) and module.out_features == len(recipe.labels):  # the head runs once per pass
            rows.append(len(inputs[0]))

    hook = register_module_forward_pre_hook(count)
    try:
        assert grid.measure(recipe, sample_repo) > 0
    finally:
        hook.remove()
    assert sum(rows) == (grid.STEPS + 1) * 8


def test_a_dry_run_trains_nothing_and_measures(reproduce, options, tmp_path):
    out = tmp_path / "out"
    code, stdout, _ = reproduce("table4", *options, "--seeds", "23", "--configs", "4-class", "--out", out, "--dry-run")
    assert code == 0
    assert not out.exists()
    assert "3 cells, 0 finished" in stdout
    assert stdout.count("to do") == 3
    assert "estimated from 3 steps of each method on this machine (CPU" in stdout


def test_a_method_without_records_trains_a_checkpoint_in_the_time_of_the_others(cells):
    four = [cell for cell in cells if cell.config == "4-class"]
    run = {"minutes": 6.0, "hardware": grid.hardware()}
    minutes = grid.estimate(four, {"flatten-4-class-tiny-seed23": {"run": run}})
    assert minutes["flatten-4-class-tiny-seed42"] == 6
    assert minutes["sentence-pair-4-class-tiny-seed42"] == 6
    assert minutes["hierarchical-4-class-tiny-seed42"] == 18
    elsewhere = {"run": {**run, "hardware": "another machine"}}
    assert grid.estimate(four, {"flatten-4-class-tiny-seed23": elsewhere}) is None


def test_a_cell_is_estimated_from_cells_with_the_same_start(sample_repo, encoders):
    starts = {"backbone": str(encoders / "tiny"), "nli": [str(encoders / "tiny-nli")]}
    both = cells_of(
        "table5", data=sample_repo, methods=["flatten", "sentence-pair"], configs=["4-class"], seeds=[23, 42], **starts
    )
    took = {"flatten-4-class-tiny-seed23": 6.0, "flatten-4-class-tiny-nli-seed23": 60.0}
    took |= {"sentence-pair-4-class-tiny-seed23": 3.0}
    hardware = grid.hardware()
    done = {name: {"run": {"minutes": minutes, "hardware": hardware}} for name, minutes in took.items()}
    minutes = grid.estimate(both, done)
    assert minutes["flatten-4-class-tiny-seed42"] == 6
    assert minutes["flatten-4-class-tiny-nli-seed42"] == 60
    assert minutes["sentence-pair-4-class-tiny-nli-seed42"] == 3


@pytest.mark.parametrize(
    ("minutes", "words"),
    [(0.4, "under a minute"), (59.6, "about 60 min"), (60.6, "about 1 h 01 min"), (135, "about 2 h 15 min")],
)
def test_durations_are_formatted_in_words(minutes, words):
    assert grid.duration(minutes) == words
