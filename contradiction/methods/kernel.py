"""The kernel method: kernel ridge regression on the embeddings and n-grams of utterances; nothing is fine-tuned."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from contradiction.decision import TINY, Rule
from contradiction.errors import InputError
from contradiction.inference.base import OnBatch, Scores, check_batch_size
from contradiction.inference.embedding import Embedder
from contradiction.inputs.views import CHINESE_ONLY_KEY, Row, normalize
from contradiction.io.files import read_json, write_json
from contradiction.methods.loading import register
from contradiction.methods.ngrams import vectorizer, written_columns
from contradiction.methods.softmax import SoftmaxClassifier

FILE = "kernel.json"
ARRAYS = "kernel.safetensors"

# Chosen on the validation splits of 4-class and 4-class-grouped. The reply has the highest weight, u1 the lowest.
WEIGHTS: Mapping[str, float] = {"u1": 0.5, "b2": 2.0}  # the other utterances have 1
GAMMA = 0.3
RIDGE = 1.5
MIN_PROBABILITY = 1e-3
MAX_ROWS = 30_000  # each matrix of the kernel then takes 3.6 GB


class KernelRegression:
    """Kernel ridge regression from conversations to indicators of their labels, with the interface of scikit-learn.

    Two conversations are similar if all their utterances are similar. The kernel is the sum of two Gaussians: one of
    weighted distances between embeddings of utterances, one of those between TF-IDF vectors of their n-grams. The
    regression of a label's indicator estimates the probability of the label (Hastie et al., 2009, *The Elements of
    Statistical Learning*, section 4.2); values below ``MIN_PROBABILITY`` are raised to it. A blank utterance is similar
    to no other. Fitting is exactly deterministic for one number of threads. For n rows it needs a few matrices of
    n * n numbers, and the time to solve n linear equations.

    Args:
        columns: the utterances to read; those that are blank in all rows of the fit are skipped.
        embed: a function from texts to vectors, shape (texts, hidden); None uses only n-grams.
    """

    classes_: np.ndarray

    def __init__(self, columns: Sequence[str], embed: Callable[[Sequence[str]], np.ndarray] | None = None) -> None:
        self._embed = embed
        self._gamma = GAMMA
        self._weights = {column: WEIGHTS.get(column, 1.0) for column in columns}
        self._vectorizers = {column: vectorizer(dtype=np.float32) for column in columns}

    @property
    def columns(self) -> tuple[str, ...]:
        """The utterances that the model reads."""
        return tuple(self._weights)

    def fit(self, rows: Sequence[Mapping[str, Any]], labels: Sequence[int]) -> Self:
        """Fits the regression to utterances by column name, and to the class id of each row.

        Raises:
            InputError: there are more than ``MAX_ROWS`` rows, or all are blank.
        """
        from sklearn.kernel_ridge import KernelRidge

        if len(rows) > MAX_ROWS:
            raise InputError(
                f"kernel ridge regression: {len(rows):,} rows are too many, because it compares all pairs; fit it to a "
                f"fraction of them, at most {MAX_ROWS:,}"
            )
        written = written_columns(rows, self._weights)
        self._weights = {column: self._weights[column] for column in written}
        self._vectorizers = {column: self._vectorizers[column].fit(_texts(rows, column)) for column in written}
        self._mean = self._mean_embedding(rows)
        self._fitted = self._features(rows)
        self.classes_ = np.unique(labels)
        indicators = (np.asarray(labels)[:, None] == self.classes_).astype(np.float32)
        self._priors = indicators.mean(axis=0)
        ridge = KernelRidge(alpha=RIDGE, kernel="precomputed")
        self._dual = ridge.fit(self._kernel(self._fitted), indicators - self._priors).dual_coef_
        return self

    def predict_proba(self, rows: Sequence[Mapping[str, Any]]) -> np.ndarray:
        """The probability of each class, shape (rows, classes)."""
        estimates = self._kernel(self._features(rows)) @ self._dual + self._priors
        raised = np.maximum(estimates, MIN_PROBABILITY)
        return raised / raised.sum(axis=1, keepdims=True)

    def logits(self, rows: Sequence[Mapping[str, Any]], classes: int) -> np.ndarray:
        """The log-probabilities of all class ids, shape (rows, classes); those without a row in the fit have TINY."""
        probabilities = self.predict_proba(rows)
        logits = np.full((len(rows), classes), np.log(TINY), dtype=probabilities.dtype)
        logits[:, self.classes_] = np.log(probabilities)
        return logits

    def save(self, folder: str | Path) -> None:
        """Writes the fitted model into a folder, without the texts of the rows and without the encoder."""
        from safetensors.numpy import save_file

        words = self._fitted[0]
        arrays = {
            "shares": self._priors,  # named so in saved models
            "dual": self._dual,
            "words.data": words.data, "words.indices": words.indices, "words.indptr": words.indptr,
            **{f"idf.{column}": words.idf_ for column, words in self._vectorizers.items()},
            **({"mean": self._mean, "embeddings": self._fitted[1]} if self._embed else {}),
        }  # fmt: skip
        save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, Path(folder) / ARRAYS)
        ngrams = {column: words.get_feature_names_out().tolist() for column, words in self._vectorizers.items()}
        values = {"weights": self._weights, "gamma": self._gamma, "classes": self.classes_.tolist(), "ngrams": ngrams}
        write_json(Path(folder) / FILE, values)

    @classmethod
    def load(cls, folder: str | Path, embed: Callable[[Sequence[str]], np.ndarray] | None = None) -> Self:
        """Loads what :meth:`save` wrote, with the embedder of the fit.

        Raises:
            InputError: a file is missing or damaged, or scikit-learn is not installed (the demo page has none).
        """
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        try:
            import sklearn  # noqa: F401  # for the n-grams
            from scipy import sparse
        except ImportError:
            raise InputError(f"{folder}: needs scikit-learn; `pip install scikit-learn` installs it") from None
        try:
            values = read_json(Path(folder) / FILE)
            arrays = load_file(Path(folder) / ARRAYS)
            weights, ngrams = values["weights"], values["ngrams"]
            model = cls(tuple(weights), embed)
            model._weights, model._gamma, model.classes_ = weights, values["gamma"], np.array(values["classes"])
            for column, vocabulary in ngrams.items():
                model._vectorizers[column] = vectorizer(dtype=np.float32, vocabulary=vocabulary)
                model._vectorizers[column].idf_ = arrays[f"idf.{column}"].astype(np.float32)
            shape = (len(arrays["dual"]), sum(map(len, ngrams.values())))
            csr = arrays["words.data"].astype(np.float32), arrays["words.indices"], arrays["words.indptr"]
            model._fitted = [sparse.csr_array(csr, shape=shape)]
            model._mean = None
            if embed:
                model._mean = arrays["mean"].astype(np.float32)
                model._fitted.append(arrays["embeddings"].astype(np.float32))
            model._priors, model._dual = (arrays[name].astype(np.float32) for name in ("shares", "dual"))
            model._check_shapes()
        except InputError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError, OSError, SafetensorError) as error:
            raise InputError(
                f"{folder}: its {FILE} and {ARRAYS} are damaged or do not belong together ({error})"
            ) from error
        return model

    def _check_shapes(self) -> None:
        """Raises ValueError if the shapes of arrays do not fit each other, or the embedder."""
        rows, classes = self._dual.shape
        if classes != len(self.classes_) or self._priors.shape != (classes,):
            raise ValueError(f"{len(self.classes_)} classes and weights for {classes}")
        if self._embed:
            hidden = self._embed(["你好"]).shape[1]
            shape = rows, len(self._weights) * hidden
            if self._mean.shape != (hidden,) or self._fitted[1].shape != shape:
                raise ValueError(f"embeddings of {rows} rows and of this encoder are {shape}")

    def _mean_embedding(self, rows: Sequence[Mapping[str, Any]]) -> Any:
        """The mean embedding. All embeddings of a sentence encoder have a similar direction, so it is subtracted."""
        if not self._embed:
            return None
        return np.mean([self._embed(_texts(rows, column)).mean(axis=0) for column in self._weights], axis=0)

    def _features(self, rows: Sequence[Mapping[str, Any]]) -> list[Any]:
        """N-gram vectors and embeddings whose inner products are weighted sums of the cosines of utterances."""
        from scipy import sparse

        words, embeddings = [], []
        for column, weight in self._weights.items():
            texts = _texts(rows, column)
            words.append(weight**0.5 * self._vectorizers[column].transform(texts))
            if self._embed:
                has_words = np.array([[bool(text.strip())] for text in texts])
                centred = (self._embed(texts) - self._mean) * has_words
                lengths = np.linalg.norm(centred, axis=1, keepdims=True)
                embeddings.append(weight**0.5 * centred / np.maximum(lengths, 1e-12))
        features = [sparse.hstack(words, format="csr", dtype=np.float32)]
        return [*features, np.hstack(embeddings)] if embeddings else features

    def _kernel(self, features: Sequence[Any]) -> np.ndarray:
        """The kernel between rows and the fitted rows, shape (rows, fitted rows)."""
        total = sum(self._weights.values())
        products = [ours @ fitted.T for ours, fitted in zip(features, self._fitted, strict=True)]
        products[0] = products[0].toarray()
        # The squared distance of unit vectors is twice the difference between 1 and their inner product.
        return np.sum([np.exp(2 * self._gamma * (product - total)) for product in products], axis=0)


def _texts(rows: Sequence[Mapping[str, Any]], column: str) -> list[str]:
    return [normalize(row[column]) for row in rows]


ENCODER = "encoder"
CHUNK = 512  # rows that are compared with the training rows at once: a few matrices with so many rows fit memory


@register
class KernelClassifier(SoftmaxClassifier):
    """Kernel ridge regression on utterances, see :class:`contradiction.methods.kernel.KernelRegression`.

    Each utterance is embedded by itself. An utterance that occurs in many windows of a long chat is embedded once,
    where a fine-tuned encoder reads it again in each window. The method compares whole conversations, so it does not
    judge a reply without an earlier reply. It reads ``CHUNK`` rows at once, whatever ``batch_size`` is.

    Args:
        model: the fitted regression.
        embed: the embedder that the model was fitted with.
        labels: the names of the labels by class id.
        name, rule: see :class:`SoftmaxClassifier`.

    Raises:
        InputError: the labels are not those of a task.
    """

    NAME = "kernel"
    MARKER = FILE
    PARTS = "encoders"
    FILES = (ARRAYS,)
    WEIGHTS = (ARRAYS,)
    FINE_TUNES = False
    judges_openings = False

    def __init__(
        self,
        model: KernelRegression,
        embed: Embedder,
        labels: Sequence[str],
        name: str = "model",
        rule: Rule | None = None,
    ) -> None:
        super().__init__(labels, model.columns, name, rule)
        self.model, self.embed = model, embed

    @classmethod
    def load(cls, folder: str | Path, *, device: str | None = None, precision: str = "fp32", **options: Any) -> Self:
        """Loads what :meth:`save` wrote, and the decision rule; see :meth:`Classifier.load`."""
        folder = Path(folder)
        encoder, *_ = cls.parts(folder)
        description = cls.describe(folder)
        labels = description.get("labels")
        if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
            raise InputError(f"{folder / cls.MARKER}: names no labels")
        embed = Embedder(encoder, precision, device=device, bar=False)
        rule = Rule.load(folder / cls.MARKER)
        classifier = cls(KernelRegression.load(folder, embed), embed, labels, str(folder), rule)
        classifier.chinese_only = description.get(CHINESE_ONLY_KEY, True) is True
        return classifier

    def save(self, folder: str | Path) -> None:
        """Writes the encoder, the regression and the names of the labels into a folder."""
        folder = Path(folder)
        self.embed.save(folder / ENCODER)
        self.model.save(folder)
        language = {} if self.chinese_only else {CHINESE_ONLY_KEY: False}
        values = {self.PARTS: [ENCODER], "labels": list(self.labels), **language}
        write_json(folder / FILE, read_json(folder / FILE) | values)

    def has_token_for(self, text: str) -> bool:
        """Whether the encoder has a token for any part of a text."""
        return self.embed.has_token_for(text)

    def score(self, rows: Sequence[Row], *, batch_size: int = 32, on_batch: OnBatch | None = None) -> Scores:
        """The log-probabilities of rows as logits; see :meth:`SoftmaxClassifier.score`."""
        check_batch_size(batch_size)
        logits = np.zeros((len(rows), len(self.labels)))
        truncations: list[str | None] = []
        for first in range(0, len(rows), CHUNK):
            chunk = [self._utterances(row) for row in rows[first : first + CHUNK]]
            logits[first : first + len(chunk)] = self.model.logits(chunk, len(self.labels))
            truncated = np.any([self.embed.truncated(row[column] for row in chunk) for column in self.columns], axis=0)
            truncations += [self._truncation if row else None for row in truncated]
            if on_batch:
                on_batch(len(chunk))
        return Scores(logits, truncations)

    def _utterances(self, row: Row) -> dict[str, str]:
        """The utterances to read, in simplified characters; several utterances in one column are one text."""
        texts: dict[str, Any] = {column: row[column] for column in self.columns}
        return {column: normalize(text if isinstance(text, str) else "\n".join(text)) for column, text in texts.items()}

    @property
    def _truncation(self) -> str:
        return f"of a message only the last tokens were read: the model reads at most {self.embed.max_length} of each"
