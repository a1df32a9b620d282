"""The figures of an evaluation: one entry adds a figure to evaluations, kept results, tables and cards."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from contradiction.evaluation import figures, results
from contradiction.evaluation.figures import wilson
from contradiction.reports.model_card import model_card
from contradiction.reports.tables import score_table

REFERENCES = [0, 1, 2, 3] * 10
PROBABILITIES = [[0.7 - 0.1 * (label > 0), 0.1, 0.1, 0.1 + 0.1 * (label > 0)] for label in REFERENCES]
PROBABILITIES[0] = [0.1, 0.3, 0.3, 0.3]  # the most confident contradiction is wrong


def test_one_registry_entry_adds_a_figure_everywhere(quick_model, tmp_path, monkeypatch):
    def auc(rows):
        scores = rows.contradiction_probability()
        return None if scores is None else roc_auc_score(rows.is_contradiction(), scores)

    monkeypatch.setattr(figures, "RESAMPLES", 20)
    monkeypatch.setattr(figures, "FIGURES", figures.FIGURES)
    figures.FIGURES.append(figures.Figure("auc", "AUC", "roc_auc", auc))
    try:
        result = results.evaluation(
            name="any", kind="detector", config="4-class", split="test", data="rows", data_name="CDConv",
            ids=list(range(40)), references=REFERENCES, predictions=[0] * 40, probabilities=PROBABILITIES,
        )  # fmt: skip
        results.add([result], tmp_path)
        [kept] = results.load(tmp_path)
        table = score_table([kept], "")
        card = model_card(quick_model, [kept])
    finally:
        figures.FIGURES.pop()
    assert result["metrics"]["auc"] == kept["metrics"]["auc"] == 0.9
    low, high = kept["metrics"]["interval"]["auc"]
    assert low <= 0.9 <= high
    assert ",auc,auc_low,auc_high," in (tmp_path / "metrics.csv").read_text(encoding="utf-8").splitlines()[0]
    assert table.rows[0][table.header.index("AUC")].startswith("90.0 (")
    assert "| AUC |" in card.text
    assert [
        eval_result.metric_value for eval_result in card.data.eval_results if eval_result.metric_type == "roc_auc"
    ] == [0.9]


def test_an_undefined_figure_is_omitted(monkeypatch):
    figure = figures.Figure("auc", "AUC", "roc_auc", lambda rows: rows.contradiction_probability())
    monkeypatch.setattr(figures, "FIGURES", [*figures.FIGURES, figure])
    assert "auc" not in figures.measure("2-class", [0, 1], [0, 1], bootstrap=10)


def test_a_figure_knows_which_rows_are_contradictions():
    rows = figures.ScoredRows("4-class", np.array([0, 3]), np.array([0, 0]), np.array([[0.4, 0.1, 0.2, 0.3]] * 2))
    assert rows.is_contradiction().tolist() == [False, True]
    assert rows.contradiction_probability().tolist() == pytest.approx([0.6, 0.6])


def test_the_wilson_interval_follows_the_formula():
    z, n, share = 1.959963984540054, 10, 0.8
    middle = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    assert wilson(8, 10) == pytest.approx((middle - half, middle + half))
    assert wilson(0, 0) == (0, 1)
