"""Kernel ridge regression on conversations."""

import re

import numpy as np
import pytest
from helpers.rules import decided
from numpy.testing import assert_allclose
from scipy.special import softmax

from contradiction.data.splits import load_split
from contradiction.errors import InputError
from contradiction.evaluation import results
from contradiction.inference.embedding import Embedder
from contradiction.inputs.views import CONVERSATION
from contradiction.io.files import write_json
from contradiction.methods import calibration, kernel
from contradiction.methods.kernel import KernelRegression
from contradiction.reports.tables import baseline_table
from paper import baselines
from paper.baselines import kernel_ridge


@pytest.fixture(scope="module")
def rows(sample_repo):
    return list(load_split(sample_repo, "4-class", "train"))[:120]


def letters(texts):
    """An embedding that needs no encoder: the counts of some characters in a text."""
    counts = [[text.count(character) + 0.1 * len(text) for character in "我你是不了的"] for text in texts]
    return np.array(counts, dtype=np.float32)


def test_the_model_is_ridge_regression_on_the_sum_of_two_gaussian_kernels(rows):
    columns, labels = ("b1", "b2"), [row["label"] for row in rows]
    train, test = rows[:90], rows[90:]
    probabilities = KernelRegression(columns, letters).fit(train, labels[:90]).predict_proba(test)

    # The same computation, utterance by utterance.
    def unit(vectors):
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    mean = np.mean([letters([row[name] for row in train]) for name in columns], axis=(0, 1))
    total = {"embeddings": 0.0, "words": 0.0}
    for name in columns:
        weight = kernel.WEIGHTS.get(name, 1.0)
        words = kernel.vectorizer().fit([row[name] for row in train])
        for kind, vectors in (
            ("embeddings", unit(letters([row[name] for row in rows]) - mean)),
            ("words", words.transform([row[name] for row in rows]).toarray()),
        ):
            squared = 2 - 2 * vectors @ vectors[:90].T
            total[kind] = total[kind] + weight * squared
    similar = sum(np.exp(-kernel.GAMMA * count) for count in total.values())
    indicators = np.eye(4)[labels]
    shares = indicators[:90].mean(0)
    solved = np.linalg.solve(similar[:90] + kernel.RIDGE * np.eye(90), indicators[:90] - shares)
    expected = np.maximum(similar[90:] @ solved + shares, kernel.MIN_PROBABILITY)
    assert_allclose(probabilities, expected / expected.sum(1, keepdims=True), atol=1e-4)


def test_only_the_columns_of_the_view_matter(rows):
    labels = [row["label"] for row in rows]
    model = KernelRegression(("b1", "b2"), letters).fit(rows, labels)
    others = [{**row, "u1": "别的", "u2": "别的"} for row in rows[:5]]
    assert_allclose(model.predict_proba(others), model.predict_proba(rows[:5]))
    others = [{**row, "b2": "别的"} for row in rows[:5]]
    assert np.abs(model.predict_proba(others) - model.predict_proba(rows[:5])).max() > 0.01


def test_without_an_encoder_only_n_grams_are_compared(rows):
    labels = [row["label"] for row in rows]
    alone = KernelRegression(("b1", "b2")).fit(rows, labels).predict_proba(rows)
    both = KernelRegression(("b1", "b2"), letters).fit(rows, labels).predict_proba(rows)
    nothing = KernelRegression(("b1", "b2"), lambda texts: np.ones((len(texts), 2), dtype=np.float32)).fit(rows, labels)
    assert np.abs(alone - both).max() > 0.01
    # A kernel that is equal for all pairs only adds a constant, which the label shares already include.
    assert_allclose(nothing.predict_proba(rows), alone, atol=0.01)


def test_a_column_that_is_blank_in_all_rows_is_skipped(rows, tmp_path):
    single, labels = [{**row, "u1": "", "b1": " "} for row in rows], [row["label"] for row in rows]
    model, alone = (KernelRegression(columns, letters).fit(single, labels) for columns in (CONVERSATION, ("u2", "b2")))
    assert model.columns == ("u2", "b2")
    assert_allclose(model.predict_proba(single), alone.predict_proba(single))
    model.save(tmp_path)
    assert_allclose(KernelRegression.load(tmp_path, letters).predict_proba(single), model.predict_proba(single))
    with pytest.raises(InputError, match="all 120 rows are blank in b1"):
        KernelRegression(("b1",), letters).fit(single, labels)


def test_a_class_without_a_training_row_is_never_the_most_probable(rows, sample_repo, monkeypatch):
    load = baselines.load_split

    def without_roles(data, config, split):
        table = load(data, config, split)
        return table.filter(lambda row: row["label"] != 2) if split == "train" else table

    monkeypatch.setattr(baselines, "load_split", without_roles)
    baseline = kernel_ridge(sample_repo, "4-class")
    results.check("it", baseline)
    assert 2 in baseline["references"] and 2 not in baseline.get("argmax", baseline)["predictions"]
    assert np.array(baseline["probabilities"]).shape == (len(baseline["ids"]), 4)


@pytest.fixture(scope="module")
def embed(encoder):
    return Embedder(encoder)


@pytest.mark.parametrize("config", ["4-class", "2-class", "4-class-grouped"])
def test_the_baseline_uses_a_rule_fitted_on_validation(sample_repo, encoder, embed, config):
    baseline = kernel_ridge(sample_repo, config, embed)
    results.check("it", baseline)
    train, validation, test = (load_split(sample_repo, config, split) for split in ("train", "validation", "test"))
    assert (baseline["name"], baseline["kind"], baseline["ids"]) == ("kernel ridge, encoder", "baseline", test["id"][:])
    assert re.fullmatch("encoder@[0-9a-f]{12}", baseline["embedder"])
    model = KernelRegression(CONVERSATION, embed).fit(list(train), train["label"])
    logs = {
        name: np.log(model.predict_proba(list(rows))) for name, rows in (("validation", validation), ("test", test))
    }
    plain = baseline.get("argmax", baseline)["predictions"]
    assert plain == logs["test"].argmax(axis=1).tolist()
    names = baseline["metrics"]["labels"]
    rule = calibration.fit(logs["validation"], np.array(validation["label"]), names)
    probabilities = softmax(logs["test"] / rule.temperature + [rule.biases[name] for name in names], axis=1)
    assert_allclose(baseline["probabilities"], probabilities, atol=1e-6)
    if config == "2-class":
        assert baseline["predictions"] == (probabilities[:, 1] >= baseline["rule"]["threshold"]).astype(int).tolist()
    else:
        assert baseline["predictions"] == decided(rule, logs["test"]).tolist()
        assert baseline["predictions"] != plain


def test_the_command_saves_the_kernel_baseline_with_the_others(run, sample_repo, encoder, tmp_path):
    options = ["--data", sample_repo, "--config", "4-class", "--out", tmp_path]
    code, out, _ = run(*options, "--embedder", encoder, script=baselines.run)
    assert code == 0
    assert "kernel ridge, encoder" in out
    kept = {result["name"]: result for result in results.load(tmp_path)}
    assert kept.keys() == {*baselines.FEATURES.values(), "kernel ridge, n-grams", "kernel ridge, encoder"}
    code, _, err = run(*options, "--embedder", tmp_path / "nothing", script=baselines.run)
    assert (code, err.count("\n")) == (2, 1)


def test_an_encoder_fine_tuned_on_the_labels_is_rejected(run, sample_repo, quick_model, tmp_path):
    options = ["--data", sample_repo, "--config", "4-class-grouped", "--embedder", quick_model]
    code, _, err = run(*options, script=baselines.run)
    assert code == 2
    assert "trained on 4-class, and knows the labels of these rows" in err


def test_a_baseline_not_run_on_a_config_has_an_empty_cell(sample_repo, tmp_path):
    for config, name in (("2-class", "one"), ("4-class", "one"), ("4-class", "other")):
        baseline = {**kernel_ridge(sample_repo, config), "name": name}
        write_json(tmp_path / f"{name}.{config}.json", baseline)
    table = baseline_table(tmp_path)
    assert list(table.header) == ["features", "2-class", "4-class"]
    assert [[bool(cell) for cell in row] for row in table.rows] == [[True, True, True], [True, False, True]]
