"""Retrieval of the evidence for claims: ranks and figures equal a plain formula or a count by hand."""

import numpy as np
import pytest

from contradiction.data.corpora.corpus import Row
from experiments import retrieval


def claim(name, label, passages, verifiable=True, reply="the moon is cheese"):
    extra = {"verifiable": verifiable, "passages": passages, "titles": []}
    return Row(name, label, messages=({"role": "user", "content": "hi"},), reply=reply, source=name, extra=extra)


def test_evidence_counts_as_found_from_its_rank_on():
    rows = [
        claim("1", "refutes", ["a", "c"]),
        claim("2", "supports", ["b"]),
        claim("3", "not enough information", ["a"]),
    ]
    passages = retrieval.collect_passages(rows)
    assert passages == ["a", "c", "b"]
    figures = retrieval.recall(rows, passages, [[2, 0, 1], [2, 0, 1], [1, 0, 2]])
    assert (figures["n"], figures["passages"], figures["recall@1"], figures["recall@5"]) == (2, 3, 0.5, 1.0)
    assert figures["mrr"] == (1 / 2 + 1) / 2


def test_the_passage_that_shares_the_words_of_the_claim_ranks_first():
    passages = ["rockets burn fuel", "the moon is made of cheese"]
    nearest = retrieval.tfidf(passages, ["cheese on the moon", "a rocket and fuel"])
    assert nearest.indices[:, 0].tolist() == [1, 0]
    assert retrieval.tfidf(["the", ""], ["the moon"]).indices.shape == (1, 0)


def test_bm25_follows_the_plain_formula():
    passages = ["moon cheese moon", "rocket fuel burns", "cheese rocket moon moon landing", "sea"]
    queries = ["moon cheese", "rocket landing unheard", "nothing here matches"]
    scores = retrieval.bm25(passages, queries)
    words = [passage.split() for passage in passages]
    mean = np.mean([len(some) for some in words])

    def score(query, document):
        total = 0.0
        for word in query.split():
            holding, count = sum(word in some for some in words), document.count(word)
            rarity = np.log(1 + (len(words) - holding + 0.5) / (holding + 0.5))
            total += rarity * count / (count + 1.5 * (1 - 0.75 + 0.75 * len(document) / mean))
        return total

    expected = np.array([[score(query, document) for document in words] for query in queries])
    assert np.take_along_axis(expected, scores.indices, axis=1) == pytest.approx(scores.scores, abs=1e-5)
    assert (np.diff(scores.scores, axis=1) <= 0).all() and scores.indices[1, 0] == 2
    assert retrieval.bm25(["the", ""], queries).indices.shape == (3, 0)


def test_a_bi_encoder_marks_queries_and_passages_and_ranks_by_cosine():
    vectors = {"passage: far": [3.0, 0.0], "passage: near": [0.1, 0.1], "query: it": [2.0, 2.1]}
    scores = retrieval.bi_encoder(lambda texts: np.array([vectors[text] for text in texts]))(["far", "near"], ["it"])
    assert scores.indices.tolist() == [[1, 0]]
    assert scores.scores[0] == pytest.approx([4.1 / np.hypot(2, 2.1) / np.sqrt(2), 2 / np.hypot(2, 2.1)])


def test_retrieval_keeps_the_top_passages_and_reads_queries_in_blocks(monkeypatch):
    passages = [f"word{number} word{number % 7} word{number % 5}" for number in range(40)]
    queries = [f"word{number} word{number % 3}" for number in range(25)]
    whole = retrieval.tfidf(passages, queries)
    assert whole.indices.shape == whole.scores.shape == (25, max(retrieval.DEPTHS))
    assert (np.diff(whole.scores, axis=1) <= 0).all()
    monkeypatch.setattr(retrieval, "BLOCK", 4)
    blocks = retrieval.tfidf(passages, queries)
    assert (blocks.indices == whole.indices).all() and np.allclose(blocks.scores, whole.scores)


def test_a_passage_that_is_not_among_the_nearest_is_not_found():
    figures = retrieval.recall([claim("1", "refutes", ["wanted"])], ["wanted", *"abcdefghijk"], [list(range(1, 11))])
    assert figures["recall@10"] == 0
