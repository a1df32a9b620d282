"""The cells of the tables of the paper, and the run of each."""

import json

import pytest
from helpers.grids import VALUES

from contradiction import paths
from contradiction.errors import InputError
from contradiction.training.recipe_files import load_recipe
from paper.cells import cells_of, shard, values_of
from paper.grid import finished, same_request


def test_the_grid_has_each_method_on_the_labels_it_is_trained_on(cells):
    assert [cell.name for cell in cells] == [
        f"{method}-{config}-tiny-seed{seed}"
        for config, methods in (
            ("4-class", ("sentence-pair", "flatten", "hierarchical")),
            ("2-class", ("sentence-pair", "flatten")),
        )
        for method in methods
        for seed in (23, 42)
    ]


def test_a_cell_is_the_recipe_file_with_the_requested_values(cells, encoders):
    for cell in cells:
        recipe = load_recipe(f"{cell.method}-{cell.config}")
        assert cell.recipe == recipe.with_changes(backbone=str(encoders / "tiny"), seed=cell.seed, **VALUES)


def test_grouped_configs_use_the_recipe_of_their_labels(sample_repo, encoders):
    cells = cells_of(
        "table4", data=sample_repo, methods=["flatten"], configs=["4-class-grouped"], seeds=[1],
        backbone=str(encoders / "tiny"),
    )  # fmt: skip
    assert [(cell.name, cell.recipe.data.view) for cell in cells] == [("flatten-4-class-grouped-tiny-seed1", "flatten")]


def test_a_learning_curve_takes_equal_steps_on_each_share_and_reuses_the_cells_of_table_4(cells, encoders, sample_repo):
    curve_cells = cells_of(
        "learning-curve", data=sample_repo, methods=["flatten"], configs=["4-class"], seeds=(23, 42),
        train_fractions=(0.5, 0.25, 1.0), backbone=str(encoders / "tiny"), values={**VALUES, "epochs": 3},
    )  # fmt: skip
    assert [(cell.name, cell.recipe.optimizer.epochs) for cell in curve_cells[::2]] == [
        ("flatten-4-class-tiny-share0.5-seed23", 6),
        ("flatten-4-class-tiny-share0.25-seed23", 12),
        ("flatten-4-class-tiny-seed23", 3),
    ]
    rows = [cell.rows for cell in curve_cells]
    assert rows[0] == rows[1] < rows[4]
    assert rows[0] / rows[4] == pytest.approx(0.5, abs=0.02)
    curve = cells_of(
        "learning-curve",
        data=sample_repo,
        seeds=(23, 42),
        train_fractions=[1.0],
        backbone=str(encoders / "tiny"),
        values=VALUES,
    )
    assert curve == cells


@pytest.mark.parametrize("parts", [1, 2, 3, 10, 11])
def test_the_shards_are_disjoint_and_complete(cells, parts):
    shards = [shard(cells, f"{part}/{parts}") for part in range(1, parts + 1)]
    names = [cell.name for shard in shards for cell in shard]
    assert sorted(names) == sorted(cell.name for cell in cells)
    assert max(map(len, shards)) - min(map(len, shards)) <= 1


def test_values_are_read_as_toml_and_words_need_no_quotes():
    values = values_of(["optimizer.epochs=3", "precision = bf16", "learning_rate=1e-4", 'class_weights="balanced"'])
    assert values == {
        "optimizer.epochs": 3, "precision": "bf16", "optimizer.learning_rate": 1e-4, "loss.class_weights": "balanced"
    }  # fmt: skip


def test_old_records_without_recipe_tables_still_compare():
    recipe = load_recipe("flatten-4-class").recorded()
    older = {
        "name": "before-tables", "view": "flatten", "config": "4-class", "backbone": "hfl/chinese-roberta-wwm-ext",
        "epochs": 5, "share": 1.0,
    }  # fmt: skip
    one, other = ({"recipe": recipe_values, "data": "x"} for recipe_values in (recipe, older))
    assert same_request(one, other)
    assert same_request(one, {**other, "recipe": {**older, "focal": 0.0}})
    assert not same_request(one, {**other, "recipe": {**older, "focal": 2.0}})
    assert not same_request(one, {**other, "data": "y"})
    assert not same_request({}, {})
    assert not same_request(one, {**other, "recipe": {**recipe, "an_option_of_a_later_version": 1}})


def test_artefact_baselines_are_flatten_with_their_own_view_and_never_zero_shot(encoders, sample_repo):
    cells = cells_of(
        "table5", data=sample_repo, methods=["reply-only", "context-only"], seeds=[23], values=VALUES,
        backbone=str(encoders / "tiny"), nli=[str(encoders / "tiny-nli")],
    )  # fmt: skip
    assert len(cells) == 8
    for cell in cells:
        like = load_recipe(f"flatten-{cell.config}")
        assert cell.trained
        assert cell.recipe == like.with_changes(
            name=f"{cell.method}-{cell.config}", view=cell.method, backbone=cell.recipe.model.backbone, **VALUES
        )


def test_other_json_files_in_the_folder_are_ignored(cells, tmp_path):
    (tmp_path / "notes.json").write_text(json.dumps({"name": "mine"}), encoding="utf-8")
    assert finished(cells, tmp_path) == {}
    (tmp_path / "cut.json").write_text('{"name": ', encoding="utf-8")
    with pytest.raises(InputError, match="cut.json: not JSON"):
        finished(cells, tmp_path)


def test_the_kept_runs_of_the_papers_grid_are_recognised(release_repo):
    # They were recorded before recipes had tables, with a start named by its digest.
    values = {"optimizer.epochs": 8, "loss.logit_adjustment": 0.5, "precision": "bf16"}
    grid = cells_of(
        "table4", data=release_repo, methods=["sentence-pair", "hierarchical"], configs=["4-class"], seeds=[23, 42],
        backbone="e5-small-nli@8d3ce07764dc", values=values,
    )  # fmt: skip
    assert finished(grid, paths.RESULTS).keys() == {cell.name for cell in grid}
    other = cells_of(
        "table4", data=release_repo, methods=["sentence-pair"], configs=["4-class"], seeds=[23],
        backbone="e5-small-nli@8d3ce07764dc", values={**values, "loss.logit_adjustment": 0.0},
    )  # fmt: skip
    assert not finished(other, paths.RESULTS)
