"""The passages nearest to a query, by TF-IDF, BM25 or an encoder, and how often the evidence is among them."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from contradiction.data.corpora.corpus import Row
from contradiction.data.corpora.dialfact import UNKNOWN
from contradiction.evaluation.baselines import WORDS
from contradiction.io.tables import Table, percent

if TYPE_CHECKING:
    from contradiction.inference.embedding import Embedder

DEPTHS = (1, 5, 10)  # the k of recall@k
BLOCK = 256  # the queries whose similarities to all passages are in memory at once
CONTENT_WORDS = {**WORDS, "stop_words": "english"}  # of TF-IDF and BM25


@dataclass(frozen=True)
class Nearest:
    """The nearest passages of each query.

    Attributes:
        indices: the indices of the passages, the nearest first, shape (queries, at most the deepest of ``DEPTHS``).
        scores: the scores of the same passages, same shape; for TF-IDF and an encoder the cosine.
    """

    indices: np.ndarray
    scores: np.ndarray


Search = Callable[[Sequence[str], Sequence[str]], Nearest]
Block = Callable[[int, int], np.ndarray]


def tfidf(passages: Sequence[str], queries: Sequence[str]) -> Nearest:
    """The nearest passages by the cosine of TF-IDF vectors of words; no passages where none has words."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(sublinear_tf=True, **CONTENT_WORDS)
    analyze = vectorizer.build_analyzer()
    if not any(analyze(passage) for passage in passages):
        return _none(queries)
    documents, vectors = vectorizer.fit_transform(passages).T, vectorizer.transform(queries)
    return _nearest(len(queries), lambda start, end: (vectors[start:end] @ documents).toarray())


def bm25(passages: Sequence[str], queries: Sequence[str]) -> Nearest:
    """The nearest passages by BM25 (Robertson et al., 1994; k1 1.5, b 0.75) of the same words; none without words."""
    import bm25s
    from sklearn.feature_extraction.text import CountVectorizer

    logging.getLogger("bm25s").setLevel(logging.NOTSET)  # its import sets DEBUG, whatever level the program has
    analyze = CountVectorizer(**CONTENT_WORDS).build_analyzer()
    documents = [analyze(passage) for passage in passages]
    if not any(documents):
        return _none(queries)
    index = bm25s.BM25()
    index.index(documents, show_progress=False)
    known = {word for document in documents for word in document}
    words = [[word for word in analyze(query) if word in known] for query in queries]

    def score(start: int, end: int) -> np.ndarray:
        queries_in_block = words[start:end]
        return np.stack([index.get_scores(query) if query else np.zeros(len(passages)) for query in queries_in_block])

    return _nearest(len(queries), score)


def bi_encoder(embedder: "Embedder") -> Search:
    """A search by the cosine of mean-pooled vectors, with the prefixes of E5: ``query:``, ``passage:``.

    See Wang et al. (2022).
    """
    from sklearn.preprocessing import normalize

    def search(passages: Sequence[str], queries: Sequence[str]) -> Nearest:
        if not passages:
            return _none(queries)
        documents, vectors = (
            normalize(embedder([f"{kind}: {text}" for text in texts]))
            for kind, texts in (("passage", passages), ("query", queries))
        )
        return _nearest(len(queries), lambda start, end: vectors[start:end] @ documents.T)

    return search


def _none(queries: Sequence[str]) -> Nearest:
    return Nearest(np.empty((len(queries), 0), dtype=int), np.empty((len(queries), 0)))


def _nearest(queries: int, score: Block) -> Nearest:
    """The nearest passages, in blocks, so that no matrix of all queries and all passages is in memory."""
    indices, scores = [], []
    for start in range(0, queries, BLOCK):
        block = score(start, min(start + BLOCK, queries))
        nearest = np.argsort(-block, axis=1, kind="stable")[:, : max(DEPTHS)].copy()
        indices.append(nearest)
        scores.append(np.take_along_axis(block, nearest, axis=1))
    return Nearest(np.concatenate(indices), np.concatenate(scores))


def collect_passages(rows: Sequence[Row]) -> list[str]:
    """The different passages of all claims."""
    return list(dict.fromkeys(passage for row in rows for passage in row.extra["passages"]))


def has_evidence(row: Row) -> bool:
    """Whether a claim is supported or refuted by marked passages."""
    return row.label != UNKNOWN and bool(row.extra["passages"])


def recall(rows: Sequence[Row], passages: Sequence[str], order: Sequence[Sequence[int]] | np.ndarray) -> dict[str, Any]:
    """How early one of a claim's passages is found, over claims that are supported or refuted.

    Returns:
        ``n`` (claims), ``passages`` (to choose from), ``recall@k`` for each of ``DEPTHS``, and ``mrr``, the mean
        reciprocal rank of the first of a claim's passages, 0 if none is in ``order``.
    """
    places = {passage: index for index, passage in enumerate(passages)}
    ranks = []
    for row, ranking in zip(rows, order, strict=True):
        if has_evidence(row):
            wanted = {places[passage] for passage in row.extra["passages"]}
            ranks.append(next((rank for rank, place in enumerate(ranking, start=1) if place in wanted), np.inf))
    recalls = {f"recall@{depth}": float(np.mean(np.array(ranks) <= depth)) for depth in DEPTHS}
    return {"n": len(ranks), "passages": len(passages), **recalls, "mrr": float(np.mean(1 / np.array(ranks)))}


def table(results: Mapping[str, Mapping[str, Any]]) -> Table:
    """A row for each search, with the figures of :func:`recall`."""
    shown = (*(f"recall@{depth}" for depth in DEPTHS), "mrr")
    rows = [
        (name, f"{figures['n']:,}", f"{figures['passages']:,}", *(percent(figures[key]) for key in shown))
        for name, figures in results.items()
    ]
    return Table("Evidence, %", ("search", "claims", "passages", *shown[:-1], f"MRR@{max(DEPTHS)}"), rows)
