"""Adding a method to the tables is one entry."""

from grid_files import VALUES

from contradiction.evaluation.baselines import tfidf
from contradiction.reproduction.cells import METHODS, Method, cells_of, paper_methods
from contradiction.reproduction.panels import panels_of
from contradiction.reproduction.table import curve_plot, method_plot, score_table


def test_one_entry_adds_a_method_to_cells_tables_and_plots(encoders, sample_repo, tmp_path, monkeypatch):
    entry = Method({"4-class": "flatten-4-class"}, colour="#123456")
    monkeypatch.setitem(METHODS, "role-confusion", entry)
    cells = cells_of(
        "learning-curve", data=sample_repo, methods=["role-confusion"], configs=["4-class"], seeds=[23],
        train_fractions=[0.5, 1.0], backbone=str(encoders / "tiny"), values=VALUES,
    )  # fmt: skip
    # What an encoder predicts makes no difference here.
    [evaluation] = tfidf(sample_repo, "4-class", views=["flatten"])
    done = {cell.name: {**evaluation, "run": {"request": cell.request}} for cell in cells}
    panels = panels_of("learning-curve", cells, done, {}, bootstrap=2)
    names = [row[0] for row in score_table(panels[-1]).rows]
    assert names[:2] == ["role-confusion, 50 % of the rows", "role-confusion, 100 % of the rows"]
    for draw in (curve_plot, method_plot):
        draw(panels, "title", tmp_path / "plot.png")
        assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
    assert "role-confusion" not in paper_methods()
