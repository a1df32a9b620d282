"""Kernel ridge regression on conversations."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from contradiction.data.splits import load_split
from contradiction.methods import kernel
from contradiction.methods.kernel import KernelRegression


@pytest.fixture(scope="module")
def rows(sample_repo):
    return list(load_split(sample_repo, "4-class", "train"))[:120]


def letters(texts):
    """An embedding that needs no encoder: how often some characters stand in a text."""
    counts = [[text.count(character) + 0.1 * len(text) for character in "我你是不了的"] for text in texts]
    return np.array(counts, dtype=np.float32)


def test_the_machine_is_ridge_regression_on_the_sum_of_two_gaussian_kernels(rows):
    columns, labels = ("b1", "b2"), [row["label"] for row in rows]
    train, test = rows[:90], rows[90:]
    said = KernelRegression(columns, letters).fit(train, labels[:90]).predict_proba(test)

    # The same, utterance by utterance.
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
    assert_allclose(said, expected / expected.sum(1, keepdims=True), atol=1e-4)


def test_only_what_it_reads_matters(rows):
    labels = [row["label"] for row in rows]
    model = KernelRegression(("b1", "b2"), letters).fit(rows, labels)
    others = [{**row, "u1": "别的", "u2": "别的"} for row in rows[:5]]
    assert_allclose(model.predict_proba(others), model.predict_proba(rows[:5]))
    others = [{**row, "b2": "别的"} for row in rows[:5]]
    assert np.abs(model.predict_proba(others) - model.predict_proba(rows[:5])).max() > 0.01


def test_without_an_encoder_n_grams_are_all_that_is_compared(rows):
    labels = [row["label"] for row in rows]
    alone = KernelRegression(("b1", "b2")).fit(rows, labels).predict_proba(rows)
    both = KernelRegression(("b1", "b2"), letters).fit(rows, labels).predict_proba(rows)
    nothing = KernelRegression(("b1", "b2"), lambda texts: np.ones((len(texts), 2), dtype=np.float32)).fit(rows, labels)
    assert np.abs(alone - both).max() > 0.01
    # A kernel that is the same for all pairs adds a constant alone, which the shares of the labels have already.
    assert_allclose(nothing.predict_proba(rows), alone, atol=0.01)
