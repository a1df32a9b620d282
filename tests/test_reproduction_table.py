"""The table of a finished grid matches its predictions."""

import csv
import statistics

import pytest
from helpers.grids import VALUES, evaluation, markdown_row
from sklearn.metrics import f1_score

from contradiction.evaluation.baselines import tfidf
from contradiction.io.files import read_json
from evaluate_metric.evaluate_metric import compare
from paper import paired_tests
from paper.cells import METHODS, Method, cells_of, paper_methods
from paper.grid import finished
from paper.panels import panels_of
from paper.table import curve_plot, method_plot, score_table


def test_the_table_matches_the_predictions(grid):
    for config, method in [("4-class", "hierarchical"), ("2-class", "flatten"), ("4-class", "sentence-pair")]:
        kept = [evaluation(grid, f"{method}-{config}-tiny-seed{seed}") for seed in (23, 42)]
        row = markdown_row(grid, config, method)
        classes = range(len(kept[0]["metrics"]["labels"]))
        by_class = [
            f1_score(one["references"], one["predictions"], labels=classes, average=None, zero_division=0)
            for one in kept
        ]
        macro = [100 * scores.mean() for scores in by_class]
        assert row[1] == f"{statistics.mean(macro):.1f} ± {statistics.stdev(macro):.1f}"
        for column, scores in enumerate(zip(*by_class, strict=True), start=3):
            assert row[column] == f"{100 * statistics.mean(scores):.1f} ± {100 * statistics.stdev(scores):.1f}"
        bounds = [one["metrics"]["interval"]["macro_f1"] for one in kept]
        low, high = 100 * min(low for low, _ in bounds), 100 * max(high for _, high in bounds)
        assert row[2] == f"{low:.1f}–{high:.1f}"
        assert row[-1] == "2 of 2"


def test_merged_lines_are_four_class_labels_merged(grid):
    kept = [evaluation(grid, f"hierarchical-4-class-tiny-seed{seed}") for seed in (23, 42)]
    merged = [
        100 * f1_score([x > 0 for x in one["references"]], [x > 0 for x in one["predictions"]], average="macro")
        for one in kept
    ]
    row = markdown_row(grid, "2-class", "hierarchical, 4-class merged")
    assert row[1] == f"{statistics.mean(merged):.1f} ± {statistics.stdev(merged):.1f}"


def test_the_csv_contains_every_line_and_figure(grid):
    with (grid / "table4.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    lines = {(row["config"], row["method"], row["kind"]) for row in rows}
    assert {kind for config, method, kind in lines if (config, method) == ("2-class", "hierarchical")} == {"merged"}
    assert len([line for line in lines if line[2] == "baseline"]) == 6
    kept = read_json(grid / "tfidf-flatten.4-class.test.json")["metrics"]
    one = next(
        row for row in rows
        if (row["config"], row["method"], row["figure"]) == ("4-class", "TF-IDF, all", "macro_f1")
    )  # fmt: skip
    assert float(one["mean"]) == pytest.approx(kept["macro_f1"], abs=1e-6)
    assert float(one["low"]) == pytest.approx(kept["interval"]["macro_f1"][0], abs=1e-6)


def test_each_seed_is_tested_with_the_metric_and_the_tests_of_a_config_are_corrected_together(grid):
    rows = {}
    for method in ("flatten", "hierarchical"):
        tests = []
        for seed in (23, 42):
            trained, opponent = (
                evaluation(grid, f"{name}-4-class-tiny-seed{seed}") for name in (method, "sentence-pair")
            )
            result = compare(trained["references"], trained["predictions"], opponent["predictions"])
            tests.append((result["macro_f1_difference"], result["p_value"]))
        row = markdown_row(grid, "4-class", f"{method} – sentence-pair")
        assert row[1] == f"{100 * statistics.mean(difference for difference, _ in tests):+.1f}"
        assert row[3] == f"{paired_tests.combined_p_value(tests):.3f}"
        rows[method] = row
    third = markdown_row(grid, "4-class", "flatten – hierarchical")
    cells = [(row[3], row[4]) for row in (*rows.values(), third)]
    smallest = min(cells)
    assert float(smallest[1]) == pytest.approx(min(1, 3 * float(smallest[0])), abs=0.0016)


def test_a_context_only_cell_is_labelled_as_such(reproduce, options, tmp_path):
    out = tmp_path / "out"
    few = ["--seeds", "23", "--configs", "4-class", "--methods", "context-only", "--out", out]
    assert reproduce("table4", *options, *few)[0] == 0
    kept = evaluation(out, "context-only-4-class-tiny-seed23")
    row = markdown_row(out, "4-class", "context-only (artefact baseline)")
    assert row[1] == f"{100 * kept['metrics']['macro_f1']:.1f}"
    assert kept["columns"] == ["u1", "b1", "u2"]
    assert "*reply-only* and *context-only* are" in (out / "table4.md").read_text(encoding="utf-8")


def test_the_plot_shows_the_kinds_present(grid, encoders, sample_repo, cells, tmp_path):
    from PIL import Image

    from paper import table

    def colours(path):
        with Image.open(path) as image:
            drawn = {colour for _, colour in image.convert("RGB").getcolors(1 << 24)}
        return {kind for kind, colour in table.COLOURS.items() if tuple(bytes.fromhex(colour[1:])) in drawn}

    assert colours(grid / "table4.png") == {"trained", "merged", "baseline"}
    # The figure of the paper is shown only beside results on the data of the paper.
    done = finished(cells, grid)
    official = [_renamed(cell) for cell in cells]
    panels = panels_of("table4", official, done, {}, bootstrap=10)
    assert [panel.paper for panel in panels] == [("paper: hierarchical", 0.781), ("paper: hierarchical", 0.593)]
    table.method_plot(panels, "title", tmp_path / "plot.png")
    assert colours(tmp_path / "plot.png") == {"trained", "merged", "paper"}


def _renamed(cell):
    from dataclasses import replace

    return replace(cell, request={**cell.request, "data_name": "CDConv"})


def test_one_entry_adds_a_method_to_cells_tables_and_plots(encoders, sample_repo, tmp_path, monkeypatch):
    entry = Method({"4-class": "flatten-4-class"}, colour="#123456")
    monkeypatch.setitem(METHODS, "role-confusion", entry)
    cells = cells_of(
        "learning-curve", data=sample_repo, methods=["role-confusion"], configs=["4-class"], seeds=[23],
        train_fractions=[0.5, 1.0], backbone=str(encoders / "tiny"), values=VALUES,
    )  # fmt: skip
    # The predictions of an encoder do not matter here.
    [evaluation] = tfidf(sample_repo, "4-class", views=["flatten"])
    done = {cell.name: {**evaluation, "run": {"request": cell.request}} for cell in cells}
    panels = panels_of("learning-curve", cells, done, {}, bootstrap=2)
    names = [row[0] for row in score_table(panels[-1]).rows]
    assert names[:2] == ["role-confusion, 50 % of the rows", "role-confusion, 100 % of the rows"]
    for draw in (curve_plot, method_plot):
        draw(panels, "title", tmp_path / "plot.png")
        assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
    assert "role-confusion" not in paper_methods()
