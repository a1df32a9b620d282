"""A kernel machine on conversations, by embeddings and n-grams of their utterances: no encoder is fine-tuned."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np

from contradiction.ngrams import vectorizer

# Chosen on the validation splits of 4-class and 4-class-grouped. The reply counts most, and the first turn least.
WEIGHTS: Mapping[str, float] = {"u1": 0.5, "b2": 2.0}  # of the other utterances 1
GAMMA = 0.3
RIDGE = 1.5
FLOOR = 1e-3  # of a probability


class KernelModel:
    """Kernel ridge regression from conversations to the indicators of their labels; it reads rows of a split.

    Two conversations are alike where all their utterances are: the kernel is a Gaussian of the distances between
    utterances, weighted and summed, once between embeddings and once between TF-IDF of n-grams; both are added. What
    the regression of a label's indicator says of a row estimates the probability of that label (Hastie et al., 2009,
    *The Elements of Statistical Learning*, section 4.2), with what is below ``FLOOR`` raised to it. Deterministic; of n
    rows it takes a few matrices of n * n numbers, and the time to solve n equations.

    Args:
        columns: the utterances that are read.
        embed: texts to vectors, shape (texts, hidden); by default there are none, and n-grams are all that is compared.
    """

    classes_: np.ndarray

    def __init__(self, columns: Sequence[str], embed: Callable[[Sequence[str]], np.ndarray] | None = None) -> None:
        self._embed = embed
        self._weights = {column: WEIGHTS.get(column, 1.0) for column in columns}
        self._words = {column: vectorizer(dtype=np.float32) for column in columns}

    def fit(self, rows: Sequence[Mapping[str, Any]], labels: Sequence[int]) -> Self:
        """Fits it to rows and their class ids."""
        from sklearn.kernel_ridge import KernelRidge

        for column, words in self._words.items():
            words.fit([row[column] for row in rows])
        self._mean = self._mean_embedding(rows)
        self._read = self._features(rows)
        self.classes_ = np.unique(labels)
        indicators = (np.asarray(labels)[:, None] == self.classes_).astype(np.float32)
        self._shares = indicators.mean(axis=0)
        ridge = KernelRidge(alpha=RIDGE, kernel="precomputed")
        self._ridge = ridge.fit(self._kernel(self._read), indicators - self._shares)
        return self

    def predict_proba(self, rows: Sequence[Mapping[str, Any]]) -> np.ndarray:
        """The probability of each class, shape (rows, classes)."""
        found = self._ridge.predict(self._kernel(self._features(rows))) + self._shares
        raised = np.maximum(found, FLOOR)
        return raised / raised.sum(axis=1, keepdims=True)

    def _mean_embedding(self, rows: Sequence[Mapping[str, Any]]) -> Any:
        """Of a sentence encoder all vectors point the same way; what tells texts apart is how they differ from this."""
        if not self._embed:
            return None
        return np.mean([self._embed([row[column] for row in rows]).mean(axis=0) for column in self._weights], axis=0)

    def _features(self, rows: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Vectors whose inner products are the weighted sums of the cosines of utterances: n-grams, and embeddings."""
        from scipy import sparse

        words, dense = [], []
        for column, weight in self._weights.items():
            texts = [row[column] for row in rows]
            words.append(weight**0.5 * self._words[column].transform(texts))
            if self._embed:
                moved = self._embed(texts) - self._mean
                lengths = np.linalg.norm(moved, axis=1, keepdims=True)
                dense.append(weight**0.5 * moved / np.maximum(lengths, 1e-12))
        found = [sparse.hstack(words, format="csr", dtype=np.float32)]
        return [*found, np.hstack(dense)] if dense else found

    def _kernel(self, features: Sequence[Any]) -> np.ndarray:
        """Between rows and those fitted to, shape (rows, fitted rows)."""
        total = sum(self._weights.values())
        products = [one @ other.T for one, other in zip(features, self._read, strict=True)]
        products[0] = products[0].toarray()
        # Of unit vectors the squared distance is twice what their inner product is below 1.
        return np.sum([np.exp(2 * GAMMA * (each - total)) for each in products], axis=0)
