"""A kernel machine on conversations, by embeddings and n-grams of their utterances: no encoder is fine-tuned."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from contradiction.errors import InputError
from contradiction.inputs.characters import simplified
from contradiction.io.files import read_json, write_json
from contradiction.methods.ngrams import vectorizer

FILE = "kernel.json"
ARRAYS = "kernel.safetensors"

# Chosen on the validation splits of 4-class and 4-class-grouped. The reply counts most, and the first turn least.
WEIGHTS: Mapping[str, float] = {"u1": 0.5, "b2": 2.0}  # of the other utterances 1
GAMMA = 0.3
RIDGE = 1.5
FLOOR = 1e-3  # of a probability
MOST = 30_000  # rows: each matrix of the kernel then takes 3.6 GB


class KernelModel:
    """Kernel ridge regression from conversations to the indicators of their labels; it reads rows of a split.

    Two conversations are alike where all their utterances are: the kernel is a Gaussian of the distances between
    utterances, weighted and summed, once between embeddings and once between TF-IDF of n-grams; both are added. What
    the regression of a label's indicator says of a row estimates the probability of that label (Hastie et al., 2009,
    *The Elements of Statistical Learning*, section 4.2), with what is below ``FLOOR`` raised to it. Deterministic, to
    the last bits for one number of threads; of n rows it takes a few matrices of n * n numbers, and the time to solve n
    equations. An utterance without words is like no other.

    Args:
        columns: the utterances that are read.
        embed: texts to vectors, shape (texts, hidden); by default there are none, and n-grams are all that is compared.
    """

    classes_: np.ndarray

    def __init__(self, columns: Sequence[str], embed: Callable[[Sequence[str]], np.ndarray] | None = None) -> None:
        self._embed = embed
        self._gamma = GAMMA
        self._weights = {column: WEIGHTS.get(column, 1.0) for column in columns}
        self._words = {column: vectorizer(dtype=np.float32) for column in columns}

    @property
    def columns(self) -> tuple[str, ...]:
        """The utterances that are read."""
        return tuple(self._weights)

    def fit(self, rows: Sequence[Mapping[str, Any]], labels: Sequence[int]) -> Self:
        """Fits it to rows and their class ids.

        Raises:
            InputError: there are more than ``MOST``.
        """
        from sklearn.kernel_ridge import KernelRidge

        if len(rows) > MOST:
            raise InputError(
                f"kernel machine: {len(rows):,} rows, and it compares each with each; {MOST:,} at most, so take a share"
            )
        for column, words in self._words.items():
            words.fit(_texts(rows, column))
        self._mean = self._mean_embedding(rows)
        self._read = self._features(rows)
        self.classes_ = np.unique(labels)
        indicators = (np.asarray(labels)[:, None] == self.classes_).astype(np.float32)
        self._shares = indicators.mean(axis=0)
        ridge = KernelRidge(alpha=RIDGE, kernel="precomputed")
        self._dual = ridge.fit(self._kernel(self._read), indicators - self._shares).dual_coef_
        return self

    def predict_proba(self, rows: Sequence[Mapping[str, Any]]) -> np.ndarray:
        """The probability of each class, shape (rows, classes)."""
        found = self._kernel(self._features(rows)) @ self._dual + self._shares
        raised = np.maximum(found, FLOOR)
        return raised / raised.sum(axis=1, keepdims=True)

    def save(self, folder: str | Path) -> None:
        """Writes what was fitted into a folder: no text of the rows, and not what embeds."""
        from safetensors.numpy import save_file

        words = self._read[0]
        arrays = {
            "shares": self._shares, "dual": self._dual,
            "words.data": words.data, "words.indices": words.indices, "words.indptr": words.indptr,
            **{f"idf.{column}": each.idf_ for column, each in self._words.items()},
            **({"mean": self._mean, "embeddings": self._read[1]} if self._embed else {}),
        }  # fmt: skip
        save_file({name: np.ascontiguousarray(each) for name, each in arrays.items()}, Path(folder) / ARRAYS)
        ngrams = {column: each.get_feature_names_out().tolist() for column, each in self._words.items()}
        values = {"weights": self._weights, "gamma": self._gamma, "classes": self.classes_.tolist(), "ngrams": ngrams}
        write_json(Path(folder) / FILE, values)

    @classmethod
    def load(cls, folder: str | Path, embed: Callable[[Sequence[str]], np.ndarray] | None = None) -> Self:
        """Reads what :meth:`save` wrote.

        Args:
            folder: that holds it.
            embed: as when it was fitted.

        Raises:
            InputError: it is not there, or damaged, or scikit-learn is not installed, as in a Space of the page alone.
        """
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        try:
            import sklearn  # noqa: F401  that of the n-grams
            from scipy import sparse
        except ImportError:
            raise InputError(f"{folder}: needs scikit-learn; `pip install scikit-learn` brings it") from None
        try:
            values = read_json(Path(folder) / FILE)
            arrays = load_file(Path(folder) / ARRAYS)
            weights, ngrams = values["weights"], values["ngrams"]
            model = cls(tuple(weights), embed)
            model._weights, model._gamma, model.classes_ = weights, values["gamma"], np.array(values["classes"])
            for column, each in ngrams.items():
                model._words[column] = vectorizer(dtype=np.float32, vocabulary=each)
                model._words[column].idf_ = arrays[f"idf.{column}"].astype(np.float32)
            shape = (len(arrays["dual"]), sum(map(len, ngrams.values())))
            parts = arrays["words.data"].astype(np.float32), arrays["words.indices"], arrays["words.indptr"]
            model._read = [sparse.csr_array(parts, shape=shape)]
            model._mean = None
            if embed:
                model._mean = arrays["mean"].astype(np.float32)
                model._read.append(arrays["embeddings"].astype(np.float32))
            model._shares, model._dual = (arrays[name].astype(np.float32) for name in ("shares", "dual"))
            model._check()
        except InputError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError, OSError, SafetensorError) as error:
            raise InputError(f"{folder}: its {FILE} and {ARRAYS} are damaged or not of one model ({error})") from error
        return model

    def _check(self) -> None:
        """Raises ValueError where the parts are not of one size, or what embeds makes vectors of another."""
        rows, classes = self._dual.shape
        if classes != len(self.classes_) or self._shares.shape != (classes,):
            raise ValueError(f"{len(self.classes_)} classes and weights for {classes}")
        if self._embed:
            width = len(self._weights) * self._embed(["你好"]).shape[1]
            if self._mean.shape != (width // len(self._weights),) or self._read[1].shape != (rows, width):
                raise ValueError(f"embeddings of {rows} rows and of this encoder are {(rows, width)}")

    def _mean_embedding(self, rows: Sequence[Mapping[str, Any]]) -> Any:
        """Of a sentence encoder all vectors point the same way; what tells texts apart is how they differ from this."""
        if not self._embed:
            return None
        return np.mean([self._embed(_texts(rows, column)).mean(axis=0) for column in self._weights], axis=0)

    def _features(self, rows: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Vectors whose inner products are the weighted sums of the cosines of utterances: n-grams, and embeddings."""
        from scipy import sparse

        words, dense = [], []
        for column, weight in self._weights.items():
            texts = _texts(rows, column)
            words.append(weight**0.5 * self._words[column].transform(texts))
            if self._embed:
                said = np.array([[bool(text.strip())] for text in texts])
                moved = (self._embed(texts) - self._mean) * said
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
        return np.sum([np.exp(2 * self._gamma * (each - total)) for each in products], axis=0)


def _texts(rows: Sequence[Mapping[str, Any]], column: str) -> list[str]:
    return [simplified(row[column]) for row in rows]
